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
majoriser lowers the objective. For given v the tasks are ridge regressions (p = 2), by
conjugate gradients in b = w / v, or lassos (p = 1), by FISTA.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Self

import numpy as np

from priormtl import solvers
from priormtl._arrays import Array, Index
from priormtl.baselines.base import Baseline, LinearModel, Outcome, Settings, crossed
from priormtl.baselines.convex import bind_loss, describe, solve_strengths, stop_rules
from priormtl.checks import check_count, check_strength, check_tolerance
from priormtl.data import TaskData
from priormtl.estimators import ClassificationTasks, RegressionTasks
from priormtl.losses import DataFit, Evaluation
from priormtl.penalties import L21
from priormtl.problem import Problem, QuadraticPrior

INNER = 0.1  # of the tolerance: accuracy of the step in W
MOST_STEPS, MOST_HALVINGS = 100, 40
LAST_GAIN = 0.2  # stop CG when a product gains less than this share of the mean gain
SMALL = 1e-4  # of the objective: penalty of a row that may be set to zero,
WEAK = 0.1  # if |w_j · gradient_j| is below this share of that penalty


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


# Steps in W for given v


def ridge_step(
    fit: DataFit[Any], W: Array, at: Evaluation, v: Array, lam: float, accuracy: float
) -> Array:
    """Lower the fit's quadratic model + lam ‖w / v‖²: conjugate gradients in w / v."""
    v = v[:, np.newaxis]
    residual = -(v * at.gradient + 2.0 * lam * _divide(W, v))
    change, direction = np.zeros_like(W), residual.copy()
    size, total = np.sum(residual**2, axis=0), 0.0
    # All tasks at once, until products gain little.
    for count in range(1, MOST_STEPS + 1):
        product = v * fit.hessian(at, v * direction) + 2.0 * lam * direction
        length = _divide(size, np.sum(direction * product, axis=0))
        change += length * direction
        residual = residual - length * product
        gain = 0.5 * float(length @ size)
        total += gain
        if count * gain <= LAST_GAIN * total or gain <= accuracy:
            break
        last, size = size, np.sum(residual**2, axis=0)
        direction = residual + _divide(size, last) * direction
    return np.asarray(W + v * change)


def lasso_step(
    fit: DataFit[Any], W: Array, at: Evaluation, v: Array, lam: float, accuracy: float
) -> Array:
    """Lower fit + lam Σ |w| / v, by FISTA."""
    problem = Problem(fit, QuadraticPrior.none(*fit.shape), WeightedL1(v), lam)
    tol = accuracy / (problem.null_objective or 1.0)
    rules: list[solvers.StopRule] = [
        solvers.gap_below(tol),
        solvers.stalled(),
        solvers.max_iter(10 * MOST_STEPS),
    ]
    method = solvers.Fista(restart=True)
    return solvers.solve(problem, method, coef=W, stop=rules).coef


@dataclass(frozen=True, eq=False)
class WeightedL1:
    """Σ_ji |w_ji| / v_j; rows with v_j = 0 must be zero."""

    shared: Array  # v (d,)

    def value(self, P: Array) -> float:
        return float(_divide(np.abs(P).sum(axis=1), self.shared).sum())

    def prox(self, P: Array, step: float) -> Array:
        with np.errstate(divide="ignore", over="ignore"):
            threshold = step / self.shared[:, np.newaxis]
        return np.sign(P) * np.maximum(np.abs(P) - threshold, 0.0)

    def dual_norm(self, G: Array) -> float:
        return float(
            (np.abs(G).max(axis=1, initial=0.0) * self.shared).max(initial=0.0)
        )

    def restrict(self, features: Index) -> Self:
        return type(self)(self.shared[features])


def _divide(a: Array, b: Array) -> Array:
    """Quotients; zero where the divisor is."""
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=b > 0)


# The alternation


@dataclass(frozen=True, eq=False)
class State:
    """An iterate of the alternation."""

    fit: DataFit[Any]
    penalty: JointPenalty
    coef: Array
    point: Evaluation  # the fit at ``coef``
    shared: Array  # v
    objective: float
    converged: bool = False

    @classmethod
    def start(cls, fit: DataFit[Any], penalty: JointPenalty) -> Self:
        """W = 0 with v = 1: other starts may lose rows that the best solutions use."""
        point = fit.evaluate(np.zeros(fit.shape))
        ones = np.ones(fit.shape[0])
        return cls(fit, penalty, np.zeros(fit.shape), point, ones, point.value)

    def move_to(self, coef: Array, point: Evaluation) -> Self:
        shared, value = self.penalty.shared(coef), self.penalty.value(coef)
        objective = point.value + value
        return replace(self, coef=coef, point=point, shared=shared, objective=objective)

    def improve(self, tol: float) -> Self | None:
        """W for given v, then v; None where rounding hides any better W."""
        fit, penalty, v = self.fit, self.penalty, self.shared
        step = ridge_step if penalty.p == 2 else lasso_step
        accuracy = INNER * tol * self.objective
        target = step(fit, self.coef, self.point, v, penalty.lam, accuracy)
        # Halve the step until fit plus majoriser is lower.
        here = self.point.value + penalty.majoriser(self.coef, v)
        for halvings in range(MOST_HALVINGS):
            coef = (
                self.coef + 0.5**halvings * (target - self.coef) if halvings else target
            )
            point = fit.evaluate(coef, self.point)
            if point.value + penalty.majoriser(coef, v) < here:
                return self.move_to(coef, point).drop_vanishing_rows()
            if fit.is_quadratic:
                break
        return None

    def drop_vanishing_rows(self) -> Self:
        """Set rows to zero that converge to zero, where the objective does not rise.

        Ridge steps shrink such a row faster and faster but never reach zero.
        """
        W, cost = self.coef, self.penalty.row_values(self.coef)
        slope = np.abs(np.sum(W * self.point.gradient, axis=1))
        # A row is about to vanish where its penalty exceeds what the fit gains by it.
        small = (cost > 0) & (cost <= SMALL * self.objective) & (slope <= WEAK * cost)
        if not small.any():
            return self
        coef = np.where(small[:, np.newaxis], 0.0, W)
        without = self.move_to(coef, self.fit.evaluate(coef, self.point))
        return without if without.objective <= self.objective else self


def alternate(state: State, tol: float) -> Iterator[State]:
    """Iterates, until one lowers the objective by at most ``tol`` times itself."""
    last = np.inf
    while not state.converged:
        following = state.improve(tol)
        if following is None:
            state = replace(state, converged=True)
        else:
            converged = last - following.objective <= tol * following.objective
            state, last = replace(following, converged=converged), following.objective
        yield state


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

    def _bind(self, data: TaskData) -> DataFit[Any]:
        return bind_loss(self, data)

    def _follow(
        self, bound: DataFit[Any], strengths: Sequence[float]
    ) -> Iterator[Outcome]:
        p, k = _check_exponent("p", self.p), _check_exponent("k", self.k)
        lams = [check_strength("lam", value) for value in strengths]
        if (p, k) == (2, 2) or not any(lams):
            yield from self._solve_convex(bound, lams)
            return
        for lam in lams:
            if lam > 0:
                yield self._alternate(bound, JointPenalty(p, k, lam))
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

    def _alternate(self, fit: DataFit[Any], penalty: JointPenalty) -> Outcome:
        tol, most = check_tolerance(self.tol), check_count("max_iter", self.max_iter)
        states = islice(alternate(State.start(fit, penalty), tol), most)
        ((n_iter, state),) = deque(enumerate(states, start=1), maxlen=1)
        W = state.coef
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
        top = 0.5 if (self.p, self.k) == (2, 2) else 1.0
        grid = np.geomspace(top, 1e-3, n) if n > 1 else [np.sqrt(top * 1e-3)]
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
    shared_ : (d,) array
        The shared part v, for standardized features if ``standardize=True``.
    residual_ : float
        Sum of abs(w · derivative of the objective in w) over coefficients, divided by
        the objective at zero. It is zero in every local minimum.
    dual_gap_ : float
        Duality gap; NaN where the problem is not convex.
    coef_, intercept_, tasks_, objective_, n_iter_
        See :class:`DMTL`.

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

    Parameters
    ----------
    loss : {"logistic", "squared"}, default="logistic"
        Loss on classes coded −1 and +1.
    lam, p, k, fit_intercept, task_weight, standardize, tol, max_iter, task
        See :class:`MMTFL`, which also lists the fitted attributes.
    """

    _: KW_ONLY
    loss: str = "logistic"
