"""What a practitioner would try first, behind the calls that ours have.

A mixed model with random intercepts, and scikit-learn's multi-task lasso where all
tasks share X, its strength chosen on folds that are given. Ridge regressions are among
the baselines.
"""

import warnings
from typing import Any, Self

import numpy as np
from scipy.linalg import qr
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import MultiTaskLasso, MultiTaskLassoCV

from priormtl._arrays import Array, Index
from priormtl.selection import split_by_fold

__all__ = ["MixedModel", "SharedLasso"]


class MixedModel(RegressorMixin, BaseEstimator):
    """statsmodels' MixedLM: common coefficients, a random intercept per task.

    Collinear columns, which it cannot take, are left out first.
    """

    def fit(self, X: Array, y: Array, *, task: np.ndarray) -> Self:
        """Learn by restricted maximum likelihood, as statsmodels does by default."""
        from statsmodels.regression.mixed_linear_model import MixedLM  # noqa: PLC0415

        self.kept_ = _independent_columns(X)
        design = np.column_stack([np.ones(len(X)), X[:, self.kept_]])
        with warnings.catch_warnings():
            # Its warnings about convergence concern the variance; predictions stand.
            warnings.simplefilter("ignore")
            result = MixedLM(y, design, groups=task).fit()
        self.coef_ = np.asarray(result.fe_params)
        self.effects_ = {
            name: float(np.asarray(effect)[0])
            for name, effect in result.random_effects.items()
        }
        return self

    def predict(self, X: Array, *, task: np.ndarray) -> Array:
        """Common part plus the task's own intercept."""
        own = np.array([self.effects_[name] for name in task])
        return self.coef_[0] + X[:, self.kept_] @ self.coef_[1:] + own


class SharedLasso(RegressorMixin, BaseEstimator):
    """scikit-learn's MultiTaskLasso, tuned by its own cross-validation on the folds."""

    def __init__(self, alphas: Any, folds: Any) -> None:
        self.alphas = alphas
        self.folds = folds

    def fit(self, X: Array, y: Array, *, task: None = None) -> Self:
        """Choose alpha on the folds, then learn from all rows."""
        splits = [tuple(split) for split in split_by_fold(np.asarray(self.folds))]
        with warnings.catch_warnings():
            # Its smallest alphas end at max_iter; it says so for each of them.
            warnings.simplefilter("ignore")
            search = MultiTaskLassoCV(alphas=self.alphas, cv=splits, tol=1e-3)
            search.fit(X, y)
        self.alpha_ = float(search.alpha_)
        self.model_: MultiTaskLasso = search
        return self

    def predict(self, X: Array, *, task: None = None) -> Array:
        """Scores of rows (n, m)."""
        return self.model_.predict(X)


def _independent_columns(X: Array) -> Index:
    """Columns that, with a constant, are linearly independent."""
    centred = X - X.mean(axis=0)
    _, R, order = qr(centred, mode="economic", pivoting=True)
    size = np.abs(np.diag(R))
    return np.sort(order[: int(np.sum(size > 1e-8 * size.max(initial=0.0)))])
