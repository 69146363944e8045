"""The data set without random numbers on which published optima are known."""

import numpy as np

__all__ = ["golden_rows", "golden_tasks"]


def golden_tasks(m, d):
    """X_i and y_i of m tasks over d features; task i has 4 + i rows."""
    tables, targets = [], []
    b = np.arange(1.0, d + 1)
    shared = np.zeros(d)
    shared[:3] = np.array([1.5, -1.0, 0.5])[:d]
    for i in range(m):
        a = np.arange(1.0, 5.0 + i)
        X = np.sin(1.3 * (i + 1) + 0.7 * np.outer(a, b) + 0.4 * b)
        w = (1 + 0.2 * i) * shared + 0.1 * np.sin(b * (i + 1)) * (b <= 5)
        tables.append(X)
        targets.append(X @ w + 0.3 * np.cos(2.1 * a + (i + 1)))
    return tables, targets


def golden_rows(m, d):
    """The same as stacked rows: X, y and the task of each row."""
    tables, targets = golden_tasks(m, d)
    task = np.repeat(np.arange(m), [len(y) for y in targets])
    return np.vstack(tables), np.concatenate(targets), task
