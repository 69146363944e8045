"""Proximal gradient with a constant step (the paper's Algorithm 1)."""

from dataclasses import dataclass
from typing import ClassVar

from priormtl.problem import Constants, Point, Problem, exact_constants
from priormtl.solvers.first_order.steps import proximal_step

__all__ = ["Gd"]


@dataclass(frozen=True, eq=False)
class GdState:
    """Where gradient descent stands."""

    point: Point
    curvature: float  # inverse step size


@dataclass(frozen=True)
class Gd:
    """Steps of 1/L; the objective never increases."""

    constants: Constants = exact_constants

    look_every: ClassVar[int] = 10

    def start(self, problem: Problem, point: Point) -> GdState:
        """Find L."""
        return GdState(point, self.constants(problem).smoothness or 1.0)

    def step(self, problem: Problem, state: GdState) -> GdState:
        """Gradient step, proximal step."""
        point = proximal_step(problem, state.point, state.curvature)
        return GdState(point, state.curvature)
