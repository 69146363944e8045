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
    """Turn a multi-class set into one binary task for each pair of classes.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or data frame
        Features.
    y : (n,) labels
        Classes, at least two.

    Returns
    -------
    X, y, task
        Stacked rows: each row is repeated for every pair that has its class. ``y``
        keeps the class labels; tasks are called "a vs b".

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
    """Turn a multi-class set into one binary task for each class against the rest.

    Parameters are those of :func:`one_vs_one`. Every task has all rows; ``y`` is True
    for the task's class, and tasks are named by their class.

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
