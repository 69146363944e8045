"""MMTFL: multiplicative multi-task feature learning.

X. Wang, J. Bi, S. Yu, J. Sun: On Multiplicative Multitask Feature Learning. NeurIPS
2014.

Coefficients are products w_i = v ∘ b_i of a shared part v ≥ 0 and a part b_i of each
task. Minimising lam (Σ_i ‖b_i‖_p^p + ‖v‖_k^k) over v leaves the joint penalty

    lam C Σ_j s_j^{k/(k+p)},   s_j = Σ_i |w_ji|^p,
    C = (k/p)^{p/(k+p)} + (p/k)^{k/(k+p)},   v_j = (p s_j / k)^{1/(p+k)}.

Without the factor p/k, as it is sometimes printed, the update of v is exact for p = k
only.

For p = k = 2 the penalty is 2 lam Σ_j ‖w_j‖₂, which is convex and solved as such. The
other pairs alternate between W and v. With v at its best for the last W, lam Σ_j s_j /
v_j^p majorises the penalty up to a constant, so that every step that lowers fit plus
majoriser lowers the objective. For given v the tasks are ridge regressions (p = 2), by
conjugate gradients in b = w / v, or lassos (p = 1), by FISTA.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple, Self

import numpy as np

from priormtl import solvers
from priormtl._arrays import Array, Index
from priormtl.baselines import base
from priormtl.checks import check_count, check_strength, check_tolerance
from priormtl.estimators import ClassificationTasks, RegressionTasks
from priormtl.losses import Evaluation
from priormtl.penalties import L21, Penalty
from priormtl.problem import Problem, QuadraticPrior


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
        return np.sum(np.abs(W) ** self.p, axis=1)


# Steps in W for given v


def ridge_step(
    fit: base.Fit, W: Array, at: Evaluation, v: Array, lam: float, accuracy: float
) -> Array:
    """Lower the fit's quadratic model + lam ‖w / v‖²: conjugate gradients in w / v."""
    v = v[:, np.newaxis]
    residual = -(v * at.gradient + 2.0 * lam * _divide(W, v))
    change, direction = np.zeros_like(W), residual.copy()
    size, total = np.sum(residual**2, axis=0), 0.0
    # All tasks at once, until a product gains a fifth of the mean gain or less.
    for count in range(1, 101):
        product = v * fit.hessian(at, v * direction) + 2.0 * lam * direction
        length = _divide(size, np.sum(direction * product, axis=0))
        change += length * direction
        residual = residual - length * product
        gain = 0.5 * float(length @ size)
        total += gain
        if count * gain <= 0.2 * total or gain <= accuracy:
            break
        last, size = size, np.sum(residual**2, axis=0)
        direction = residual + _divide(size, last) * direction
    return np.asarray(W + v * change)


def lasso_step(
    fit: base.Fit, W: Array, at: Evaluation, v: Array, lam: float, accuracy: float
) -> Array:
    """Lower fit + lam Σ |w| / v, by FISTA."""
    problem = Problem(fit, QuadraticPrior.none(*fit.shape), WeightedL1(v), lam)
    close = solvers.gap_below(accuracy / (problem.null_objective or 1.0))
    rules: list[solvers.StopRule] = [close, solvers.stalled(), solvers.max_iter(1000)]
    method = solvers.Fista(restart=True)
    return solvers.solve(problem, method, coef=W, stop=rules).coef


@dataclass(frozen=True, eq=False)
class WeightedL1(Penalty):
    """Σ_ji |w_ji| / v_j; rows with v_j = 0 must be zero."""

    shared: Array  # v (d,)

    def value(self, P: Array) -> float:
        return float(_divide(np.abs(P).sum(axis=1), self.shared).sum())

    def prox(self, P: Array, step: float) -> Array:
        with np.errstate(divide="ignore", over="ignore"):
            threshold = step / self.shared[:, np.newaxis]
        return np.sign(P) * np.maximum(np.abs(P) - threshold, 0.0)

    def dual_norm(self, G: Array) -> float:
        largest = np.abs(G).max(axis=1, initial=0.0)
        return float((largest * self.shared).max(initial=0.0))

    def restrict(self, features: Index) -> Self:
        return type(self)(self.shared[features])


def _divide(a: Array, b: Array) -> Array:
    """Quotients; zero where the divisor is."""
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=b > 0)


# The alternation


class Iterate(NamedTuple):
    """Coefficients of the alternation, and whether it ends with them."""

    coef: Array  # W (d, m)
    objective: float
    converged: bool


def alternate(
    fit: base.Fit, penalty: JointPenalty, tol: float, v: Array | None = None
) -> Iterator[Iterate]:
    """W for given v, then v, until this gains at most ``tol`` times the objective.

    From W = 0 with v = 1: other starts may lose rows that the best solutions use.
    """
    W, v = np.zeros(fit.shape), np.ones(fit.shape[0]) if v is None else v
    point = fit.evaluate(W)
    objective, last = point.value, np.inf
    step = ridge_step if penalty.p == 2 else lasso_step
    while True:
        # W need not be more accurate than a tenth of the tolerance.
        target = step(fit, W, point, v, penalty.lam, 0.1 * tol * objective)
        # Halve the step until fit plus majoriser is lower.
        here = point.value + penalty.majoriser(W, v)
        for halvings in range(1 if fit.is_quadratic else 40):
            coef = W + 0.5**halvings * (target - W) if halvings else target
            trial = fit.evaluate(coef, point)
            if trial.value + penalty.majoriser(coef, v) < here:
                break
        else:  # rounding hides any better W
            yield Iterate(W, objective, True)
            return
        W, point = drop_vanishing_rows(fit, penalty, coef, trial)
        v, objective = penalty.shared(W), point.value + penalty.value(W)
        converged = last - objective <= tol * objective
        yield Iterate(W, objective, converged)
        if converged:
            return
        last = objective


def drop_vanishing_rows(
    fit: base.Fit, penalty: JointPenalty, W: Array, point: Evaluation
) -> tuple[Array, Evaluation]:
    """Set rows to zero that converge to zero, where the objective does not rise.

    Ridge steps shrink such a row faster and faster but never reach zero.
    """
    costs = penalty.row_values(W)
    objective = point.value + float(costs.sum())
    slope = np.abs(np.sum(W * point.gradient, axis=1))
    # A row is about to vanish where its penalty is a small part of the objective and
    # far exceeds what the fit gains by the row.
    small = (costs > 0) & (costs <= 1e-4 * objective) & (slope <= 0.1 * costs)
    if small.any():
        coef = np.where(small[:, np.newaxis], 0.0, W)
        without = fit.evaluate(coef, point)
        if without.value + penalty.value(coef) <= objective:
            return coef, without
    return W, point


def stationarity(fit: base.Fit, penalty: JointPenalty, W: Array) -> float:
    """Σ |w · slope of the objective in w| over the objective at W = 0."""
    # w · ∂penalty/∂w = p k / (p + k) · penalty of the row · share of the entry.
    p, k = penalty.p, penalty.k
    norms = np.abs(W) ** p
    sums = norms.sum(axis=1, keepdims=True)
    costs = penalty.row_values(W)[:, np.newaxis]
    slopes = p * k / (p + k) * costs * _divide(norms, sums)
    unit = fit.evaluate(np.zeros_like(W)).value
    total = float(np.abs(W * fit.evaluate(W).gradient + slopes).sum())
    return total / unit if unit > 0 else 0.0


@dataclass(eq=False, repr=False)
class _MMTFL(base.Baseline):
    followed = "lam"

    lam: float = 1.0
    _: KW_ONLY
    p: int = 2
    k: int = 1
    tol: float = 1e-6
    max_iter: int = 1000

    def _follow(
        self, bound: base.Fit, strengths: Sequence[float]
    ) -> Iterator[base.Outcome]:
        for name, value in (("p", self.p), ("k", self.k)):
            if isinstance(value, bool) or value not in (1, 2):
                raise ValueError(f"{name} must be 1 or 2: got {value!r}.")
        p, k = int(self.p), int(self.k)
        lams = [check_strength("lam", value) for value in strengths]
        if (p, k) == (2, 2):
            yield from self._solve_convex(bound, lams)
            return
        for lam in lams:  # without penalty all pairs are convex
            if lam > 0:
                yield self._alternate(bound, JointPenalty(p, k, lam))
            else:
                yield from self._solve_convex(bound, [lam])

    def _solve_convex(
        self, bound: base.Fit, lams: Sequence[float]
    ) -> Iterator[base.Outcome]:
        """The pair (2, 2): the ℓ2,1 penalty of twice the strength."""
        problem = Problem(bound, QuadraticPrior.none(*bound.shape), L21(), 1.0)
        rules = partial(base.stop_rules, tol=self.tol, most=self.max_iter)
        doubled = [2.0 * lam for lam in lams]
        for posed, solution in base.solve_strengths(problem, doubled, rules):
            penalty, W = JointPenalty(2, 2, posed.lam / 2.0), solution.coef
            residual = stationarity(posed.fit, penalty, W)
            learned = {"shared_": penalty.shared(W), "residual_": residual}
            yield base.describe(posed, solution, self.tol, learned=learned)

    def _alternate(self, fit: base.Fit, penalty: JointPenalty) -> base.Outcome:
        tol, most = check_tolerance(self.tol), check_count("max_iter", self.max_iter)
        iterates = islice(alternate(fit, penalty, tol), most)
        ((n_iter, (W, objective, converged)),) = deque(enumerate(iterates, 1), maxlen=1)
        shortfall = (
            f"the last of {n_iter} iterations still lowered the objective by more "
            f"than tol={tol:g} times {objective:.3g}; raise max_iter or tol."
        )
        learned = {"shared_": penalty.shared(W), "dual_gap_": np.nan}
        learned["residual_"] = stationarity(fit, penalty, W)
        intercept = fit.intercept_at_zero(fit.evaluate(W))
        model = base.LinearModel(np.ascontiguousarray(W.T), intercept)
        missed = None if converged else shortfall
        return base.Outcome(model, objective, n_iter, learned, missed)

    def _suggest(self, bound: base.Fit, n: int) -> list[base.Settings]:
        slopes = bound.evaluate(np.zeros(bound.shape)).gradient
        by_row = np.linalg.norm(slopes, axis=1, ord=2 if self.p == 2 else np.inf)
        steepest = float(by_row.max(initial=0.0)) or 1.0
        # The convex pair has W = 0 from half the largest gradient row on.
        top = 0.5 if (self.p, self.k) == (2, 2) else 1.0
        grid = np.geomspace(top, 1e-3, n) if n > 1 else [np.sqrt(top * 1e-3)]
        return [{"lam": steepest * float(value)} for value in grid]


class MMTFL(RegressionTasks, _MMTFL):
    """Multiplicative multi-task feature learning, for regression.

    Coefficients are products w_i = v ∘ b_i of a part v ≥ 0 that all tasks share and a
    part b_i of each task. The method minimises over v, b and intercepts c::

        1/2 Σ w (x w_i + c_i − y)² + lam Σ_i ‖b_i‖_p^p + lam ‖v‖_k^k

    One strength is enough: strengths γ1 of b and γ2 of v act as lam = γ1^{k/(k+p)}
    γ2^{p/(k+p)}.

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

    ``loss`` on classes coded −1 and +1 is "logistic", the default, or "squared"; other
    parameters and attributes are those of :class:`MMTFL`.
    """

    _: KW_ONLY
    loss: str = "logistic"
