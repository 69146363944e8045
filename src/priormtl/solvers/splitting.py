"""ADMM: exact steps of the fit and of the penalty in turn.

Minimises f(X) + g(Z) subject to X = Z, with the squared loss f and g = lam · penalty.
With dual variable Y and penalty parameter rho an iteration is (Boyd et al. 2011,
(3.2–3.4), over-relaxed by α as in section 3.4.3)

    X ← argmin f(X) + ⟨Y, X⟩ + rho/2 ‖X − Z‖²    a linear system, Hessian + rho I
    T ← α X + (1 − α) Z + Y / rho
    Z ← prox_{g/rho}(T),    Y ← rho (T − Z).

At the optimum Y = −∇f(Z). Z has the zeros and the low rank that the penalty gives: it
is what the method returns. rho follows the ratio of the relative primal and dual
residuals (Wohlberg 2017), and stays as it is after a number of changes.

S. Boyd, N. Parikh, E. Chu, B. Peleato, J. Eckstein: Distributed Optimization and
Statistical Learning via the Alternating Direction Method of Multipliers. 2011.
B. Wohlberg: ADMM Penalty Parameter Selection by Residual Balancing. 2017.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from priormtl._arrays import Array
from priormtl.penalties import Power
from priormtl.problem import Point, Problem
from priormtl.solvers.first_order import initial_curvature

RELAXATION = 1.6  # α
MOST_CHANGE = 5.0  # of rho at once
MEMO = "curvature along the gradient at zero"


class Iterate(NamedTuple):
    """Variables of ADMM."""

    coef: Array  # Z
    dual: Array  # Y


@dataclass(frozen=True, eq=False)
class SplittingState:
    """State of ADMM between two checks."""

    point: Point
    dual: Array  # (d, m)
    rho: float
    n_steps: int


@dataclass(frozen=True)
class Splitting:
    """ADMM for squared loss without prior, whose Hessian can be inverted with a shift.

    The fit's step is exact, so that badly conditioned features cost nothing. A step of
    the method is a fixed number of iterations.
    """

    check_every: ClassVar[int] = 1

    @staticmethod
    def fits(problem: Problem) -> bool:
        """Whether the fit can be inverted, and nothing else is smooth."""
        prior = problem.prior
        is_plain = not prior.relation.nnz and prior.epsilon == 0 and problem.lam > 0
        return is_plain and problem.fit.shifted_size is not None

    def start(self, problem: Problem, point: Point) -> SplittingState:
        """Choose rho, which grows with lam, and the dual variable −∇f."""
        share = problem.lam / problem.lam_max if problem.lam_max > 0 else 1.0
        rho = _fit_curvature(problem) * min(max(share, 1e-3), 1.0)
        # A dual variable beyond lam in the dual norm is infeasible, and the first
        # iterations would go far astray. Powers of a norm have no such bound.
        length = problem.penalty.dual_norm(point.gradient)
        bounded = length > 0 and not isinstance(problem.penalty, Power)
        feasible = min(1.0, problem.lam / length) if bounded else 1.0
        return SplittingState(point, -feasible * point.gradient, rho, 0)

    def step(self, problem: Problem, state: SplittingState) -> SplittingState:
        """Iterate a few times, then adapt rho."""
        rho = state.rho
        now = before = Iterate(state.point.coef, state.dual)
        for _ in range(10):
            right = rho * now.coef - now.dual - problem.null_point.gradient
            fitted = problem.fit.solve_shifted(rho, right)
            target = now.coef + RELAXATION * (fitted - now.coef) + now.dual / rho
            coef = problem.prox(target, 1.0 / rho)
            before, now = now, Iterate(coef, rho * (target - coef))
        # Later rho stays, so that the method converges.
        if state.n_steps < 30:
            rho = adapt_rho(problem, now, before, rho)
        point = problem.at(now.coef, near=state.point)
        return SplittingState(point, now.dual, rho, state.n_steps + 1)


def adapt_rho(problem: Problem, now: Iterate, before: Iterate, rho: float) -> float:
    """Value of rho that would make both relative residuals about equal."""
    primal = _relative(now.dual - before.dual, rho * now.coef)
    dual = _relative(rho * (now.coef - before.coef), now.dual)
    factor = float(np.sqrt(primal / dual)) if primal > 0 and dual > 0 else 1.0
    # A ratio of residuals up to two changes nothing.
    if 0.5 <= factor <= 2.0:
        factor = 1.0
    factor = min(max(factor, 1.0 / MOST_CHANGE), MOST_CHANGE)
    return max(1e-5 * _fit_curvature(problem), rho * factor)


def _relative(part: Array, whole: Array) -> float:
    size = float(np.linalg.norm(whole))
    return float(np.linalg.norm(part)) / size if size > 0 else 0.0


def _fit_curvature(problem: Problem) -> float:
    """Curvature of the fit along its gradient at zero; computed once per fit."""
    fit, curvature = problem.memo.get(MEMO, (None, 1.0))
    if fit is not problem.fit:
        curvature = initial_curvature(problem, problem.null_point)
        problem.memo[MEMO] = problem.fit, curvature
    return float(curvature)
