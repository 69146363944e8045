"""One pass over a Spark table, done by its executors.

Every partition becomes serialised partial statistics; executors merge about eight at a
time until one is left, which alone is sent to the driver. It is one job of pure steps:
if Spark retries a task, or runs it twice at once, it keeps one of the equal results, so
that no row counts twice. What Spark reports on many lines, in two languages, becomes
one sentence.
"""

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from priormtl.data import check_min_rows
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
from priormtl.exceptions import DataFileError, ModelFileError

# Partitions after each round of merges. Each number divides the one before, so that
# what was merged in eight places comes together in one.
LEVELS = (64, 8, 1)
LARGEST = 2**31 - 2**16  # bytes of a Spark value, with room for what surrounds it
# File and reason, as Spark 4 reports them, then as 3.5 does.
FILES = (
    re.compile(r"rror while reading file (\S+?)\.?\s+(.*?)\s*(?:SQLSTATE|\n)"),
    re.compile(r"(\S+) (is not a Parquet file)\b"),
    re.compile(r"File (\S+) (does not exist)\b"),
    re.compile(r"cannot be converted in file (\S+?)\.\s+(Column: .+)"),
)

Frame: TypeAlias = Any  # of Spark, which is not installed where types are checked
Step = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def summarize(
    table: Frame,
    schema: Schema | None = None,
    *,
    where: Any = None,
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
    try:
        import pyspark  # noqa: F401, PLC0415
    except ImportError:
        raise ImportError(
            "priormtl.engines.spark needs pyspark: pip install 'priormtl[spark]'",
            name="pyspark",
        ) from None
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
        return table.mapInArrow(step, "number int, content binary")


# Steps that executors do.


def summarize_partition(
    schema: Schema, names: Sequence[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext  # noqa: PLC0415

    context = TaskContext.get()
    number = 0 if context is None else int(context.partitionId())
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
    return pa.RecordBatch.from_arrays(
        [pa.array([number], pa.int32()), pa.array([content], pa.binary())],
        schema=pa.schema([("number", pa.int32()), ("content", pa.binary())]),
    )


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
