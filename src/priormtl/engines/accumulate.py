"""Many batches, one partial: small ones are put together, large ones cut.

A merge costs as much as the statistics are large, so that rows are summarised in
pieces of many cells: 16 MB, or half of the statistics where these are larger. No piece
is larger than that, so that memory stays bounded whatever comes in, also where texts
become many features.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from priormtl.engines.batches import summarize_batch
from priormtl.engines.partial import Partial
from priormtl.engines.recipe import Recipe

__all__ = [
    "accumulate_batches",
    "choose_rows",
    "enough_rows",
    "regroup",
    "summarize_rows",
]

CELLS = 2**21  # numbers of a piece: 16 MB
FIRST_ROWS = 4096  # of which it is not yet known how many features they have
FEWEST_ROWS = 256


class HasRows(Protocol):
    """A table, or something around one."""

    @property
    def schema(self) -> Any:
        """Names and types of its columns."""

    @property
    def num_rows(self) -> int:
        """Number of its rows."""


Piece = TypeVar("Piece", bound=HasRows)


def accumulate_batches(recipe: Recipe, batches: Iterable[Any]) -> Partial | None:
    """Partial of all batches of a partition, held one piece at a time; None: no batch.

    Examples
    --------
    >>> rows = pa.table({"x": [1.0, 3.0], "y": [0.0, 1.0], "t": ["u", "u"]})
    >>> accumulate_batches(Recipe("t", "y"), rows.to_batches()).rows
    2
    """
    total: Partial | None = None

    def enough() -> int:
        return enough_rows(total)

    for tables in regroup(map(_to_table, batches), enough):
        part = summarize_rows(recipe, pa.concat_tables(tables), total)
        total = part if total is None else total + part
    return total


def summarize_rows(
    recipe: Recipe,
    table: pa.Table,
    like: Partial | None = None,
    rows: int | None = None,
) -> Partial:
    """Partial of a table, by so many rows; else as many as suit statistics ``like``."""
    begin, total = 0, None
    while total is None or begin < table.num_rows:
        count = rows or enough_rows(like, total)
        part = summarize_batch(recipe, table.slice(begin, count))
        total = part if total is None else total + part
        begin += count
    return total


def choose_rows(columns: int, cells: int = 0) -> int:
    """Rows of a piece with this many columns, and at least so many cells."""
    return max(FEWEST_ROWS, max(CELLS, cells) // max(1, columns))


def enough_rows(total: Partial | None, part: Partial | None = None) -> int:
    """Rows that are worth a merge; their cells are half of large statistics.

    ``part`` knows better how many columns there are.
    """
    known = part or total
    if known is None:
        return FIRST_ROWS
    cells = 0 if total is None else sum(one.xx.size for one in total.parts)
    return choose_rows(len(known.centre), cells // 2)


def regroup(
    tables: Iterable[Piece], enough: Callable[[], int]
) -> Iterator[list[Piece]]:
    """Tables of one schema that together have enough rows, but the last of each."""
    waiting: list[Piece] = []
    for table in tables:
        if waiting and table.schema != waiting[0].schema:
            yield waiting
            waiting = []
        waiting.append(table)
        if sum(one.num_rows for one in waiting) >= enough():
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _to_table(batch: Any) -> pa.Table:
    return batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
