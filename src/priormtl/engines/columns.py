"""Columns of Arrow tables as NumPy arrays: numbers, codes, task labels and hashes.

**Folds.** Rows are assigned to folds by hashes of their values, so that the folds are
the same for any engine, file, batch and order of rows. With few rows, such folds are
uneven or empty; ``deal_folds`` assigns the rows of small tables in turn, in the order
of their hashes, task by task, which does not depend on files and order either. A value
is hashed by what it is, not by how it is stored: integers and integral floats alike,
dates and times by their microseconds since 1970, text by its UTF-8 bytes; missing
values and NaN alike. The hash of a row is the sum of the hashes of its values, each
salted with the name of its column, so that the order of columns does not matter. The
mixing function is that of splitmix64 (Steele, Lea and Flood, 2014).
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from priormtl._arrays import Index
from priormtl._numerics import LARGEST
from priormtl.data import TaskOrder, arrow_categories, find_task_columns, join_labels

Arrow: TypeAlias = pa.Array | pa.ChunkedArray

Hashes = NDArray[np.uint64]


class Values(NamedTuple):
    """One column: numbers, or codes of ``labels``; arbitrary in gaps."""

    values: np.ndarray  # (n,)
    gaps: NDArray[np.bool_] | None  # (n,), None if nothing is missing
    labels: Sequence[Any] | None = None

    @property
    def missing(self) -> int:
        return 0 if self.gaps is None else int(np.count_nonzero(self.gaps))


def read_column(name: str, column: Arrow, declared: Sequence[str] | None) -> Values:
    """Read a feature: categories if it is text or they are declared, else numbers.

    A column without a type, because all its values are missing, is text without values.
    """
    array = _one_array(column)
    if declared is None:
        if is_textual(array.type) or pa.types.is_null(array.type):
            return _code_texts(array)
        return read_numbers(name, array)
    try:
        array = array.cast(pa.large_string())
    except pa.ArrowException:
        raise ValueError(
            f"column {name!r} must hold text or numbers to have categories: got "
            f"{_type_name(array.type)}."
        ) from None
    found = _code_texts(array)
    if not declared:  # the values that occur
        return found
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


def read_numbers(name: str, column: Arrow) -> Values:
    """Read finite numbers; NaN counts as missing, and missing values are zero."""
    array = _one_array(column)
    gaps, kind = _nulls(array), array.type
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif kind == pa.float16() or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        array = array.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise ValueError(
            f"column {name!r} must hold numbers: got {_type_name(kind)}; leave it out, "
            "or encode it as numbers."
        )
    values = _to_numpy(array)
    if not len(values):
        return Values(values, None)
    lowest, highest = np.min(values), np.max(values)
    if values.dtype.kind == "f" and np.isnan(highest):
        unknown = np.isnan(values)
        gaps = unknown if gaps is None else gaps | unknown
        values = np.where(unknown, values.dtype.type(0), values)
        lowest, highest = np.min(values), np.max(values)
    if not max(abs(float(lowest)), abs(float(highest))) <= LARGEST:
        raise ValueError(
            f"column {name!r} must hold finite numbers up to {LARGEST:g}: got "
            f"{highest if abs(highest) > abs(lowest) else lowest}; replace or drop "
            "such values."
        )
    return Values(values, gaps)


def read_weights(name: str, column: Arrow) -> Values:
    found = read_numbers(name, column)
    lowest = np.min(found.values, initial=0)
    if lowest < 0:
        raise ValueError(
            f"column {name!r} must hold nonnegative weights: got {lowest:g}; replace "
            "or drop such values."
        )
    return found


def find_gaps(column: Arrow) -> NDArray[np.bool_] | None:
    """Where values of a column of any type are missing; NaN counts as missing."""
    array = _one_array(column)
    if not pa.types.is_floating(array.type):
        return _nulls(array)
    return np.isnan(array.to_numpy(zero_copy_only=False))


def join_tasks(
    table: pa.Table, task: str | None, *, keep_known: bool = False
) -> pa.Table:
    """Table in which the columns of nested tasks are one column, ``task``.

    Labels of which a part is missing are missing, unless their known parts are kept.
    """
    names = table.schema.names
    columns = find_task_columns(task, names)
    if task is None or len(columns) == 1:
        return table
    parts = [table.column(str(name)) for name in columns]
    labels = join_labels(parts, keep_known=keep_known)
    joined = pa.array(labels, pa.large_string())
    return table.drop_columns(list(columns)).append_column(task, joined)


def read_tasks(name: str, column: Arrow, *, ordered: bool = False) -> Values:
    """Codes of task labels, with the labels as sorted Python values.

    With ``ordered``, labels are all categories of the column, in their order.
    """
    array = _one_array(column)
    gaps, kind = _nulls(array), array.type
    if ordered:
        categories = arrow_categories(column)
        place = {category: i for i, category in enumerate(categories)}
        encoded = array.dictionary_encode()
        known = [place[label] for label in encoded.dictionary.to_pylist()]
        codes = np.array([*known, 0], dtype=np.intp)[_codes(encoded)]
        return Values(codes, gaps, TaskOrder(categories, categories))
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("us", tz=kind.tz), safe=False)
    elif pa.types.is_floating(kind):
        unknown = np.isnan(array.to_numpy(zero_copy_only=False))
        gaps = unknown if unknown.any() else None
        array = pc.add(array.cast(pa.float64()), 0.0)  # −0 becomes 0
    elif is_textual(kind) or pa.types.is_null(kind):
        array = array.cast(pa.large_string())
    elif not (
        pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind)
    ):
        raise ValueError(
            f"column {name!r} must hold text, numbers or dates to name tasks: got "
            f"{_type_name(kind)}; convert it to text."
        )
    encoded = array.dictionary_encode()
    labels: list[Hashable] = encoded.dictionary.to_pylist()
    # NaN, which counts as missing, cannot be sorted.
    known = [i for i, label in enumerate(labels) if label == label]  # noqa: PLR0124
    order = sorted(known, key=lambda i: labels[i])  # type: ignore[arg-type,return-value]
    rank = np.zeros(max(1, len(labels)), dtype=np.intp)
    rank[order] = np.arange(len(order))
    return Values(rank[_codes(encoded)], gaps, [labels[i] for i in order])


def is_textual(kind: pa.DataType) -> bool:
    views = getattr(pa.types, "is_string_view", lambda _: False)
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or views(kind)
    )


def _one_array(column: Arrow) -> pa.Array:
    chunked = isinstance(column, pa.ChunkedArray)
    array = column.combine_chunks() if chunked else column
    if isinstance(array, pa.ChunkedArray):  # too long for one array
        array = pa.concat_arrays(array.chunks)
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    return array


def _nulls(array: pa.Array) -> NDArray[np.bool_] | None:
    if not array.null_count:
        return None
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False))


def _to_numpy(array: pa.Array) -> np.ndarray:
    if array.null_count:
        array = pc.fill_null(array, pa.scalar(0, array.type))
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _type_name(kind: pa.DataType) -> str:
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return f"{kind} (text must be in UTF-8)"  # how Arrow reads other CSV files
    return str(kind)


def _codes(encoded: pa.DictionaryArray) -> Index:
    indices = encoded.indices.fill_null(0)
    return np.asarray(indices.to_numpy(zero_copy_only=False)).astype(np.intp)


def _code_texts(array: pa.Array) -> Values:
    encoded = array.cast(pa.large_string()).dictionary_encode()
    return Values(_codes(encoded), _nulls(array), encoded.dictionary.to_pylist())


# Folds by hashes of rows. These constants decide the folds of saved statistics:
# changing one would assign rows differently.

MISSING = np.uint64(0x6A09E667F3BCC909)


def assign_folds(columns: Mapping[str, Arrow], folds: int, seed: int = 0) -> Index:
    return (hash_rows(columns, seed) % np.uint64(folds)).astype(np.intp)


def deal_folds(rows: Hashes, tasks: Hashes, folds: int) -> Index:
    """Fold of each row: rows in turn, in the order of their hashes, task by task.

    Rows of equal hashes are equal, so that it does not matter which comes first.
    """
    found = np.empty(len(rows), dtype=np.intp)
    found[np.lexsort((rows, tasks))] = np.arange(len(rows)) % folds
    return found


def hash_rows(columns: Mapping[str, Arrow], seed: int = 0) -> Hashes:
    total = np.uint64(seed % 2**64) * np.ones(1, np.uint64)
    for name, column in columns.items():
        salt = _hash_texts(pa.array([name], pa.large_string()))
        array = _one_array(column)
        hashes = _hash_array(name, array)
        gaps = _nulls(array)
        if gaps is not None:
            hashes[gaps] = MISSING
        total = total + _mix(hashes ^ salt)
    return _mix(total)


def _hash_array(name: str, array: pa.Array) -> Hashes:
    kind = array.type
    if pa.types.is_null(kind):
        return np.full(len(array), MISSING)
    if is_textual(kind):
        encoded = array.cast(pa.large_string()).dictionary_encode()
        hashes = _hash_texts(encoded.dictionary)
        codes = _codes(encoded)
        return hashes[codes] if len(hashes) else np.full(len(codes), MISSING)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = _to_numpy(array.cast(pa.float64()))
        bits = values.view(np.uint64).copy()
        whole = (np.abs(values) < 2.0**63) & (np.trunc(values) == values)
        bits[whole] = values[whole].astype(np.int64).view(np.uint64)
        hashes = _mix(bits)
        hashes[np.isnan(values)] = MISSING
        return hashes
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        array = array.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    elif pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif pa.types.is_time32(kind):
        array = array.cast(pa.int32())
    elif pa.types.is_time64(kind) or pa.types.is_duration(kind):
        array = array.cast(pa.int64())
    elif not pa.types.is_integer(kind):
        raise ValueError(
            f"column {name!r} must hold numbers, text or dates to assign rows to "
            f"folds: got {kind}; use another column as the key."
        )
    values = _to_numpy(array)
    integers = values if values.dtype == np.uint64 else values.astype(np.int64)
    return _mix(integers.view(np.uint64))


def _hash_texts(texts: pa.Array) -> Hashes:
    """Hashes of large strings: sums over their bytes, each mixed with its position."""
    offsets = np.frombuffer(texts.buffers()[1], np.int64)
    offsets = offsets[texts.offset : texts.offset + len(texts) + 1]
    lengths = np.diff(offsets)
    hashes = _mix(lengths.astype(np.uint64))
    if not lengths.any():
        return hashes
    data = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    starts = offsets[:-1] - offsets[0]
    place = np.arange(len(data)) - np.repeat(starts, lengths)
    terms = _mix(place.astype(np.uint64) << np.uint64(8) | data)
    filled = lengths > 0
    # Empty texts have no bytes to sum, and reduceat would take those of the next one.
    hashes[filled] += np.add.reduceat(terms, starts[filled])
    return _mix(hashes)


def _mix(values: object) -> Hashes:
    """Finalizer of splitmix64."""
    mixed = np.asarray(values, np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
