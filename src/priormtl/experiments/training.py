"""Training: what a method may look at."""

from dataclasses import dataclass

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.datasets import Rows, TaskSet
from priormtl.experiments.protocol import Budget

__all__ = ["Training"]


@dataclass(frozen=True, eq=False)
class Training:
    """What a method may look at: a training set, its folds and its budget."""

    data: TaskSet  # names and notes, not rows
    rows: Rows
    folds: Index
    budget: Budget
    tol: float
    seed: int
    wrong: float = 0.0  # share of the relations that are replaced by random ones

    @property
    def rows_per_task(self) -> float:
        """Training rows of a task, on average."""
        n = len(self.rows.y)
        return float(n if self.rows.task is None else n / len(self.data.task_names))

    @property
    def lam_max(self) -> float:
        """The lam at which all coefficients vanish: largest row of the slopes at 0."""
        X, y, task = self.rows
        if task is None:
            return _largest_row((X - X.mean(axis=0)).T @ (y - y.mean(axis=0)))
        groups = [task == name for name in np.unique(task)]
        slopes = [(y[r] - y[r].mean()) @ (X[r] - X[r].mean(axis=0)) for r in groups]
        return _largest_row(np.array(slopes).T)


def _largest_row(slopes: Array) -> float:
    return float(np.sqrt(np.max(np.sum(slopes**2, axis=1))))
