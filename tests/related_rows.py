"""Small tasks of rank two, and their losses as a convex solver reads them."""

import cvxpy as cp
import numpy as np

__all__ = ["logistic_loss", "optimum", "random_rows", "squared_loss"]


def random_rows(m, d, seed, n=5):
    """X, y and the task of each row."""
    rng = np.random.default_rng(seed)
    X, task = rng.normal(size=(m * n, d)), np.repeat(np.arange(m), n)
    W = rng.normal(size=(m, 2)) @ rng.normal(size=(2, d))
    return X, np.sum(X * W[task], axis=1) + 0.5 * rng.normal(size=m * n), task


def squared_loss(W, rows):
    """Without intercepts, for a variable W (d, m)."""
    X, y, task = rows
    parts = [X[task == i] @ W[:, i] - y[task == i] for i in range(W.shape[1])]
    return sum(0.5 * cp.sum_squares(part) for part in parts)


def logistic_loss(W, rows):
    """Of the signs of y."""
    X, y, task = rows
    signed = X * np.where(y >= 0, 1.0, -1.0)[:, None]
    parts = [signed[task == i] @ W[:, i] for i in range(W.shape[1])]
    return sum(cp.sum(cp.logistic(-part)) for part in parts)


def optimum(goal, *constraints):
    return cp.Problem(cp.Minimize(goal), list(constraints)).solve("CLARABEL")
