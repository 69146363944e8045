"""TaskModel: what a compared method has learned, able to score rows of any task."""

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from scipy.sparse import csr_array, diags_array, issparse

from priormtl._arrays import Array, Matrix

__all__ = ["LinearModel", "RescaledModel", "TaskModel", "divide_features"]


class TaskModel(Protocol):
    """Scores of rows, task by task."""

    def scores(self, X: Matrix, i: int) -> Array:
        """Scores of rows under task ``i`` (n,)."""


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Coefficients and intercepts of m tasks."""

    coef: Array  # (m, d)
    intercept: Array  # (m,)

    def scores(self, X: Matrix, i: int) -> Array:
        """X p_i + b_i."""
        return np.asarray(X @ self.coef[i] + self.intercept[i])

    def rescale(self, scale: Array) -> Self:
        """Same model of features that had been divided by ``scale`` to learn it."""
        return type(self)(self.coef / scale, self.intercept)


@dataclass(frozen=True, eq=False)
class RescaledModel:
    """A model of features that are divided by ``scale`` first."""

    model: TaskModel
    scale: Array  # (d,)

    def scores(self, X: Matrix, i: int) -> Array:
        """Scores of the features as the model knows them."""
        return self.model.scores(divide_features(X, self.scale), i)


def divide_features(X: Matrix, scale: Array) -> Matrix:
    """Columns of X divided by ``scale``; X itself where that changes nothing."""
    if np.all(scale == 1.0):
        return X
    return csr_array(X @ diags_array(1.0 / scale)) if issparse(X) else X / scale
