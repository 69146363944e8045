"""One table per task, stacked into one table with a task label per row."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from priormtl.data.frames import as_frame

__all__ = ["stack_tasks"]


def stack_tasks(
    X: Sequence[Any] | Mapping[Hashable, Any], y: Sequence[Any] | Mapping[Hashable, Any]
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Stack one X and y per task into ``X, y, task`` as ``fit`` takes them.

    Parameters
    ----------
    X : list of (n_i, d) tables, or dict of task to table
        Arrays, sparse matrices or data frames of one kind with the same columns.
    y : list of (n_i,) targets, or dict with the same tasks
        Targets.

    Returns
    -------
    X, y, task
        Stacked rows; tasks are the keys of the dict, or positions in the list.

    Examples
    --------
    >>> X, y, task = stack_tasks([[[1.0], [2.0]], [[3.0]]], [[0, 1], [2]])
    >>> X.ravel().tolist(), y.tolist(), task.tolist()
    ([1.0, 2.0, 3.0], [0, 1, 2], [0, 0, 1])
    """
    names, tables, targets = _pair_up(X, y)
    for name, table, target in zip(names, tables, targets, strict=True):
        if len(target) != _length(table):
            raise ValueError(
                f"y of task {name!r} must have one value per row of its X: got "
                f"{len(target)} for {_length(table)} rows."
            )
    counts = [len(target) for target in targets]
    task = np.repeat(np.array(names), counts)
    return _stack(tables), np.concatenate([np.asarray(t) for t in targets]), task


def _pair_up(X: Any, y: Any) -> tuple[list[Hashable], list[Any], list[Any]]:
    if isinstance(X, Mapping) != isinstance(y, Mapping):
        raise ValueError("X and y must both be lists or both be dicts of tasks.")
    if not isinstance(X, Mapping):
        X, y = dict(enumerate(X)), dict(enumerate(y))
    if not X or set(X) != set(y):
        raise ValueError(
            "X and y must hold the same tasks, at least one: got "
            f"{list(X)[:8]} and {list(y)[:8]}."
        )
    return list(X), list(X.values()), [y[name] for name in X]


def _length(table: Any) -> int:
    return int(table.shape[0]) if hasattr(table, "shape") else len(table)


def _stack(tables: list[Any]) -> Any:
    frames = [as_frame(table) for table in tables]
    known = [frame for frame in frames if frame is not None]
    if len(known) == len(tables):
        return nw.concat(known, how="vertical").to_native()
    if any(issparse(table) for table in tables):
        return csr_array(vstack([csr_array(table) for table in tables]))
    return np.concatenate([np.asarray(table) for table in tables])
