"""Twins of compared methods, as they are usually written: loops over lists of tasks.

Accelerated proximal gradient with a line search that only ever shortens steps, on
blocks whose sum is W, for squared loss without intercepts. Tests compare results with
them, and a benchmark times.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["Run", "naive_dirty", "naive_robust", "naive_trace", "shrink_largest"]

Matrix = np.ndarray
Blocks = list[Matrix]  # each (d, m)
LOOK_EVERY = 10
SAME = 1e-20


class Run(NamedTuple):
    """Where a loop ended."""

    blocks: Blocks
    n_iter: int

    @property
    def total(self) -> Matrix:
        return sum(self.blocks[1:], self.blocks[0])


class Tasks(NamedTuple):
    """A table and its targets for each task."""

    tables: Sequence[Matrix]
    targets: Sequence[Matrix]

    def value(self, W: Matrix) -> float:
        total = 0.0
        for i, (X, y) in enumerate(zip(*self, strict=True)):
            total += 0.5 * np.linalg.norm(X @ W[:, i] - y) ** 2
        return total

    def gradient(self, W: Matrix) -> Matrix:
        columns = []
        for i, (X, y) in enumerate(zip(*self, strict=True)):
            columns.append(X.T @ (X @ W[:, i] - y))
        return np.column_stack(columns)


Prox = Callable[[Matrix, float], Matrix]
Reached = Callable[[Blocks], bool]


def naive_dirty(tasks, lam_own, lam_shared, reached, most=10_000, **search):
    """Blocks S and B of the dirty model."""
    proxes = [
        lambda S, step: shrink_entries(S, step * lam_own),
        lambda B, step: shrink_largest(B, step * lam_shared),
    ]
    return accelerate(Tasks(*tasks), proxes, reached, most, **search)


def naive_robust(tasks, lam_rank, lam_outlier, reached, most=10_000, **search):
    """Blocks L and S of robust learning."""
    proxes = [
        lambda L, step: shrink_singular_values(L, step * lam_rank),
        lambda S, step: shrink_columns(S, step * lam_outlier),
    ]
    return accelerate(Tasks(*tasks), proxes, reached, most, **search)


def naive_trace(tasks, lam, reached, most=10_000, **search):
    """One block with the trace norm."""
    proxes = [lambda W, step: shrink_singular_values(W, step * lam)]
    return accelerate(Tasks(*tasks), proxes, reached, most, **search)


def accelerate(
    tasks: Tasks,
    proxes: Sequence[Prox],
    reached: Reached,
    most: int,
    curvature: float = 1.0,
    searching: bool = True,
) -> Run:
    """The loop; without ``searching`` the curvature is believed as it is given."""
    d, m = tasks.tables[0].shape[1], len(tasks.tables)
    now = before = [np.zeros((d, m)) for _ in proxes]
    t, t_before = 1.0, 0.0
    for n_iter in range(1, most + 1):
        amount = (t_before - 1.0) / t
        ahead = [x + amount * (x - old) for x, old in zip(now, before, strict=True)]
        W = sum(ahead)
        gradient, value = tasks.gradient(W), tasks.value(W)
        while True:
            trial = [
                prox(x - gradient / curvature, 1.0 / curvature)
                for prox, x in zip(proxes, ahead, strict=True)
            ]
            moves = [new - x for new, x in zip(trial, ahead, strict=True)]
            length = sum(np.sum(move**2) for move in moves)
            along = sum(np.sum(move * gradient) for move in moves)
            model = value + along + 0.5 * curvature * length
            fits = not searching or tasks.value(sum(trial)) <= model
            if fits or length <= SAME:
                break
            curvature *= 2.0
        before, now = now, trial
        t_before, t = t, 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t**2))
        if n_iter % LOOK_EVERY == 0 and reached(now):
            break
    return Run(now, n_iter)


def shrink_entries(P, step):
    return np.sign(P) * np.maximum(np.abs(P) - step, 0.0)


def shrink_largest(P, step):
    """Prox of the largest size in each row, row by row, by sorting."""
    shrunk = np.zeros_like(P)
    for j, u in enumerate(P):
        sizes = np.abs(u)
        if sizes.sum() <= step:
            continue
        falling = np.sort(sizes)[::-1]
        levels = (np.cumsum(falling) - step) / np.arange(1, len(u) + 1)
        level = levels[np.flatnonzero(falling > levels)[-1]]
        shrunk[j] = u - np.sign(u) * np.maximum(sizes - level, 0.0)
    return shrunk


def shrink_singular_values(P, step):
    U, s, Vt = np.linalg.svd(P, full_matrices=False)
    return U @ np.diag(np.maximum(s - step, 0.0)) @ Vt


def shrink_columns(P, step):
    shrunk = np.zeros_like(P)
    for i in range(P.shape[1]):
        length = np.linalg.norm(P[:, i])
        if length > step:
            shrunk[:, i] = P[:, i] * (1.0 - step / length)
    return shrunk
