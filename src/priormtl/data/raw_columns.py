"""One column of a raw table: numbers, or categories of which each is a feature."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array
from priormtl.data.frames import column_floats
from priormtl.data.labels import is_missing
from priormtl.exceptions import absent_name, unknown_name

__all__ = ["RawColumn", "find_gaps", "present_columns", "write_features"]

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


def present_columns(
    column: RawColumn, known: set[str], names: Sequence[str]
) -> Sequence[str]:
    """The column itself, or its features where a table has all of them."""
    if column.name in known:
        return (column.name,)
    if column.values and known.issuperset(column.features):
        return column.features
    raise absent_name("a table lacks the column", column.name, names)


def write_features(
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
            what = f"value in column {self.column.name!r}:"
            raise unknown_name(what, text, self.column.values or ())
        return self[text]


def _spell(value: Any) -> str:
    """A value as Arrow writes it: whole numbers without point, truth in small."""
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def find_gaps(series: Any) -> NDArray[np.bool_]:
    """Whether each value of a column is missing."""
    if series.dtype.is_numeric():
        return np.isnan(column_floats(series))
    return np.array([is_missing(value) for value in series.to_list()], dtype=bool)
