"""RMTL: robust learning, a subspace for most tasks and outliers beside it.

J. Chen, J. Zhou, J. Ye: Integrating Low-Rank and Group-Sparse Structures for Robust
Multi-Task Learning. KDD 2011.

Solved for both blocks [L, S] at once (``losses.SumFit``, ``penalties.Robust``), except
where one of them is known to be zero: ‖S‖_* ≤ Σ‖s_i‖ ≤ √m ‖S‖_*.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from priormtl._arrays import Array
from priormtl.baselines.base import Settings
from priormtl.baselines.ratios import check_ratio, cross_ratios
from priormtl.baselines.two_parts import TwoParts, TwoPartsClassifier
from priormtl.estimators import RegressionTasks
from priormtl.losses import DataFit, SumFit
from priormtl.penalties import Columns, Nuclear, Penalty, Robust, halve
from priormtl.priors import QuadraticPrior
from priormtl.problem import Problem
from priormtl.solvers import Solution

__all__ = ["RMTL", "RMTLClassifier"]

EXPONENTS = (0.25, 0.125, 0.375, 0.0, 0.5)  # of m, in ratios worth trying


class _RMTL(TwoParts):
    low_rank_: Array
    outliers_: Array

    def _problem(self, fit: DataFit[Any]) -> Problem:
        return _pose(fit, check_ratio(self.ratio, fit.shape[1] ** 0.25))

    def _strength(self, value: float) -> float:
        # Up to a ratio of 1 the problem's lam is that of singular values.
        return super()._strength(value) * min(1.0, check_ratio(self.ratio, 1.0))

    def _coef(self, problem: Problem, P: Array) -> Array:
        L, S = _blocks(problem, P)
        return L + S

    def _parts(self, problem: Problem, solution: Solution) -> Mapping[str, Array]:
        L, S = _blocks(problem, solution.coef)
        return {"low_rank_": L.T, "outliers_": S.T}

    def _suggest(self, bound: DataFit[Any], n: int) -> list[Settings]:
        ratios = np.power(float(bound.shape[1]), EXPONENTS)
        slope = _pose(bound, 1.0).null_point.gradient
        both = np.hstack([slope, slope])
        return cross_ratios(ratios, lambda ratio: Robust(ratio).dual_norm(both), n)


def _pose(fit: DataFit[Any], ratio: float) -> Problem:
    """The whole problem, or what is left of it where a block must be zero."""
    m = fit.shape[1]
    if ratio <= 1:
        return _without_prior(fit, Nuclear())
    if ratio >= m**0.5:
        return _without_prior(fit, Columns())
    return _without_prior(SumFit(fit), Robust(ratio))


def _without_prior(fit: DataFit[Any], penalty: Penalty) -> Problem:
    return Problem(fit, QuadraticPrior.none(*fit.shape), penalty, 1.0)


def _blocks(problem: Problem, P: Array) -> tuple[Array, Array]:
    """L and S of a solution."""
    if isinstance(problem.penalty, Robust):
        return halve(P)
    zero = np.zeros_like(P)
    return (P, zero) if isinstance(problem.penalty, Nuclear) else (zero, P)


class RMTL(RegressionTasks, _RMTL):
    """Robust learning: coefficients of low rank, and outlier tasks beside them.

    Minimises over L, S (features × tasks) and intercepts b, with P = L + S::

        1/2 Σ w (x p_i + b_i − y)² + ratio · lam ‖L‖_* + lam Σ_i ‖s_i‖

    Parameters
    ----------
    lam : float, default=1.0
        Strength of the penalty of outlier tasks.
    ratio : float, optional
        Strength of the trace norm over ``lam``; None: m^¼ for m tasks. Up to 1 there
        are no outliers, from √m on nothing but outliers.
    fit_intercept, task_weight, standardize, tol, max_iter, task
        As in :class:`DMTL`.

    Attributes
    ----------
    coef_, intercept_ : (m, d), (m,) arrays
        One row of coefficients and one intercept per task.
    low_rank_, outliers_ : (m, d) arrays
        Parts L and S, whose sum is ``coef_``. Where tasks differ in size, outliers mean
        more with ``task_weight="mean"``.
    tasks_ : (m,) array
        Task names.
    objective_, dual_gap_, n_iter_ : float, float, int
        Objective, a bound on its distance to the optimum, and steps taken.

    Examples
    --------
    >>> from priormtl.baselines import RMTL
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = RMTL(lam=5.0, ratio=1.5).fit(X, y, task=task)
    >>> model.coef_.shape, model.predict(X, task=task).shape
    ((4, 6), (120,))
    """

    loss = "squared"


class RMTLClassifier(TwoPartsClassifier, _RMTL):
    """Robust learning for two classes in every task.

    Parameters
    ----------
    loss : {"logistic", "squared"}, default="logistic"
        How misfit of classes coded −1 and +1 is counted.
    lam, ratio, fit_intercept, task_weight, standardize, tol, max_iter, task
        As in :class:`RMTL`, which also lists what a fit publishes.

    Examples
    --------
    >>> from priormtl.baselines import RMTLClassifier
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = RMTLClassifier(lam=1.0).fit(X, y > 0, task=task)
    >>> model.predict(X[:2], task=task[:2]).dtype
    dtype('bool')
    """
