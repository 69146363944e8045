"""MMTFL: multiplicative multi-task feature learning.

X. Wang, J. Bi, S. Yu, J. Sun: On Multiplicative Multitask Feature Learning. NeurIPS
2014.

Coefficients are products w_i = v ∘ b_i of a shared part v ≥ 0 and a part b_i of each
task. Minimising lam (Σ_i ‖b_i‖_p^p + ‖v‖_k^k) over v leaves the joint penalty

    lam C Σ_j s_j^{k/(k+p)},   s_j = Σ_i |w_ji|^p,
    C = (k/p)^{p/(k+p)} + (p/k)^{k/(k+p)},   v_j = (p s_j / k)^{1/(p+k)}.

The constant C and the factor p/k of v are derived anew: without that factor, as it is
sometimes printed, the update of v is exact for p = k only.

For p = k = 2 the penalty is 2 lam Σ_j ‖w_j‖₂, which is convex and solved as such. The
other pairs alternate between W and v. With v at its best for the last W, lam Σ_j s_j /
v_j^p majorises the penalty up to a constant, so that every step that lowers fit plus
majoriser lowers the objective.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse

from priormtl._arrays import Array, Index
from priormtl.baselines.base import Baseline, LinearModel, Outcome, Settings, crossed
from priormtl.baselines.convex import bind_loss, describe, solve_strengths, stop_rules
from priormtl.baselines.mmtfl import steps
from priormtl.checks import check_count, check_strength, check_tolerance
from priormtl.data import SharedRows, TaskData
from priormtl.estimators import ClassificationTasks, RegressionTasks
from priormtl.losses import DataFit, Evaluation
from priormtl.penalties import L21
from priormtl.problem import Problem, QuadraticPrior

# Strengths to try, relative to the largest gradient row at W = 0; above it W is 0.
LARGEST, SMALLEST = 1.0, 1e-3

INNER = 0.1  # of the tolerance: accuracy of the step in W
MOST_HALVINGS = 40
SMALL = 1e-4  # of the objective: penalty of a row that may be set to zero,
WEAK = 0.1  # if |w_j · gradient_j| is below this share of that penalty
WORTH_RESTRICTING = 0.75  # share of non-zero rows below which the others are dropped


@dataclass(frozen=True)
class JointPenalty:
    """lam (Σ_i ‖b_i‖_p^p + ‖v‖_k^k) at the best v ≥ 0 and b = w / v."""

    p: int
    k: int
    lam: float

    def row_values(self, W: Array) -> Array:
        """Penalty of each row (d,)."""
        p, k = self.p, self.k
        factor = (k / p) ** (p / (k + p)) + (p / k) ** (k / (k + p))
        return self.lam * factor * self._sums(W) ** (k / (k + p))

    def value(self, W: Array) -> float:
        return float(self.row_values(W).sum())

    def shared(self, W: Array) -> Array:
        """Best v (d,)."""
        return np.asarray((self.p / self.k * self._sums(W)) ** (1 / (self.p + self.k)))

    def majoriser(self, W: Array, v: Array) -> float:
        """lam Σ_j s_j / v_j^p over rows with v_j > 0; the others are zero."""
        used = v > 0
        return self.lam * float(np.sum(self._sums(W[used]) / v[used] ** self.p))

    def _sums(self, W: Array) -> Array:
        return np.asarray(np.sum(np.abs(W) ** self.p, axis=1))


@dataclass(frozen=True, eq=False)
class State:
    """An iterate of the alternation, on the rows that are not zero yet."""

    step: steps.Step
    features: Index  # rows that remain; the others are zero for good
    coef: Array
    point: Evaluation  # the fit at ``coef``
    shared: Array  # v
    objective: float
    converged: bool = False

    def full_coef(self, d: int) -> Array:
        W = np.zeros((d, self.coef.shape[1]))
        W[self.features] = self.coef
        return W

    def restrict(self, kept: Index) -> Self:
        """Same iterate without the other rows, which are zero."""
        step, coef = self.step.restrict(kept), self.coef[kept]
        return replace(
            self,
            step=step,
            features=self.features[kept],
            coef=coef,
            point=step.fit.evaluate(coef, self.point),
            shared=self.shared[kept],
        )


def initial_state(step: steps.Step) -> State:
    """W = 0 with v = 1: other starts may lose rows that the best solutions use."""
    d, m = step.fit.shape
    zero = np.zeros((d, m))
    point = step.fit.evaluate(zero)
    return State(step, np.arange(d), zero, point, np.ones(d), point.value)


def alternate(state: State, penalty: JointPenalty, tol: float) -> Iterator[State]:
    """Iterates, until one lowers the objective by at most ``tol`` times itself."""
    last = np.inf
    while not state.converged:
        following = _improve(state, penalty, INNER * tol * state.objective)
        if following is None:
            state = replace(state, converged=True)
        else:
            objective = following.objective
            converged = last - objective <= tol * objective
            state, last = replace(following, converged=converged), objective
        yield state


def _improve(state: State, penalty: JointPenalty, accuracy: float) -> State | None:
    """W for given v, then v; None where rounding hides any better W."""
    fit = state.step.fit
    target = state.step.improve(
        steps.Subproblem(state.coef, state.point, state.shared, penalty.lam, accuracy)
    )
    # Halve the step until fit plus majoriser is lower.
    here = state.point.value + penalty.majoriser(state.coef, state.shared)
    end = fit.evaluate(target, state.point)
    for halvings in range(1 if fit.is_quadratic else MOST_HALVINGS):
        part = 0.5**halvings
        coef = state.coef + part * (target - state.coef) if halvings else target
        point = fit.extrapolate(end, state.point, part - 1.0) if halvings else end
        if point.value + penalty.majoriser(coef, state.shared) < here:
            break
    else:
        return None
    lower = _drop_vanishing_rows(_move_to(state, penalty, coef, point), penalty)
    used = np.flatnonzero(lower.shared)
    if 0 < len(used) <= WORTH_RESTRICTING * len(lower.shared):
        return lower.restrict(used)
    return lower


def _move_to(
    state: State, penalty: JointPenalty, coef: Array, point: Evaluation
) -> State:
    return replace(
        state,
        coef=coef,
        point=point,
        shared=penalty.shared(coef),
        objective=point.value + penalty.value(coef),
    )


def _drop_vanishing_rows(state: State, penalty: JointPenalty) -> State:
    """Set rows to zero that converge to zero, where the objective does not rise.

    Ridge steps shrink such a row faster and faster but never reach zero.
    """
    W, cost = state.coef, penalty.row_values(state.coef)
    slope = np.abs(np.sum(W * state.point.gradient, axis=1))
    # A row is about to vanish where its penalty exceeds what the fit gains by it.
    vanishing = (cost > 0) & (cost <= SMALL * state.objective) & (slope <= WEAK * cost)
    if not vanishing.any():
        return state
    coef = np.where(vanishing[:, np.newaxis], 0.0, W)
    point = state.step.fit.evaluate(coef, state.point)
    without = _move_to(state, penalty, coef, point)
    return without if without.objective <= state.objective else state


def stationarity(fit: DataFit[Any], penalty: JointPenalty, W: Array) -> float:
    """Σ |w · slope of the objective in w| over the objective at W = 0.

    This is the first-order change if all non-zero coefficients moved by their own
    size. It does not depend on the units of features and targets.
    """
    # w · ∂penalty/∂w = p k / (p + k) · penalty of the row · share of the entry.
    p, k = penalty.p, penalty.k
    norms = np.abs(W) ** p
    sums = norms.sum(axis=1, keepdims=True)
    shares = np.divide(norms, sums, out=np.zeros_like(norms), where=sums > 0)
    slopes = p * k / (p + k) * penalty.row_values(W)[:, np.newaxis] * shares
    unit = fit.evaluate(np.zeros_like(W)).value
    total = float(np.abs(W * fit.evaluate(W).gradient + slopes).sum())
    return total / unit if unit > 0 else 0.0


@dataclass(eq=False, repr=False)
class _MMTFL(Baseline):
    followed = "lam"

    lam: float = 1.0
    _: KW_ONLY
    p: int = 2
    k: int = 1
    tol: float = 1e-6
    max_iter: int = 1000

    def _bind(self, data: TaskData) -> Any:
        if _check_exponent("p", self.p) == 1:
            # Coordinate descent needs dense rows, and one Gram matrix if tasks share.
            own = issparse(data.X)
            if isinstance(data, SharedRows):
                own = own or self.loss == "logistic" or not data.has_one_gram
            data = steps.as_own_rows(data) if own else data
        # The steps choose between rows and Gram matrices themselves.
        return bind_loss(self, data, grams=False)

    def _follow(
        self, bound: DataFit[Any], strengths: Sequence[float]
    ) -> Iterator[Outcome]:
        p, k = _check_exponent("p", self.p), _check_exponent("k", self.k)
        lams = [check_strength("lam", value) for value in strengths]
        if (p, k) == (2, 2) or not any(lams):
            yield from self._solve_convex(bound, lams)
            return
        # For given v the tasks are ridge regressions (p = 2) or lassos (p = 1).
        step = steps.ridge_step(bound) if p == 2 else steps.LassoStep(bound)
        for lam in lams:
            if lam > 0:
                yield self._alternate(step, JointPenalty(p, k, lam))
            else:
                yield from self._solve_convex(bound, [lam])

    def _solve_convex(
        self, bound: DataFit[Any], lams: Sequence[float]
    ) -> Iterator[Outcome]:
        """The pair (2, 2): the ℓ2,1 penalty of twice the strength."""
        problem = Problem(bound, QuadraticPrior.none(*bound.shape), L21(), 1.0)
        rules = partial(stop_rules, tol=self.tol, most=self.max_iter)
        doubled = [2.0 * lam for lam in lams]
        for posed, solution in solve_strengths(problem, doubled, rules):
            penalty, W = JointPenalty(2, 2, posed.lam / 2.0), solution.coef
            residual = stationarity(posed.fit, penalty, W)
            learned = {"shared_": penalty.shared(W), "residual_": residual}
            yield describe(posed, solution, self.tol, learned=learned)

    def _alternate(self, step: steps.Step, penalty: JointPenalty) -> Outcome:
        tol, most = check_tolerance(self.tol), check_count("max_iter", self.max_iter)
        fit = step.fit
        states = islice(alternate(initial_state(step), penalty, tol), most)
        ((n_iter, state),) = deque(enumerate(states, start=1), maxlen=1)
        W = state.full_coef(fit.shape[0])
        shortfall = None
        if not state.converged:
            shortfall = (
                f"the last of {n_iter} iterations still lowered the objective by more "
                f"than tol={tol:g} times {state.objective:.3g}; raise max_iter or tol."
            )
        learned = {
            "dual_gap_": np.nan,
            "shared_": penalty.shared(W),
            "residual_": stationarity(fit, penalty, W),
        }
        model = LinearModel(
            np.ascontiguousarray(W.T), fit.intercept_at_zero(fit.evaluate(W))
        )
        return Outcome(model, state.objective, n_iter, learned, shortfall)

    def _suggest(self, bound: DataFit[Any], n: int) -> list[Settings]:
        slopes = bound.evaluate(np.zeros(bound.shape)).gradient
        by_row = np.linalg.norm(slopes, axis=1, ord=2 if self.p == 2 else np.inf)
        steepest = float(by_row.max(initial=0.0)) or 1.0
        # The convex pair has W = 0 from half the largest gradient row on.
        top = 0.5 if (self.p, self.k) == (2, 2) else LARGEST
        grid = np.geomspace(top, SMALLEST, n) if n > 1 else [np.sqrt(top * SMALLEST)]
        return list(crossed([{}], "lam", steepest * np.asarray(grid)))


def _check_exponent(name: str, value: Any) -> int:
    if isinstance(value, bool) or value not in (1, 2):
        raise ValueError(f"{name} must be 1 or 2: got {value!r}.")
    return int(value)


class MMTFL(RegressionTasks, _MMTFL):
    """Multiplicative multi-task feature learning, for regression.

    Coefficients are products w_i = v ∘ b_i of a part v ≥ 0 that all tasks share and a
    part b_i of each task. The method minimises over v, b and intercepts c::

        1/2 Σ w (x w_i + c_i − y)² + lam Σ_i ‖b_i‖_p^p + lam ‖v‖_k^k

    This equals the squared loss plus ``lam · C · Σ_j (Σ_i |w_ji|^p)^{k/(k+p)}``. One
    strength is enough: two strengths γ1 (of b) and γ2 (of v) act as lam =
    γ1^{k/(k+p)} γ2^{p/(k+p)}.

    Parameters
    ----------
    lam : float, default=1.0
        Strength of both penalties.
    p, k : {1, 2}
        Norm over tasks, and norm of the shared part. (2, 2) is the ℓ2,1 penalty with
        strength 2 lam, which is convex. (1, 1) is the multi-level lasso. (2, 1) prefers
        few features that all tasks use, (1, 2) few features with few tasks each. The
        last three are not convex: W and v are updated alternately from v = 1 until a
        local minimum is reached.
    fit_intercept, task_weight, standardize, task
        See :class:`DMTL`. The penalty depends on the units of the features.
    tol : float, default=1e-6
        Stop when an iteration lowers the objective by less than ``tol`` times itself;
        for p = k = 2 at a duality gap of ``tol`` times the objective at W = 0.
    max_iter : int, default=1000
        Maximum number of iterations.

    Attributes
    ----------
    coef_, intercept_, tasks_ : arrays (m, d), (m,), (m,)
        Coefficients, intercepts and task labels.
    shared_ : (d,) array
        The shared part v, for standardized features if ``standardize=True``.
    objective_ : float
        Value of the objective.
    residual_ : float
        Sum of abs(w · derivative of the objective in w) over coefficients, divided by
        the objective at zero. It is zero in every local minimum.
    dual_gap_ : float
        Duality gap; NaN where the problem is not convex.
    n_iter_ : int
        Number of iterations.

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


@dataclass(eq=False, repr=False)
class MMTFLClassifier(ClassificationTasks, _MMTFL):
    """Multiplicative multi-task feature learning, for two classes per task.

    As :class:`MMTFL`, with the logistic loss Σ w log(1 + exp(−y (x w_i + c_i))) for
    classes coded −1 and +1, or with the squared loss on this coding.

    Parameters
    ----------
    lam, p, k, fit_intercept, task_weight, standardize, tol, max_iter, task
        See :class:`MMTFL`.
    loss : {"logistic", "squared"}, default="logistic"
        The loss.

    Attributes
    ----------
    classes_ : (2,) array, or list of m arrays where tasks have different classes
        Class labels; the second is the positive one.
    coef_, intercept_, tasks_, shared_, objective_, residual_, dual_gap_, n_iter_
        See :class:`MMTFL`.

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

    _: KW_ONLY
    loss: str = "logistic"
