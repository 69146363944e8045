"""MMTFL: multiplicative multi-task feature learning.

X. Wang, J. Bi, S. Yu, J. Sun: On Multiplicative Multitask Feature Learning. NeurIPS
2014. The constant of the joint penalty and the factor p/k in the update of the shared
part are derived anew: without that factor the update is exact for p = k only.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from scipy.sparse import issparse

from priormtl._arrays import Array
from priormtl.baselines.base import Outcome, Settings, crossed
from priormtl.baselines.convex import ConvexBaseline
from priormtl.baselines.models import LinearModel
from priormtl.baselines.multiplicative.alternation import (
    JointPenalty,
    State,
    alternate,
    begin,
    stationarity,
)
from priormtl.baselines.multiplicative.row_lasso import LassoStep, as_own_rows
from priormtl.baselines.multiplicative.row_ridge import ridge_step
from priormtl.baselines.multiplicative.row_steps import RowStep
from priormtl.data import SharedRows, TaskData
from priormtl.estimators import (
    ClassificationTasks,
    RegressionTasks,
    check_count,
    check_tolerance,
)
from priormtl.losses import DataFit
from priormtl.penalties import L21
from priormtl.priors import QuadraticPrior
from priormtl.problem import Problem
from priormtl.solvers import Method, Solution, default_method

__all__ = ["MMTFL", "MMTFLClassifier"]

# Strengths worth trying, by the steepest row at W = 0; beyond it little but 0 is left.
LARGEST, SMALLEST = 1.0, 1e-3


class _MMTFL(ConvexBaseline):
    residual_: float
    shared_: Array

    def __init__(
        self,
        lam: float = 1.0,
        *,
        p: int = 2,
        k: int = 1,
        fit_intercept: bool = True,
        task_weight: str = "sum",
        standardize: bool = False,
        tol: float = 1e-6,
        max_iter: int = 1000,
        task: Any = None,
    ) -> None:
        self.lam = lam
        self.p = p
        self.k = k
        self.fit_intercept = fit_intercept
        self.task_weight = task_weight
        self.standardize = standardize
        self.tol = tol
        self.max_iter = max_iter
        self.task = task

    def _bind(self, data: TaskData) -> Any:
        if _check_exponent("p", self.p) == 1 and self._needs_own_rows(data):
            data = as_own_rows(data)
        return super()._bind(data)

    def _prefers_grams(self, data: TaskData) -> bool:
        # Its own steps choose between rows and Gram matrices.
        return False

    def _needs_own_rows(self, data: TaskData) -> bool:
        """Whether coordinate descent could not read the data as they are."""
        if not isinstance(data, SharedRows):
            return issparse(data.X)
        weighed = self.loss == "logistic" or not data.has_one_gram
        return weighed or issparse(data.X)

    def _problem(self, fit: DataFit[Any]) -> Problem:
        return Problem(fit, QuadraticPrior.none(*fit.shape), L21(), 1.0)

    def _strength(self, value: float) -> float:
        return 2.0 * super()._strength(value)

    def _choose_method(self, problem: Problem) -> Method[Any]:
        return default_method(problem)

    def _learned(self, problem: Problem, solution: Solution) -> Mapping[str, Any]:
        penalty = JointPenalty(2, 2, problem.lam / 2.0)
        return _describe(problem.fit, penalty, solution.coef)

    def _follow(
        self, bound: DataFit[Any], strengths: Sequence[float]
    ) -> Iterator[Outcome]:
        p, k = _check_exponent("p", self.p), _check_exponent("k", self.k)
        lams = [super(_MMTFL, self)._strength(value) for value in strengths]
        if (p, k) == (2, 2) or not any(lams):
            yield from super()._follow(bound, lams)
            return
        step = ridge_step(bound) if p == 2 else LassoStep(bound)
        for lam in lams:
            if lam > 0:
                yield self._alternate(step, JointPenalty(p, k, lam))
            else:
                yield from super()._follow(bound, [lam])

    def _alternate(self, step: RowStep, penalty: JointPenalty) -> Outcome:
        tol, most = check_tolerance(self.tol), check_count("max_iter", self.max_iter)
        fit = step.fit
        start = begin(step, fit.evaluate(np.zeros(fit.shape)))
        states = islice(alternate(start, penalty, tol), most)
        ((n_iter, state),) = deque(enumerate(states, start=1), maxlen=1)
        W = state.whole(fit.shape[0])
        learned = _describe(fit, penalty, W)
        return Outcome(
            LinearModel(np.ascontiguousarray(W.T), fit.intercept(W)),
            state.objective,
            n_iter,
            {"dual_gap_": np.nan, **learned},
            _say_shortfall(state, n_iter, tol),
        )

    def _suggest(self, bound: DataFit[Any], n: int) -> list[Settings]:
        slopes = bound.evaluate(np.zeros(bound.shape)).gradient
        by_row = np.linalg.norm(slopes, axis=1, ord=2 if self.p == 2 else np.inf)
        steepest = float(by_row.max(initial=0.0)) or 1.0
        # The convex pair has W = 0 from half the steepest row on.
        top = 0.5 if (self.p, self.k) == (2, 2) else LARGEST
        grid = np.geomspace(top, SMALLEST, n) if n > 1 else [np.sqrt(top * SMALLEST)]
        return list(crossed([{}], "lam", steepest * np.asarray(grid)))


class MMTFL(RegressionTasks, _MMTFL):
    """Multiplicative multi-task feature learning, for regression.

    Coefficients are products w_i = v ∘ b_i of a part v ≥ 0 that all tasks share and a
    part b_i of each task. Minimises over v, b and intercepts c::

        1/2 Σ w (x w_i + c_i − y)² + lam Σ_i ‖b_i‖_p^p + lam ‖v‖_k^k

    which is the squared loss plus ``lam · C · Σ_j (Σ_i |w_ji|^p)^{k/(k+p)}``. Only one
    strength is needed: two of them, γ1 for b and γ2 for v, act as lam =
    γ1^{k/(k+p)} γ2^{p/(k+p)}.

    Parameters
    ----------
    lam : float
        Strength of both penalties.
    p, k : {1, 2}
        Norm over tasks, and norm of the shared part. (2, 2) is the ℓ2,1 penalty with
        strength 2 lam, and convex. (1, 1) is the multi-level lasso; (2, 1) wants few
        features that all tasks use, (1, 2) few features with few tasks each. These
        three are not convex: W and v are improved by turns from v = 1, each turn
        lowering the objective, to a local minimum.
    fit_intercept : bool
        Free intercepts, or none.
    task_weight : {"sum", "mean"}
        Whether tasks count by their rows, or all alike.
    standardize : bool
        Divide features by their pooled standard deviation inside the fit; the penalty
        depends on their units.
    tol : float
        Stop where a turn lowers the objective by less than ``tol`` times itself; for
        p = k = 2 at a duality gap of ``tol`` times the objective at W = 0.
    max_iter : int
        Most turns, or steps.
    task : str or int, optional
        Column of X that holds the task.

    Attributes
    ----------
    coef_, intercept_, tasks_ : arrays (m, d), (m,), (m,)
        Coefficients, intercepts and task labels.
    shared_ : (d,) array
        The shared part v; for features in standard units if ``standardize``.
    objective_ : float
        Objective reached.
    residual_ : float
        Sum of abs(w · slope of the objective in w) over coefficients, divided by the
        objective at zero: zero in every local minimum.
    dual_gap_ : float
        How far the optimum can be below; NaN where the problem is not convex.
    n_iter_ : int
        Turns, or steps, taken.

    Examples
    --------
    >>> from priormtl.baselines import MMTFL
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = MMTFL(lam=2.0).fit(X, y, task=task)
    >>> model.coef_.shape, model.shared_.shape
    ((4, 6), (6,))
    """

    loss = "squared"


class MMTFLClassifier(ClassificationTasks, _MMTFL):
    """Multiplicative multi-task feature learning, for two classes per task.

    As :class:`MMTFL`, with Σ w log(1 + exp(−y (x w_i + c_i))) for classes −1 and +1, or
    the squared loss on them.

    Parameters
    ----------
    lam, p, k, fit_intercept, task_weight, standardize, tol, max_iter, task
        As in :class:`MMTFL`.
    loss : {"logistic", "squared"}
        How misfit is counted.

    Attributes
    ----------
    classes_ : (2,) array, or list of m arrays where tasks have different classes
        Class labels; the second is the positive one.
    coef_, intercept_, tasks_, shared_, objective_, residual_, dual_gap_, n_iter_
        As in :class:`MMTFL`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from priormtl import one_vs_one
    >>> from priormtl.baselines import MMTFLClassifier
    >>> X, y, task = one_vs_one(*load_iris(return_X_y=True))
    >>> model = MMTFLClassifier(lam=0.5).fit(X, y, task=task)
    >>> bool(model.score(X, y, task=task) > 0.95)
    True
    """

    def __init__(
        self,
        lam: float = 1.0,
        *,
        p: int = 2,
        k: int = 1,
        loss: str = "logistic",
        fit_intercept: bool = True,
        task_weight: str = "sum",
        standardize: bool = False,
        tol: float = 1e-6,
        max_iter: int = 1000,
        task: Any = None,
    ) -> None:
        super().__init__(
            lam,
            p=p,
            k=k,
            fit_intercept=fit_intercept,
            task_weight=task_weight,
            standardize=standardize,
            tol=tol,
            max_iter=max_iter,
            task=task,
        )
        self.loss = loss


def _check_exponent(name: str, value: Any) -> int:
    if isinstance(value, bool) or value not in (1, 2):
        raise ValueError(f"{name} must be 1 or 2: got {value!r}.")
    return int(value)


def _describe(fit: DataFit[Any], penalty: JointPenalty, W: Array) -> Mapping[str, Any]:
    residual = stationarity(fit, penalty, W, fit.evaluate(W))
    return {"shared_": penalty.shared(W), "residual_": residual}


def _say_shortfall(state: State, n_iter: int, tol: float) -> str | None:
    if state.settled:
        return None
    return (
        f"the last of {n_iter} iterations still lowered the objective by more than "
        f"tol={tol:g} times {state.objective:.3g}; raise max_iter or tol."
    )
