"""Columns of Arrow tables as NumPy arrays: numbers, codes of texts, task labels."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from priormtl._arrays import Index
from priormtl.data import TaskOrder, arrow_categories
from priormtl.engines.hashing import is_textual

__all__ = [
    "LARGEST_VALUE",
    "Values",
    "find_gaps",
    "read_column",
    "read_numbers",
    "read_ordered_tasks",
    "read_tasks",
    "read_weights",
]

LARGEST_VALUE = 1e100  # squares of larger numbers, summed, leave the range of doubles


class Values(NamedTuple):
    """One column: numbers, or codes of ``labels``; of no meaning in gaps."""

    values: np.ndarray  # (n,)
    gaps: NDArray[np.bool_] | None  # (n,), None where there are none
    labels: Sequence[Any] | None = None

    @property
    def missing(self) -> int:
        """Number of gaps."""
        return 0 if self.gaps is None else int(np.count_nonzero(self.gaps))


def read_column(name: str, column: Any, declared: Sequence[str] | None) -> Values:
    """A feature: numbers, or texts where it holds some or their values are declared.

    A column of no type, since it holds gaps only, is a text of no values.
    """
    array = _one_array(column)
    if declared is not None:
        return _code_declared(name, _as_text(name, array), declared)
    if is_textual(array.type) or pa.types.is_null(array.type):
        return _code_texts(array)
    return read_numbers(name, array)


def read_numbers(name: str, column: Any) -> Values:
    """Numbers, all of them finite but for gaps; NaN is a gap."""
    array = _one_array(column)
    gaps = _nulls(array)
    values = _numbers(name, array)
    if not len(values):
        return Values(values, None)
    lowest, highest = np.min(values), np.max(values)
    if values.dtype.kind == "f" and np.isnan(highest):
        unknown = np.isnan(values)
        gaps = unknown if gaps is None else gaps | unknown
        values = np.where(unknown, values.dtype.type(0), values)
        lowest, highest = np.min(values), np.max(values)
    if not max(abs(float(lowest)), abs(float(highest))) <= LARGEST_VALUE:
        raise ValueError(
            f"column {name!r} must hold finite numbers up to {LARGEST_VALUE:g}: got "
            f"{highest if abs(highest) > abs(lowest) else lowest}; replace or drop "
            "such values."
        )
    return Values(values, gaps)


def read_weights(name: str, column: Any) -> Values:
    """Numbers that are not negative."""
    found = read_numbers(name, column)
    lowest = np.min(found.values, initial=0)
    if lowest < 0:
        raise ValueError(
            f"column {name!r} must hold weights, which are not negative: got "
            f"{lowest:g}; replace or drop such values."
        )
    return found


def find_gaps(column: Any) -> NDArray[np.bool_] | None:
    """Where a column of any kind lacks values; NaN is a gap."""
    array = _one_array(column)
    if not pa.types.is_floating(array.type):
        return _nulls(array)
    return np.isnan(array.to_numpy(zero_copy_only=False))


def read_tasks(name: str, column: Any) -> Values:
    """Codes of task labels, with the labels as Python values, sorted."""
    array = _one_array(column)
    gaps = _nulls(array)
    kind = array.type
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("us", tz=kind.tz), safe=False)
    elif pa.types.is_floating(kind):
        unknown = np.isnan(array.to_numpy(zero_copy_only=False))
        gaps = unknown if unknown.any() else None
        array = pc.add(array.cast(pa.float64()), 0.0)  # −0 is 0
    elif is_textual(kind) or pa.types.is_null(kind):
        array = array.cast(pa.large_string())
    elif not (
        pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind)
    ):
        raise ValueError(
            f"column {name!r} must hold text, numbers or dates to name tasks: got "
            f"{_type_name(kind)}; convert it to text."
        )
    return _sort_labels(array.dictionary_encode(), gaps)


def read_ordered_tasks(column: Any) -> Values:
    """Codes of task labels among all categories of the column, in their order."""
    categories = arrow_categories(column)
    place = {category: i for i, category in enumerate(categories)}
    encoded = _one_array(column).dictionary_encode()
    known = [place[label] for label in encoded.dictionary.to_pylist()]
    codes = np.array([*known, 0], dtype=np.intp)[_codes(encoded)]
    return Values(codes, _nulls(column), TaskOrder(categories, categories))


def _sort_labels(encoded: Any, gaps: NDArray[np.bool_] | None) -> Values:
    labels: list[Hashable] = encoded.dictionary.to_pylist()
    # A NaN, which is a gap, has no place in any order.
    known = [i for i, label in enumerate(labels) if label == label]  # noqa: PLR0124
    order = sorted(known, key=lambda i: labels[i])  # type: ignore[arg-type,return-value]
    place = np.zeros(max(1, len(labels)), dtype=np.intp)
    place[order] = np.arange(len(order))
    return Values(place[_codes(encoded)], gaps, [labels[i] for i in order])


def _one_array(column: Any) -> Any:
    """Array without chunks and dictionaries."""
    array = column.combine_chunks() if hasattr(column, "chunks") else column
    if isinstance(array, pa.ChunkedArray):  # too long for one
        array = pa.concat_arrays(array.chunks)
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    return array


def _nulls(array: Any) -> NDArray[np.bool_] | None:
    if not array.null_count:
        return None
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False))


def _numbers(name: str, array: Any) -> np.ndarray:
    """Values, with zeros in gaps."""
    kind = array.type
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif kind == pa.float16() or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        array = array.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise ValueError(
            f"column {name!r} must hold numbers: got {_type_name(kind)}; leave it out, "
            "or encode it as numbers."
        )
    if array.null_count:
        array = pc.fill_null(array, pa.scalar(0, array.type))
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _as_text(name: str, array: Any) -> Any:
    try:
        return array.cast(pa.large_string())
    except pa.ArrowException:
        raise ValueError(
            f"column {name!r} must hold text or numbers to have categories: got "
            f"{_type_name(array.type)}."
        ) from None


def _type_name(kind: Any) -> str:
    """Type for people; CSV files hold bytes only where they are not in UTF-8."""
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return f"{kind} (text must be in UTF-8)"
    return str(kind)


def _codes(encoded: Any) -> Index:
    indices = encoded.indices.fill_null(0)
    return np.asarray(indices.to_numpy(zero_copy_only=False)).astype(np.intp)


def _code_texts(array: Any) -> Values:
    encoded = array.cast(pa.large_string()).dictionary_encode()
    return Values(_codes(encoded), _nulls(array), encoded.dictionary.to_pylist())


def _code_declared(name: str, array: Any, declared: Sequence[str]) -> Values:
    """Codes among the declared values; others are an error."""
    found = _code_texts(array)
    place = {value: i for i, value in enumerate(declared)}
    labels = found.labels or ()
    for value in labels:
        if value not in place:
            raise ValueError(
                f"column {name!r} holds {value!r}, which is not among its declared "
                f"categories {list(declared)[:8]}; add it to them."
            )
    places = np.array([place[value] for value in labels] or [0], dtype=np.intp)
    return Values(places[found.values], found.gaps, tuple(declared))
