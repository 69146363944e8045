"""One table per task, stacked into one table with a task label per row."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from priormtl._arrays import Array, Matrix
from priormtl.data.frames import as_frame
from priormtl.data.tasks import StackedRows, from_codes

__all__ = ["from_lists", "stack_tasks"]


def from_lists(
    X: Sequence[Matrix],
    y: Sequence[Array],
    weight: Sequence[Array] | None = None,
    tasks: Sequence[Hashable] | None = None,
) -> StackedRows:
    """Own X and y for each task, in the order given.

    Examples
    --------
    >>> data = from_lists([np.eye(2), np.ones((3, 2))], [np.ones(2), np.zeros(3)])
    >>> data.shape
    (2, 2)
    """
    if len(X) != len(y) or not X:
        raise ValueError(
            "X and y must be equally long, non-empty lists with one entry per task: "
            f"got {len(X)} and {len(y)}."
        )
    for i, (rows, target) in enumerate(zip(X, y, strict=True)):
        if len(target) != rows.shape[0]:
            raise ValueError(
                f"y[{i}] must have one value per row of X: got {len(target)} for "
                f"{rows.shape[0]} rows."
            )
        if rows.shape[1] != X[0].shape[1]:
            raise ValueError(
                f"X[{i}] must have the features of X[0]: "
                f"got {rows.shape[1]} columns for {X[0].shape[1]}."
            )
    codes = np.repeat(np.arange(len(X)), [len(target) for target in y])
    joined = None if weight is None else np.concatenate([*weight])
    names = tuple(range(len(X))) if tasks is None else tuple(tasks)
    stacked = _stack(list(X)).astype(np.float64)
    targets = np.concatenate([*y]).astype(np.float64)
    return from_codes(stacked, targets, codes, names, joined)


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
