"""Many batches, one partial: small ones are put together, large ones cut.

A merge costs as much as the statistics are large, so that rows are summarised in
pieces of many cells; and no piece is larger than that, so that memory stays bounded
whatever comes in, also where texts become many features.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from priormtl.engines.batches import summarize_batch
from priormtl.engines.partial import Partial
from priormtl.engines.recipe import Recipe

__all__ = ["accumulate_batches", "add_rows", "choose_rows", "regroup"]

CELLS = 2**22  # numbers of a piece: 32 MB
FIRST_ROWS = 4096  # of which it is not yet known how many features they have
FEWEST_ROWS = 256


def accumulate_batches(recipe: Recipe, batches: Iterable[Any]) -> Partial | None:
    """Partial of all batches of a partition, held one piece at a time; None: no batch.

    Examples
    --------
    >>> rows = pa.table({"x": [1.0, 3.0], "y": [0.0, 1.0], "t": ["u", "u"]})
    >>> accumulate_batches(Recipe("t", "y"), rows.to_batches()).rows
    2
    """
    total = None
    for table in regroup(batches):
        total = add_rows(recipe, total, table)
    return total


def add_rows(recipe: Recipe, total: Partial | None, table: pa.Table) -> Partial:
    """Partial of all rows so far and those of a table."""
    begin = 0
    while total is None or begin < table.num_rows:
        rows = FIRST_ROWS if total is None else choose_rows(len(total.centre))
        part = summarize_batch(recipe, table.slice(begin, rows))
        total = part if total is None else total + part
        begin += rows
    return total


def choose_rows(columns: int) -> int:
    """Rows of a piece with this many columns."""
    return max(FEWEST_ROWS, CELLS // max(1, columns))


def regroup(batches: Iterable[Any], rows: int | None = None) -> Iterator[pa.Table]:
    """Tables of at least so many rows, but the last of each schema."""
    waiting: list[Any] = []
    count = 0
    for batch in batches:
        if waiting and batch.schema != waiting[0].schema:
            yield pa.Table.from_batches(waiting)
            waiting, count = [], 0
        waiting += _to_batches(batch)
        count += batch.num_rows
        if count >= (rows or choose_rows(batch.num_columns)):
            yield pa.Table.from_batches(waiting)
            waiting, count = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _to_batches(batch: Any) -> list[Any]:
    if not isinstance(batch, pa.Table):
        return [batch]
    empty = pa.RecordBatch.from_pylist([], schema=batch.schema)
    return batch.to_batches() or [empty]
