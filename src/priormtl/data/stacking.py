"""Stacked rows from one table per task, or from the classes of one table.

All functions return ``X, y, task`` as ``fit`` takes them: rows below each other, with
one task label per row.
"""

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from priormtl.data.tables import as_frame, take_rows

__all__ = ["one_vs_one", "one_vs_rest", "stack_tasks"]


def stack_tasks(
    X: Sequence[Any] | Mapping[Hashable, Any], y: Sequence[Any] | Mapping[Hashable, Any]
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Stack one table per task into ``X, y, task``, the arguments of ``fit``.

    Parameters
    ----------
    X : list of (n_i, d) tables, or mapping from tasks to tables
        Features of each task: arrays, sparse matrices or data frames, all of the same
        type and with the same columns.
    y : list of (n_i,) arrays, or mapping from tasks to arrays
        Targets of each task.

    Returns
    -------
    X, y, task
        Stacked rows, targets and task labels. The labels are the keys of the mapping
        or the positions in the list.

    Examples
    --------
    >>> X, y, task = stack_tasks([[[1.0], [2.0]], [[3.0]]], [[0, 1], [2]])
    >>> X.ravel().tolist(), y.tolist(), task.tolist()
    ([1.0, 2.0, 3.0], [0, 1, 2], [0, 0, 1])
    """
    if isinstance(X, Mapping) != isinstance(y, Mapping):
        raise ValueError("X and y must both be lists or both be dicts of tasks.")
    if not (isinstance(X, Mapping) and isinstance(y, Mapping)):
        X, y = dict(enumerate(X)), dict(enumerate(y))
    if not X or set(X) != set(y):
        raise ValueError(
            "X and y must hold the same tasks, at least one: got "
            f"{list(X)[:8]} and {list(y)[:8]}."
        )
    names, tables, targets = list(X), list(X.values()), [y[name] for name in X]
    for name, table, target in zip(names, tables, targets, strict=True):
        n = int(table.shape[0]) if hasattr(table, "shape") else len(table)
        if len(target) != n:
            raise ValueError(
                f"y of task {name!r} must have one value per row of its X: got "
                f"{len(target)} for {n} rows."
            )
    task = np.repeat(np.array(names), [len(target) for target in targets])
    return _stack(tables), np.concatenate([np.asarray(t) for t in targets]), task


def _stack(tables: list[Any]) -> Any:
    frames = [as_frame(table) for table in tables]
    known = [frame for frame in frames if frame is not None]
    if len(known) == len(tables):
        return nw.concat(known, how="vertical").to_native()
    if any(issparse(table) for table in tables):
        return csr_array(vstack([csr_array(table) for table in tables]))
    return np.concatenate([np.asarray(table) for table in tables])


def one_vs_one(X: Any, y: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """Convert a multi-class problem to one binary task per pair of classes.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or data frame
        Features.
    y : (n,) array
        Class labels. There must be at least two classes.

    Returns
    -------
    X, y, task
        Stacked rows, class labels and task labels such as "a vs b". Each row is
        repeated for all pairs that contain its class.

    Examples
    --------
    >>> X, y, task = one_vs_one([[0.0], [1.0], [2.0]], ["a", "b", "c"])
    >>> list(zip(task.tolist(), y.tolist()))[:2]
    [('a vs b', 'a'), ('a vs b', 'b')]
    """
    labels, classes = _classes(y)
    pairs = list(combinations(classes, 2))
    rows = [np.flatnonzero((labels == a) | (labels == b)) for a, b in pairs]
    names = [f"{a} vs {b}" for a, b in pairs]
    task = np.repeat(names, [len(part) for part in rows])
    index = np.concatenate(rows)
    return take_rows(X, index), labels[index], task


def one_vs_rest(X: Any, y: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """Convert a multi-class problem to one binary task per class.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or data frame
        Features.
    y : (n,) array
        Class labels. There must be at least two classes.

    Returns
    -------
    X, y, task
        Stacked rows, targets and task labels. Each task contains all rows and is
        named after its class. The target is True for rows of this class.

    Examples
    --------
    >>> X, y, task = one_vs_rest([[0.0], [1.0]], ["a", "b"])
    >>> task.tolist(), y.tolist()
    (['a', 'a', 'b', 'b'], [True, False, False, True])
    """
    labels, classes = _classes(y)
    n = len(labels)
    index = np.tile(np.arange(n), len(classes))
    task = np.repeat(classes, n)
    return take_rows(X, index), labels[index] == task, task


def _classes(y: Any) -> tuple[np.ndarray, np.ndarray]:
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(f"y must be one-dimensional: got shape {labels.shape}.")
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ValueError(f"y must hold at least two classes: got {classes.tolist()}.")
    return labels, classes
