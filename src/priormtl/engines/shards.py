"""summarize_sharded: statistics larger than memory, a shard of the tasks at a time.

Rows of all tasks come mixed, so that each batch would touch all statistics. Therefore a
first pass lays the rows aside in heaps, each with the rows of some tasks only, and
learns columns, tasks and means on the way. Then heap after heap is summed up, as many
tasks at a time as memory can hold, and written to its place.
"""

import errno
import os
import shutil
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from priormtl._files import write_folder
from priormtl._lazy import cached_property
from priormtl.engines.accumulate import accumulate_batches, choose_rows, regroup
from priormtl.engines.ahead import read_ahead
from priormtl.engines.batches import read_batch
from priormtl.engines.folders import StatisticsFolder, open_shards
from priormtl.engines.heaps import Heaps
from priormtl.engines.parquet import Advance, count_threads, tell_bytes
from priormtl.engines.partial import Summary, refuse_nothing
from priormtl.engines.recipe import Recipe
from priormtl.engines.sources import Piece, Source, naming, open_source
from priormtl.engines.spill import Spill
from priormtl.engines.survey import Survey
from priormtl.exceptions import DataFileError

__all__ = ["summarize_sharded"]

HEAPS = 64  # for each fold: fewer tasks are summed up at a time, and share a heap
MOST_HEAPS = 192  # some systems let a process open 256 files
COPIES = 5  # of a shard's statistics: sum, part, their sum, and rows of as many cells
SHARE = 16  # part of the memory that rows on their way into heaps take, before copies


def summarize_sharded(
    source: Any,
    folder: str | os.PathLike[str],
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
    memory: int = 2**30,
    advance: Advance | None = None,
) -> Summary:
    """Statistics of many tasks over many features, which need not fit into memory.

    ``summarize`` is faster where they do: m tasks over d features take 8·m·d² bytes, in
    k folds k times as many.
    Rows are laid aside on the disk of ``folder`` first, in files that vanish with the
    process, then summed up task by task. The folder appears complete or not at all.

    Parameters
    ----------
    source, where
        Files and a filter of their rows; see ``open_source``.
    folder : path
        Where to write the statistics; new or empty.
    task, target, weight, features, categories, missing, folds, key, seed
        What columns mean; see ``Recipe``. The folds are those of ``summarize``.
    memory : int
        Bytes to work in, about, beside what reading takes. More means fewer and larger
        steps. Statistics of one task are held several times, whatever this says.
    advance : function, optional
        Called with the number of bytes that were read since its last call.

    Returns
    -------
    Summary
        The matrices of ``parts`` are mapped from the folder, those of ``whole`` are
        sums of them, formed as they are read; ``open_shards`` opens them again.
        ``fit_statistics`` of regressors leaves them there.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.dataset as ds, tempfile
    >>> rows = pa.table({"x": [1.0, 3.0], "y": [0.0, 1.0], "school": ["u", "v"]})
    >>> folder = tempfile.mkdtemp()
    >>> summarize_sharded(ds.dataset(rows), folder, task="school", target="y").whole
    TaskStatistics(2 tasks, 1 features, weight 2)
    >>> open_shards(folder).counts
    {'u': 1, 'v': 1}
    """
    recipe = Recipe(
        task, target, weight, features, categories, missing, folds, key, seed
    )
    opened = open_source(source, where)
    _check_memory(memory)
    count = min(HEAPS * (folds or 1), MOST_HEAPS)
    with write_folder(folder) as aside, Spill(aside, count) as spill:
        heaps = Heaps(recipe, spill)
        _lay_aside(heaps, recipe, opened, memory // SHARE, advance)
        if heaps.survey is None:
            raise DataFileError(f"{opened.name} has no rows that where lets through.")
        with naming(opened.name):
            refuse_nothing(heaps.survey)
            _write(recipe, heaps, heaps.survey, aside, memory)
    return open_shards(folder)


def _check_memory(memory: int) -> None:
    if isinstance(memory, bool) or not isinstance(memory, int) or memory < 1:
        raise ValueError(f"memory must be a whole number of bytes: got {memory!r}.")


def _lay_aside(
    heaps: Heaps, recipe: Recipe, source: Source, size: int, advance: Advance | None
) -> None:
    """Send all rows to the heaps, in pieces of about this many bytes."""
    columns = len(source.wanted(recipe).columns)
    rows = max(1, size // (8 * columns))
    pieces = source.pieces(recipe, min(rows, choose_rows(columns)))
    with closing(read_ahead(pieces)) as ahead:
        for group in regroup(tell_bytes(ahead, advance), lambda: rows):
            _add_named(heaps, recipe, group)


def _add_named(heaps: Heaps, recipe: Recipe, group: list[Piece]) -> None:
    """Send some pieces; say in which file something is wrong."""
    try:
        heaps.add(pa.concat_tables([piece.table for piece in group]).combine_chunks())
    except ValueError as error:
        for piece in group:
            with naming(piece.file):
                read_batch(recipe, piece.table)
        raise DataFileError(f"{group[0].file}: {error}") from None


def _write(
    recipe: Recipe, heaps: Heaps, survey: Survey, folder: Path, memory: int
) -> None:
    """Sum all heaps up."""
    _refuse_full_disk(survey, folder)
    known = replace(recipe, categories=survey.layout.categories())
    one = COPIES * 8 * len(survey.fold_weight) * len(survey.layout.slots()) ** 2
    threads = max(1, min(count_threads(), memory // one))
    most = max(1, memory // (threads * one))
    with (
        StatisticsFolder(folder, survey, recipe.folds) as out,
        # Many small products: threads of our own do better than those of BLAS.
        threadpool_limits(1 if threads > 1 else None, user_api="blas"),
        ThreadPoolExecutor(threads, "priormtl-sum") as pool,
    ):
        shards = _Shards(known, heaps, survey, out)
        jobs = [pool.submit(shards.sum_up, *item, most) for item in heaps.tasks()]
        try:
            for job in jobs:
                job.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        out.finish(survey.layout.encoding(recipe))


def _refuse_full_disk(survey: Survey, folder: Path) -> None:
    """Say before the work that its result has no place."""
    d, m, k = len(survey.layout.features()), len(survey.tasks), len(survey.fold_weight)
    needed, free = 8 * k * m * d * d, shutil.disk_usage(folder).free
    if needed > free:
        folds = f" x {k} folds" if k > 1 else ""
        raise OSError(
            errno.ENOSPC,
            f"statistics of {m} tasks x {d}² x 8 bytes{folds} take {needed / 1e9:.3g} "
            f"GB, {free / 1e9:.3g} GB are free; name a folder on a larger disk",
            str(folder.parent),
        )


@dataclass(frozen=True, eq=False)
class _Shards:
    """Tasks of one heap after the other, as statistics at their places."""

    recipe: Recipe
    heaps: Heaps
    survey: Survey
    out: StatisticsFolder

    @cached_property
    def place(self) -> dict[Hashable, int]:
        """Place of each task among all."""
        return {task: i for i, task in enumerate(self.survey.tasks)}

    def sum_up(self, heap: int, tasks: list[Hashable], most: int) -> None:
        """Statistics of the tasks of a heap, so many at a time."""
        for start in range(0, len(tasks), most):
            self._sum_shard(heap, tasks[start : start + most])
        self.heaps.drop(heap)

    def _sum_shard(self, heap: int, tasks: list[Hashable]) -> None:
        partial = accumulate_batches(self.recipe, self.heaps.rows(heap, tasks))
        if partial is None:
            raise AssertionError("every heap has rows")
        filled = partial.refill(self.survey.layout, self.survey.centre())
        places = np.array([self.place[task] for task in filled.tasks])
        self.out.write(places, filled.without_marks())
