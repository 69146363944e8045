"""summarize: one pass over partitions that Dask holds, done where they are.

Every partition becomes partial statistics, as bytes; those of neighbours are merged by
the workers, a few at a time, until one is left, which alone travels to the client. All
steps are pure, and each result replaces an equal one: what a lost worker had done is
done again elsewhere and never counts twice.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from threadpoolctl import threadpool_limits

from priormtl.data import check_min_rows
from priormtl.engines.filters import read_filter
from priormtl.engines.partial import Summary
from priormtl.engines.partitions import (
    Span,
    merge_partitions,
    name_all,
    name_columns,
    say_error,
    summarize_partition,
)
from priormtl.engines.recipe import Recipe
from priormtl.engines.wire import from_bytes
from priormtl.exceptions import DataFileError

__all__ = ["summarize"]

FAN_IN = 8  # statistics that are merged at a time
WAITING = (
    "client must wait for results: got an asynchronous one; make another to the same "
    "scheduler, Client(address), and call summarize in a thread of its own "
    "(asyncio.to_thread)."
)
# What partitions may fail with, but no cluster does.
UNMADE = (
    ArithmeticError,
    AttributeError,
    FileNotFoundError,
    LookupError,
    TypeError,
    ValueError,
)
FILE = re.compile(r"'([^'\n]+\.(?:parquet|pq|csv|csv\.gz|arrow|feather))'")

Compute = Callable[[Any], Any]


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
    client: Any = None,
) -> Summary:
    """Statistics of a table of Dask, however large.

    Workers hold the partitions that they work on, and statistics; the client receives
    one object.

    Parameters
    ----------
    table : dask.dataframe.DataFrame, or list of partitions
        Partitions are delayed or future tables of pandas, polars or Arrow, or (small)
        such tables themselves. Results do not depend on which rows are in which.
    where : text or pyarrow expression, optional
        Which rows count; see ``open_source``. To have Dask read no other ones, filter
        the data frame instead.
    task, target, weight, features, categories, missing, folds, key, seed
        What columns mean; see ``Recipe``.
    min_rows : int
        Tasks with fewer rows are left out, as ``priormtl stats --min-rows`` does; see
        ``Summary.without_small``.
    client : distributed.Client, optional
        Cluster that does the work, by a client that waits for results: without one the
        current client's or, where there is none, threads of this process.

    Returns
    -------
    Summary
        ``whole`` is what ``fit_statistics`` of regressors takes, ``parts`` (with
        ``folds``) what those that search take.

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
    recipe = Recipe(
        task, target, weight, features, categories, missing, folds, key, seed
    )
    delayed = _find_delayed()
    if getattr(client, "asynchronous", False):
        raise ValueError(WAITING)
    parts, columns = _split(recipe, where, table, delayed)
    compute = _compute_here if client is None else partial(client.compute, sync=True)
    root = _plan(partial(summarize_partition, recipe, where), columns, parts, delayed)
    try:
        content = compute(root)
    except DataFileError:
        raise
    except UNMADE:
        # Dask itself failed to make a partition, and does not tell which.
        _name_failing(parts, delayed, compute)
        raise
    return from_bytes(content).finish(recipe).without_small(min_rows)


def _find_delayed() -> Any:
    try:
        from dask import delayed  # noqa: PLC0415
    except ImportError:
        raise ImportError(
            "priormtl.engines.dask needs dask: pip install 'priormtl[dask]'",
            name="dask",
        ) from None
    return delayed


def _compute_here(step: Any) -> Any:
    # Threads of Dask do better than those of BLAS, and not well with them.
    with threadpool_limits(1, user_api="blas"):
        try:
            return step.compute()
        except RuntimeError as error:
            if "asynchronous Client" in str(error):  # the current one
                raise ValueError(WAITING) from None
            raise


def _split(
    recipe: Recipe, where: Any, table: Any, delayed: Any
) -> tuple[list[Any], Any]:
    """Partitions, and the names of their columns where these can be known."""
    if hasattr(table, "to_delayed") and hasattr(table, "columns"):
        columns = name_all(table.columns)
        used = recipe.used_columns(columns)
        if isinstance(where, str):
            read_filter(where, columns)
        if where is None:  # else columns may be in use that only the filter knows
            columns = list(used)
        # No more than simplified, which has files read by these columns: optimised
        # further, partitions would be put together and have other numbers.
        narrow = table[columns].simplify()
        return list(narrow.to_delayed(optimize_graph=False)), columns
    if not isinstance(table, Sequence) or not table:
        kind = type(table).__name__
        raise ValueError(
            "table must be a data frame of Dask or a list of partitions: got "
            f"{f'an empty {kind}' if isinstance(table, Sequence) else kind}."
        )
    own = recipe.features is None
    return list(table), delayed(name_columns, pure=True)(table[0]) if own else None


def _plan(
    step: Callable[..., bytes], columns: Any, parts: Sequence[Any], delayed: Any
) -> Any:
    """Tree of steps, from the partitions to one object."""
    leaf, merge = delayed(step, pure=True), delayed(merge_partitions, pure=True)
    nodes = [(Span(i, i), leaf(columns, i, part)) for i, part in enumerate(parts)]
    while len(nodes) > 1:
        groups = [nodes[i : i + FAN_IN] for i in range(0, len(nodes), FAN_IN)]
        nodes = [_join(group, merge) for group in groups]
    return nodes[0][1]


def _join(group: Sequence[tuple[Span, Any]], merge: Any) -> tuple[Span, Any]:
    spans, contents = zip(*group, strict=True)
    if len(group) == 1:
        return group[0]
    return Span(spans[0].first, spans[-1].last), merge(list(spans), *contents)


def _name_failing(parts: Sequence[Any], delayed: Any, compute: Compute) -> None:
    """Fail with the number of the first partition that cannot be made, if any.

    It is searched for by halves, so that all workers take part.
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
                    f"{say_error(error)}."
                ) from error
            high = middle + 1
        else:
            low = middle + 1


def _name_file(part: Any) -> str:
    """Name of the one file that a partition comes from, in brackets, where it tells."""
    from dask.optimization import cull  # noqa: PLC0415

    if not hasattr(part, "__dask_graph__"):
        return ""
    steps, _ = cull(dict(part.__dask_graph__()), part.__dask_keys__())
    told = repr([getattr(step, "args", step) for step in steps.values()])
    files = set(FILE.findall(told))
    return f" ({files.pop()})" if len(files) == 1 else ""


def _touch(_: Any) -> None:
    """Nothing, once its argument has been made."""
