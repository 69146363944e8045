"""RMTL: robust multi-task learning, coefficients of low rank plus outlier tasks.

J. Chen, J. Zhou, J. Ye: Integrating Low-Rank and Group-Sparse Structures for Robust
Multi-Task Learning. KDD 2011.

The problem is solved for both blocks [L, S] at once (``losses.SumFit``,
``penalties.Robust``), except where one of them must be zero, because ‖S‖_* ≤ Σ‖s_i‖ ≤
√m ‖S‖_*. With ``losses.OutlierFit``, which minimises over S inside the loss, the
solutions are the same, but small problems take longer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from priormtl.baselines.base import Baseline, Outcome, Settings
from priormtl.baselines.convex import (
    bind_loss,
    check_ratio,
    cross_ratios,
    describe,
    solve_strengths,
    stop_rules,
)
from priormtl.checks import check_strength
from priormtl.data import TaskData
from priormtl.estimators import ClassificationTasks, RegressionTasks
from priormtl.losses import DataFit, SumFit
from priormtl.penalties import Columns, Nuclear, Penalty, Robust, halve
from priormtl.problem import Problem, QuadraticPrior


@dataclass(eq=False, repr=False)
class _RMTL(Baseline):
    followed = "lam"

    lam: float = 1.0
    _: KW_ONLY
    ratio: float | None = None
    tol: float = 1e-6
    max_iter: int = 10_000

    def _bind(self, data: TaskData) -> DataFit[Any]:
        return bind_loss(self, data)

    def _follow(
        self, bound: DataFit[Any], strengths: Sequence[float]
    ) -> Iterator[Outcome]:
        m = bound.shape[1]
        ratio = check_ratio(self.ratio, m**0.25)
        # Of [L, S] one block may have to be zero, see above.
        fit: DataFit[Any] = bound
        penalty: Penalty = Nuclear() if ratio <= 1 else Columns()
        if 1 < ratio < m**0.5:
            fit, penalty = SumFit(bound), Robust(ratio)
        problem = Problem(fit, QuadraticPrior.none(*fit.shape), penalty, 1.0)
        # Without outliers the problem's lam is the strength of the trace norm.
        unit = min(1.0, ratio)
        lams = [check_strength("lam", value) * unit for value in strengths]
        for posed, solution in solve_strengths(
            problem, lams, lambda method: stop_rules(method, self.tol, self.max_iter)
        ):
            P, zero = solution.coef, np.zeros_like(solution.coef)
            if isinstance(penalty, Robust):
                L, S = halve(P)
            else:
                L, S = (P, zero) if isinstance(penalty, Nuclear) else (zero, P)
            parts = {"low_rank_": L.T, "outliers_": S.T}
            yield describe(posed, solution, self.tol, coef=L + S, parts=parts)

    def _suggest(self, bound: DataFit[Any], n: int) -> list[Settings]:
        ratios = np.power(float(bound.shape[1]), (0.25, 0.125, 0.375, 0.0, 0.5))
        gradient = bound.evaluate(np.zeros(bound.shape)).gradient
        both = np.hstack([gradient, gradient])
        return cross_ratios(ratios, lambda ratio: Robust(ratio).dual_norm(both), n)


class RMTL(RegressionTasks, _RMTL):
    """Robust multi-task learning: coefficients of low rank, plus outlier tasks.

    Minimises over L, S (features × tasks) and intercepts b, with P = L + S::

        1/2 Σ w (x p_i + b_i − y)² + ratio · lam ‖L‖_* + lam Σ_i ‖s_i‖

    Parameters
    ----------
    lam : float, default=1.0
        Strength of the penalty on outlier tasks.
    ratio : float, optional
        Strength of the trace norm, as a multiple of ``lam``; None means m^¼ for m
        tasks. Up to 1 there are no outliers; from √m on there is no low-rank part.
    fit_intercept, task_weight, standardize, tol, max_iter, task
        See :class:`DMTL`.

    Attributes
    ----------
    coef_, intercept_ : (m, d), (m,) arrays
        One row of coefficients and one intercept per task.
    low_rank_, outliers_ : (m, d) arrays
        Parts L and S, whose sum is ``coef_``. Where tasks differ in size, outliers are
        easier to interpret with ``task_weight="mean"``.
    tasks_ : (m,) array
        Task names.
    objective_, dual_gap_, n_iter_ : float, float, int
        Objective, an upper bound on its distance to the optimum, and iterations.

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


@dataclass(eq=False, repr=False)
class RMTLClassifier(ClassificationTasks, _RMTL):
    """Robust multi-task learning for two classes in every task.

    Parameters
    ----------
    loss : {"logistic", "squared"}, default="logistic"
        Loss on classes coded −1 and +1.
    lam, ratio, fit_intercept, task_weight, standardize, tol, max_iter, task
        See :class:`RMTL`, which also lists the fitted attributes.
    """

    _: KW_ONLY
    loss: str = "logistic"
