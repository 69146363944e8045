"""Scorers of scikit-learn as scores of held-out rows."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, hstack, issparse
from sklearn.metrics import check_scoring

from priormtl._arrays import Array, Index, Matrix
from priormtl.data import Table
from priormtl.estimators.linear import LinearMultiTask
from priormtl.selection import task_places

__all__ = ["ScorerOnRows", "bind_scorer", "empty_shell", "with_task_column"]


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


def bind_scorer(
    scoring: Any,
    shell: LinearMultiTask,
    test: Table,
    tasks: Sequence[Any],
    targets: np.ndarray,
) -> ScorerOnRows:
    """Scorer of this name, to be asked about held-out rows."""
    scorer = check_scoring(shell, scoring=scoring)
    if test.codes is not None:
        places = task_places(test.tasks, tasks)[test.codes]
        X = with_task_column(test.X, places)
        return ScorerOnRows(scorer, shell, X, targets)
    if len(test.tasks) < len(tasks) or not test.measured().all():
        raise ValueError(
            f"scoring={scoring!r} needs every target of the held-out rows; "
            "where some were not measured, use scoring=None."
        )
    return ScorerOnRows(scorer, shell, test.X, targets)


def empty_shell(model: LinearMultiTask, test: Table, m: int) -> LinearMultiTask:
    """A plain model, fitted but for numbers, with the task in a last column."""
    model.n_features_in_ = int(test.X.shape[1])
    model.tasks_ = np.arange(m)
    model._targets_are_columns = test.codes is None
    model.task = None if test.codes is None else model.n_features_in_
    return model
