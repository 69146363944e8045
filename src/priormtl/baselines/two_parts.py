"""DMTL and RMTL: coefficients that are a sum of two parts, P = B + S or P = L + S.

**DMTL**, the dirty model: rows that all tasks share plus sparse task-specific entries.
A. Jalali, P. Ravikumar, S. Sanghavi, C. Ruan: A Dirty Model for Multi-task Learning.
NeurIPS 2010. The best split of any sum P = B + S has a closed form. So the penalty is a
norm of P alone (``penalties.Dirty``), the problem is solved for P, and P is split
afterwards.

**RMTL**, robust multi-task learning: coefficients of low rank plus outlier tasks.
J. Chen, J. Zhou, J. Ye: Integrating Low-Rank and Group-Sparse Structures for Robust
Multi-Task Learning. KDD 2011. The problem is solved for both blocks [L, S] at once
(``losses.SumFit``, ``penalties.Robust``), except where one of them must be zero,
because ‖S‖_* ≤ Σ‖s_i‖ ≤ √m ‖S‖_*.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from priormtl._arrays import Array
from priormtl.baselines import base
from priormtl.checks import check_positive, check_strength
from priormtl.estimators import ClassificationTasks, RegressionTasks
from priormtl.losses import SumFit
from priormtl.penalties import Columns, Dirty, Nuclear, Penalty, Robust, halve
from priormtl.problem import Problem, QuadraticPrior


class Form(NamedTuple):
    """What tells the two methods apart."""

    powers: tuple[float, ...]  # of m: ratios to try, the default first
    # Problem of strength one, and the multiple of ``lam`` that is its strength.
    pose: Callable[[base.Fit, float], tuple[Problem, float]]
    # Both parts (d, m) of a solution, by the names of their attributes.
    split: Callable[[Penalty, Array], dict[str, Array]]
    # The lam from which on the solution is zero, for a ratio and the gradient at zero.
    largest: Callable[[float, Array], float]


@dataclass(eq=False, repr=False)
class _TwoParts(base.Baseline):
    """A path of lam, with strengths lam and ratio · lam of the two parts."""

    followed = "lam"
    form: ClassVar[Form]

    lam: float = 1.0
    _: KW_ONLY
    ratio: float | None = None
    tol: float = 1e-6
    max_iter: int = 10_000

    def _follow(
        self, bound: base.Fit, strengths: Sequence[float]
    ) -> Iterator[base.Outcome]:
        ratio = bound.shape[1] ** self.form.powers[0]
        if self.ratio is not None:
            ratio = check_positive("ratio", self.ratio)
        problem, unit = self.form.pose(bound, ratio)
        lams = [check_strength("lam", value) * unit for value in strengths]
        rules = partial(base.stop_rules, tol=self.tol, most=self.max_iter)
        for posed, solution in base.solve_strengths(problem, lams, rules):
            parts = self.form.split(posed.penalty, solution.coef)
            coef = np.sum(list(parts.values()), axis=0)
            by_task = {name: part.T for name, part in parts.items()}
            yield base.describe(posed, solution, self.tol, coef=coef, parts=by_task)

    def _suggest(self, bound: base.Fit, n: int) -> list[base.Settings]:
        ratios = np.power(float(bound.shape[1]), self.form.powers)
        gradient = bound.evaluate(np.zeros(bound.shape)).gradient
        return cross_ratios(ratios, lambda ratio: self.form.largest(ratio, gradient), n)


def cross_ratios(
    ratios: Iterable[float], largest: Callable[[float], float], n: int
) -> list[base.Settings]:
    """At most ``n`` settings: for the first ratios a path of lam, from large to small.

    ``largest`` is the lam from which on the solution for a ratio is zero.
    """
    # Few settings go to one ratio: lam matters more than how it is shared.
    distinct = list(dict.fromkeys(float(ratio) for ratio in ratios))
    chosen = distinct[: max(1, n // 6)]
    settings: list[base.Settings] = []
    for k, ratio in enumerate(chosen):
        # Paths are as equally long as can be, the first ones longer.
        points = n // len(chosen) + (k < n % len(chosen))
        shares = np.geomspace(1.0, 1e-3, points) if points > 1 else np.array([0.03])
        lams = (largest(ratio) or 1.0) * shares
        settings += base.crossed([{"ratio": ratio}], "lam", lams)
    return settings


# The dirty model.


def _pose_dirty(fit: base.Fit, ratio: float) -> tuple[Problem, float]:
    return Problem(fit, QuadraticPrior.none(*fit.shape), Dirty(ratio), 1.0), 1.0


def _split_dirty(penalty: Penalty, P: Array) -> dict[str, Array]:
    assert isinstance(penalty, Dirty)
    shared, own = penalty.split(P)
    return {"shared_": shared, "own_": own}


DIRTY = Form(
    (0.5, 0.25, 0.75, 1.0, 0.0),
    _pose_dirty,
    _split_dirty,
    lambda ratio, gradient: Dirty(ratio).dual_norm(gradient),
)


class DMTL(RegressionTasks, _TwoParts):
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

    form = DIRTY
    loss = "squared"


@dataclass(eq=False, repr=False)
class DMTLClassifier(ClassificationTasks, _TwoParts):
    """Dirty model, for two classes per task.

    ``loss`` on classes coded −1 and +1 is "logistic", the default, or "squared"; other
    parameters and attributes are those of :class:`DMTL`.
    """

    form = DIRTY
    _: KW_ONLY
    loss: str = "logistic"


# Low rank and outlier tasks.


def _pose_robust(fit: base.Fit, ratio: float) -> tuple[Problem, float]:
    # Of [L, S] one block may have to be zero, see above.
    penalty: Penalty = Nuclear() if ratio <= 1 else Columns()
    if 1 < ratio < fit.shape[1] ** 0.5:
        fit, penalty = SumFit(fit), Robust(ratio)
    problem = Problem(fit, QuadraticPrior.none(*fit.shape), penalty, 1.0)
    # Without outliers the problem's lam is the strength of the trace norm.
    return problem, min(1.0, ratio)


def _split_robust(penalty: Penalty, P: Array) -> dict[str, Array]:
    if isinstance(penalty, Robust):
        L, S = halve(P)
    else:
        zero = np.zeros_like(P)
        L, S = (P, zero) if isinstance(penalty, Nuclear) else (zero, P)
    return {"low_rank_": L, "outliers_": S}


ROBUST = Form(
    (0.25, 0.125, 0.375, 0.0, 0.5),
    _pose_robust,
    _split_robust,
    lambda ratio, gradient: Robust(ratio).dual_norm(np.hstack([gradient, gradient])),
)


class RMTL(RegressionTasks, _TwoParts):
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
    low_rank_, outliers_ : (m, d) arrays
        Parts L and S, whose sum is ``coef_``. Where tasks differ in size, outliers are
        easier to interpret with ``task_weight="mean"``.
    coef_, intercept_, tasks_, objective_, dual_gap_, n_iter_
        See :class:`DMTL`.

    Examples
    --------
    >>> from priormtl.baselines import RMTL
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = RMTL(lam=5.0, ratio=1.5).fit(X, y, task=task)
    >>> model.coef_.shape, model.predict(X, task=task).shape
    ((4, 6), (120,))
    """

    form = ROBUST
    loss = "squared"


@dataclass(eq=False, repr=False)
class RMTLClassifier(ClassificationTasks, _TwoParts):
    """Robust multi-task learning, for two classes per task.

    ``loss`` on classes coded −1 and +1 is "logistic", the default, or "squared"; other
    parameters and attributes are those of :class:`RMTL`.
    """

    form = ROBUST
    _: KW_ONLY
    loss: str = "logistic"
