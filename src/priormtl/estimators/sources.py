"""From files to statistics: what ``fit_source`` of all regressors shares."""

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from priormtl.data import TaskStatistics
from priormtl.estimators.base import unchanged_on_error
from priormtl.estimators.progress import show_progress
from priormtl.selection import align_parts

if TYPE_CHECKING:
    from priormtl.engines import Rows, Summary
from priormtl.exceptions import FoldsError

__all__ = ["count_folds", "fit_rows", "hold_back", "read_source", "read_source_rows"]


def read_source(
    model: Any,
    source: Any,
    *,
    task: str | None,
    where: Any = None,
    shards: Any = None,
    **columns: Any,
) -> "Summary":
    """Read files once, and show how far it is; ``columns`` as in ``engines``."""
    from priormtl import engines  # noqa: PLC0415

    task = _task_column(model, task)
    opened = engines.open_source(source, where)
    with _reading(model, opened) as advance:
        columns |= {"task": task, "advance": advance}
        if shards is None:
            return engines.summarize(opened, **columns)
        return engines.summarize_sharded(opened, shards, **columns)


def read_source_rows(
    model: Any, source: Any, *, task: str | None, where: Any = None, **columns: Any
) -> "Rows":
    """Read all rows into memory, and show how far it is."""
    from priormtl import engines  # noqa: PLC0415

    task = _task_column(model, task)
    opened = engines.open_source(source, where)
    with _reading(model, opened) as advance:
        return engines.read_rows(opened, task=task, **columns, advance=advance)


def fit_rows(model: Any, rows: "Rows") -> Any:
    """Fit a model to rows that were read, and let it remember their columns."""
    with unchanged_on_error(model):
        if model.task is None:
            model.fit(rows.X, rows.y, task=rows.task, sample_weight=rows.weight)
        else:
            X = rows.X.append_column(model.task, rows.task)
            model.fit(X, rows.y, sample_weight=rows.weight)
        model._adopt_encoding(rows.encoding)
    return model


def _task_column(model: Any, task: str | None) -> str:
    task = model.task if task is None else task
    if not isinstance(task, str):
        raise ValueError(f"task must name the column of the tasks: got {task!r}.")
    return task


def _reading(model: Any, source: Any) -> Any:
    name = f"{type(model).__name__}, reading"
    return show_progress(model, None, name, source.size, "bytes")


def count_folds(cv: Any) -> int:
    """Number of folds into which rows are dealt as they are read."""
    if isinstance(cv, bool) or not isinstance(cv, int | np.integer) or cv < 2:
        raise ValueError(
            f"cv must be a number of folds, from 2 on, for fit_source: got {cv!r}; "
            "rows are dealt out as they are read, by hashes of their values."
        )
    return int(cv)


def hold_back(parts: Sequence[TaskStatistics]) -> list[TaskStatistics]:
    """Parts to be held out, and last what always trains.

    That are the tasks whose rows are all in one part: without it, they would have none
    to be learned from.
    """
    *aligned, nothing = align_parts(parts)
    lone = np.sum([part.weight > 0 for part in aligned], axis=0) == 1
    if not lone.any():
        return [*aligned, nothing]
    always = reduce(add, (part.only(lone) for part in aligned))
    tests = [part.only(~lone) for part in aligned]
    if not all(part.weight.any() for part in tests):
        raise FoldsError(
            f"each of {len(parts)} parts must hold rows of tasks that other parts hold "
            "too, since a task must be learned before it is judged: use fewer folds, "
            "more rows, or parts that share tasks."
        )
    return [*tests, always]
