"""Encoding: which columns of a raw table become which features.

A numeric column is one feature. A column of categories becomes one 0/1 feature per
category, named ``colour=red``. Statistics and models carry their encoding, so that they
predict tables that have the columns they were learned from.
"""

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array, Index
from priormtl.data.labels import is_missing
from priormtl.data.tables import as_frame, column_floats
from priormtl.exceptions import absent_name

POLICIES = ("error", "drop", "mean")  # from strict to mild
GAP = -1  # code of a missing value
NEW = -2  # code of a category that was not seen in training
FEWEST_NUMBERS = 8  # fewer distinct numbers may well be names of categories
LARGEST_SHARE_OF_OTHERS = 0.25
NUMBER = re.compile(r"\s*[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?\s*")


class RawColumn(NamedTuple):
    """A column of a raw table: numbers, or categories of which each is a feature."""

    name: str
    values: tuple[str, ...] | None = None  # None: numbers

    @property
    def features(self) -> tuple[str, ...]:
        if self.values is None:
            return (self.name,)
        return tuple(f"{self.name}={value}" for value in self.values)


@dataclass(frozen=True)
class Encoding:
    """Which raw columns become which features, and how missing values are treated.

    Parameters
    ----------
    columns : sequence of RawColumn
        Columns in the order of their features.
    missing : {"error", "drop", "mean"}
        How missing values were treated when the model was learned. In prediction
        "mean" fills them with ``means``; otherwise they are an error.
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
        return cls(tuple(map(RawColumn, names)))

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(name for column in self.columns for name in column.features)

    def with_means(self, means: Array) -> Self:
        return replace(self, means=tuple(np.asarray(means).tolist()))

    def used_columns(self, names: Sequence[str]) -> tuple[str, ...]:
        """Columns to read from a table with these columns, raw or already encoded."""
        known, used = set(names), list[str]()
        for column in self.columns:
            if column.name in known:
                used.append(column.name)
            elif column.values and known.issuperset(column.features):
                used.extend(column.features)
            else:
                raise absent_name("a table lacks the column", column.name, names)
        return tuple(used)

    def encode(self, table: Any) -> Array:
        """Features (n, d) of a data frame, whose other columns are ignored."""
        frame = as_frame(table)
        if frame is None:
            raise TypeError(
                f"a table must be a data frame: got {type(table).__name__}."
            )
        used = self.used_columns(list(frame.columns))
        series = {name: frame.get_column(name) for name in used}
        X = np.zeros((len(frame), len(self.features)))
        start = 0
        for column in self.columns:
            end = start + len(column.features)
            gaps = _write_features(X[:, start:end], column, series)
            if gaps.any():
                if self.missing != "mean" or self.means is None:
                    raise ValueError(
                        f"column {column.name!r} lacks {gaps.sum()} of {len(gaps)} "
                        "values: fill them, drop these rows, learn the model with "
                        "missing='mean', or use tabular_model."
                    )
                X[gaps, start:end] = self.means[start:end]
            start = end
        return X

    def gaps(self, table: Any) -> NDArray[np.bool_]:
        """Whether each row (n,) lacks a value of some feature."""
        frame = as_frame(table)
        found = np.zeros(len(table), dtype=bool)
        if frame is None:
            return found
        for name in self.used_columns(list(frame.columns)):
            series = frame.get_column(name)
            if series.dtype.is_numeric():
                found |= np.isnan(column_floats(series))
            else:
                found |= np.array(list(map(is_missing, series.to_list())), dtype=bool)
        return found

    def __add__(self, other: Self) -> Self:
        """Encoding of the rows of both; columns must agree, the milder policy stays.

        Means are dropped, since they are known again only after a fit.
        """
        if not isinstance(other, Encoding):
            return NotImplemented
        if self.columns != other.columns:
            pairs = zip(self.columns, other.columns, strict=False)
            differing = [one.name for one, its in pairs if one != its]
            name = [*differing, self.columns[-1].name][0]
            raise ValueError(
                "statistics can only be added where the same columns became the same "
                f"features: got {name!r} in two ways."
            )
        missing = max(self.missing, other.missing, key=POLICIES.index)
        task = self.task if self.task == other.task else None
        target = self.target if self.target == other.target else None
        return replace(self, missing=missing, task=task, target=target, means=None)

    def to_plain(self) -> dict[str, Any]:
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
        columns = []
        for name, values in plain["columns"]:
            if not all(isinstance(text, str) for text in (name, *(values or ()))):
                raise TypeError("not a column")
            columns.append(RawColumn(name, None if values is None else tuple(values)))
        missing, means = plain["missing"], plain["means"]
        names = plain["task"], plain["target"]
        if missing not in POLICIES:
            raise TypeError("not an encoding")
        if not all(isinstance(name, str | None) for name in names):
            raise TypeError("not names of columns")
        encoding = cls(tuple(columns), missing, *names)
        if means is None:
            return encoding
        if len(means) != len(encoding.features):
            raise ValueError("means of other features")
        return encoding.with_means(np.array(means, dtype=np.float64))


def encode_frame(frame: Any) -> Encoding | None:
    """Encoding of a data frame with text or categories; None for numbers alone."""
    columns = list[RawColumn]()
    for series in frame.iter_columns():
        kind = series.dtype
        if kind.is_numeric() or kind == nw.Boolean or not _is_text(series):
            columns.append(RawColumn(series.name))
            continue
        texts = {spell_value(v) for v in series.to_list() if not is_missing(v)}
        values = tuple(sorted(texts))
        if kind not in (nw.Categorical, nw.Enum):
            refuse_strays(series.name, values)
        columns.append(RawColumn(series.name, values))
    if all(column.values is None for column in columns):
        return None
    return Encoding(tuple(columns))


def _is_text(series: Any) -> bool:
    if series.dtype in (nw.String, nw.Categorical, nw.Enum):
        return True
    if series.dtype != nw.Object:
        return False
    known = [value for value in series.to_list() if not is_missing(value)]
    return any(isinstance(value, str) for value in known)


def read_encoding(plain: Any, features: tuple[str, ...] | None) -> Encoding | None:
    if plain is None:
        return None
    encoding = Encoding.from_plain(plain)
    if encoding.features != features:
        raise ValueError("encoding of other features")
    return encoding


def _write_features(
    block: Array, column: RawColumn, series: dict[str, Any]
) -> NDArray[np.bool_]:
    """Write the features of one column; returns which rows lack it."""
    if column.values is not None and column.name in series:
        codes = _category_codes(column, series[column.name].to_list())
        rows = np.flatnonzero(codes >= 0)
        block[rows, codes[rows]] = 1.0
        return codes == GAP
    gaps = np.zeros(len(block), dtype=bool)
    for j, name in enumerate(column.features):
        block[:, j] = values = column_floats(series[name])
        gaps |= np.isnan(values)
    return gaps


def spell_value(value: Any) -> str:
    """A category as Arrow writes it: whole numbers without point, truth in small."""
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _category_codes(column: RawColumn, items: list[Any]) -> Index:
    """Position of each value among the column's categories; each is spelled once."""
    categories = column.values or ()
    place = {value: k for k, value in enumerate(categories)}
    codes: dict[Any, int] = {}
    for value in dict.fromkeys(items):
        text = spell_value(value)
        if is_missing(value):
            codes[value] = GAP
        elif text in place:
            codes[value] = place[text]
        else:
            codes[value] = NEW
    new = next((value for value, code in codes.items() if code == NEW), None)
    if new is not None:
        warnings.warn(
            f"column {column.name!r} has new categories such as {str(new)[:40]!r}, "
            "which count as none of the known ones.",
            UserWarning,
            stacklevel=2,
        )
    return np.fromiter(map(codes.__getitem__, items), np.intp, len(items))


class StrayTextError(ValueError):
    """A text among the numbers of a column."""

    def __init__(self, column: str, value: str, place: str = "") -> None:
        self.column, self.value = column, value
        super().__init__(
            f"column {column!r} must hold numbers: got {value[:40]!r}{place}; correct "
            "it, or declare the column as categorical (--categories "
            f"{column}, in Python categories={{{column!r}: []}})."
        )


def refuse_strays(name: str, values: Sequence[str]) -> bool:
    """Fail if a few texts are among many numbers; return whether all are numbers."""
    others = [value for value in values if not NUMBER.fullmatch(value)]
    few = len(others) <= LARGEST_SHARE_OF_OTHERS * len(values)
    if len(values) < FEWEST_NUMBERS or not few:
        return False
    if others:
        raise StrayTextError(name, others[0])
    return True
