"""Encoding: which columns of a raw table become which features.

A numeric column is one feature. A column of categories becomes one 0/1 feature per
category, named ``colour=red``. Statistics and models carry their encoding, so that they
predict tables that have the columns they were learned from.
"""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array, Index
from priormtl.data.columns import NUMBERS, TEXTS, Cells, quote_name, read_cells
from priormtl.data.tables import as_frame
from priormtl.exceptions import absent_name

POLICIES = ("error", "drop", "mean")  # from strict to mild
GAP = -1  # code of a missing value
NEW = -2  # code of a category that was not seen in training
SHORT_CODE = 3  # digits of codes that occur again and again
LONG_CODE = 5  # digits of codes, where it is not known how often they occur
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


def name_raw_features(columns: Sequence[RawColumn]) -> tuple[str, ...]:
    """Names of all features; a column with the name of a category is in backticks."""
    made = {f for c in columns if c.values is not None for f in c.features}
    return tuple(
        quote_name(name) if column.values is None and name in made else name
        for column in columns
        for name in column.features
    )


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

    @cached_property
    def features(self) -> tuple[str, ...]:
        return name_raw_features(self.columns)

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

    def encode(
        self, table: Any, cells: Mapping[str, Cells] = MappingProxyType({})
    ) -> Array:
        """Features (n, d) of a data frame, whose other columns are ignored.

        ``cells`` are those of columns that were read before.
        """
        frame = as_frame(table)
        if frame is None:
            raise TypeError(
                f"a table must be a data frame: got {type(table).__name__}."
            )
        used = self.used_columns(list(frame.columns))
        source = {name: frame.get_column(name) for name in used}
        X = np.zeros((len(frame), len(self.features)))
        start = 0
        for column in self.columns:
            end = start + len(column.features)
            gaps = _write_features(X[:, start:end], column, source, cells)
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
            found |= read_cells(frame.get_column(name)).gaps
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


def encode_frame(frame: Any) -> tuple[Encoding | None, Mapping[str, Cells]]:
    """Encoding of a data frame, and the cells of columns that have no numeric type.

    The encoding is None if there are none.
    """
    columns, cells = list[RawColumn](), dict[str, Cells]()
    for series in frame.iter_columns():
        name, kind = series.name, series.dtype
        if kind.is_numeric() or kind == nw.Boolean:
            columns.append(RawColumn(name))
            continue
        cells[name] = found = read_cells(series)
        if found.kind not in (NUMBERS, TEXTS):
            raise ValueError(
                f"X column {name!r} must hold numbers or text: got {found.kind}. "
                "Encode it as numbers, declare it as categorical, leave it out, or use "
                "tabular_model."
            )
        if found.kind == TEXTS and not found.is_declared:
            refuse_strays(name, found.texts, count_texts(found))
        columns.append(RawColumn(name, found.texts if found.kind == TEXTS else None))
    return (Encoding(tuple(columns)) if cells else None), cells


def read_encoding(plain: Any, features: tuple[str, ...] | None) -> Encoding | None:
    if plain is None:
        return None
    encoding = Encoding.from_plain(plain)
    if encoding.features != features:
        raise ValueError("encoding of other features")
    return encoding


def _write_features(
    block: Array, column: RawColumn, source: Any, cells: Mapping[str, Cells]
) -> NDArray[np.bool_]:
    """Write the features of one column; returns which rows lack it.

    ``source`` are the columns of the table by name.
    """
    if column.values is not None and column.name in source:
        found = cells.get(column.name) or read_cells(source[column.name], TEXTS)
        place = {value: k for k, value in enumerate(column.values)}
        places = np.array([place.get(text, NEW) for text in found.texts] + [GAP])
        codes = places[found.values]
        new = [text for text in found.texts if text not in place]
        if new:
            warn_new_category(column.name, new[0])
        rows = np.flatnonzero(codes >= 0)
        block[rows, codes[rows]] = 1.0
        return codes == GAP
    gaps = np.zeros(len(block), dtype=bool)
    for j, name in enumerate(column.features):
        found = cells.get(name) or read_cells(source[name], NUMBERS)
        block[:, j] = values = found.values
        gaps |= np.isnan(values)
    return gaps


def warn_new_category(column: str, value: str) -> None:
    """Warn that a column has values that were not seen in training."""
    warnings.warn(
        f"column {column!r} has new categories such as {value[:40]!r}, which count as "
        "none of the known ones.",
        UserWarning,
        stacklevel=3,
    )


class StrayTextError(ValueError):
    """A text among the numbers of a column."""

    def __init__(self, column: str, value: str, place: str = "") -> None:
        self.column, self.value = column, value
        super().__init__(
            f"column {column!r} must hold numbers: got {value[:40]!r}{place}; correct "
            "it, or declare the column as categorical (--categories "
            f"{column}, in Python categories={{{column!r}: []}})."
        )


def count_texts(cells: Cells) -> Index:
    """Number of rows of each text."""
    return np.bincount(cells.values[cells.values >= 0], minlength=len(cells.texts))


def refuse_strays(
    name: str, values: Sequence[str], counts: Index | None = None
) -> bool:
    """Fail if a few texts are among many numbers; return whether all are numbers.

    Numbers that are plainly codes, such as postcodes, may have texts among them.
    ``counts`` are the rows of each value, where they are known.
    """
    strays = [j for j, value in enumerate(values) if not NUMBER.fullmatch(value)]
    few = len(strays) <= LARGEST_SHARE_OF_OTHERS * len(values)
    if len(values) < FEWEST_NUMBERS or not few:
        return False
    if strays:
        if _are_codes(values, strays, counts):
            return False
        raise StrayTextError(name, values[strays[0]])
    return True


def _are_codes(
    values: Sequence[str], strays: Sequence[int], counts: Index | None
) -> bool:
    """Whether numbers with a few words among them are codes, not measurements.

    Codes are whole numbers without sign. They have leading zeros; or they have about
    the same number of digits, leave out most numbers in between, and occur again and
    again, the words as well.
    """
    among = set(strays)
    numbers = [value for j, value in enumerate(values) if j not in among]
    if not all(number.isdecimal() for number in numbers):
        return False
    if any(any(map(str.isdecimal, values[j])) for j in strays):  # such as 12 kg
        return False
    if any(number[0] == "0" and len(number) > 1 for number in numbers):
        return True
    lengths, whole = [len(n) for n in numbers], [int(n) for n in numbers]
    sparse = 2 * len(numbers) <= max(whole) - min(whole) + 1
    if counts is None:
        return sparse and max(lengths) == min(lengths) >= LONG_CODE
    alike = max(lengths) - min(lengths) <= 1 and min(lengths) >= SHORT_CODE
    repeats = counts.sum() >= 2 * len(values) and counts[list(strays)].max() > 1
    return bool(sparse and alike and repeats)
