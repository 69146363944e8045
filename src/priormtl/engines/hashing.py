"""Folds by hashes of values: the same for any engine, file, batch and order of rows.

A value is hashed by what it is, not by how it is stored: whole numbers alike whether
they are integers or floats, dates and times by their microseconds since 1970, text by
its UTF-8 bytes. Missing values and NaN are alike. A row is the sum of its values'
hashes, each salted with the name of its column, so that the order of columns does not
matter. Mixing is that of splitmix64 (Steele, Lea and Flood, 2014).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from priormtl._arrays import Index

__all__ = ["deal_folds", "hash_rows", "hash_values"]

Hashes = NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)
MISSING = np.uint64(0x6A09E667F3BCC909)
LARGEST_WHOLE = 2.0**63


def deal_folds(columns: Mapping[str, Any], folds: int, seed: int = 0) -> Index:
    """Fold of each row of some Arrow columns."""
    return (hash_rows(columns, seed) % np.uint64(folds)).astype(np.intp)


def hash_rows(columns: Mapping[str, Any], seed: int = 0) -> Hashes:
    """One number per row of some Arrow columns."""
    total: Any = np.uint64(seed % 2**64) * np.ones(1, np.uint64)
    for name, column in columns.items():
        salt = _hash_texts(pa.array([name], pa.large_string()))
        total = total + _mix(_hash_column(name, column) ^ salt)
    return _mix(total)


def hash_values(column: Any) -> Hashes:
    """One number per value of an Arrow array."""
    return _hash_column("", column)


def _hash_column(name: str, column: Any) -> Hashes:
    array = column.combine_chunks() if hasattr(column, "chunks") else column
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    hashes = _hash_array(name, array)
    if array.null_count:
        hashes[array.is_null().to_numpy(zero_copy_only=False)] = MISSING
    return hashes


def _hash_array(name: str, array: Any) -> Hashes:
    kind = array.type
    if pa.types.is_null(kind):
        return np.full(len(array), MISSING)
    if is_textual(kind):
        return _hash_distinct(array.cast(pa.large_string()).dictionary_encode())
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _hash_floats(_to_numpy(array.cast(pa.float64())))
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        array = array.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    elif pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif not pa.types.is_integer(kind):
        raise ValueError(
            f"column {name!r} must hold numbers, text or dates to deal rows into "
            f"folds: got {kind}; name another column as the key."
        )
    return _hash_whole(_to_numpy(array))


def _hash_distinct(encoded: Any) -> Hashes:
    """Hashes of dictionary-encoded texts."""
    hashes = _hash_texts(encoded.dictionary)
    codes = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return hashes[codes] if len(hashes) else np.full(len(codes), MISSING)


def is_textual(kind: Any) -> bool:
    """Whether a type of Arrow is text."""
    views = getattr(pa.types, "is_string_view", lambda _: False)
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or views(kind)
    )


def _to_numpy(array: Any) -> np.ndarray:
    """Values, with anything in place of missing ones."""
    if array.null_count:
        array = pc.fill_null(array, pa.scalar(0, array.type))
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _hash_whole(values: np.ndarray) -> Hashes:
    whole = values if values.dtype == np.uint64 else values.astype(np.int64)
    return _mix(whole.view(np.uint64))


def _hash_floats(values: NDArray[np.float64]) -> Hashes:
    """Bits of the numbers; whole ones as integers."""
    bits = values.view(np.uint64).copy()
    whole = (np.abs(values) < LARGEST_WHOLE) & (np.trunc(values) == values)
    bits[whole] = values[whole].astype(np.int64).view(np.uint64)
    hashes = _mix(bits)
    hashes[np.isnan(values)] = MISSING
    return hashes


def _hash_texts(texts: Any) -> Hashes:
    """Sums over the bytes of large strings, each mixed with its place."""
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
    # Empty texts have no bytes to sum, and reduceat would take the next one's.
    hashes[filled] += np.add.reduceat(terms, starts[filled])
    return _mix(hashes)


def _mix(values: Any) -> Hashes:
    """Finisher of splitmix64."""
    mixed = np.asarray(values, np.uint64) + GOLDEN
    mixed = (mixed ^ (mixed >> np.uint64(30))) * FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * SECOND
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
