"""Scorers of scikit-learn as scores of held-out rows."""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, hstack, issparse

from priormtl._arrays import Array, Index, Matrix
from priormtl.estimators.linear import LinearMultiTask

__all__ = ["ScorerOnRows", "with_task_column"]


@dataclass(frozen=True, eq=False)
class ScorerOnRows:
    """A scorer, asked with plain models that find the task in a column of X.

    So every scorer works, since it needs no argument but X and y.
    """

    scorer: Any  # called with model, X, y
    model: LinearMultiTask  # fitted but for coefficients and intercepts
    X: Matrix
    y: np.ndarray

    def __call__(self, coefs: Array, intercepts: Array) -> Array:
        """Score of each model."""
        return np.array(
            [self._score(*parts) for parts in zip(coefs, intercepts, strict=True)]
        )

    def _score(self, coef: Array, intercept: Array) -> float:
        # A copy: other threads score other models.
        model = copy.copy(self.model)
        model.coef_, model.intercept_ = coef, intercept
        return float(self.scorer(model, self.X, self.y))


def with_task_column(X: Matrix, places: Index) -> Matrix:
    """X with the position of each row's task as its last column."""
    column = places[:, np.newaxis].astype(np.float64)
    if issparse(X):
        return csr_array(hstack([X, csr_array(column)], format="csr"))
    return np.hstack([X, column])
