"""Tables as values: what each cell says, before any layout."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, isnan
from typing import Any, Protocol

__all__ = [
    "NOTHING",
    "Cell",
    "Shown",
    "Table",
    "TableRow",
    "TextCell",
    "build_table",
    "count_words",
    "spell_number",
]

NOTHING = "–"


class Cell(Protocol):
    """What a layout needs to know."""

    @property
    def text(self) -> str:
        """The words of the cell."""
        ...

    @property
    def mark(self) -> str:
        """A sign after them, explained in a footnote."""
        ...

    @property
    def asides(self) -> Sequence[str]:
        """Remarks in brackets."""
        ...

    @property
    def bold(self) -> bool:
        """Whether the words are bold."""
        ...


@dataclass(frozen=True)
class TextCell:
    """A cell of words."""

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
    """What layouts need to know of a table."""

    @property
    def title(self) -> str:
        """What it is about."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """Heads; the first is that of the labels."""
        ...

    @property
    def rows(self) -> tuple[TableRow, ...]:
        """Labels and cells."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What stands under it."""
        ...

    @property
    def alignment(self) -> str:
        """One of l and r per column."""
        ...


@dataclass(frozen=True)
class Table:
    """Title, head, rows and what stands under them."""

    title: str
    columns: tuple[str, ...]  # the first is that of the labels
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
    """Table of words and numbers; rows beyond the first ``most`` are counted.

    Columns of words stand to the left, others to the right.
    """
    shown = rows if most is None else rows[:most]
    left_out = len(rows) - len(shown)
    more = (f"… and {left_out} more {what}.",) if left_out else ()
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    alignment = "l" + "".join(map(_side, values[1:]))
    return Table(title, tuple(columns), tuple(map(_row, shown)), alignment, more)


def spell_number(value: float | None, digits: int = 4) -> str:
    """A few digits and a true minus, or a dash where there is no number."""
    if value is None or isnan(value):
        return NOTHING
    if not isfinite(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.{digits}g}".replace("-", "−")


def count_words(count: int, word: str) -> str:
    """Count with its noun: 1 edge, 2 edges, 1,000 edges."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _side(column: Sequence[Any]) -> str:
    return "l" if any(isinstance(value, str) for value in column) else "r"


def _row(values: Sequence[Any]) -> TableRow:
    label, *others = map(_spell, values)
    return TableRow(label, tuple(map(TextCell, others)))


def _spell(value: Any) -> str:
    if value is None or isinstance(value, float):
        return spell_number(value)
    return str(value)
