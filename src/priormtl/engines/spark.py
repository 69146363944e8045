"""One pass over a Spark table, done by its executors.

Every partition becomes serialised partial statistics; executors merge about eight at a
time until one is left, which alone is sent to the driver. It is one job of pure steps:
if Spark retries a task, or runs it twice at once, it keeps one of the equal results, so
that no row counts twice. What Spark reports on many lines, in two languages, becomes
one sentence.
"""

import gc
import os
import pickle
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa

from priormtl.data import Block, Sums, add_sums, check_min_rows, find_task_columns
from priormtl.engines.batches import (
    Partial,
    Summary,
    accumulate_batches,
    from_bytes,
    to_bytes,
)
from priormtl.engines.dask import naming_partition
from priormtl.engines.files import shorten
from priormtl.engines.schema import Schema
from priormtl.engines.task_blocks import (
    TASK,
    CoefFolder,
    Estimator,
    Learned,
    Recipe,
    Write,
    add_part,
    fit_parts,
    join_all,
    map_part,
    read_layout,
    some_sums,
)
from priormtl.exceptions import DataFileError, ModelFileError

# Partitions after each round of merges. Each number divides the one before, so that
# what was merged in eight places comes together in one.
LEVELS = (64, 8, 1)
# Types of columns that hold numbers, as Spark names them.
NUMBERS = re.compile(r"(tinyint|smallint|int|bigint|float|double|boolean)$")
LARGEST = 2**31 - 2**16  # bytes of a Spark value, with room for what surrounds it
# File and reason, as Spark 4 reports them, then as 3.5 does.
FILES = (
    re.compile(r"rror while reading file (\S+?)\.?\s+(.*?)\s*(?:SQLSTATE|\n)"),
    re.compile(r"(\S+) (is not a Parquet file)\b"),
    re.compile(r"File (\S+) (does not exist)\b"),
    re.compile(r"cannot be converted in file (\S+?)\.\s+(Column: .+)"),
)

Frame: TypeAlias = Any  # of Spark, which is not installed where types are checked
Item = TypeVar("Item")
Step = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def summarize(
    table: Frame,
    schema: Schema | None = None,
    *,
    where: object = None,
    min_rows: int = 1,
    **columns: Any,
) -> Summary:
    """Compute statistics of a Spark table of any size.

    Executors hold statistics and the batches of rows that they are working on. The
    driver receives one object. The executors need the same version of priormtl: install
    it there, or send a packed environment with ``--archives``.

    Parameters
    ----------
    table : pyspark.sql.DataFrame
        Only the columns in use are read. Results do not depend on the partitioning.
    schema, min_rows, **columns
        See :func:`priormtl.engines.summarize`.
    where : str or pyspark.sql.Column, optional
        Condition that selects rows, as in ``table.filter``. Spark reads no other rows
        if the source supports that.

    Returns
    -------
    Summary
        See :func:`priormtl.engines.summarize`.

    Notes
    -----
    Spark sends values of less than 2 GB, and at most ``spark.driver.maxResultSize`` to
    the driver. For larger statistics, select some tasks at a time with ``where`` and
    add the results. If a column is missing in a file, Spark returns missing values.
    Spark 3.5 limits the size of batches only by their number of rows: for large
    statistics and many partitions, lower
    ``spark.sql.execution.arrow.maxRecordsPerBatch``.

    Examples
    --------
    >>> from pyspark.sql import SparkSession  # doctest: +SKIP
    >>> from priormtl.engines.spark import summarize
    >>> session = SparkSession.builder.getOrCreate()  # doctest: +SKIP
    >>> table = session.read.parquet("rows")  # doctest: +SKIP
    >>> summarize(table, task="school", target="y").whole  # doctest: +SKIP
    TaskStatistics(139 tasks, 28 features, weight 15362)
    """
    check_min_rows(min_rows)
    schema = Schema.of(schema, **columns)
    _need_pyspark()
    narrow = _narrow(schema, where, table)
    names = list(schema.used_columns(table.columns))
    # A tree of steps, from the partitions to one row.
    tree = _map(narrow, partial(summarize_partition, schema, names))
    for count in LEVELS:
        groups = tree.repartition(count, "number").sortWithinPartitions("number")
        tree = _map(groups, merge_partitions)
    with plain_errors():
        rows = tree.collect()
    if not rows:
        raise ValueError("there must be rows to learn from: the table has none.")
    return from_bytes(bytes(rows[0]["content"])).finish(schema).without_small(min_rows)


def _narrow(schema: Schema, where: Frame, table: Frame) -> Frame:
    if not hasattr(table, "mapInArrow"):
        raise ValueError(
            f"table must be a Spark data frame: got {type(table).__name__}."
        )
    kept = table
    if where is not None:
        with _analysing("where cannot be used on these columns"):
            kept = table.filter(where)
    # Columns get names that Spark can map over, which those with dots are not.
    names = schema.used_columns(table.columns)
    quoted = [f"`{name.replace('`', '``')}`" for name in names]
    with _analysing("the columns of table cannot be read"):
        return kept.selectExpr(*(f"{name} AS c{i}" for i, name in enumerate(quoted)))


def _map(table: Frame, step: Step) -> Frame:
    with warnings.catch_warnings():
        # Spark checks for pandas here, which has no part in it; Spark 3.5 asks
        # distutils for its version.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        warnings.simplefilter("ignore", DeprecationWarning)
        return table.mapInArrow(partial(_run, step), "number int, content binary")


def _run(step: Step, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A step of an executor, whose modules the collector of garbage leaves alone.

    Spark collects after every step, which takes 70 ms with our modules loaded.
    """
    gc.freeze()
    yield from step(batches)


# Fits of tasks on the executors that hold them.


def fit(
    model: Estimator,
    table: Frame,
    schema: Schema | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    n_parts: int | None = None,
    min_rows: int = 1,
    **columns: Any,
) -> Learned:
    """Fit many tasks to a Spark table, whose rows stay on the executors.

    Rows are repartitioned by task once, and become blocks of tasks that executors keep
    (in memory, or on their disks). Then every step of the fit is one job, which sends
    sums of d × d numbers to the driver; what a lost executor held is made again.

    Parameters
    ----------
    table : pyspark.sql.DataFrame
        Results do not depend on the partitioning.
    n_parts : int, optional
        Parts into which tasks are divided; by default ``spark.sql.shuffle.partitions``.
    model, schema, out, min_rows, **columns
        See :func:`priormtl.engines.dask.fit`.

    Returns
    -------
    PartitionedFit
        See :func:`priormtl.engines.dask.fit`.
    """
    _need_pyspark()

    @contextmanager
    def bring(recipe: Recipe) -> Iterator[tuple[SparkTasks, Recipe]]:
        narrow = _narrow(recipe.schema, None, table)
        recipe, names = recipe.on(table.columns)
        types = dict(table.dtypes)
        if not all(NUMBERS.match(types[name]) for name in recipe.features):
            step = partial(_layouts_of, recipe.schema, names)
            layouts = map(pickle.loads, _collect(_map(narrow, step)))
            recipe = recipe._replace(layout=join_all(layouts))
        own = find_task_columns(recipe.schema.task, names)
        columns = [f"c{names.index(name)}" for name in own]
        divided = narrow.repartition(*([n_parts] if n_parts else []), *columns)
        tasks = SparkTasks.keep(_map(divided, partial(_blocks_of, recipe, names)))
        try:
            yield tasks, recipe
        finally:
            tasks.release()

    return fit_parts(model, Schema.of(schema, **columns), bring, out, min_rows)


def predict(folder: str | os.PathLike[str], table: Frame) -> Frame:
    """Predict the rows of a Spark table by a join with coefficients that were written.

    See :func:`priormtl.engines.dask.predict`, which does the same for Dask.
    """
    _need_pyspark()
    from pyspark.sql.types import DoubleType, StructField, StructType  # noqa: PLC0415

    known = CoefFolder.open(folder)
    task, renamed = str(known.design.task), known.renamed()
    coefs = table.sparkSession.read.parquet(*known.files())
    # Names that Spark can map over; "\0" is none of them.
    plain = {name: f"coef_{k}_" for k, name in enumerate(renamed)}
    quoted = {name: f"`{name.replace('`', '``')}`" for name in (TASK, *renamed)}
    coefs = coefs.selectExpr(
        f"{quoted[TASK]} AS coef_task_",
        *(f"{quoted[name]} AS {short}" for name, short in plain.items()),
    )
    joined = table.join(coefs, table[task] == coefs["coef_task_"], "left")
    joined = joined.drop("coef_task_")
    fields = [*table.schema.fields, StructField("prediction", DoubleType())]
    back = {short: renamed[name] for name, short in plain.items()}
    step = partial(_predictions, known, list(table.columns), back)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return joined.mapInArrow(step, StructType(fields))


class SparkTasks(NamedTuple):
    """Blocks of tasks that executors keep, a row for each."""

    blocks: Frame  # number of the part, and blocks as bytes
    kept: list[Frame]  # what must be released

    @classmethod
    def keep(cls, blocks: Frame, kept: list[Frame] | None = None) -> "SparkTasks":
        """Blocks, computed once and kept."""
        from pyspark import StorageLevel  # noqa: PLC0415

        blocks = blocks.persist(StorageLevel.MEMORY_AND_DISK)
        return cls(blocks, [*(kept or []), blocks])

    @property
    def wave(self) -> Frame:
        """The same, a task for each core: one of Spark's takes 30 ms, with no rows."""
        cores = self.blocks.sparkSession.sparkContext.defaultParallelism
        return self.blocks.coalesce(cores)

    def add(self, step: Callable[[Block], Sums]) -> Sums:
        # A few kilobytes from each task: rounds of merges would take longer.
        rows = _collect(_map(self.wave, partial(_add_blocks, step)))
        return some_sums(add_sums(map(pickle.loads, rows)))

    def collect(self, step: Callable[[Block], Item]) -> list[Item]:
        rows = _collect(_map(self.wave, partial(_map_blocks, step)))
        return [pickle.loads(row) for row in rows]

    def mapped(self, step: Callable[[Block], Block]) -> "SparkTasks":
        return SparkTasks.keep(_map(self.blocks, partial(_map_blocks, step)), self.kept)

    def write(self, step: Write) -> None:
        _collect(_map(self.blocks, partial(_write_blocks, step)))

    def release(self) -> None:
        """Let executors forget the blocks."""
        for blocks in self.kept:
            blocks.unpersist()
        self.kept.clear()


def _collect(table: Frame) -> list[bytes]:
    """Contents of all rows, in the order of their parts."""
    with plain_errors():
        rows = table.collect()
    return [
        bytes(row["content"]) for row in sorted(rows, key=lambda row: row["number"])
    ]


def _need_pyspark() -> None:
    try:
        import pyspark  # noqa: F401, PLC0415
    except ImportError:
        raise ImportError(
            "priormtl.engines.spark needs pyspark: pip install 'priormtl[spark]'",
            name="pyspark",
        ) from None


def _part() -> int:
    """Number of the part that this executor works on."""
    from pyspark import TaskContext  # noqa: PLC0415

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def _row(content: bytes, number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [pa.array([number], pa.int32()), pa.array([content], pa.binary())],
        schema=pa.schema([("number", pa.int32()), ("content", pa.binary())]),
    )


def _contents(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    for batch in batches:
        for cell in batch.column(1):
            yield pickle.loads(cell.as_buffer())


def _layouts_of(
    schema: Schema, names: Sequence[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    layouts = []
    with naming_partition(f"partition {_part()}"):
        for batch in batches:
            table = pa.Table.from_batches([batch]).rename_columns(names)
            layouts.append(read_layout(schema, table))
        if any(layout is not None for layout in layouts):
            yield _row(pickle.dumps(join_all(layouts)), _part())


def _blocks_of(
    recipe: Recipe, names: Sequence[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    tables = [pa.Table.from_batches([batch]).rename_columns(names) for batch in batches]
    if tables:
        with naming_partition("a part of the tasks"):
            blocks = recipe.blocks(pa.concat_tables(tables))
        for block in blocks:
            yield _row(pickle.dumps(block, protocol=5), _part())


def _add_blocks(
    step: Callable[[Block], Sums], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    sums = add_part(step, _contents(batches))
    if sums:
        yield _row(pickle.dumps(sums, protocol=5), _part())


def _map_blocks(
    step: Callable[[Block], Any], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for item in map_part(step, _contents(batches)):
        yield _row(pickle.dumps(item, protocol=5), _part())


def _write_blocks(
    step: Write, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    count = step(f"part-{_part():05d}.parquet", _contents(batches))
    yield _row(pickle.dumps(count), _part())


def _predictions(
    known: CoefFolder,
    names: list[str],
    back: dict[str, str],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        table = pa.Table.from_batches([batch])
        renamed = [back.get(name, name) for name in table.column_names]
        found = known.predict(table.rename_columns(renamed))
        rows = table.select(names).append_column("prediction", pa.array(found))
        yield from rows.to_batches()


# Steps that executors do.


def summarize_partition(
    schema: Schema, names: Sequence[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    number = _part()
    tables = (pa.Table.from_batches([b]).rename_columns(names) for b in batches)
    with naming_partition(f"partition {number}"):
        total = accumulate_batches(schema, tables)
    if total is not None:
        yield _as_row(number, total)


def merge_partitions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge all rows into one, of which one is held at a time."""
    first, total = None, None
    for batch in batches:
        for cell, content in zip(batch.column(0), batch.column(1), strict=True):
            number, part = cell.as_py(), from_bytes(content.as_py())
            with naming_partition(f"partitions up to {number} do not fit together"):
                total = part if total is None else total + part
            first = number if first is None else first
    if first is not None and total is not None:
        yield _as_row(first, total)


def _as_row(number: int, total: Partial) -> pa.RecordBatch:
    content = to_bytes(total)
    refuse_large(len(content), total.parts[0].shape)
    return _row(content, number)


def refuse_large(size: int, shape: tuple[int, int]) -> None:
    """Fail if statistics over (d, m) are too large for one Spark value."""
    if size > LARGEST:
        d, m = shape
        raise DataFileError(
            f"statistics of {m} tasks over {d} features must be smaller than "
            f"{LARGEST / 1e9:.2f} GB in Spark: got {size / 1e9:.2f} GB; use fewer "
            "features, or some tasks at a time (where) and add the results."
        )


# Errors.


@contextmanager
def _analysing(problem: str) -> Iterator[None]:
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except PySparkException as error:
        raise ValueError(f"{problem}: {first_line(error)}.") from None


def first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines()] or [""]
    return shorten(lines[0] or type(error).__name__)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Report errors of executors without the traces of two languages."""
    try:
        yield
    except Exception as error:
        plain = _find_plain(str(error))
        if plain is None:
            raise
        raise plain from None


def _find_plain(told: str) -> Exception | None:
    """Our own error on an executor, or one of Spark that users can act on."""
    for kind in (DataFileError, ModelFileError):
        found = re.search(rf"{kind.__name__}: (.+)", told)
        if found:
            return kind(found[1].strip())
    if "No module named 'priormtl'" in told:
        return ImportError(
            "executors of Spark must find priormtl: install it where they run, or "
            "send a packed environment along (--archives).",
            name="priormtl",
        )
    if (limit := "spark.driver.maxResultSize") in told:
        return ValueError(
            f"statistics exceed what Spark sends to the driver: raise {limit} "
            "(0: no limit), or use some tasks at a time (where) and add the results."
        )
    file = next(filter(None, (pattern.search(told) for pattern in FILES)), None)
    if file is None:
        return None
    # If Spark gives no reason, the last cause is it.
    causes = re.findall(r"Caused by: [\w.$]+: (.+)", told)
    reason = file[2] or (causes[-1] if causes else "Spark does not say why")
    return DataFileError(f"{file[1]} cannot be read: {shorten(reason)}.")
