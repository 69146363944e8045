"""Tasks on which compared methods must not stumble."""

import numpy as np

from golden import golden_rows
from priormtl.datasets import make_related_tasks

__all__ = ["AWKWARD", "golden_classes", "split_tasks"]


def golden_classes():
    X, y, task = golden_rows(4, 5)
    return X, np.where(y >= 0, 1.0, -1.0), task


def split_tasks(X, y, task):
    """Tables and targets of each task."""
    parts = [task == i for i in np.unique(task)]
    return [X[part] for part in parts], [y[part] for part in parts]


def _rows(m=4, d=6, n=12):
    return make_related_tasks(m, d, n, noise=0.5, random_state=3)


def _one_task():
    X, y, _ = _rows(1)
    return X, y, np.zeros(len(y), int)


def _one_row_each():
    X, y, _ = _rows(4, 6, 2)
    return X[::2], y[::2], np.arange(4)


def _constant_and_twin_columns():
    X, y, task = _rows()
    X = np.array(X)
    X[:, 1], X[:, 3] = 7.0, X[:, 2]
    return X, y, task


def _one_hot():
    X, y, task = _rows()
    level = np.arange(len(y)) % 3
    # In the last task a level is absent, and all columns of a block sum to one.
    level[task == 3] %= 2
    return np.hstack([X[:, :2], np.eye(3)[level]]), y, task


def _scaled(size):
    X, y, task = _rows()
    return size * X, y / size, task


AWKWARD = {
    "one task": _one_task,
    "one row each": _one_row_each,
    "few rows": lambda: _rows(3, 9, 4),
    "constant and twin columns": _constant_and_twin_columns,
    "one hot": _one_hot,
    "huge": lambda: _scaled(1e8),
    "tiny": lambda: _scaled(1e-8),
}
