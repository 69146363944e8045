"""Columns of partial statistics: numbers, one-hot values, and marks of gaps."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.data import Encoding, RawColumn
from priormtl.engines.numeric_texts import warn_of_numbers
from priormtl.engines.recipe import Recipe

__all__ = [
    "MOST_VALUES",
    "Column",
    "Filled",
    "Layout",
    "Slot",
    "join_layouts",
    "refuse_many",
]

MOST_VALUES = 1000  # of a column of text, beyond which these are hardly categories


class Column(NamedTuple):
    """One column of a table as features."""

    name: str
    values: tuple[str, ...] | None = None  # sorted; None: numbers; (): not yet known
    gaps: bool = False  # whether values were missing, and are marked

    @property
    def width(self) -> int:
        """Number of features."""
        return 1 if self.values is None else len(self.values)

    @property
    def features(self) -> list[str]:
        """Names of its features."""
        return [*RawColumn(self.name, self.values).features]


class Slot(NamedTuple):
    """One column of the statistics."""

    column: str
    value: str | None = None
    is_mark: bool = False


class Filled(NamedTuple):
    """Slots in which gaps are filled, the mark of the gaps of each, and its column."""

    slots: Index
    marks: Index
    columns: Index


class Layout(NamedTuple):
    """Order of the slots: column by column its features, then the mark of its gaps."""

    columns: tuple[Column, ...]

    def slots(self) -> list[Slot]:
        """All slots in order."""
        found = []
        for name, values, gaps in self.columns:
            found += [Slot(name, value) for value in values or ()]
            found += [Slot(name)] * (values is None)
            found += [Slot(name, is_mark=True)] * gaps
        return found

    def starts(self) -> list[int]:
        """First slot of each column, and last the number of all slots."""
        widths = [column.width + column.gaps for column in self.columns]
        return [0, *np.cumsum(widths, dtype=int).tolist()]

    def filled(self) -> Filled:
        """Where gaps are filled."""
        found = [
            (start + i, start + column.width, number)
            for number, (column, start) in enumerate(
                zip(self.columns, self.starts()[:-1], strict=True)
            )
            for i in range(column.width * column.gaps)
        ]
        return Filled(*np.array(found, dtype=np.intp).reshape(-1, 3).T)

    def kept(self) -> Index:
        """Slots that are features."""
        slots = self.slots()
        return np.array(
            [i for i, slot in enumerate(slots) if not slot.is_mark], dtype=np.intp
        )

    def categories(self) -> dict[str, tuple[str, ...]]:
        """Values of each column of text."""
        return {c.name: c.values for c in self.columns if c.values is not None}

    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        names = [name for column in self.columns for name in column.features]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"two features have the name {twice!r}: rename a column.")
        return tuple(names)

    def refuse_unobserved(self, observed: Array) -> None:
        """Fail where no row has a value of some column, by the weights of those."""
        if not observed.all():
            name = self.columns[int(np.argmin(observed))].name
            raise ValueError(
                f"column {name!r} has no values at all: leave it out of the features."
            )

    def encoding(self, recipe: Recipe) -> Encoding:
        """How columns become features, also of rows to come."""
        for name, values in self.categories().items():
            if name not in (recipe.categories or {}):
                warn_of_numbers(name, values)
        columns = tuple(RawColumn(name, values) for name, values, _ in self.columns)
        return Encoding(columns, recipe.missing, recipe.task, recipe.target)


def join_layouts(a: Layout, b: Layout) -> Layout:
    """Layout that holds the values and marks of both."""
    if a == b:
        return a
    names = [[column.name for column in layout.columns] for layout in (a, b)]
    if names[0] != names[1]:
        raise ValueError(
            "statistics can only be added over the same columns: got "
            f"{_differing(*names)} on one side only."
        )
    pairs = zip(a.columns, b.columns, strict=True)
    return Layout(tuple(_join(one, other) for one, other in pairs))


def _differing(a: Sequence[str], b: Sequence[str]) -> list[str]:
    return sorted(set(a) ^ set(b))[:8] or [*a[:8]]


def _join(a: Column, b: Column) -> Column:
    return Column(a.name, _join_values(a, b), a.gaps or b.gaps)


def _join_values(a: Column, b: Column) -> tuple[str, ...] | None:
    """Values of both; a side that has seen none may be of any kind."""
    if a.values in ((), b.values):
        return b.values
    if b.values == ():
        return a.values
    if a.values is None or b.values is None:
        raise ValueError(
            f"column {a.name!r} must hold numbers everywhere or text everywhere: got "
            "both; declare its categories to have both read as text."
        )
    values = tuple(sorted({*a.values, *b.values}))
    refuse_many(a.name, values)
    return values


def refuse_many(name: str, values: Sequence[str]) -> None:
    """Fail where texts are no categories."""
    if len(values) > MOST_VALUES:
        raise ValueError(
            f"column {name!r} holds more than {MOST_VALUES} different texts, such as "
            f"{values[0][:40]!r}: leave it out of the features, or write numbers with "
            "decimal points."
        )
