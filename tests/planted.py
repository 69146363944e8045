"""Tasks of which some do not belong."""

from typing import NamedTuple

import numpy as np

__all__ = ["Planted", "plant"]


class Planted(NamedTuple):
    """Rows, their coefficients, and which tasks were drawn apart."""

    X: np.ndarray
    y: np.ndarray
    task: np.ndarray
    coef: np.ndarray  # (m, d)
    outliers: list[int]

    @property
    def normal(self):
        """Tasks that belong."""
        return np.setdiff1d(np.arange(len(self.coef)), self.outliers)


def plant(seed=0, m=16, d=8, n_outliers=2, rows=(15, 60), spread=0.2):
    """Tasks around one set of coefficients, and outliers with any others."""
    rng = np.random.default_rng(seed)
    used = np.arange(d) < d - 3
    coef = rng.normal(size=d) * used + spread * rng.normal(size=(m, d)) * used
    outliers = np.sort(rng.choice(m, n_outliers, replace=False))
    coef[outliers] = 2.0 * rng.normal(size=(n_outliers, d))
    task = np.repeat(np.arange(m), rng.integers(*rows, size=m))
    X = rng.normal(size=(len(task), d))
    y = np.sum(X * coef[task], axis=1) + rng.normal(size=len(task)) + 0.3 * task
    return Planted(X, y, task, coef, outliers.tolist())
