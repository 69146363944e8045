"""summarize: one pass over files, in bounded memory, with all processors at work."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any, NamedTuple

import pyarrow as pa
from threadpoolctl import threadpool_limits

from priormtl.data import check_min_rows
from priormtl.engines.accumulate import enough_rows, regroup, summarize_rows
from priormtl.engines.ahead import read_ahead
from priormtl.engines.memory import refuse_beyond_memory
from priormtl.engines.partial import Partial, Summary
from priormtl.engines.recipe import Recipe
from priormtl.engines.sources import Piece, Source, naming, open_source
from priormtl.exceptions import DataFileError

__all__ = ["Advance", "count_threads", "summarize", "summarize_source", "tell_bytes"]

MOST_THREADS = 4
LARGE = 2**26  # bytes of statistics, of which there are not to be many

Advance = Callable[[int], None]


def summarize(
    source: Any,
    *,
    task: str,
    target: str,
    weight: str | None = None,
    features: Sequence[str] | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
    where: Any = None,
    missing: str = "error",
    folds: int | None = None,
    key: str | None = None,
    seed: int = 0,
    min_rows: int = 1,
    batch_rows: int | None = None,
    advance: Advance | None = None,
) -> Summary:
    """Statistics of tables in files, however large.

    Memory holds the statistics, for each processor (up to four) a piece of rows that is
    summed up, and one that is being read.

    Parameters
    ----------
    source, where
        Files and a filter of their rows; see ``open_source``.
    task, target, weight, features, categories, missing, folds, key, seed
        What columns mean; see ``Recipe``.
    min_rows : int
        Tasks with fewer rows are left out, as ``priormtl stats --min-rows`` does; see
        ``Summary.without_small``.
    batch_rows : int, optional
        Rows to read at a time; results do not depend on it.
    advance : function, optional
        Called with the number of bytes that were done since its last call.

    Returns
    -------
    Summary
        ``whole`` is what ``fit_statistics`` of regressors takes, ``parts`` (with
        ``folds``) what those that search take.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.dataset as ds
    >>> rows = pa.table({"x": [1.0, 3.0], "y": [0.0, 1.0], "school": ["u", "u"]})
    >>> summary = summarize(ds.dataset(rows), task="school", target="y")
    >>> summary.whole, summary.rows
    (TaskStatistics(1 tasks, 1 features, weight 2), 2)
    """
    check_min_rows(min_rows)
    recipe = Recipe(
        task, target, weight, features, categories, missing, folds, key, seed
    )
    opened = open_source(source, where)
    partial = summarize_source(recipe, opened, batch_rows, advance)
    with naming(opened.name):
        return partial.finish(recipe).without_small(min_rows)


def summarize_source(
    recipe: Recipe,
    source: Source,
    batch_rows: int | None = None,
    advance: Advance | None = None,
) -> Partial:
    """Partial of all rows of a source."""
    total: Partial | None = None
    waiting: deque[_Job] = deque()

    def enough() -> int:
        return batch_rows or enough_rows(total)

    # Many small products: threads of our own do better than those of BLAS.
    with (
        threadpool_limits(1, user_api="blas"),
        closing(read_ahead(source.pieces(recipe, batch_rows))) as pieces,
        ThreadPoolExecutor(count_threads(), "priormtl-sum") as pool,
    ):
        told = tell_bytes(pieces, advance)
        for group in regroup(told, enough):
            table = pa.concat_tables([piece.table for piece in group])
            part = pool.submit(summarize_rows, recipe, table, total, batch_rows)
            waiting.append(_Job(group, part))
            while len(waiting) > _most_waiting(total):
                total = _add_first(recipe, total, waiting)
                refuse_beyond_memory(total.parts)
        while waiting:
            total = _add_first(recipe, total, waiting)
    if total is None:
        raise DataFileError(f"{source.name} has no rows that where lets through.")
    return total


class _Job(NamedTuple):
    """Pieces that are being summed up."""

    pieces: list[Piece]
    part: Future[Partial]


def tell_bytes(pieces: Iterable[Piece], advance: Advance | None) -> Iterator[Piece]:
    """Same pieces, but those without rows beside the first; tell their bytes."""
    for number, piece in enumerate(pieces):
        if advance is not None:
            advance(piece.size)
        if piece.num_rows or not number:
            yield piece


def count_threads() -> int:
    """Threads that sum up pieces, each of which it holds in memory."""
    ours = getattr(os, "sched_getaffinity", None)
    return min(MOST_THREADS, len(ours(0)) if ours else os.cpu_count() or 1)


def _most_waiting(total: Partial | None) -> int:
    """Pieces under way: as many as threads, but few large statistics."""
    size = 0 if total is None else sum(part.xx.nbytes for part in total.parts)
    return count_threads() if size <= LARGE else 1


def _add_first(recipe: Recipe, total: Partial | None, waiting: deque[_Job]) -> Partial:
    """Add in the order of the files, so that results do not depend on the clock."""
    job = waiting.popleft()
    try:
        part = job.part.result()
        return part if total is None else total + part
    except ValueError as error:
        for piece in job.pieces:
            with naming(piece.file):
                summarize_rows(recipe, piece.table)
        raise DataFileError(f"{job.pieces[0].file}: {error}") from None
