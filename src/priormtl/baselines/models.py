"""TaskModel: what a compared method has learned, able to score rows of any task."""

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from scipy.sparse import csr_array, diags_array, issparse

from priormtl._arrays import Array, Matrix

__all__ = ["LinearModel", "RescaledModel", "TaskModel", "to_user_units"]


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
        if issparse(X):
            return self.model.scores(csr_array(X @ diags_array(1.0 / self.scale)), i)
        return self.model.scores(X / self.scale, i)


def to_user_units(model: TaskModel, scale: Array) -> TaskModel:
    """Model of features as they came, from one of features divided by ``scale``."""
    if np.all(scale == 1.0):
        return model
    if isinstance(model, LinearModel):
        return model.rescale(scale)
    return RescaledModel(model, scale)
