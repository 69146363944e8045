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

__all__ = [
    "accumulate_batches",
    "choose_rows",
    "count_slots",
    "regroup",
    "summarize_rows",
]

CELLS = 2**21  # numbers of a piece: 16 MB
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
        part = summarize_rows(recipe, table, count_slots(total))
        total = part if total is None else total + part
    return total


def summarize_rows(
    recipe: Recipe, table: pa.Table, slots: int | None = None
) -> Partial:
    """Partial of a table; ``slots``: how many columns of statistics are expected."""
    begin, total = 0, None
    while total is None or begin < table.num_rows:
        slots = count_slots(total) or slots
        rows = FIRST_ROWS if slots is None else choose_rows(slots)
        part = summarize_batch(recipe, table.slice(begin, rows))
        total = part if total is None else total + part
        begin += rows
    return total


def count_slots(partial: Partial | None) -> int | None:
    """Columns of the statistics so far."""
    return None if partial is None else len(partial.centre)


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
