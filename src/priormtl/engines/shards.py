"""Statistics larger than memory: ``summarize_sharded`` writes them, a shard at a time.

Rows of all tasks come mixed, so every batch would touch all statistics. Therefore a
first pass partitions the rows by task into buckets, spill files on disk, and surveys
columns, tasks and means on the way. Then one bucket after another is summarised, as
many tasks at a time as memory can hold, and written to its place.

**Spill files** have no names: the system frees them when they are closed or when the
process dies. Each holds pieces of rows as Arrow streams, with their lengths before
them, so that pieces may differ in their types.

**The folder** holds two files. ``xx.npy`` is a NumPy file of the Gram matrices (m, d,
d), tasks in order; with k folds (m, k, d, d), so that the matrices of a task, which are
added up, are adjacent. It is memory-mapped, and only its size is checked: reading all
of it would take as long as a pass over the data. ``statistics`` is a small archive of
everything else, with a digest.
"""

import errno
import os
import shutil
import struct
import tempfile
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import IO, Any, Self

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from priormtl import data
from priormtl._arrays import Array, Index
from priormtl._files import write_folder
from priormtl.archive import Settings, read_archive, write_archive
from priormtl.data.statistics import PLAIN
from priormtl.design import Design
from priormtl.engines import batches
from priormtl.engines.columns import read_tasks
from priormtl.engines.files import naming
from priormtl.engines.parquet import Advance, count_threads, report_bytes
from priormtl.engines.schema import Layout, Schema, Slot, join_layouts
from priormtl.engines.sources import open_source, prefetch
from priormtl.exceptions import DataFileError, ModelFileError

BUCKETS = 64  # per fold
KIND = "sharded statistics"
MATRICES, OTHERS = "xx.npy", "statistics"
LENGTH = struct.Struct("<Q")


def summarize_sharded(
    source: object,
    folder: str | os.PathLike[str],
    schema: Schema | None = None,
    *,
    where: object = None,
    memory: int = 2**30,
    advance: Advance | None = None,
    **columns: Any,
) -> batches.Summary:
    """Compute statistics that need not fit into memory, and write them to disk.

    If they fit into memory, ``summarize`` is faster: m tasks over d features take
    8·m·d² bytes, and k times as many in k folds. Rows are first written to temporary
    files in ``folder`` and then summarised task by task. A failure leaves no partial
    results.

    Parameters
    ----------
    source, schema, where, advance, **columns
        See :func:`summarize`. Folds are the same.
    folder : path
        New or empty folder for the statistics.
    memory : int, default=2**30
        Approximate number of bytes to use, in addition to the memory for reading. With
        more memory, there are fewer and larger steps. Several copies of the statistics
        of one task are always held.

    Returns
    -------
    Summary
        The matrices of ``parts`` are memory-mapped. Those of ``whole`` are their sums,
        which are computed when they are read. ``open_shards`` opens the folder again.
        ``fit_statistics`` of regressors does not load the matrices into memory.

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
    schema = Schema.of(schema, **columns)
    opened = open_source(source, where)
    if isinstance(memory, bool) or not isinstance(memory, int) or memory < 1:
        raise ValueError(f"memory must be an integer number of bytes: got {memory!r}.")
    # Tasks of a bucket are summarised together, so that there are more for more folds.
    # Some systems let a process open 256 files only.
    count = min(BUCKETS * (schema.folds or 1), 192)
    with opened.locating(), write_folder(folder) as place, Spill(place, count) as spill:
        buckets = Buckets(schema, spill)
        used = len(opened.wanted(schema).columns)
        # Rows on their way into buckets take 1/16 of the memory, before copies.
        rows = max(1, memory // 16 // (8 * used))
        pieces = opened.pieces(schema, min(rows, batches.choose_rows(used)))
        with closing(prefetch(pieces)) as coming:
            for group in batches.regroup(report_bytes(coming, advance), lambda: rows):
                table = pa.concat_tables([piece.table for piece in group])
                try:
                    buckets.add(table.combine_chunks())
                except ValueError as error:
                    for piece in group:
                        with naming(piece.file):
                            batches.read_batch(schema, piece.table)
                    raise DataFileError(f"{group[0].file}: {error}") from None
        if buckets.survey is None:
            raise DataFileError(f"{opened.name}: no rows match where.")
        with naming(opened.name):
            batches.refuse_nothing(buckets.survey)
            _write_shards(schema, buckets, buckets.survey, place, memory)
    return open_shards(folder)


def _write_shards(
    schema: Schema, buckets: "Buckets", survey: "Survey", folder: Path, memory: int
) -> None:
    """Summarise all buckets, in threads, as many tasks at a time as memory allows."""
    d, m, k = len(survey.layout.features()), len(survey.tasks), len(survey.fold_weight)
    needed, free = 8 * k * m * d * d, shutil.disk_usage(folder).free
    if needed > free:
        folds = f" x {k} folds" if k > 1 else ""
        raise OSError(
            errno.ENOSPC,
            f"statistics of {m} tasks x {d}² x 8 bytes{folds} take {needed / 1e9:.3g} "
            f"GB, {free / 1e9:.3g} GB are free; choose a folder on a larger disk",
            str(folder.parent),
        )
    known = replace(schema, categories=survey.layout.categories())
    # Sum, part, their sum, and rows of as many cells: five copies.
    one = 5 * 8 * k * len(survey.layout.slots()) ** 2
    threads = max(1, min(count_threads(), memory // one))
    most = max(1, memory // (threads * one))
    position = {task: i for i, task in enumerate(survey.tasks)}
    with (
        StatisticsFolder(folder, survey, schema.folds) as out,
        # For many small products, threads of our own are faster than those of BLAS.
        threadpool_limits(1 if threads > 1 else None, user_api="blas"),
        ThreadPoolExecutor(threads, "priormtl-sum") as pool,
    ):

        def summarize_bucket(bucket: int, tasks: list[Hashable]) -> None:
            for start in range(0, len(tasks), most):
                rows = buckets.rows(bucket, tasks[start : start + most])
                partial = batches.accumulate_batches(known, rows)
                if partial is None:
                    raise AssertionError("every bucket has rows")
                filled = partial.refill(survey.layout, survey.centre())
                places = np.array([position[task] for task in filled.tasks])
                out.write(places, filled.without_indicators())
            buckets.spill.drop(bucket)

        jobs = [pool.submit(summarize_bucket, *item) for item in buckets.tasks()]
        try:
            for job in jobs:
                job.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
        out.finish(survey.layout.design(schema))


# First pass: rows by task into buckets, and a survey of them.


@dataclass(frozen=True, eq=False)
class Survey:
    """Columns, means that fill gaps, and tasks of some rows; surveys add up."""

    layout: Layout
    sums: Mapping[Slot, float]  # weight times value, over the observed values
    observed: Array  # weight of the rows that have a value, for each column
    tasks: tuple[Hashable, ...]  # sorted
    counts: Mapping[Hashable, int]  # rows of each task
    fold_weight: Array  # (k,) weight of the rows of each fold
    rows: int
    dropped: int

    @classmethod
    def of(cls, reading: batches.Reading, n: int, folds: int = 1) -> Self:
        rows, observed = reading.rows, []
        sums: dict[Slot, float] = {}
        names = [column.name for column in reading.layout.columns]
        for name, (values, gaps, labels) in zip(names, reading.features, strict=True):
            weight = rows.weight if gaps is None else np.where(gaps, 0.0, rows.weight)
            observed.append(weight.sum())
            if labels is None:
                sums[Slot(name)] = float(weight @ values)
            else:
                totals = np.bincount(values, weight, len(labels)).tolist()
                # Missing values have code 0, even if there is no label.
                for label, total in zip(labels, totals, strict=False):
                    sums[Slot(name, label)] = total
        counts = dict(zip(rows.tasks, rows.row_counts().tolist(), strict=True))
        held = np.bincount(rows.folds, rows.weight, folds).astype(np.float64)
        layout, seen = reading.layout, np.array(observed)
        return cls(layout, sums, seen, rows.tasks, counts, held, n, reading.dropped)

    def __add__(self, other: "Survey") -> "Survey":
        if not isinstance(other, Survey):
            return NotImplemented
        sums = dict(self.sums)
        for slot, value in other.sums.items():
            sums[slot] = sums.get(slot, 0.0) + value
        return Survey(
            join_layouts(self.layout, other.layout),
            sums,
            self.observed + other.observed,
            data.merge_tasks(self.tasks, other.tasks),
            Counter(self.counts) + Counter(other.counts),
            self.fold_weight + other.fold_weight,
            self.rows + other.rows,
            self.dropped + other.dropped,
        )

    def centre(self) -> Array:
        """Value that fills the gaps of each slot, zero if there are none."""
        slots, found = self.layout.slots(), self.layout.filled()
        centre = np.zeros(len(slots))
        for place, column in zip(found.slots, found.columns, strict=True):
            total = self.observed[column]
            centre[place] = self.sums.get(slots[place], 0.0) / total if total else 0.0
        return centre


class Buckets:
    """Rows by task on disk: tasks are assigned to buckets in turn, as they appear."""

    def __init__(self, schema: Schema, spill: "Spill") -> None:
        self.survey: Survey | None = None  # of all rows so far
        self._schema, self.spill = schema, spill
        self._tasks: list[list[Hashable]] = [[] for _ in range(spill.buckets)]
        self._bucket: dict[Hashable, int] = {}  # of each task

    def add(self, table: pa.Table) -> None:
        reading = batches.read_batch(self._schema, table)
        found = Survey.of(reading, table.num_rows, self._schema.folds or 1)
        self.survey = found if self.survey is None else self.survey + found
        rows = reading.rows
        for task in rows.tasks:
            if task not in self._bucket:
                bucket = self._bucket[task] = len(self._bucket) % self.spill.buckets
                self._tasks[bucket].append(task)
        own = np.array([self._bucket[task] for task in rows.tasks], dtype=np.intp)
        # Rows of a task stay together, whatever their folds.
        by_task = np.argsort(rows.codes, kind="stable")
        self.spill.scatter(table, rows.order[by_task], own[rows.codes[by_task]])

    def tasks(self) -> Iterator[tuple[int, list[Hashable]]]:
        """Buckets that hold rows, and their tasks in order."""
        for bucket, tasks in enumerate(self._tasks):
            if tasks:
                yield bucket, sorted(tasks)  # type: ignore[type-var]

    def rows(self, bucket: int, tasks: Sequence[Hashable]) -> Iterator[pa.Table]:
        """Rows of some tasks of a bucket that follow each other in order."""
        some = len(tasks) < len(self._tasks[bucket])
        wanted, name = set(tasks), self._schema.task
        for table in self.spill.read(bucket):
            if not some:
                yield table
                continue
            codes, _, labels = read_tasks(name, table[name])
            kept = np.array([label in wanted for label in labels or ()])
            rows = np.flatnonzero(kept[codes])
            # They are adjacent: a slice is cheap, filtering many columns is not.
            yield table.slice(rows[0], len(rows)) if len(rows) else table.slice(0, 0)


class Spill:
    """Spill files in a folder, one per bucket."""

    def __init__(self, folder: str | os.PathLike[str], buckets: int) -> None:
        self.folder, self.buckets = Path(folder), buckets
        self.sizes = [0] * buckets  # bytes written
        with ExitStack() as stack:
            self._files: list[IO[bytes]] = [
                stack.enter_context(tempfile.TemporaryFile(dir=folder))
                for _ in range(buckets)
            ]
            self._opened = stack.pop_all()

    def write(self, bucket: int, table: pa.Table) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        content = sink.getvalue()
        try:
            self._files[bucket].write(LENGTH.pack(content.size))
            self._files[bucket].write(content)
        except OSError as error:
            raise OSError(
                error.errno,
                f"rows cannot be written to disk after {sum(self.sizes) / 1e9:.3g} GB: "
                f"{error.strerror}; choose a folder on a larger disk",
                str(self.folder),
            ) from None
        self.sizes[bucket] += LENGTH.size + content.size

    def scatter(self, table: pa.Table, rows: Index, buckets: Index) -> None:
        """Write some rows of a table to their buckets, in the order given."""
        order = np.argsort(buckets, kind="stable")
        ordered, ends = table.take(rows[order]), np.bincount(buckets).cumsum().tolist()
        for bucket, (begin, end) in enumerate(pairwise([0, *ends])):
            if begin < end:
                self.write(bucket, ordered.slice(begin, end - begin))

    def read(self, bucket: int) -> Iterator[pa.Table]:
        file = self._files[bucket]
        file.seek(0)
        while header := file.read(LENGTH.size):
            content = file.read(*LENGTH.unpack(header))
            yield pa.ipc.open_stream(pa.py_buffer(content)).read_all()

    def drop(self, bucket: int) -> None:
        self._files[bucket].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()


# The folder.


class StatisticsFolder:
    """A folder that is filled by some tasks at a time, from any thread."""

    def __init__(self, folder: Path, survey: Survey, folds: int | None = None) -> None:
        self._folder, self._survey, self._folds = folder, survey, folds
        self._features = survey.layout.features()
        m, d, k = len(survey.tasks), len(self._features), folds or 1
        shapes = {"weight": (k, m), "x_mean": (k, m, d), "y_mean": (k, m)}
        shapes |= {"xy": (k, m, d), "yy": (k, m)}
        self._arrays = {name: np.zeros(shape) for name, shape in shapes.items()}
        self._lock = Lock()
        # Written, not mapped: then a full disk is an error and does not kill the
        # process.
        self._file = (folder / MATRICES).open("wb")
        shape = (m, d, d) if folds is None else (m, k, d, d)
        header = {"descr": "<f8", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)
        self._start, self._bytes = self._file.tell(), 8 * k * d * d
        self._file.truncate(self._start + m * self._bytes)

    def write(self, places: Index, parts: Sequence[data.TaskStatistics]) -> None:
        """Write statistics of some tasks, at these positions among all, by fold."""
        for name, array in self._arrays.items():
            array[:, places] = [vars(part)[name] for part in parts]
        grams = [part.gram() for part in parts]
        with self._lock:
            for place, *matrices in zip(places.tolist(), *grams, strict=True):
                self._file.seek(self._start + place * self._bytes)
                for matrix in matrices:
                    self._file.write(np.ascontiguousarray(matrix, "<f8").data)

    def finish(self, design: Design | None = None) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        survey = self._survey
        settings = {
            **data.tasks_to_plain(survey.tasks),
            "features": (design or Design.of_names(self._features)).to_plain(),
            "categories": survey.layout.categories(),
            "rows": survey.rows,
            "dropped": survey.dropped,
            "folds": self._folds,
        }
        counts = np.array([survey.counts[task] for task in survey.tasks], np.int64)
        arrays = self._arrays | {"counts": counts}
        if self._folds is None:
            arrays |= {name: self._arrays[name][0] for name in PLAIN}
        write_archive(self._folder / OTHERS, KIND, settings, arrays)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def open_shards(folder: str | os.PathLike[str]) -> batches.Summary:
    """Open what ``summarize_sharded`` wrote, without reading the matrices.

    Parameters
    ----------
    folder : path
        Folder of statistics. It must not change while they are used.

    Returns
    -------
    Summary
        The matrices of ``parts`` (the folds, or all rows without folds) are
        memory-mapped: they are read when they are needed. Those of ``whole`` are the
        sums of the parts, computed as they are read.
    """
    path = Path(folder)
    if not (path / OTHERS).is_file():
        raise ModelFileError(f"{path} is not a folder of statistics.")
    settings, arrays = read_archive(path / OTHERS, KIND)
    try:
        return _build(settings, arrays, path / MATRICES)
    except (LookupError, TypeError, ValueError, AttributeError, OSError, EOFError):
        raise ModelFileError(
            f"{path} holds damaged or incomplete statistics; make them again."
        ) from None


def _build(
    settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray], matrices: Path
) -> batches.Summary:
    tasks = data.tasks_from_plain(settings)
    features = Design.from_plain(settings["features"])
    xx = np.load(matrices, mmap_mode="r")
    if len(xx) != len(tasks) or not xx.flags.c_contiguous:
        raise ValueError("matrices of another order")
    small = {name: arrays[name] for name in PLAIN}
    folds = settings.get("folds")
    by_fold: list[Settings] = [{**small, "xx": xx}]
    if folds is not None:
        if {xx.shape[1], *map(len, small.values())} != {folds}:
            raise ValueError("other folds")
        by_fold = [
            {name: array[k] for name, array in small.items()} | {"xx": xx[:, k]}
            for k in range(folds)
        ]
    parts = tuple(
        data.TaskStatistics(**own, tasks=tasks, features=features, check=False)
        for own in by_fold
    )
    for part in parts:
        data.check_statistics(part, matrices=False)
    if arrays["counts"].dtype.kind != "i" or np.any(arrays["counts"] < 0):
        raise ValueError("counts must be whole numbers of at least 0")
    counts = dict(zip(tasks, arrays["counts"].tolist(), strict=True))
    categories = {name: tuple(v) for name, v in settings["categories"].items()}
    rows, dropped = int(settings["rows"]), int(settings["dropped"])
    return batches.Summary(parts, categories, counts, rows, dropped)
