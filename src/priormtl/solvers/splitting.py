"""Splitting: exact steps of the fit and of the penalty in turn (ADMM).

S. Boyd, N. Parikh, E. Chu, B. Peleato, J. Eckstein: Distributed Optimization and
Statistical Learning via the Alternating Direction Method of Multipliers. 2011.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from priormtl._arrays import Array
from priormtl.problem import Point, Problem
from priormtl.solvers.first_order import initial_curvature

__all__ = ["Exchange", "Splitting", "fit_curvature", "rebalance"]

ROUND = 10  # exchanges from one look at the gap to the next
RELAXATION = 1.6  # beyond the fit's point, towards where it pulls
MOST_ADAPTED = 30  # rounds after which the price stays, so that all converges
TOLERATED = 2.0  # imbalance of the two misfits
MOST_CHANGE = 5.0
LEAST_SHARE = 1e-3  # of the curvature: below, the fit's side would not listen
LEAST_PRICE = 1e-5  # same, once both sides are known
MEMO = "curvature along the gradient at zero"


class Exchange(NamedTuple):
    """What the two sides hold."""

    coef: Array  # of the penalty's side, with its zeros and low rank
    pull: Array  # force between the sides: minus the gradient, at the optimum


@dataclass(frozen=True, eq=False)
class SplittingState:
    """Where the method stands."""

    point: Point
    pull: Array  # (d, m)
    price: float  # of a difference between the two sides
    curvature: float  # of the fit, along its gradient at zero
    n_rounds: int


@dataclass(frozen=True)
class Splitting:
    """For squared loss without prior, whose Hessian can be inverted with any shift.

    Badly conditioned features cost nothing, since the fit's side is solved exactly;
    every exchange costs a product and a proximal step. A step is a round of them.
    """

    look_every: ClassVar[int] = 1

    @staticmethod
    def fits(problem: Problem) -> bool:
        """Whether the fit can be inverted, and nothing else is smooth."""
        prior = problem.prior
        is_plain = prior.theta == 0 and prior.epsilon == 0 and problem.lam > 0
        return is_plain and problem.fit.shifted_size is not None

    def start(self, problem: Problem, point: Point) -> SplittingState:
        """Begin at a price that grows with lam: its size is that of lam over P."""
        curvature = fit_curvature(problem)
        share = problem.lam / problem.lam_max if problem.lam_max > 0 else 1.0
        price = curvature * min(max(share, LEAST_SHARE), 1.0)
        # More than lam no penalty can bear: the first exchanges would leap far away.
        length = problem.penalty.dual_norm(point.gradient)
        bearable = min(1.0, problem.lam / length) if length > 0 else 1.0
        return SplittingState(point, -bearable * point.gradient, price, curvature, 0)

    def step(self, problem: Problem, state: SplittingState) -> SplittingState:
        """A round of exchanges, then a look at both misfits."""
        price = state.price
        now = before = Exchange(state.point.coef, state.pull)
        for _ in range(ROUND):
            before, now = now, _exchange(problem, now, price)
        if state.n_rounds < MOST_ADAPTED:
            least = LEAST_PRICE * state.curvature
            price = max(least, price * rebalance(now, before, price))
        point = problem.at(now.coef, near=state.point)
        n_rounds = state.n_rounds + 1
        return SplittingState(point, now.pull, price, state.curvature, n_rounds)


def fit_curvature(problem: Problem) -> float:
    """Of the fit, along its gradient at zero; looked for once."""
    fit, curvature = problem.memo.get(MEMO, (None, 1.0))
    if fit is not problem.fit:
        curvature = initial_curvature(problem, problem.null_point)
        problem.memo[MEMO] = problem.fit, curvature
    return float(curvature)


def _exchange(problem: Problem, now: Exchange, price: float) -> Exchange:
    """Exact step of the fit, exact step of the penalty, correction of the pull."""
    known = price * now.coef - now.pull - problem.null_point.gradient
    fitted = problem.fit.solve_shifted(price, known)
    target = now.coef + RELAXATION * (fitted - now.coef) + now.pull / price
    coef = problem.prox(target, 1.0 / price)
    return Exchange(coef, price * (target - coef))


def rebalance(now: Exchange, before: Exchange, price: float) -> float:
    """Factor of the price that would make both sides equally wrong, about."""
    apart = _relative(now.pull - before.pull, price * now.coef)
    moved = _relative(price * (now.coef - before.coef), now.pull)
    if apart == 0 or moved == 0:
        return 1.0
    factor = float(np.sqrt(apart / moved))
    if 1.0 / TOLERATED <= factor <= TOLERATED:
        return 1.0
    return min(max(factor, 1.0 / MOST_CHANGE), MOST_CHANGE)


def _relative(part: Array, whole: Array) -> float:
    size = float(np.linalg.norm(whole))
    return float(np.linalg.norm(part)) / size if size > 0 else 0.0
