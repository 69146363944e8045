"""Accelerated proximal gradient with constant momentum (the paper's Algorithm 3)."""

from dataclasses import dataclass
from typing import ClassVar

from priormtl.problem import Constants, Point, Problem, exact_constants
from priormtl.solvers.first_order.fista import went_uphill
from priormtl.solvers.first_order.momentum import (
    ConstantMomentum,
    Momentum,
    NesterovMomentum,
)
from priormtl.solvers.first_order.steps import proximal_step

__all__ = ["Linear"]

VANISHING = 1e-10  # σ/L below which the problem does not count as strongly convex


@dataclass(frozen=True, eq=False)
class LinearState:
    """Where the linearly convergent method stands."""

    point: Point  # proximal point
    lookahead: Point  # extrapolated point, where the next gradient is taken
    momentum: Momentum
    curvature: float  # L, the inverse step size


@dataclass(frozen=True)
class Linear:
    """Momentum (√c − 1)/(√c + 1) with c = L/σ: V_k ≤ (1 − 1/√c)^k (…).

    Without strong convexity (σ ≤ 1e-10 L) that momentum would be 1, which need not
    converge: FISTA's momentum with restart, at the same step, takes its place.
    """

    constants: Constants = exact_constants

    look_every: ClassVar[int] = 10

    def start(self, problem: Problem, point: Point) -> LinearState:
        """Find L and σ, and with them the momentum."""
        sigma, largest = self.constants(problem)
        momentum: Momentum = NesterovMomentum(restart=True)
        if sigma > VANISHING * largest:
            momentum = ConstantMomentum.for_condition(sigma, largest)
        return LinearState(point, point, momentum, largest or 1.0)

    def step(self, problem: Problem, state: LinearState) -> LinearState:
        """Proximal step from the lookahead point, then extrapolation."""
        point = proximal_step(problem, state.lookahead, state.curvature)
        wrong_way = went_uphill(state.lookahead, point, state.point)
        momentum = state.momentum.advance(wrong_way=wrong_way)
        lookahead = problem.extrapolate(point, state.point, momentum.amount)
        return LinearState(point, lookahead, momentum, state.curvature)
