"""What a practitioner would try first, behind the calls that ours have.

Ridge per task or for all tasks together, a mixed model with random intercepts, and
scikit-learn's multi-task lasso where all tasks share X. All choose their one strength,
if they have one, on folds that are given.
"""

import warnings
from collections.abc import Callable, Iterator
from typing import Any, Protocol, Self

import numpy as np
from scipy.linalg import qr
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import MultiTaskLasso, MultiTaskLassoCV

from priormtl._arrays import Array, Index
from priormtl.metrics import auc
from priormtl.selection import split_by_fold

__all__ = [
    "MixedModel",
    "PooledRidge",
    "RidgePerTask",
    "SharedLasso",
    "mean_auc",
    "negative_error",
    "ridge_path",
]

Judge = Callable[[Array, Array, "np.ndarray | None"], float]


class Predictor(Protocol):
    """Linear scores of rows, given their tasks."""

    def __call__(self, X: Array, task: np.ndarray | None) -> Array:
        """(n,), or (n, m) where all tasks share X."""


def ridge_path(X: Array, y: Array, alphas: Array) -> tuple[Array, Array]:
    """Coefficients (k, d) and intercepts (k,) of ridge regression for k strengths.

    Minimises ½‖X p + b − y‖² + alpha/2 ‖p‖². One decomposition serves all strengths.
    """
    x_mean, y_mean = X.mean(axis=0), y.mean()
    centred = X - x_mean
    if len(X) > X.shape[1]:
        values, vectors = np.linalg.eigh(centred.T @ centred)
        weights = vectors.T @ (centred.T @ (y - y_mean))
    else:
        left, roots, rows = np.linalg.svd(centred, full_matrices=False)
        values, vectors = roots**2, rows.T
        weights = roots * (left.T @ (y - y_mean))
    coefs = (weights / (np.maximum(values, 0.0) + alphas[:, np.newaxis])) @ vectors.T
    return coefs, y_mean - coefs @ x_mean


class _Ridge(RegressorMixin, BaseEstimator):
    """Ridge whose strength is chosen on folds."""

    alpha_: float

    def __init__(self, alphas: Any, folds: Any, judge: Judge) -> None:
        self.alphas = alphas
        self.folds = folds
        self.judge = judge

    def fit(self, X: Array, y: Array, *, task: np.ndarray | None = None) -> Self:
        """Choose alpha on the folds, then learn from all rows."""
        alphas = np.asarray(self.alphas, dtype=np.float64)
        scores = np.array([*self._fold_scores(X, y, task, alphas)])
        self.alpha_ = float(alphas[np.argmax(np.nanmean(scores, axis=0))])
        (self._predict,) = self._path(X, y, task, np.array([self.alpha_]))
        return self

    def predict(self, X: Array, *, task: np.ndarray | None = None) -> Array:
        """Scores of rows."""
        return self._predict(X, task)

    def _fold_scores(
        self, X: Array, y: Array, task: np.ndarray | None, alphas: Array
    ) -> Iterator[list[float]]:
        for train, test in split_by_fold(np.asarray(self.folds)):
            models = self._path(X[train], y[train], _take(task, train), alphas)
            held = _take(task, test)
            yield [self.judge(y[test], model(X[test], held), held) for model in models]

    def _path(
        self, X: Array, y: Array, task: np.ndarray | None, alphas: Array
    ) -> list[Predictor]:
        """One model per strength."""
        raise NotImplementedError


class RidgePerTask(_Ridge):
    """One ridge regression per task, with one strength for all.

    Parameters
    ----------
    alphas : sequence of float
        Strengths to try.
    folds : (n,) whole numbers
        Fold of each training row; −1: never held out.
    judge : callable
        ``judge(y, predicted, task)``, larger for better models.
    """

    def _path(
        self, X: Array, y: Array, task: np.ndarray | None, alphas: Array
    ) -> list[Predictor]:
        if task is None:
            paths = [ridge_path(X, column, alphas) for column in y.T]
            coefs, intercepts = _stack(paths)
            return [_Shared(c, b) for c, b in zip(coefs, intercepts, strict=True)]
        names = np.unique(task)
        paths = [ridge_path(X[task == k], y[task == k], alphas) for k in names]
        coefs, intercepts = _stack(paths)
        return [_Own(names, c, b) for c, b in zip(coefs, intercepts, strict=True)]


class PooledRidge(_Ridge):
    """One ridge regression for all tasks; parameters are those of RidgePerTask."""

    def _path(
        self, X: Array, y: Array, task: np.ndarray | None, alphas: Array
    ) -> list[Predictor]:
        # With shared X all targets of a row are fitted at once: by their mean.
        width = 1 if task is not None else y.shape[1]
        target = y if task is not None else y.mean(axis=1)
        coefs, intercepts = ridge_path(X, target, alphas / width)
        return [_Same(c, b, width) for c, b in zip(coefs, intercepts, strict=True)]


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


class _Own:
    """Coefficients of each task."""

    def __init__(self, names: np.ndarray, coef: Array, intercept: Array) -> None:
        self.names, self.coef, self.intercept = names, coef, intercept

    def __call__(self, X: Array, task: np.ndarray | None) -> Array:
        code = _find_tasks(self.names, task)
        scores = np.empty(len(X))
        for i in np.unique(code):
            rows = code == i
            scores[rows] = X[rows] @ self.coef[i] + self.intercept[i]
        return scores


class _Shared:
    """Coefficients of each column of targets."""

    def __init__(self, coef: Array, intercept: Array) -> None:
        self.coef, self.intercept = coef, intercept

    def __call__(self, X: Array, task: np.ndarray | None) -> Array:
        return X @ self.coef.T + self.intercept


class _Same:
    """The same coefficients for all tasks."""

    def __init__(self, coef: Array, intercept: float, width: int) -> None:
        self.coef, self.intercept, self.width = coef, intercept, width

    def __call__(self, X: Array, task: np.ndarray | None) -> Array:
        scores = X @ self.coef + self.intercept
        return scores if task is not None else np.tile(scores[:, None], self.width)


def negative_error(y: Array, predicted: Array, task: np.ndarray | None) -> float:
    """Negative mean squared error over all rows."""
    return -float(np.mean((y - predicted) ** 2))


def mean_auc(y: Array, predicted: Array, task: np.ndarray | None) -> float:
    """Area under the ROC curve, averaged over tasks that show both classes."""
    return float(auc(y, predicted, task=task))


def _stack(paths: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Coefficients (k, m, d) and intercepts (k, m) of all tasks."""
    coefs, intercepts = zip(*paths, strict=True)
    return np.stack(coefs, axis=1), np.stack(intercepts, axis=1)


def _find_tasks(names: np.ndarray, task: np.ndarray | None) -> Index:
    """Position of each row's task among sorted names."""
    if task is None:
        raise ValueError("task must name the task of each row: got None.")
    unknown = np.setdiff1d(task, names).tolist()
    if unknown:
        raise ValueError(
            f"task must name tasks that were learned from: got {unknown[0]!r}."
        )
    return np.searchsorted(names, task)


def _take(task: np.ndarray | None, rows: Index) -> np.ndarray | None:
    return None if task is None else task[rows]


def _independent_columns(X: Array) -> Index:
    """Columns that, with a constant, are linearly independent."""
    centred = X - X.mean(axis=0)
    _, R, order = qr(centred, mode="economic", pivoting=True)
    size = np.abs(np.diag(R))
    return np.sort(order[: int(np.sum(size > 1e-8 * size.max(initial=0.0)))])
