"""Accelerated proximal gradient with backtracking (Beck & Teboulle 2009)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from priormtl.problem import Point, Problem
from priormtl.solvers.first_order.momentum import NesterovMomentum
from priormtl.solvers.first_order.steps import initial_curvature, search_upwards

__all__ = ["Fista", "went_uphill"]


@dataclass(frozen=True, eq=False)
class FistaState:
    """Where FISTA stands."""

    point: Point  # proximal point
    lookahead: Point  # extrapolated point, where the next gradient is taken
    momentum: NesterovMomentum
    curvature: float  # inverse step size; never shrinks


@dataclass(frozen=True)
class Fista:
    """Momentum t_k; with ``restart`` it begins anew when a move goes uphill."""

    restart: bool = False
    growth: float = 2.0

    look_every: ClassVar[int] = 10

    def start(self, problem: Problem, point: Point) -> FistaState:
        """Begin with the curvature along the gradient and no momentum."""
        curvature = initial_curvature(problem, point)
        return FistaState(point, point, NesterovMomentum(self.restart), curvature)

    def step(self, problem: Problem, state: FistaState) -> FistaState:
        """Proximal step from the lookahead point, then extrapolation."""
        point, curvature = search_upwards(
            problem, state.lookahead, state.curvature, self.growth
        )
        wrong_way = went_uphill(state.lookahead, point, state.point)
        momentum = state.momentum.advance(wrong_way=wrong_way)
        lookahead = problem.extrapolate(point, state.point, momentum.amount)
        return FistaState(point, lookahead, momentum, curvature)


def went_uphill(lookahead: Point, point: Point, before: Point) -> bool:
    """Whether the last move points against the proximal step that followed."""
    return bool(np.vdot(lookahead.coef - point.coef, point.coef - before.coef) > 0)
