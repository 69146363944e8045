"""Tables as values: what each cell says, before any layout.

A layout (:mod:`priormtl.tables.layouts`) takes any object with the properties of
``Shown``, whose cells have those of ``Cell``. ``Table`` and ``TextCell`` are the plain
ones, and ``build_table`` makes them from rows of texts and numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, isnan
from typing import Any, Protocol

NOTHING = "–"


class Cell(Protocol):
    """What a layout needs to know of a cell."""

    @property
    def text(self) -> str:
        """Main text."""
        ...

    @property
    def mark(self) -> str:
        """Sign after the text, explained in a note."""
        ...

    @property
    def asides(self) -> Sequence[str]:
        """Remarks, shown in brackets."""
        ...

    @property
    def bold(self) -> bool:
        """Whether the text is bold."""
        ...


@dataclass(frozen=True)
class TextCell:
    """A cell of plain text."""

    text: str
    mark: str = ""
    asides: tuple[str, ...] = ()
    bold: bool = False


@dataclass(frozen=True)
class TableRow:
    """A label and its cells."""

    label: str
    cells: tuple[Cell, ...]


class Shown(Protocol):
    """What a layout needs to know of a table."""

    @property
    def title(self) -> str:
        """Caption."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """Column headers; the first is that of the row labels."""
        ...

    @property
    def rows(self) -> tuple[TableRow, ...]:
        """Labels and cells."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes below the table."""
        ...

    @property
    def alignment(self) -> str:
        """One of l and r per column."""
        ...


@dataclass(frozen=True)
class Table:
    """Title, column headers, rows and notes."""

    title: str
    columns: tuple[str, ...]  # the first is that of the row labels
    rows: tuple[TableRow, ...]
    alignment: str  # one of l and r per column
    notes: tuple[str, ...] = ()


def build_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    most: int | None = None,
    what: str = "rows",
) -> Table:
    """Build a table of texts and numbers from its first ``most`` rows.

    A note counts the rows that are left out. Columns of text are aligned to the left,
    others to the right.
    """
    shown = rows if most is None else rows[:most]
    left_out = len(rows) - len(shown)
    notes = (f"… and {left_out} more {what}.",) if left_out else ()
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    sides = [
        "l" if any(isinstance(value, str) for value in column) else "r"
        for column in values[1:]
    ]
    lines = []
    for row in shown:
        label, *others = [
            spell_number(value)
            if value is None or isinstance(value, float)
            else str(value)
            for value in row
        ]
        lines.append(TableRow(label, tuple(map(TextCell, others))))
    return Table(title, tuple(columns), tuple(lines), "l" + "".join(sides), notes)


def spell_number(value: float | None, digits: int = 4) -> str:
    """Number with a few digits and a typographic minus; a dash for None and NaN."""
    if value is None or isnan(value):
        return NOTHING
    if not isfinite(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.{digits}g}".replace("-", "−")


def count_words(count: int, word: str) -> str:
    """Count with its noun: 1 edge, 2 edges, 1,000 edges."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"
