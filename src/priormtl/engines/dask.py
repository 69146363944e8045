"""One pass over partitions that Dask holds, done where they are.

Every partition becomes serialised partial statistics; workers merge those of
neighbours, a few at a time, until one is left, which alone is sent to the client. All
steps are pure, and each result replaces an equal one: what a lost worker had done is
done again elsewhere and never counts twice. Errors name the partition and, where it is
known, its file.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from threadpoolctl import threadpool_limits

from priormtl.data import check_min_rows
from priormtl.design import as_frame
from priormtl.engines.batches import Summary, from_bytes, summarize_rows, to_bytes
from priormtl.engines.files import shorten
from priormtl.engines.schema import Schema
from priormtl.engines.sources import read_filter
from priormtl.exceptions import DataFileError

FAN_IN = 8  # statistics that are merged at a time
WAITING = (
    "client must wait for results: got an asynchronous one; create another client of "
    "the same scheduler, Client(address), and call summarize in a thread of its own "
    "(asyncio.to_thread)."
)

Lazy: TypeAlias = Any  # an object of Dask, which has no types
Compute = Callable[[Lazy], Any]


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
    try:
        from dask import delayed  # noqa: PLC0415
    except ImportError:
        raise ImportError(
            "priormtl.engines.dask needs dask: pip install 'priormtl[dask]'",
            name="dask",
        ) from None
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
