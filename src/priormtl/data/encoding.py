"""Encoding: how the columns of a raw table become features, before and after a fit.

Statistics and models carry one, so that tables with the columns that a model was
learned from can be predicted as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array
from priormtl.data.frames import as_frame, column_floats
from priormtl.data.labels import is_missing
from priormtl.exceptions import absent_name, unknown_name

__all__ = ["POLICIES", "Encoding", "RawColumn", "merge_encodings", "read_encoding"]

POLICIES = ("error", "drop", "mean")  # from strict to mild
GAP = -1  # place of a missing value among categories


class RawColumn(NamedTuple):
    """One column of a raw table: numbers, or categories of which each is a feature."""

    name: str
    values: tuple[str, ...] | None = None  # None: numbers

    @property
    def features(self) -> tuple[str, ...]:
        """Names of its features."""
        if self.values is None:
            return (self.name,)
        return tuple(f"{self.name}={value}" for value in self.values)


@dataclass(frozen=True)
class Encoding:
    """Which raw columns become which features, and what missing values mean.

    Parameters
    ----------
    columns : sequence of RawColumn
        Columns in the order of their features.
    missing : {"error", "drop", "mean"}
        What missing values meant where the model was learned. To predict, "mean" fills
        them with ``means``; else they are an error, for a row cannot be left out.
    task : str, optional
        Column of the task labels.
    means : sequence of float, optional
        Pooled mean of each feature, known after a fit.

    Examples
    --------
    >>> import pyarrow as pa
    >>> columns = (RawColumn("size"), RawColumn("colour", ("blue", "red")))
    >>> encoding = Encoding(columns)
    >>> encoding.features
    ('size', 'colour=blue', 'colour=red')
    >>> encoding.encode(pa.table({"colour": ["red", "blue"], "size": [1.5, 2.5]}))
    array([[1.5, 0. , 1. ],
           [2.5, 1. , 0. ]])
    """

    columns: tuple[RawColumn, ...]
    missing: str = "error"
    task: str | None = None
    means: tuple[float, ...] | None = None

    @classmethod
    def of_numbers(cls, names: Sequence[str]) -> Self:
        """Columns that are features as they are."""
        return cls(tuple(map(RawColumn, names)))

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(name for column in self.columns for name in column.features)

    def with_means(self, means: Array) -> Self:
        """Same columns; missing values are filled with these means, if they may be."""
        return replace(self, means=tuple(np.asarray(means).tolist()))

    def used_columns(self, names: Sequence[str]) -> tuple[str, ...]:
        """Columns to read of a table with these columns: raw ones, or encoded ones."""
        known = set(names)
        return tuple(
            name for column in self.columns for name in _present(column, known, names)
        )

    def encode(self, table: Any) -> Array:
        """Features (n, d) of a data frame, whose other columns are ignored."""
        frame = as_frame(table)
        if frame is None:
            raise TypeError(
                f"a table must be a data frame: got {type(table).__name__}."
            )
        series = {name: frame.get_column(name) for name in self._used(frame)}
        X = np.zeros((len(frame), len(self.features)))
        start = 0
        for column in self.columns:
            end = start + len(column.features)
            gaps = _write(X[:, start:end], column, series)
            if gaps.any():
                X[gaps, start:end] = self._fills(column, gaps)[start:end]
            start = end
        return X

    def gaps(self, table: Any) -> NDArray[np.bool_]:
        """Whether each row (n,) lacks a value of some feature."""
        frame = as_frame(table)
        found = np.zeros(len(table), dtype=bool)
        if frame is not None:
            for name in self._used(frame):
                found |= _find_gaps(frame.get_column(name))
        return found

    def _used(self, frame: Any) -> tuple[str, ...]:
        return self.used_columns(list(frame.columns))

    def _fills(self, column: RawColumn, gaps: NDArray[np.bool_]) -> Array:
        """Means of all features, where these may stand for missing values."""
        if self.missing == "mean" and self.means is not None:
            return np.array(self.means)
        raise ValueError(
            f"column {column.name!r} lacks {gaps.sum()} of {len(gaps)} values: fill "
            "them or drop such rows, or learn the model with missing='mean', which "
            "fills them."
        )

    def __add__(self, other: Self) -> Self:
        """Encoding of rows of both kinds: columns must agree, the milder policy stays.

        Means are those of the rows, and known anew after a fit.
        """
        if not isinstance(other, Encoding):
            return NotImplemented
        if self.columns != other.columns:
            raise ValueError(
                "statistics can only be added where the same columns became the same "
                f"features: got {_differing(self, other)!r} in two ways."
            )
        missing = max(self.missing, other.missing, key=POLICIES.index)
        task = self.task if self.task == other.task else None
        return replace(self, missing=missing, task=task, means=None)

    def to_plain(self) -> dict[str, Any]:
        """Values that JSON knows."""
        return {
            "columns": [
                [name, values and list(values)] for name, values in self.columns
            ],
            "missing": self.missing,
            "task": self.task,
            "means": None if self.means is None else list(self.means),
        }

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Encoding from what ``to_plain`` made; anything else is an error."""
        columns = tuple(_read_column(*pair) for pair in plain["columns"])
        task, missing, means = plain["task"], plain["missing"], plain["means"]
        if missing not in POLICIES or not isinstance(task, str | None):
            raise TypeError("not an encoding")
        encoding = cls(columns, missing, task)
        if means is None:
            return encoding
        if len(means) != len(encoding.features):
            raise ValueError("means of other features")
        return encoding.with_means(np.array(means, dtype=np.float64))


def read_encoding(plain: Any, features: tuple[str, ...] | None) -> Encoding | None:
    """Encoding of just these features from plain values, if there are any."""
    if plain is None:
        return None
    encoding = Encoding.from_plain(plain)
    if encoding.features != features:
        raise ValueError("encoding of other features")
    return encoding


def merge_encodings(a: Encoding | None, b: Encoding | None) -> Encoding | None:
    """Encoding of both; rows that were numbers already have none of their own."""
    if a is None or b is None:
        return a or b
    return a + b


def _read_column(name: Any, values: Any) -> RawColumn:
    if not all(isinstance(text, str) for text in (name, *(values or ()))):
        raise TypeError("not a column")
    return RawColumn(name, None if values is None else tuple(values))


def _differing(a: Encoding, b: Encoding) -> str:
    pairs = zip(a.columns, b.columns, strict=False)
    return next((one.name for one, other in pairs if one != other), a.columns[-1].name)


def _present(column: RawColumn, known: set[str], names: Sequence[str]) -> Sequence[str]:
    """The column itself, or its features where a table has all of them."""
    if column.name in known:
        return (column.name,)
    if column.values and known.issuperset(column.features):
        return column.features
    raise absent_name("a table lacks the column", column.name, names)


def _write(
    block: Array, column: RawColumn, series: dict[str, Any]
) -> NDArray[np.bool_]:
    """Features of one column; returns which rows lack it."""
    if column.values is not None and column.name in series:
        codes = _find_codes(column, series[column.name])
        rows = np.flatnonzero(codes != GAP)
        block[rows, codes[rows]] = 1.0
        return codes == GAP
    gaps = np.zeros(len(block), dtype=bool)
    for j, name in enumerate(column.features):
        block[:, j] = values = column_floats(series[name])
        gaps |= np.isnan(values)
    return gaps


def _find_codes(column: RawColumn, series: Any) -> NDArray[np.intp]:
    places = _Places(column)
    return np.array([places[value] for value in series.to_list()], dtype=np.intp)


class _Places(dict[Any, int]):
    """Place of each value among a column's categories, found once."""

    def __init__(self, column: RawColumn) -> None:
        values = column.values or ()
        super().__init__((value, place) for place, value in enumerate(values))
        self.column = column

    def __missing__(self, value: Any) -> int:
        place = GAP if is_missing(value) else self._find(value)
        self[value] = place
        return place

    def _find(self, value: Any) -> int:
        text = _spell(value)
        if text not in self:
            what = f"value of column {self.column.name!r}"
            raise unknown_name(what, text, self.column.values or ())
        return self[text]


def _spell(value: Any) -> str:
    """A value as Arrow writes it: whole numbers without point, truth in small."""
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _find_gaps(series: Any) -> NDArray[np.bool_]:
    if series.dtype.is_numeric():
        return np.isnan(column_floats(series))
    return np.array([is_missing(value) for value in series.to_list()], dtype=bool)
