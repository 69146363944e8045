"""summarize: one pass over a table of Spark, done by its executors.

Every partition becomes partial statistics, as bytes; about eight at a time are merged
by the executors until one is left, which alone travels to the driver. It is one job of
pure steps: where a task is tried again, or tried twice at once, Spark keeps one of the
equal results, so that no row counts twice.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa

from priormtl.data import check_min_rows
from priormtl.engines.accumulate import accumulate_batches
from priormtl.engines.partial import Partial, Summary
from priormtl.engines.recipe import Recipe
from priormtl.engines.spark_errors import refuse_large, say_first_line, say_plainly
from priormtl.engines.wire import from_bytes, to_bytes
from priormtl.exceptions import DataFileError

__all__ = ["summarize"]

# Partitions after each round of merges. Each divides the one before, so that what was
# merged in eight places comes together in one.
LEVELS = (64, 8, 1)
FORM = "number int, content binary"
OUT = pa.schema([("number", pa.int32()), ("content", pa.binary())])

Step = Callable[[Iterable[Any]], Iterator[pa.RecordBatch]]


def summarize(
    table: Any,
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
) -> Summary:
    """Statistics of a table of Spark, however large.

    Executors hold batches of the rows that they work on, and statistics; the driver
    receives one object. Python on the executors must find priormtl of this version:
    install it there, or send it along (``--archives`` with a packed environment).

    Parameters
    ----------
    table : pyspark.sql.DataFrame
        Only the columns in use are read. Results do not depend on which rows are in
        which partition.
    where : text or pyspark.sql.Column, optional
        Which rows count, as ``table.filter`` takes it: Spark reads no other ones where
        the source can tell.
    task, target, weight, features, categories, missing, folds, key, seed
        What columns mean; see ``Recipe``.
    min_rows : int
        Tasks with fewer rows are left out, as ``priormtl stats --min-rows`` does; see
        ``Summary.without_small``.

    Returns
    -------
    Summary
        ``whole`` is what ``fit_statistics`` of regressors takes, ``parts`` (with
        ``folds``) what those that search take.

    Notes
    -----
    Spark moves values below 2 GB, and of these to the driver no more than its setting
    ``spark.driver.maxResultSize``: larger statistics are refused; take some tasks at a
    time (``where``) and add the results. Where a file lacks a column, Spark itself
    reads missing values instead. Spark 3.5 cuts pieces by their number of rows alone;
    where statistics are large and partitions many, lower its setting
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
    recipe = Recipe(
        task, target, weight, features, categories, missing, folds, key, seed
    )
    _need_spark()
    narrow = _narrow(recipe, where, table)
    root = _plan(recipe, recipe.used_columns(table.columns), narrow)
    with say_plainly():
        rows = root.collect()
    if not rows:
        raise ValueError("there must be rows to learn from: the table has none.")
    return from_bytes(bytes(rows[0]["content"])).finish(recipe).without_small(min_rows)


def _need_spark() -> None:
    try:
        import pyspark  # noqa: F401, PLC0415
    except ImportError:
        raise ImportError(
            "priormtl.engines.spark needs pyspark: pip install 'priormtl[spark]'",
            name="pyspark",
        ) from None


def _narrow(recipe: Recipe, where: Any, table: Any) -> Any:
    """Rows that count, by the columns in use."""
    if not hasattr(table, "mapInArrow"):
        raise ValueError(
            f"table must be a data frame of Spark: got {type(table).__name__}."
        )
    kept = table
    if where is not None:
        with _asking("where cannot be used on these columns"):
            kept = table.filter(where)
    with _asking("table cannot be read by its columns"):
        return kept.selectExpr(*_number_columns(recipe.used_columns(table.columns)))


def _number_columns(names: Sequence[str]) -> list[str]:
    """Columns under names that Spark can map over, which those with dots are not."""
    return [f"{_quote(name)} AS c{i}" for i, name in enumerate(names)]


def _quote(name: str) -> str:
    """Name of a column as Spark reads it, also with dots and spaces."""
    return f"`{name.replace('`', '``')}`"


@contextmanager
def _asking(problem: str) -> Iterator[None]:
    """Say what Spark's analysis refused."""
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except PySparkException as error:
        raise ValueError(f"{problem}: {say_first_line(error)}.") from None


def _plan(recipe: Recipe, names: Sequence[str], table: Any) -> Any:
    """Tree of steps, from the partitions to one row."""
    tree = _map(table, partial(summarize_partition, recipe, list(names)))
    for count in LEVELS:
        groups = tree.repartition(count, "number").sortWithinPartitions("number")
        tree = _map(groups, merge_partitions)
    return tree


def _map(table: Any, step: Step) -> Any:
    with warnings.catch_warnings():
        # Spark asks for pandas here, which has no part in it; 3.5 asks distutils how
        # old it is.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        warnings.simplefilter("ignore", DeprecationWarning)
        return table.mapInArrow(step, FORM)


def summarize_partition(
    recipe: Recipe, names: Sequence[str], batches: Iterable[Any]
) -> Iterator[pa.RecordBatch]:
    """Map step, done by an executor; nothing where there are no rows."""
    number = _number()
    tables = (pa.Table.from_batches([b]).rename_columns(names) for b in batches)
    with _naming(f"partition {number}"):
        total = accumulate_batches(recipe, tables)
    if total is not None:
        yield _as_row(number, total)


def merge_partitions(batches: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    """Merge step, done by an executor: one row from all, one held at a time."""
    first, total = None, None
    for number, content in _each_row(batches):
        part = from_bytes(content)
        with _naming(f"partitions up to {number} do not go together"):
            total = part if total is None else total + part
        first = number if first is None else first
    if first is not None and total is not None:
        yield _as_row(first, total)


def _number() -> int:
    """Number of the partition that this executor works on."""
    from pyspark import TaskContext  # noqa: PLC0415

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def _each_row(batches: Iterable[Any]) -> Iterator[tuple[int, bytes]]:
    for batch in batches:
        numbers, contents = batch.column(0), batch.column(1)
        for i in range(batch.num_rows):
            yield numbers[i].as_py(), contents[i].as_py()


def _as_row(number: int, total: Partial) -> pa.RecordBatch:
    content = to_bytes(total)
    refuse_large(len(content), total.parts[0].shape)
    return pa.RecordBatch.from_arrays(
        [pa.array([number], pa.int32()), pa.array([content], pa.binary())],
        schema=OUT,
    )


@contextmanager
def _naming(place: str) -> Iterator[None]:
    """Say on one line in which partition something is wrong."""
    try:
        yield
    except (pa.ArrowException, TypeError) as error:
        raise DataFileError(
            f"{place} cannot be read: {say_first_line(error)}."
        ) from None
    except ValueError as error:
        raise DataFileError(f"{place}: {' '.join(str(error).split())}") from None
