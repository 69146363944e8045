"""From files to statistics: what ``fit_source`` of all regressors shares."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from priormtl.data import TaskStatistics
from priormtl.estimators.progress import show_progress
from priormtl.selection import align_parts

if TYPE_CHECKING:
    from priormtl.engines import Summary

__all__ = ["count_folds", "hold_back", "read_source"]

ARRAYS = ("weight", "x_mean", "y_mean", "xx", "xy", "yy")


def read_source(
    model: Any, source: Any, *, task: str | None, where: Any = None, **columns: Any
) -> "Summary":
    """Read files once, and show how far it is; ``columns`` as in ``engines``."""
    from priormtl import engines  # noqa: PLC0415

    task = model.task if task is None else task
    if not isinstance(task, str):
        raise ValueError(f"task must name the column of the tasks: got {task!r}.")
    opened = engines.open_source(source, where)
    name = f"{type(model).__name__}, reading"
    with show_progress(model, None, name, opened.size, "bytes") as advance:
        return engines.summarize(opened, task=task, **columns, advance=advance)


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
    always = reduce(add, (_only(part, lone) for part in aligned))
    tests = [_only(part, ~lone) for part in aligned]
    if not all(part.weight.any() for part in tests):
        raise ValueError(
            f"cv={len(parts)} must leave rows for every fold, but tasks whose rows are "
            "all in one fold stay in training: use fewer folds or more rows."
        )
    return [*tests, always]


def _only(part: TaskStatistics, tasks: NDArray[np.bool_]) -> TaskStatistics:
    """Same statistics, of no rows in the other tasks."""
    arrays = {name: getattr(part, name).copy() for name in ARRAYS}
    for array in arrays.values():
        array[~tasks] = 0.0
    return replace(part, **arrays)
