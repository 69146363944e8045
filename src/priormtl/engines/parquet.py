"""One pass over files: ``summarize`` returns statistics, ``read_rows`` the rows.

``summarize`` works in bounded memory. One thread reads pieces of rows, up to four
others summarise them, and their partial statistics are added in the order of the files,
so that results do not depend on timing. Statistics that would exceed the memory of the
machine, or the limit of its container, are refused before they do.

``read_rows`` reads all rows into memory, for losses that need them.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from priormtl._arrays import Array
from priormtl._machine import memory_limit
from priormtl.data import TaskStatistics, check_min_rows
from priormtl.design import Design
from priormtl.engines import batches
from priormtl.engines.columns import Values, find_gaps, read_column, read_weights
from priormtl.engines.files import naming
from priormtl.engines.schema import Schema
from priormtl.engines.sources import Piece, Source, open_source, prefetch
from priormtl.exceptions import DataFileError

LARGE = 2**26  # bytes of statistics of which only one piece is summarised at a time
HELD = 3  # statistics held at a time: a sum, a part, and their sum

Advance = Callable[[int], None]


def summarize(
    source: object,
    schema: Schema | None = None,
    *,
    where: object = None,
    min_rows: int = 1,
    batch_rows: int | None = None,
    advance: Advance | None = None,
    **columns: Any,
) -> batches.Summary:
    """Compute statistics of tables in files of any size.

    Memory contains the statistics, a batch of rows for each processor (up to four), and
    the batch that is being read.

    Parameters
    ----------
    source, where
        Files to read, and a condition that selects rows; see ``open_source``.
    schema : Schema, optional
        Roles of the columns.
    min_rows : int, default=1
        Omit tasks with fewer rows, as ``priormtl stats --min-rows`` does.
    batch_rows : int, optional
        Number of rows to read at a time. Results do not depend on it.
    advance : callable, optional
        Called with the number of bytes that were read since its last call.
    **columns
        Fields of ``Schema``, instead of ``schema`` or to change some of its fields:
        ``task``, ``target``, ``weight``, ``features``, ``categories``, ``missing``,
        ``folds``, ``key`` and ``seed``.

    Returns
    -------
    Summary
        ``whole`` is the argument of ``fit_statistics`` for regressors. With ``folds``,
        ``parts`` is the argument for cross-validated regressors.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.dataset as ds
    >>> rows = pa.table({"x": [1.0, 3.0], "y": [0.0, 1.0], "school": ["u", "u"]})
    >>> summary = summarize(ds.dataset(rows), task="school", target="y")
    >>> summary.whole, summary.rows
    (TaskStatistics(1 tasks, 1 features, weight 2), 2)
    """
    check_min_rows(min_rows)
    schema = Schema.of(schema, **columns)
    opened = open_source(source, where)
    with opened.locating():
        partial = summarize_source(schema, opened, batch_rows, advance)
        with naming(opened.name):
            return partial.finish(schema).without_small(min_rows)


class _Job(NamedTuple):
    """Pieces that are being summarised."""

    pieces: list[Piece]
    part: Future[batches.Partial]


def summarize_source(
    schema: Schema,
    source: Source,
    batch_rows: int | None = None,
    advance: Advance | None = None,
) -> batches.Partial:
    total: batches.Partial | None = None
    waiting: deque[_Job] = deque()

    def enough() -> int:
        return batch_rows or batches.enough_rows(total)

    def add_first() -> batches.Partial:
        # Added in the order of the files, so that results do not depend on timing.
        job = waiting.popleft()
        try:
            part = job.part.result()
            return part if total is None else total + part
        except ValueError as error:
            for piece in job.pieces:
                with naming(piece.file):
                    batches.summarize_rows(schema, piece.table)
            raise DataFileError(f"{job.pieces[0].file}: {error}") from None

    # For many small products, threads of our own are faster than those of BLAS.
    with (
        threadpool_limits(1, user_api="blas"),
        closing(prefetch(source.pieces(schema, batch_rows))) as pieces,
        ThreadPoolExecutor(count_threads(), "priormtl-sum") as pool,
    ):
        for group in batches.regroup(report_bytes(pieces, advance), enough):
            table = pa.concat_tables([piece.table for piece in group])
            part = pool.submit(batches.summarize_rows, schema, table, total, batch_rows)
            waiting.append(_Job(group, part))
            # One piece at a time if statistics are large.
            size = 0 if total is None else sum(one.xx.nbytes for one in total.parts)
            while len(waiting) > (count_threads() if size <= LARGE else 1):
                total = add_first()
                refuse_beyond_memory(total.parts)
        while waiting:
            total = add_first()
    if total is None:
        raise DataFileError(f"{source.name}: no rows match where.")
    return total


def report_bytes(pieces: Iterable[Piece], advance: Advance | None) -> Iterator[Piece]:
    """Yield the first piece and all with rows, and report the bytes of every piece."""
    for number, piece in enumerate(pieces):
        if advance is not None:
            advance(piece.size)
        if piece.num_rows or not number:
            yield piece


def count_threads() -> int:
    """Threads that summarise pieces, each of which holds one in memory."""
    ours = getattr(os, "sched_getaffinity", None)
    return min(4, len(ours(0)) if ours else os.cpu_count() or 1)


# Memory.


def refuse_beyond_memory(parts: Sequence[TaskStatistics]) -> None:
    """Fail before statistics exceed the memory, and say where they can be kept."""
    size = HELD * sum(part.xx.nbytes for part in parts)
    memory = memory_limit()
    if memory is None or size <= memory:
        return
    d, m = parts[0].shape
    folds = f" in {len(parts)} folds" if len(parts) > 1 else ""
    raise ValueError(
        f"statistics of {m} tasks over {d} features{folds} must fit {HELD} times into "
        f"{memory / 1e9:.3g} GB of memory: they need {size / 1e9:.3g} GB so far; write "
        "them to disk (engines.summarize_sharded, fit_source(shards=), priormtl fit "
        "--shards), or choose fewer features."
    )


# Rows.


class SourceRows(NamedTuple):
    """Rows that count, in the order of the files."""

    X: Array  # features (n, d)
    y: pa.ChunkedArray  # as in the table
    task: pa.ChunkedArray
    weight: Array | None
    design: Design  # with means
    read: int  # number of rows read
    dropped: int  # number of these that were dropped for missing values


def read_rows(
    source: object,
    schema: Schema | None = None,
    *,
    where: object = None,
    advance: Advance | None = None,
    **columns: Any,
) -> SourceRows:
    """Read all rows of tables in files into memory.

    Parameters
    ----------
    source, schema, where, advance, **columns
        See :func:`summarize`. Targets may have any type, and there are no folds.

    Examples
    --------
    >>> table = pa.table({"x": [1, 3], "passed": ["no", "yes"], "school": ["u", "u"]})
    >>> rows = read_rows(table, task="school", target="passed")
    >>> rows.X.tolist(), rows.y.to_pylist()
    ([[1.0], [3.0]], ['no', 'yes'])
    """
    schema = Schema.of(schema, **columns)
    if schema.folds is not None or schema.key is not None:
        raise ValueError("folds and key need statistics: rows have no folds.")
    opened = open_source(source, where)
    wanted = opened.wanted(schema)
    exact = {*wanted.exact, schema.target}
    table = opened.load(wanted._replace(exact=exact), advance)
    assert table is not None
    with opened.locating(), naming(opened.name):
        return _encode(schema, table)


def _encode(schema: Schema, table: pa.Table) -> SourceRows:
    declared = schema.categories or {}
    columns = {
        name: read_column(name, table[name], declared.get(name))
        for name in schema.feature_columns(table.column_names)
    }
    # Tasks and targets are not read: only their missing values matter here.
    special: dict[str | None, Values | None] = {
        name: Values(np.zeros(0), find_gaps(table[name]))
        for name in (schema.task, schema.target)
    }
    weights = None
    if schema.weight is not None:
        weights = read_weights(schema.weight, table[schema.weight])
        special[schema.weight] = weights
    n = table.num_rows
    usable = batches.find_usable(schema, special, columns, n)
    weight = np.ones(n) if weights is None else weights.values
    order = np.flatnonzero(usable & (weight != 0.0))
    dropped = n - int(np.count_nonzero(usable))
    if not len(order):
        raise batches.no_rows_left(n, dropped)
    own = weight[order].astype(np.float64)
    values, layout = batches.arrange_features(schema, columns, order)
    X, _, observed = batches.fill_slots(layout, values, own)
    layout.refuse_unobserved(observed)
    X = X[:, layout.kept()]
    means = np.average(X, axis=0, weights=own)
    y, task = (
        table[name].take(pa.array(order)) for name in (schema.target, schema.task)
    )
    return SourceRows(
        X,
        y,
        task,
        None if weights is None else own,
        layout.design(schema).with_means(means),
        n,
        dropped,
    )
