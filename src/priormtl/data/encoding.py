"""Encoding: how the columns of a raw table become features, before and after a fit.

Statistics and models carry one, so that tables with the columns that a model was
learned from can be predicted as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array
from priormtl.data.frames import as_frame
from priormtl.data.raw_columns import (
    RawColumn,
    find_gaps,
    present_columns,
    write_features,
)

__all__ = ["POLICIES", "Encoding", "merge_encodings", "read_encoding"]

POLICIES = ("error", "drop", "mean")  # from strict to mild


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
    task, target : str, optional
        Columns of the task labels and of the targets.
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
    target: str | None = None
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
            name
            for column in self.columns
            for name in present_columns(column, known, names)
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
            gaps = write_features(X[:, start:end], column, series)
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
                found |= find_gaps(frame.get_column(name))
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
        target = self.target if self.target == other.target else None
        return replace(self, missing=missing, task=task, target=target, means=None)

    def to_plain(self) -> dict[str, Any]:
        """Values that JSON knows."""
        return {
            "columns": [
                [name, values and list(values)] for name, values in self.columns
            ],
            "missing": self.missing,
            "task": self.task,
            "target": self.target,
            "means": None if self.means is None else list(self.means),
        }

    @classmethod
    def from_plain(cls, plain: Any) -> Self:
        """Encoding from what ``to_plain`` made; anything else is an error."""
        columns = tuple(_read_column(*pair) for pair in plain["columns"])
        missing, means = plain["missing"], plain["means"]
        names = plain["task"], plain["target"]
        if missing not in POLICIES:
            raise TypeError("not an encoding")
        if not all(isinstance(name, str | None) for name in names):
            raise TypeError("not names of columns")
        encoding = cls(columns, missing, *names)
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
