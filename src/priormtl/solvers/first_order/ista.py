"""Proximal gradient with backtracking (Beck & Teboulle 2009)."""

from dataclasses import dataclass
from typing import ClassVar

from priormtl.problem import Point, Problem
from priormtl.solvers.first_order.steps import initial_curvature, search_upwards

__all__ = ["Ista"]


@dataclass(frozen=True, eq=False)
class IstaState:
    """Where ISTA stands."""

    point: Point
    curvature: float  # inverse step size; never shrinks


@dataclass(frozen=True)
class Ista:
    """Steps shrink until the quadratic model holds, and never grow again."""

    growth: float = 2.0

    look_every: ClassVar[int] = 10

    def start(self, problem: Problem, point: Point) -> IstaState:
        """Begin with the curvature along the gradient."""
        return IstaState(point, initial_curvature(problem, point))

    def step(self, problem: Problem, state: IstaState) -> IstaState:
        """Proximal gradient step with the first curvature that holds."""
        return IstaState(
            *search_upwards(problem, state.point, state.curvature, self.growth)
        )
