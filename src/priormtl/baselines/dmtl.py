"""DMTL: the dirty model, rows that tasks share plus single entries of their own.

A. Jalali, P. Ravikumar, S. Sanghavi, C. Ruan: A Dirty Model for Multi-task Learning.
NeurIPS 2010.

The two parts are never solved for: their best split is known for any sum, so that the
model is a norm of the sum alone (``penalties.Dirty``), and split afterwards.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from priormtl._arrays import Array
from priormtl.baselines.base import Settings
from priormtl.baselines.ratios import check_ratio, cross_ratios
from priormtl.baselines.two_parts import TwoParts, TwoPartsClassifier
from priormtl.estimators import RegressionTasks
from priormtl.losses import DataFit
from priormtl.penalties import Dirty
from priormtl.priors import QuadraticPrior
from priormtl.problem import Problem
from priormtl.solvers import Solution

__all__ = ["DMTL", "DMTLClassifier"]

EXPONENTS = (0.5, 0.25, 0.75, 1.0, 0.0)  # of m, in ratios worth trying


class _DMTL(TwoParts):
    shared_: Array
    own_: Array

    def _problem(self, fit: DataFit[Any]) -> Problem:
        return _pose(fit, check_ratio(self.ratio, fit.shape[1] ** 0.5))

    def _parts(self, problem: Problem, solution: Solution) -> Mapping[str, Array]:
        penalty = problem.penalty
        shared, own = penalty.split(solution.coef)  # type: ignore[attr-defined]
        return {"shared_": shared.T, "own_": own.T}

    def _suggest(self, bound: DataFit[Any], n: int) -> list[Settings]:
        ratios = np.power(float(bound.shape[1]), EXPONENTS)
        return cross_ratios(ratios, lambda ratio: _pose(bound, ratio).lam_max, n)


def _pose(fit: DataFit[Any], ratio: float) -> Problem:
    return Problem(fit, QuadraticPrior.none(*fit.shape), Dirty(ratio), 1.0)


class DMTL(RegressionTasks, _DMTL):
    """Dirty model: coefficients are shared rows plus sparse entries of single tasks.

    Minimises over B, S (features × tasks) and intercepts b, with P = B + S::

        1/2 Σ w (x p_i + b_i − y)² + lam Σ|S_ji| + ratio · lam Σ_j max_i |B_ji|

    Parameters
    ----------
    lam : float, default=1.0
        Strength of the penalty of single entries.
    ratio : float, optional
        Strength of shared rows over ``lam``; None: √m for m tasks. From m on nothing is
        shared (a lasso for each task), up to 1 nothing is a task's own.
    fit_intercept : bool, default=True
        Whether each task has an intercept, which no penalty counts.
    task_weight : {"sum", "mean"}, default="sum"
        Whether losses of rows are summed, or averaged within each task.
    standardize : bool, default=False
        Whether to divide features by their pooled standard deviation before learning.
    tol : float, default=1e-6
        Duality gap to reach, as a share of the objective without features.
    max_iter : int, default=10000
        Steps after which to stop in any case.
    task : column name or index, optional
        Column of X that holds the task of each row.

    Attributes
    ----------
    coef_, intercept_ : (m, d), (m,) arrays
        One row of coefficients and one intercept per task.
    shared_, own_ : (m, d) arrays
        Parts B and S, whose sum is ``coef_``. Other splits can be as good.
    tasks_ : (m,) array
        Task names.
    objective_, dual_gap_, n_iter_ : float, float, int
        Objective, a bound on its distance to the optimum, and steps taken.

    Examples
    --------
    >>> from priormtl.baselines import DMTL
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = DMTL(lam=5.0, ratio=2.0).fit(X, y, task=task)
    >>> model.coef_.shape, model.predict(X, task=task).shape
    ((4, 6), (120,))
    """

    loss = "squared"


class DMTLClassifier(TwoPartsClassifier, _DMTL):
    """Dirty model for two classes in every task.

    Parameters
    ----------
    loss : {"logistic", "squared"}, default="logistic"
        How misfit of classes coded −1 and +1 is counted.
    lam, ratio, fit_intercept, task_weight, standardize, tol, max_iter, task
        As in :class:`DMTL`, which also lists what a fit publishes.

    Examples
    --------
    >>> from priormtl.baselines import DMTLClassifier
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = DMTLClassifier(lam=1.0).fit(X, y > 0, task=task)
    >>> model.predict(X[:2], task=task[:2]).dtype
    dtype('bool')
    """
