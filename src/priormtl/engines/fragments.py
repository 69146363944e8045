"""Fragments: one file of a data set of Arrow, read in parts, and its bytes."""

from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

__all__ = ["count_bytes", "cut_rows", "file_size", "widen_numbers"]


def cut_rows(fragment: Any, rows: int) -> Iterator[Any]:
    """Row groups of a Parquet file, those with few rows put together; else all of it.

    A scan of more would run ahead of whoever is slower than it, up to 1 GiB, and hold
    what it read until its end.
    """
    if not isinstance(fragment, ds.ParquetFileFragment):
        yield fragment
        return
    waiting: list[int] = []
    count = 0
    for group in fragment.row_groups:
        waiting.append(group.id)
        count += group.num_rows
        if count >= rows:
            yield fragment.subset(row_group_ids=waiting)
            waiting, count = [], 0
    if waiting:
        yield fragment.subset(row_group_ids=waiting)


def widen_numbers(schema: pa.Schema, exact: Collection[str]) -> pa.Schema:
    """Types guessed from the beginning of a CSV file: fractions may come later."""
    for i, field in enumerate(schema):
        guess = field.type
        narrow = pa.types.is_integer(guess) or pa.types.is_null(guess)
        if narrow and field.name not in exact:
            schema = schema.set(i, pa.field(field.name, pa.float64()))
    return schema


def count_bytes(table: pa.Table, fragment: Any, size: int) -> int:
    """Bytes of a file that some of its rows stand for, about."""
    if not isinstance(fragment, ds.ParquetFileFragment):
        return sum(map(_count_column, table.columns))
    return size * table.num_rows // max(1, fragment.metadata.num_rows)


def _count_column(column: Any) -> int:
    # Before version 22 Arrow cannot tell what views take: two words each, or more.
    is_view = column.type in {pa.string_view(), pa.binary_view()}
    return 16 * len(column) if is_view else int(column.nbytes)


def file_size(fragment: Any) -> int:
    """Bytes of a file; zero for what is none, or gone."""
    system = getattr(fragment, "filesystem", None)
    if system is None:
        return 0
    return int(system.get_file_info(fragment.path).size or 0)
