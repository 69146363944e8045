"""DMTL and RMTL: sums of two parts, with strengths lam and ratio · lam.

DMTL, the dirty model, adds rows that all tasks share and sparse task-specific entries.
The best split of any sum P = B + S into its two parts has a closed form. So the penalty
is a norm of P alone (``penalties.Dirty``), the problem is solved for P, and P is split
afterwards.

RMTL adds coefficients of low rank and outlier tasks. It is solved for both blocks
[L, S] at once (``losses.SumFit``, ``penalties.Robust``), except where one of them must
be zero, because ‖S‖_* ≤ Σ‖s_i‖ ≤ √m ‖S‖_*. With ``losses.OutlierFit``, which minimises
over S inside the loss, the solutions are the same, but small problems take longer.

A. Jalali, P. Ravikumar, S. Sanghavi, C. Ruan: A Dirty Model for Multi-task Learning.
NeurIPS 2010.
J. Chen, J. Zhou, J. Ye: Integrating Low-Rank and Group-Sparse Structures for Robust
Multi-Task Learning. KDD 2011.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import numpy as np

from priormtl.baselines.base import Baseline, Outcome, Settings, crossed
from priormtl.baselines.convex import bind_loss, describe, solve_strengths, stop_rules
from priormtl.checks import check_strength
from priormtl.data import TaskData
from priormtl.estimators import ClassificationTasks, RegressionTasks
from priormtl.losses import DataFit, SumFit
from priormtl.penalties import Columns, Dirty, Nuclear, Penalty, Robust, halve
from priormtl.problem import Problem, QuadraticPrior

# Powers of m that are ratios worth trying.
DMTL_EXPONENTS = (0.5, 0.25, 0.75, 1.0, 0.0)
RMTL_EXPONENTS = (0.25, 0.125, 0.375, 0.0, 0.5)
LOWEST = 1e-3  # last lam of a path, as a share of the first
ONLY = 0.03  # the lam of a path of one point, as a share of the largest
POINTS = 6  # of a path, before another ratio is worth trying


def check_ratio(value: Any, default: float) -> float:
    if value is None:
        return default
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not np.isfinite(value) or not value > 0:
        raise ValueError(
            f"ratio must be a positive finite number or None: got {value!r}."
        )
    return float(value)


def cross_ratios(
    ratios: Iterable[float], largest: Callable[[float], float], n: int
) -> list[Settings]:
    """At most ``n`` settings: for the first ratios a path of lam, from large to small.

    ``largest`` is the lam from which on the solution for a ratio is zero.
    """
    # Few settings go to one ratio: lam matters more than how it is shared.
    distinct = list(dict.fromkeys(float(ratio) for ratio in ratios))
    chosen = distinct[: max(1, n // POINTS)]
    settings: list[Settings] = []
    for k, ratio in enumerate(chosen):
        # Paths are as equally long as can be, the first ones longer.
        points = n // len(chosen) + (k < n % len(chosen))
        shares = np.geomspace(1.0, LOWEST, points) if points > 1 else np.array([ONLY])
        lams = (largest(ratio) or 1.0) * shares
        settings += crossed([{"ratio": ratio}], "lam", lams)
    return settings


# DMTL


@dataclass(eq=False, repr=False)
class _DMTL(Baseline):
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
        penalty = Dirty(check_ratio(self.ratio, bound.shape[1] ** 0.5))
        problem = Problem(bound, QuadraticPrior.none(*bound.shape), penalty, 1.0)
        lams = [check_strength("lam", value) for value in strengths]
        for posed, solution in solve_strengths(
            problem, lams, lambda method: stop_rules(method, self.tol, self.max_iter)
        ):
            shared, own = penalty.split(solution.coef)
            parts = {"shared_": shared.T, "own_": own.T}
            yield describe(posed, solution, self.tol, parts=parts)

    def _suggest(self, bound: DataFit[Any], n: int) -> list[Settings]:
        ratios = np.power(float(bound.shape[1]), DMTL_EXPONENTS)
        gradient = bound.evaluate(np.zeros(bound.shape)).gradient
        return cross_ratios(ratios, lambda ratio: Dirty(ratio).dual_norm(gradient), n)


class DMTL(RegressionTasks, _DMTL):
    """Dirty model: coefficients are shared rows plus sparse entries of single tasks.

    Minimises over B, S (features × tasks) and intercepts b, with P = B + S::

        1/2 Σ w (x p_i + b_i − y)² + lam Σ|S_ji| + ratio · lam Σ_j max_i |B_ji|

    Parameters
    ----------
    lam : float, default=1.0
        Strength of the penalty on task-specific entries.
    ratio : float, optional
        Strength of the penalty on shared rows, as a multiple of ``lam``; None means √m
        for m tasks. From m on nothing is shared (one lasso per task); up to 1 there are
        no task-specific entries.
    fit_intercept : bool, default=True
        Whether to fit an unpenalised intercept for each task.
    task_weight : {"sum", "mean"}, default="sum"
        Whether losses of rows are summed or averaged within each task.
    standardize : bool, default=False
        Whether to divide features by their pooled standard deviation before fitting.
    tol : float, default=1e-6
        Stop at a duality gap of ``tol`` times the objective at zero.
    max_iter : int, default=10000
        Maximum number of iterations.
    task : column name or index, optional
        Column of X that holds the task of each row.

    Attributes
    ----------
    coef_, intercept_ : (m, d), (m,) arrays
        One row of coefficients and one intercept per task.
    shared_, own_ : (m, d) arrays
        Parts B and S, whose sum is ``coef_``. The split is not unique in general.
    tasks_ : (m,) array
        Task names.
    objective_, dual_gap_, n_iter_ : float, float, int
        Objective, an upper bound on its distance to the optimum, and iterations.

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


@dataclass(eq=False, repr=False)
class DMTLClassifier(ClassificationTasks, _DMTL):
    """Dirty model for two classes in every task.

    Parameters
    ----------
    loss : {"logistic", "squared"}, default="logistic"
        Loss on classes coded −1 and +1.
    lam, ratio, fit_intercept, task_weight, standardize, tol, max_iter, task
        See :class:`DMTL`, which also lists the fitted attributes.
    """

    _: KW_ONLY
    loss: str = "logistic"


# RMTL


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
        ratios = np.power(float(bound.shape[1]), RMTL_EXPONENTS)
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
