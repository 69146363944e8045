"""Ridge regression for each task, and one for all tasks: the simplest references.

Both are solved in closed form by one decomposition per task (of the Gram matrix, or of
the rows where there are fewer rows than features), which serves all strengths.

A. E. Hoerl, R. W. Kennard: Ridge Regression: Biased Estimation for Nonorthogonal
Problems. Technometrics 1970.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.sparse import issparse

from priormtl._arrays import Array
from priormtl.baselines.base import Baseline, LinearModel, Outcome, Settings, crossed
from priormtl.checks import check_strength
from priormtl.data import StackedRows, TaskData
from priormtl.estimators import ClassificationTasks, RegressionTasks
from priormtl.losses import FreeIntercepts, NoIntercepts, Squared, SquaredFit

Decomposition = tuple[Sequence[Array], Sequence[Array], Sequence[Array]]


class _Bound(NamedTuple):
    """A data fit, decomposed so that it can be minimised with any ridge."""

    fit: SquaredFit
    bases: Sequence[Array]  # eigenvectors of each task's Gram matrix
    values: Sequence[Array]  # its eigenvalues
    sides: Sequence[Array]  # Xᵀy in these bases
    n_tasks: int  # that get these coefficients
    constant: float  # of the objective, which the fit does not include

    @property
    def steepest(self) -> float:
        return max(float(value.max(initial=0.0)) for value in self.values)

    def solve(self, lam: float) -> Array:
        """Coefficients (d, m); at lam = 0 the shortest solution."""
        parts = []
        for basis, value, side in zip(self.bases, self.values, self.sides, strict=True):
            # (XᵀX + lam I)⁻¹ Xᵀy in the eigenbasis of XᵀX, where it is diagonal.
            curvature = value + lam
            floor = 1e-14 * len(basis) * curvature.max(initial=0.0)
            inverse = np.divide(
                1.0,
                curvature,
                out=np.zeros_like(curvature),
                where=curvature > (0.0 if lam > 0 else floor),
            )
            parts.append(basis @ (side * inverse[:, np.newaxis]))
        return np.hstack(parts)


@dataclass(eq=False, repr=False)
class _Ridge(Baseline):
    followed = "lam"
    pooled: ClassVar[bool] = False  # whether all tasks are one

    lam: float = 1.0

    def _bind(self, data: TaskData) -> _Bound:
        m, constant = data.shape[1], 0.0
        if self.pooled:
            data, constant = _pool(data)
        if issparse(data.X) and data.X.shape[0] < data.X.shape[1]:
            data = data.with_matrix(data.X.toarray())
        intercepts = FreeIntercepts() if self.fit_intercept else NoIntercepts()
        fit = Squared().bind(data, intercepts)
        wide = fit.rows_per_task is not None and fit.rows_per_task < fit.shape[0]
        bases, values, sides = _by_samples(fit) if wide else _by_grams(fit)
        return _Bound(fit, bases, values, sides, m, constant)

    def _follow(self, bound: _Bound, strengths: Sequence[float]) -> Iterator[Outcome]:
        fit = bound.fit
        unit = float(np.linalg.norm(fit.evaluate(np.zeros(fit.shape)).gradient))
        copies = bound.n_tasks // fit.shape[1]
        for value in strengths:
            lam = check_strength("lam", value)
            P = bound.solve(lam)
            point = fit.evaluate(P)
            rest = float(np.linalg.norm(point.gradient + lam * P))
            objective = point.value + 0.5 * lam * float(np.vdot(P, P)) + bound.constant
            intercept = fit.intercept_at_zero(point)
            model = LinearModel(np.tile(P.T, (copies, 1)), np.tile(intercept, copies))
            learned = {"residual_": rest / unit if unit > 0 else 0.0}
            yield Outcome(model, objective, 1, learned)

    def _suggest(self, bound: _Bound, n: int) -> list[Settings]:
        # Shares of the largest curvature.
        grid = np.geomspace(1.0, 1e-5, n) if n > 1 else [1e-2]
        return list(crossed([{}], "lam", (bound.steepest or 1.0) * np.asarray(grid)))


def _by_grams(fit: SquaredFit) -> Decomposition:
    """Eigenvectors, eigenvalues and Xᵀy in them."""
    form = fit.normal_form()
    values, bases = np.linalg.eigh(form.gram)
    linear = form.linear
    columns = [linear] if len(values) == 1 else [*linear.T[:, :, np.newaxis]]
    sides = [basis.T @ part for basis, part in zip(bases, columns, strict=True)]
    return [*bases], [*np.maximum(values, 0.0)], sides


def _by_samples(fit: SquaredFit) -> Decomposition:
    """The same by singular values, for fewer rows than features."""
    form = fit.sample_form()
    ends = form.starts.tolist() or [0, form.rows.shape[1]]
    targets = form.target.T if form.target.ndim == 2 else form.target[:, np.newaxis]
    bases, values, sides = [], [], []
    for a, b in pairwise(ends):
        basis, roots, left = np.linalg.svd(form.rows[:, a:b], full_matrices=False)
        bases.append(basis)
        values.append(roots**2)
        sides.append(roots[:, np.newaxis] * (left @ targets[a:b]))
    return bases, values, sides


def _pool(data: TaskData) -> tuple[StackedRows, float]:
    """Rows of all tasks as those of one, and the loss that no prediction can change.

    Several targets of a row count as their mean, with the sum of their weights.
    """
    y, weight, constant = data.y, data.weight, 0.0
    if y.ndim == 2:
        # Σ w (x p − y)² = (Σ w)(x p − mean)² + a constant, over the targets of a row.
        total = weight.sum(axis=1)
        kept = total > 0
        mean = np.sum(weight * y, axis=1)[kept] / total[kept]
        constant = 0.5 * float(
            np.sum(weight[kept] * (y[kept] - mean[:, np.newaxis]) ** 2)
        )
        data = replace(data, X=data.X[kept])
        y, weight = mean, total[kept]
    starts = np.array([0, len(y)], dtype=np.intp)
    return StackedRows(data.X, y, weight, ("all",), data.features, starts), constant


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

    Examples
    --------
    >>> from priormtl.baselines import PooledRidge
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = PooledRidge().fit(X, y, task=task)
    >>> bool((model.coef_ == model.coef_[0]).all())
    True
    """

    pooled = True
    loss = "squared"


class PooledRidgeClassifier(ClassificationTasks, _Ridge):
    """Least squares on labels −1 and +1, otherwise as :class:`PooledRidge`."""

    pooled = True
    loss = "squared"
