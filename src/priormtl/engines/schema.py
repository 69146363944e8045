"""Schema: what the columns of a table mean, and which features they become.

A ``Schema`` is what the user says: columns of tasks, targets, weights and features,
what missing values mean, and how rows are assigned to folds. It is a plain value that
travels to workers as it is.

A ``Layout`` is what the rows show: for each feature column whether it holds numbers or
categories, which categories were seen, and whether values were missing. Statistics have
one slot per feature (numbers as they are, categories one-hot) and, after the slots of a
column with missing values, one missing indicator. ``join_layouts`` extends the layouts
of two sets of rows to one that holds both.
"""

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.data import find_task_columns, join_names
from priormtl.design import (
    POLICIES,
    Categories,
    Design,
    Line,
    Term,
    quote_clashes,
    refuse_strays,
)
from priormtl.design.columns import TEXTS, read_dates
from priormtl.exceptions import unknown_name

MOST_VALUES = 1000  # a text column with more values hardly holds categories
FOLD = "\0fold"  # column of folds that were dealt before; no table has this name


class Wanted(NamedTuple):
    """What to read from each file of a source."""

    columns: tuple[str, ...]
    exact: Collection[str] = ()  # columns whose integers in CSV files stay integers
    alone: bool = False  # whether files must have no other columns than the first
    task: str | None = None  # column that is to be joined from several, if it is absent
    texts: Collection[str] = ()  # columns of CSV files that are not read as numbers


@dataclass(frozen=True)
class Schema:
    """What the columns of a table mean.

    Parameters
    ----------
    task, target, weight : str
        Columns of task labels, targets and (optionally) sample weights. A list of
        columns from coarse to fine gives nested tasks, "district / school".
    features : sequence of str, optional
        Feature columns; by default all other columns except ``key``.
    categories : mapping from columns to values, optional
        Categories of some columns; each becomes a feature. An empty list, and text
        columns that are not listed: the values that occur.
    missing : {"error", "drop", "mean"}
        How to treat missing values: raise an error, drop the row, or fill in the mean
        of the observed values of the column. With "mean", rows without task, target or
        weight are dropped.
    folds : int, optional
        Number of folds into which rows are divided.
    key : str, optional
        Column whose values decide the fold of a row; by default all columns in use.
    seed : int
        Seed of the assignment to folds.
    drop : sequence of str
        Columns that are not features, if ``features`` is not given.

    Examples
    --------
    >>> schema = Schema("school", "score", missing="drop")
    >>> schema.feature_columns(["score", "age", "school", "books"])
    ('age', 'books')
    """

    task: str
    target: str
    weight: str | None = None
    features: Sequence[str] | None = None
    categories: Mapping[str, Sequence[str]] | None = field(default=None, hash=False)
    missing: str = "error"
    folds: int | None = None
    key: str | None = None
    seed: int = 0
    drop: Sequence[str] = ()

    def __post_init__(self) -> None:
        if isinstance(self.features, str):
            raise ValueError(
                f"features must be a list of columns: got the text {self.features!r}."
            )
        # Sequences in one form, so that equal schemas compare and hash equal.
        features = None if self.features is None else tuple(self.features)
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "drop", tuple(self.drop))
        object.__setattr__(self, "task", join_names(self.task))
        if features is not None and self.drop:
            raise ValueError(
                "features and drop cannot be combined: features are used alone."
            )
        declared = {
            name: tuple(sorted(set(map(str, values))))
            for name, values in (self.categories or {}).items()
        }
        object.__setattr__(self, "categories", declared)
        if self.missing not in POLICIES:
            raise unknown_name("policy for missing values", self.missing, POLICIES)
        whole = isinstance(self.folds, int) and not isinstance(self.folds, bool)
        if self.folds is not None and not (whole and self.folds >= 2):
            raise ValueError(f"folds must be an integer from 2 on: got {self.folds!r}.")
        names = [self.task, self.target, self.weight, *(features or ())]
        for name in names:
            if name is not None and names.count(name) > 1:
                raise ValueError(
                    "task, target, weight and features must be different columns: "
                    f"{name!r} is given twice."
                )
        if self.key == self.task:
            raise ValueError(
                f"key must differ from the task column {self.task!r}: the rows of a "
                "task must be spread over several folds."
            )

    @classmethod
    def of(cls, schema: "Schema | None", **columns: Any) -> "Schema":
        """Return a schema from its fields, or ``schema`` with some of them changed."""
        return cls(**columns) if schema is None else replace(schema, **columns)

    def feature_columns(self, names: Sequence[str]) -> tuple[str, ...]:
        tasks = find_task_columns(self.task, names)
        taken = {*tasks, self.target, self.weight, self.key, FOLD, *self.drop}
        found = self.features
        if found is None:
            found = tuple(name for name in names if name not in taken)
        if not found:
            raise ValueError(
                "a table needs features besides its task and target: got none."
            )
        present = set(names)
        for name in (*found, *(self.categories or {})):
            if name not in present:
                raise unknown_name("column", name, names)
        return tuple(found)

    def used_columns(self, names: Sequence[str]) -> tuple[str, ...]:
        tasks = find_task_columns(self.task, names)
        special = [*tasks, self.target, self.weight, self.key]
        used = [name for name in special if name is not None]
        for name in used:
            if name not in names:
                raise unknown_name("column", name, names)
        return tuple(dict.fromkeys([*used, *self.feature_columns(names)]))

    def wanted(self, names: Sequence[str]) -> Wanted:
        tasks = find_task_columns(self.task, names)
        exact = {*tasks, self.key, *(self.categories or {})} - {None}
        columns, alone = self.used_columns(names), self.features is None
        return Wanted(columns, frozenset(map(str, exact)), alone, self.task)


class Column(NamedTuple):
    """One feature column as the rows show it."""

    name: str
    values: tuple[str, ...] | None = None  # sorted; None: numbers; (): not yet known
    gaps: bool = False  # whether values were missing

    @property
    def width(self) -> int:
        return 1 if self.values is None else len(self.values)


class Slot(NamedTuple):
    """One column of the statistics: a feature, or a missing indicator."""

    column: str
    value: str | None = None
    is_mark: bool = False


class Filled(NamedTuple):
    """Slots with filled values, the missing indicator of each, and its column."""

    slots: Index
    marks: Index
    columns: Index


class Layout(NamedTuple):
    """Order of the slots: for each column its features, then its missing indicator."""

    columns: tuple[Column, ...]

    def slots(self) -> list[Slot]:
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
        starts = self.starts()[:-1]
        found = [
            (start + i, start + column.width, number)
            for number, (column, start) in enumerate(
                zip(self.columns, starts, strict=True)
            )
            for i in range(column.width * column.gaps)
        ]
        return Filled(*np.array(found, dtype=np.intp).reshape(-1, 3).T)

    def kept(self) -> Index:
        marks = np.array([slot.is_mark for slot in self.slots()], dtype=bool)
        return np.flatnonzero(~marks)

    def categories(self) -> dict[str, tuple[str, ...]]:
        return {c.name: c.values for c in self.columns if c.values is not None}

    def features(self) -> tuple[str, ...]:
        return Design(self._terms()).names

    def _terms(self) -> tuple[Term, ...]:
        return quote_clashes(
            [
                Line(c.name, c.name)
                if c.values is None
                else Categories(c.name, c.name, c.values)
                for c in self.columns
            ]
        )

    def refuse_unobserved(self, observed: Array) -> None:
        """Fail if a column has no values, by the weights of those that it has."""
        if not observed.all():
            name = self.columns[int(np.argmin(observed))].name
            raise ValueError(
                f"column {name!r} has no values at all: leave it out of the features."
            )

    def design(self, schema: Schema) -> Design:
        """How columns become features, for tables that are predicted later."""
        for name, values in self.categories().items():
            if name not in (schema.categories or {}):
                check_texts(name, values)
        return Design(self._terms(), schema.missing, schema.task, schema.target)


def join_layouts(a: Layout, b: Layout) -> Layout:
    if a == b:
        return a
    names = [[column.name for column in layout.columns] for layout in (a, b)]
    if names[0] != names[1]:
        differing = sorted(set(names[0]) ^ set(names[1]))[:8] or names[0][:8]
        raise ValueError(
            "statistics can only be added over the same columns: got "
            f"{differing} on one side only."
        )
    pairs = zip(a.columns, b.columns, strict=True)
    return Layout(
        tuple(
            Column(one.name, _join_values(one, other), one.gaps or other.gaps)
            for one, other in pairs
        )
    )


def _join_values(a: Column, b: Column) -> tuple[str, ...] | None:
    """Values of both; a side that has seen none may be of any kind."""
    # (): all values were missing, so the column had no type.
    if a.values in ((), b.values):
        return b.values
    if b.values == ():
        return a.values
    if a.values is None or b.values is None:
        raise ValueError(
            f"column {a.name!r} must hold numbers everywhere or text everywhere: got "
            "both; declare its categories to read both as text."
        )
    values = tuple(sorted({*a.values, *b.values}))
    refuse_many(a.name, values)
    return values


def refuse_many(name: str, values: Sequence[str], *, declared: bool = False) -> None:
    """Fail if a text column has too many values to hold categories."""
    if len(values) > MOST_VALUES:
        if not declared:
            refuse_strays(name, values)
        raise ValueError(
            f"column {name!r} holds more than {MOST_VALUES} different texts, such as "
            f"{values[0][:40]!r}: leave it out of the features, or write numbers with "
            "decimal points."
        )


def check_texts(name: str, values: Sequence[str]) -> None:
    """Check that the categories of a text column are not meant as numbers or dates.

    A single cell that is not a number turns a column into text: that is an error.
    If all categories look like numbers, as with decimal commas, there is a warning.
    """
    kind, _ = read_dates(values)
    if kind != TEXTS:
        raise ValueError(
            f"column {name!r} must hold numbers: got {kind} as text; leave it out, "
            "encode it as numbers, or declare it as categorical."
        )
    if not refuse_strays(name, values):
        return
    with_comma = next((f", such as {v!r}" for v in values if "," in v), "")
    warnings.warn(
        f"column {name!r} is text, so each of its {len(values)} values becomes a "
        f"feature, but they look like numbers{with_comma}: write numbers with decimal "
        "points (or use --decimal), or declare the column as categorical "
        f"(--categories {name}, in Python categories={{{name!r}: []}}).",
        UserWarning,
        stacklevel=2,
    )
