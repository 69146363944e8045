"""Ridge regression per task, and one for all tasks: what every method must beat.

A. E. Hoerl, R. W. Kennard: Ridge Regression: Biased Estimation for Nonorthogonal
Problems. Technometrics 1970.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.sparse import issparse

from priormtl._arrays import Array
from priormtl.baselines.base import Baseline, Outcome, Settings, crossed
from priormtl.baselines.models import LinearModel
from priormtl.data import StackedRows, TaskData
from priormtl.estimators import ClassificationTasks, RegressionTasks, check_strength
from priormtl.losses import FreeIntercepts, NoIntercepts, Squared, SquaredFit

__all__ = [
    "PooledRidge",
    "PooledRidgeClassifier",
    "SingleTaskRidge",
    "SingleTaskRidgeClassifier",
]

LARGEST, SMALLEST = 1.0, 1e-5  # strengths worth trying, by the largest curvature
EMPTY = 1e-14  # of the largest curvature, per feature: what counts as none

SolveRidge = Callable[[float], Array]


class _Bound(NamedTuple):
    """A fit, and how to minimise it with any ridge."""

    fit: SquaredFit
    solve: SolveRidge  # coefficients (d, m) for a strength
    steepest: float  # largest curvature
    n_tasks: int  # that are to have these coefficients
    constant: float  # of the objective, which the fit does not know


class _Ridge(Baseline):
    followed: ClassVar[str] = "lam"
    fit_intercept: bool | str
    residual_: float

    def __init__(
        self,
        lam: float = 1.0,
        *,
        fit_intercept: bool = True,
        task_weight: str = "sum",
        standardize: bool = False,
        task: Any = None,
    ) -> None:
        self.lam = lam
        self.fit_intercept = fit_intercept
        self.task_weight = task_weight
        self.standardize = standardize
        self.task = task

    def _bind(self, data: TaskData) -> _Bound:
        if issparse(data.X) and data.X.shape[0] < data.X.shape[1]:
            data = data.with_matrix(data.X.toarray())
        intercepts = FreeIntercepts() if self.fit_intercept else NoIntercepts()
        fit = Squared().bind(data, intercepts)
        return _Bound(fit, *_decompose(fit), fit.shape[1], 0.0)

    def _follow(self, bound: _Bound, strengths: Sequence[float]) -> Iterator[Outcome]:
        for value in strengths:
            yield _describe(bound, check_strength("lam", value))

    def _suggest(self, bound: _Bound, n: int) -> list[Settings]:
        grid = np.geomspace(LARGEST, SMALLEST, n) if n > 1 else [LARGEST * 1e-2]
        return list(crossed([{}], "lam", (bound.steepest or 1.0) * np.asarray(grid)))


class _PooledRidge(_Ridge):
    def _bind(self, data: TaskData) -> _Bound:
        pooled, constant = _pool(data)
        bound = super()._bind(pooled)
        return bound._replace(n_tasks=data.shape[1], constant=constant)


class SingleTaskRidge(RegressionTasks, _Ridge):
    """Ridge regression for each task on its own, with one strength for all.

    Minimises 1/2 Σ w (x p_i + b_i − y)² + lam/2 ‖P‖² in closed form.

    Parameters
    ----------
    lam : float
        Strength.
    fit_intercept : bool
        Free intercepts, or none.
    task_weight : {"sum", "mean"}
        Whether tasks count by their rows, or all alike.
    standardize : bool
        Divide features by their pooled standard deviation inside the fit.
    task : str or int, optional
        Column of X that holds the task.

    Attributes
    ----------
    coef_, intercept_, tasks_ : arrays (m, d), (m,), (m,)
        Coefficients, intercepts and task labels.
    objective_ : float
        Objective reached.
    residual_ : float
        Length of the objective's gradient, divided by that at zero.
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
    """Least squares on labels −1 and +1, otherwise as :class:`SingleTaskRidge`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from priormtl import one_vs_one
    >>> from priormtl.baselines import SingleTaskRidgeClassifier
    >>> X, y, task = one_vs_one(*load_iris(return_X_y=True))
    >>> model = SingleTaskRidgeClassifier().fit(X, y, task=task)
    >>> bool(model.score(X, y, task=task) > 0.9)
    True
    """

    loss = "squared"


class PooledRidge(RegressionTasks, _PooledRidge):
    """One ridge regression for the rows of all tasks, with one intercept.

    Minimises 1/2 Σ w (x p + b − y)² + lam/2 ‖p‖²; parameters and attributes are those
    of :class:`SingleTaskRidge`, every task having the same row of ``coef_``.

    Examples
    --------
    >>> from priormtl.baselines import PooledRidge
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = PooledRidge().fit(X, y, task=task)
    >>> bool((model.coef_ == model.coef_[0]).all())
    True
    """

    loss = "squared"


class PooledRidgeClassifier(ClassificationTasks, _PooledRidge):
    """Least squares on labels −1 and +1, otherwise as :class:`PooledRidge`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from priormtl import one_vs_one
    >>> from priormtl.baselines import PooledRidgeClassifier
    >>> X, y, task = one_vs_one(*load_iris(return_X_y=True))
    >>> PooledRidgeClassifier().fit(X, y, task=task).coef_.shape
    (3, 4)
    """

    loss = "squared"


def _describe(bound: _Bound, lam: float) -> Outcome:
    fit, P = bound.fit, bound.solve(lam)
    point = fit.evaluate(P)
    unit = float(np.linalg.norm(fit.evaluate(np.zeros(fit.shape)).gradient))
    rest = float(np.linalg.norm(point.gradient + lam * P))
    copies = bound.n_tasks // fit.shape[1]
    model = LinearModel(np.tile(P.T, (copies, 1)), np.tile(fit.intercept(P), copies))
    objective = point.value + 0.5 * lam * float(np.vdot(P, P)) + bound.constant
    return Outcome(model, objective, 1, {"residual_": rest / unit if unit > 0 else 0.0})


def _decompose(fit: SquaredFit) -> tuple[SolveRidge, float]:
    """A solver for any strength, by one decomposition per task, and a scale for it."""
    if fit.rows_per_task is not None and fit.rows_per_task < fit.shape[0]:
        bases, values, sides = _by_samples(fit)
    else:
        bases, values, sides = _by_grams(fit)
    steepest = max(float(value.max(initial=0.0)) for value in values)

    def solve(lam: float) -> Array:
        parts = [
            basis @ (side * _invert(value + lam, lam, len(basis))[:, np.newaxis])
            for basis, value, side in zip(bases, values, sides, strict=True)
        ]
        return np.hstack(parts)

    return solve, steepest


Decomposition = tuple[Sequence[Array], Sequence[Array], Sequence[Array]]


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


def _invert(curvature: Array, lam: float, d: int) -> Array:
    """Inverses; zero where neither rows nor lam curve: the shortest solution."""
    least = 0.0 if lam > 0 else EMPTY * d * curvature.max(initial=0.0)
    return np.divide(
        1.0, curvature, out=np.zeros_like(curvature), where=curvature > least
    )


def _pool(data: TaskData) -> tuple[StackedRows, float]:
    """Rows of all tasks as one task's, and what they cost whatever is predicted.

    Several targets of a row count as their mean, with the sum of their weights.
    """
    y, weight, constant = data.y, data.weight, 0.0
    if y.ndim == 2:
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
