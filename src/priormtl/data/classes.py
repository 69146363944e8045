"""Class labels as tasks: one against one, and one against the rest."""

from itertools import combinations
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from priormtl.data.frames import as_frame

__all__ = ["one_vs_one", "one_vs_rest"]


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
        Stacked rows: each row stands once in each task of its class. ``y`` keeps the
        class labels; tasks are called "a vs b".

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
    return _take(X, index), labels[index], task


def one_vs_rest(X: Any, y: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """Turn a multi-class set into one binary task for each class against the rest.

    Parameters are those of :func:`one_vs_one`. All rows stand in every task; ``y`` is
    True for the task's own class, and tasks are named by their class.

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
    return _take(X, index), labels[index] == task, task


def _classes(y: Any) -> tuple[np.ndarray, np.ndarray]:
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(f"y must be one-dimensional: got shape {labels.shape}.")
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ValueError(f"y must hold at least two classes: got {classes.tolist()}.")
    return labels, classes


def _take(X: Any, index: np.ndarray) -> Any:
    """Rows of a table of any kind."""
    frame = as_frame(X)
    if frame is not None:
        return frame[index.tolist()].to_native()
    if issparse(X):
        return csr_array(X)[index]
    return np.asarray(X)[index]
