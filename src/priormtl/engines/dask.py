"""One pass over partitions that Dask holds, done where they are.

Every partition becomes serialised partial statistics; workers merge those of
neighbours, a few at a time, until one is left, which alone is sent to the client. All
steps are pure, and each result replaces an equal one: what a lost worker had done is
done again elsewhere and never counts twice. Errors name the partition and, where it is
known, its file.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa
from threadpoolctl import threadpool_limits

from priormtl.data import Block, Sums, add_sums, check_min_rows, find_task_columns
from priormtl.design import as_frame
from priormtl.engines.batches import Summary, from_bytes, summarize_rows, to_bytes
from priormtl.engines.files import shorten
from priormtl.engines.schema import Layout, Schema
from priormtl.engines.sources import read_filter
from priormtl.engines.task_blocks import (
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
from priormtl.exceptions import DataFileError

FAN_IN = 8  # statistics that are merged at a time
WAITING = (
    "client must wait for results: got an asynchronous one; create another client of "
    "the same scheduler, Client(address), and call summarize in a thread of its own "
    "(asyncio.to_thread)."
)

Lazy: TypeAlias = Any  # an object of Dask, which has no types
Compute = Callable[[Lazy], Any]
Item = TypeVar("Item")


class Span(NamedTuple):
    """Consecutive partitions, by number."""

    first: int
    last: int

    def __str__(self) -> str:
        if self.first == self.last:
            return f"partition {self.first}"
        return f"partitions {self.first} to {self.last}"


def summarize(
    table: Any,
    schema: Schema | None = None,
    *,
    where: Any = None,
    min_rows: int = 1,
    client: Any = None,
    **columns: Any,
) -> Summary:
    """Compute statistics of a Dask table of any size.

    Workers hold statistics and the partitions that they are working on. The client
    receives one object.

    Parameters
    ----------
    table : dask.dataframe.DataFrame, or list of partitions
        Partitions are delayed or future tables of pandas, polars or Arrow, or such
        tables themselves if they are small. Results do not depend on the partitioning.
    schema, min_rows, **columns
        See :func:`priormtl.engines.summarize`.
    where : str or pyarrow expression, optional
        Condition that selects rows; see ``open_source``. To let Dask skip other rows
        while reading, filter the data frame instead.
    client : distributed.Client, optional
        Synchronous client of the cluster to use. By default, the current client is
        used, or threads of this process if there is none.

    Returns
    -------
    Summary
        See :func:`priormtl.engines.summarize`.

    Examples
    --------
    >>> import pandas as pd
    >>> import dask.dataframe as dd
    >>> from priormtl.engines.dask import summarize
    >>> rows = pd.DataFrame({"x": [1.0, 3.0], "y": [0.0, 1.0], "school": ["u", "u"]})
    >>> table = dd.from_pandas(rows, npartitions=2)
    >>> summarize(table, task="school", target="y").whole
    TaskStatistics(1 tasks, 1 features, weight 2)
    """
    check_min_rows(min_rows)
    schema = Schema.of(schema, **columns)
    delayed = _delayed()
    if getattr(client, "asynchronous", False):
        raise ValueError(WAITING)
    parts, names = _split(schema, where, table, delayed)
    compute = _compute_here if client is None else partial(client.compute, sync=True)
    # A tree of steps, from the partitions to one object.
    leaf = delayed(partial(summarize_partition, schema, where), pure=True)
    merge = delayed(merge_partitions, pure=True)
    nodes = [(Span(i, i), leaf(names, i, part)) for i, part in enumerate(parts)]
    while len(nodes) > 1:
        groups = [nodes[i : i + FAN_IN] for i in range(0, len(nodes), FAN_IN)]
        nodes = []
        for group in groups:
            spans, contents = zip(*group, strict=True)
            joined = Span(spans[0].first, spans[-1].last)
            several = len(group) > 1
            step = merge(list(spans), *contents) if several else contents[0]
            nodes.append((joined, step))
    try:
        content = compute(nodes[0][1])
    except DataFileError:
        raise
    except (
        ArithmeticError,
        AttributeError,
        FileNotFoundError,
        LookupError,
        TypeError,
        ValueError,
    ):
        # Partitions fail with these errors, clusters do not: Dask itself failed to
        # make one, and does not say which.
        _name_failing(parts, delayed, compute)
        raise
    return from_bytes(content).finish(schema).without_small(min_rows)


def _delayed() -> Lazy:
    try:
        from dask import delayed  # noqa: PLC0415
    except ImportError:
        raise ImportError(
            "priormtl.engines.dask needs dask: pip install 'priormtl[dask]'",
            name="dask",
        ) from None
    return delayed


def _compute_here(step: Lazy) -> Lazy:
    # Threads of Dask are faster than those of BLAS, and slower with them.
    with threadpool_limits(1, user_api="blas"):
        try:
            return step.compute()
        except RuntimeError as error:
            if "asynchronous Client" in str(error):  # the current one
                raise ValueError(WAITING) from None
            raise


def _split(
    schema: Schema, where: Lazy, table: Lazy, delayed: Lazy
) -> tuple[list[Lazy], Lazy]:
    if hasattr(table, "to_delayed") and hasattr(table, "columns"):
        columns = _check_names(table.columns)
        used = schema.used_columns(columns)
        if isinstance(where, str):
            read_filter(where, columns)
        if where is None:  # else the filter may use other columns
            columns = list(used)
        # Simplified, so that files are read by these columns only. Optimised further,
        # partitions would be fused and have other numbers.
        narrow = table[columns].simplify()
        return list(narrow.to_delayed(optimize_graph=False)), columns
    if not isinstance(table, Sequence) or not table:
        kind = type(table).__name__
        raise ValueError(
            "table must be a Dask data frame or a list of partitions: got "
            f"{f'an empty {kind}' if isinstance(table, Sequence) else kind}."
        )
    if schema.features is not None:
        return list(table), None
    return list(table), delayed(name_columns, pure=True)(table[0])


# Fits of tasks on the workers that hold them.


def fit(
    model: Estimator,
    table: Any,
    schema: Schema | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    n_parts: int | None = None,
    min_rows: int = 1,
    client: Any = None,
    **columns: Any,
) -> Learned:
    """Fit many tasks to a Dask table, whose rows stay on the workers.

    Rows are shuffled by task once, and become blocks of tasks that workers keep. Then
    every step of the fit is one pass over them, which sends sums of d × d numbers to
    the client; what a lost worker held is made again from the table.

    Parameters
    ----------
    model : MultiTaskRegressor or MultiTaskClassifier
        With ``task_prior="mean"`` (or None and ``lam`` above zero). It is fitted,
        unless ``out`` is given. Targets of classifiers are 0 and 1.
    table : dask.dataframe.DataFrame
        Results do not depend on the partitioning.
    schema, min_rows, **columns
        See :func:`priormtl.engines.summarize`.
    out : path, optional
        New or empty folder that workers reach under the same path. Coefficients are
        written there as Parquet files instead of being collected: a column of tasks,
        the intercept, and a column per feature. See :func:`predict`.
    n_parts : int, optional
        Parts into which tasks are divided; by default as many as partitions.
    client : distributed.Client, optional
        See :func:`summarize`.

    Returns
    -------
    PartitionedFit
        What tasks share, how they deviate from it, objective and duality gap.

    Examples
    --------
    >>> import pandas as pd
    >>> import dask.dataframe as dd
    >>> from priormtl import MultiTaskRegressor
    >>> from priormtl.engines import dask
    >>> x, shop = [1.0, 3.0, 2.0, 5.0], ["u", "u", "v", "v"]
    >>> rows = pd.DataFrame({"x": x, "y": [2.0, 6.0, 6.0, 15.0], "shop": shop})
    >>> table = dd.from_pandas(rows, npartitions=2)
    >>> model = MultiTaskRegressor(0.0, task_prior="mean", fit_intercept=False)
    >>> found = dask.fit(model, table, task="shop", target="y")
    >>> model.coef_.round(1).tolist(), found.shared_coef.round(1).tolist()
    ([[2.0], [3.0]], [2.5])
    """
    delayed = _delayed()
    if getattr(client, "asynchronous", False):
        raise ValueError(WAITING)
    if not hasattr(table, "shuffle") or not hasattr(table, "columns"):
        raise ValueError(
            f"table must be a Dask data frame: got {type(table).__name__}."
        )
    compute = _compute_here if client is None else partial(client.compute, sync=True)

    @contextmanager
    def bring(recipe: Recipe) -> Iterator[tuple[DaskTasks, Recipe]]:
        recipe, names = recipe.on(_check_names(table.columns))
        narrow = table[names]
        if not all(kind.kind in "iufb" for kind in table.dtypes[recipe.features]):
            step = delayed(partial(_layout_of, recipe.schema), pure=True)
            parts = narrow.to_delayed(optimize_graph=False)
            layouts = compute(delayed(list)([step(part) for part in parts]))
            recipe = recipe._replace(layout=join_all(layouts))
        own = list(find_task_columns(recipe.schema.task, names))
        shuffled = narrow.shuffle(on=own, npartitions=n_parts or narrow.npartitions)
        make = delayed(partial(_blocks_of, recipe), pure=True)
        blocks = [make(part) for part in shuffled.to_delayed()]
        yield DaskTasks(tuple(_persist(blocks, client)), compute, client), recipe

    return fit_parts(model, Schema.of(schema, **columns), bring, out, min_rows)


def predict(folder: str | os.PathLike[str], table: Any) -> Any:
    """Predict the rows of a Dask table by a join with coefficients that were written.

    Parameters
    ----------
    folder : path
        What :func:`fit` has written (``out``).
    table : dask.dataframe.DataFrame
        Rows, with the columns of tasks and features. Rows of unseen tasks get what
        tasks share.

    Returns
    -------
    dask.dataframe.DataFrame
        The table with a column "prediction": expected targets, or probabilities of
        class 1. Rows are in another order.
    """
    import dask.dataframe as frames  # noqa: PLC0415

    known = CoefFolder.open(folder)
    task = str(known.design.task)
    coefs = frames.from_map(partial(_read_coefs, known, task), known.files())
    joined = table.merge(coefs, on=task, how="left")
    meta = table._meta.assign(prediction=0.0)
    return joined.map_partitions(
        partial(_predicted, known, list(table.columns)), meta=meta
    )


class DaskTasks(NamedTuple):
    """Blocks of tasks that workers hold, by part of the tasks."""

    parts: tuple[Lazy, ...]  # of lists of blocks
    compute: Compute
    client: Lazy

    def add(self, step: Callable[[Block], Sums]) -> Sums:
        nodes, merge = self._each(add_part, step), _delayed()(add_sums, pure=False)
        while len(nodes) > 1:
            groups = [nodes[i : i + FAN_IN] for i in range(0, len(nodes), FAN_IN)]
            nodes = [merge(group) for group in groups]
        return some_sums(self.compute(nodes[0]))

    def collect(self, step: Callable[[Block], Item]) -> list[Item]:
        parts = self.compute(_delayed()(list)(self._each(_map_blocks, step)))
        return [item for part in parts for item in part]

    def mapped(self, step: Callable[[Block], Block]) -> "DaskTasks":
        parts = _persist(self._each(_map_blocks, step), self.client)
        return self._replace(parts=tuple(parts))

    def write(self, step: Write) -> None:
        one = _delayed()(step, pure=False)
        names = (f"part-{number:05d}.parquet" for number in range(len(self.parts)))
        written = list(map(one, names, self.parts))
        self.compute(_delayed()(sum)(written))

    def _each(self, take: Callable[..., Any], step: Callable[[Block], Any]) -> Lazy:
        one = _delayed()(take, pure=False)
        return [one(step, part) for part in self.parts]


def _persist(nodes: list[Lazy], client: Lazy) -> Sequence[Lazy]:
    """The same, computed and kept by the workers."""
    from dask import persist  # noqa: PLC0415

    if client is not None:
        kept: Sequence[Lazy] = client.persist(nodes)
        return kept
    with threadpool_limits(1, user_api="blas"):
        return persist(*nodes)


def _layout_of(schema: Schema, rows: object) -> Layout | None:
    return read_layout(schema, _to_frame(rows).to_arrow())


def _blocks_of(recipe: Recipe, rows: object) -> list[Block]:
    with naming_partition("a part of the tasks"):
        return recipe.blocks(_to_frame(rows).to_arrow())


def _map_blocks(step: Callable[[Block], Item], blocks: list[Block]) -> list[Item]:
    return list(map_part(step, blocks))


def _read_coefs(known: CoefFolder, task: str, file: str) -> Lazy:
    return known.read(file, task).to_pandas()


def _predicted(known: CoefFolder, names: list[str], rows: Lazy) -> Lazy:
    return rows[names].assign(prediction=known.predict(rows))


# Steps that workers do.


def name_columns(rows: object) -> list[str]:
    with naming_partition("partition 0"):
        return _check_names(_to_frame(rows).columns)


def summarize_partition(
    schema: Schema,
    where: object,
    columns: Sequence[str] | None,
    number: int,
    rows: object,
) -> bytes:
    with naming_partition(f"partition {number}"):
        frame = _to_frame(rows)
        names = _check_names(frame.columns)
        expected = names if columns is None else columns
        used = list(schema.used_columns(expected))
        lacking = [name for name in used if name not in names]
        others = [name for name in names if name not in expected]
        if lacking or (others and schema.features is None):
            verb = "lacks" if lacking else "also has"
            raise ValueError(
                f"partitions must have the columns of their table: this one {verb} "
                f"{(lacking or others)[:8]}; correct it, leave it out, or name the "
                "features."
            )
        if where is None:
            table = frame.select(used).to_arrow()
        else:
            table = frame.to_arrow()
            if isinstance(where, str):
                where = read_filter(where, names)
            try:
                table = table.filter(where)
            except (pa.ArrowException, TypeError) as error:
                raise ValueError(
                    f"where cannot be used on these columns: {one_line(error)}."
                ) from None
        return to_bytes(summarize_rows(schema, table.select(used)))


def merge_partitions(spans: Sequence[Sequence[int]], *contents: bytes) -> bytes:
    total, done = from_bytes(contents[0]), Span(*spans[0])
    for span, content in zip(spans[1:], contents[1:], strict=True):
        part, new = from_bytes(content), Span(*span)
        with naming_partition(f"{done} and {new} do not fit together"):
            total += part
        done = Span(done.first, new.last)
    return to_bytes(total)


def _to_frame(rows: object) -> Lazy:
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    frame = as_frame(rows)
    if frame is None:
        raise ValueError(
            "a partition must be a table of pandas, polars or Arrow: got "
            f"{type(rows).__name__}."
        )
    return frame


def _check_names(columns: Iterable[object]) -> list[str]:
    names: list[str] = []
    for name in columns:
        if not isinstance(name, str):
            raise ValueError(f"column names must be strings: got {name!r}; rename it.")
        names.append(name)
    return names


# Errors.


@contextmanager
def naming_partition(place: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, TypeError) as error:
        raise DataFileError(f"{place} cannot be read: {one_line(error)}.") from None
    except ValueError as error:
        raise DataFileError(f"{place}: {' '.join(str(error).split())}") from None


def one_line(error: Exception) -> str:
    lines = "\n".join(map(str, error.args)).splitlines()
    told = " ".join(line for line in lines if line.strip("+- "))
    return shorten(told or type(error).__name__)


def _name_failing(parts: Sequence[Lazy], delayed: Lazy, compute: Compute) -> None:
    """Fail with the number of the first partition that cannot be made, if any.

    It is found by bisection, so that all workers take part.
    """
    touch = delayed(_touch, pure=True)
    low, high = 0, len(parts)
    while low < high:
        middle = (low + high - 1) // 2
        steps = [touch(part) for part in parts[low : middle + 1]]
        try:
            compute(delayed(_touch)(steps))
        except Exception as error:
            if middle == low:
                raise DataFileError(
                    f"partition {low}{_name_file(parts[low])} cannot be made: "
                    f"{one_line(error)}."
                ) from error
            high = middle + 1
        else:
            low = middle + 1


def _name_file(part: Lazy) -> str:
    """File that a partition comes from, in parentheses, if it is a single one."""
    from dask.optimization import cull  # noqa: PLC0415

    if not hasattr(part, "__dask_graph__"):
        return ""
    steps, _ = cull(dict(part.__dask_graph__()), part.__dask_keys__())
    told = repr([getattr(step, "args", step) for step in steps.values()])
    pattern = r"'([^'\n]+\.(?:parquet|pq|csv|csv\.gz|arrow|feather))'"
    files = set(re.findall(pattern, told))
    return f" ({files.pop()})" if len(files) == 1 else ""


def _touch(_: object) -> None: ...
