"""Ridge regression for each task, and one for all tasks: the simplest references.

Both are solved in closed form. One decomposition per task (of the Gram matrix, or of
the rows where there are fewer rows than features) serves all strengths.

A. E. Hoerl, R. W. Kennard: Ridge Regression: Biased Estimation for Nonorthogonal
Problems. Technometrics 1970.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.sparse import issparse

from priormtl._arrays import Array, Matrix
from priormtl.baselines.base import (
    Baseline,
    Fit,
    LinearModel,
    Outcome,
    Settings,
    bind_loss,
    crossed,
)
from priormtl.checks import check_strength
from priormtl.data import StackedRows, TaskData
from priormtl.estimators import ClassificationTasks, RegressionTasks


class Spectrum(NamedTuple):
    """XᵀX of one task, decomposed so that any ridge is solved by a product."""

    basis: Array  # eigenvectors (d, r)
    values: Array  # eigenvalues (r,)
    side: Array  # Xᵀy in this basis (r,)

    @classmethod
    def of(cls, X: Matrix, y: Array, weight: Array, *, intercept: bool) -> "Spectrum":
        X = X.toarray() if issparse(X) else X
        if intercept:
            total = weight.sum()
            X, y = X - weight @ X / total, y - weight @ y / total
        root = np.sqrt(weight)
        X, y = X * root[:, np.newaxis], y * root
        if len(X) >= X.shape[1]:
            values, basis = np.linalg.eigh(X.T @ X)
            return cls(basis, np.maximum(values, 0.0), basis.T @ (X.T @ y))
        left, roots, right = np.linalg.svd(X, full_matrices=False)
        return cls(right.T, roots**2, roots * (left.T @ y))

    def solve(self, lam: float) -> Array:
        """(XᵀX + lam I)⁻¹ Xᵀy (d,); at lam = 0 the shortest solution."""
        curvature = self.values + lam
        floor = 1e-14 * len(self.basis) * curvature.max(initial=0.0)
        kept = curvature > (0.0 if lam > 0 else floor)
        none = np.zeros_like(curvature)
        return self.basis @ np.divide(self.side, curvature, out=none, where=kept)


class _Bound(NamedTuple):
    fit: Fit
    tasks: list[Spectrum]
    n_copies: int  # tasks that get the same coefficients
    constant: float  # of the objective, which the fit does not include

    def solve(self, lam: float) -> Array:
        """Coefficients (d, m)."""
        return np.column_stack([task.solve(lam) for task in self.tasks])


@dataclass(eq=False, repr=False)
class _Ridge(Baseline):
    followed = "lam"
    pooled: ClassVar[bool] = False  # whether all tasks are one

    lam: float = 1.0

    def _bind(self, data: TaskData) -> _Bound:
        copies, constant = 1, 0.0
        if self.pooled:
            copies, (data, constant) = data.shape[1], _pool(data)
        rows, intercept = map(data.rows_of, range(data.shape[1])), self.fit_intercept
        tasks = [Spectrum.of(*own, intercept=bool(intercept)) for own in rows]
        return _Bound(bind_loss(self, data), tasks, copies, constant)

    def _follow(self, bound: _Bound, strengths: Sequence[float]) -> Iterator[Outcome]:
        fit = bound.fit
        unit = float(np.linalg.norm(fit.evaluate(np.zeros(fit.shape)).gradient))
        for value in strengths:
            lam = check_strength("lam", value)
            P = bound.solve(lam)
            point = fit.evaluate(P)
            rest = float(np.linalg.norm(point.gradient + lam * P))
            objective = point.value + 0.5 * lam * float(np.vdot(P, P)) + bound.constant
            intercept = np.tile(fit.intercept_at_zero(point), bound.n_copies)
            model = LinearModel(np.tile(P.T, (bound.n_copies, 1)), intercept)
            learned = {"residual_": rest / unit if unit > 0 else 0.0}
            yield Outcome(model, objective, 1, learned)

    def _suggest(self, bound: _Bound, n: int) -> list[Settings]:
        # Shares of the largest curvature.
        grid = np.geomspace(1.0, 1e-5, n) if n > 1 else np.array([1e-2])
        steepest = max(task.values.max(initial=0.0) for task in bound.tasks) or 1.0
        return list(crossed([{}], "lam", steepest * grid))


def _pool(data: TaskData) -> tuple[StackedRows, float]:
    """Rows of all tasks as those of one, and the loss that no prediction can change.

    Several targets of a row count as their mean, with the sum of their weights.
    """
    X, y, weight, constant = data.X, data.y, data.weight, 0.0
    if y.ndim == 2:
        # Σ w (x p − y)² = (Σ w)(x p − mean)² + a constant, over the targets of a row.
        kept = weight.any(axis=1)
        X, y, weight = X[kept], y[kept], weight[kept]
        mean = np.average(y, axis=1, weights=weight)
        constant = 0.5 * float(np.sum(weight * (y - mean[:, np.newaxis]) ** 2))
        y, weight = mean, weight.sum(axis=1)
    starts = np.array([0, len(y)], dtype=np.intp)
    return StackedRows(X, y, weight, ("all",), data.features, starts), constant


class SingleTaskRidge(RegressionTasks, _Ridge):
    """Separate ridge regressions for all tasks, with one common strength.

    Minimises 1/2 Σ w (x p_i + b_i − y)² + lam/2 ‖P‖² in closed form.

    Parameters
    ----------
    lam : float, default=1.0
        Strength of the ridge penalty.
    fit_intercept, task_weight, standardize, task
        See :class:`DMTL`.

    Attributes
    ----------
    coef_, intercept_, tasks_ : arrays (m, d), (m,), (m,)
        Coefficients, intercepts and task labels.
    objective_ : float
        Value of the objective.
    residual_ : float
        Norm of the objective's gradient, divided by its norm at zero.
    n_iter_ : int
        Always 1.

    Examples
    --------
    >>> from priormtl.baselines import SingleTaskRidge
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> SingleTaskRidge(lam=2.0).fit(X, y, task=task).coef_.shape
    (4, 6)
    """

    loss = "squared"


class SingleTaskRidgeClassifier(ClassificationTasks, _Ridge):
    """Least squares on labels −1 and +1, otherwise as :class:`SingleTaskRidge`."""

    loss = "squared"


class PooledRidge(RegressionTasks, _Ridge):
    """One ridge regression for the rows of all tasks, with one intercept.

    Minimises 1/2 Σ w (x p + b − y)² + lam/2 ‖p‖²; parameters and attributes are those
    of :class:`SingleTaskRidge`. All rows of ``coef_`` are equal.
    """

    pooled = True
    loss = "squared"


class PooledRidgeClassifier(ClassificationTasks, _Ridge):
    """Least squares on labels −1 and +1, otherwise as :class:`PooledRidge`."""

    pooled = True
    loss = "squared"
