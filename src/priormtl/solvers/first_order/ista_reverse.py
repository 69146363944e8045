"""Proximal gradient with the largest admissible step (the paper's Algorithm 2)."""

from dataclasses import dataclass
from typing import ClassVar

from priormtl.problem import Constants, Point, Problem, exact_constants
from priormtl.solvers.first_order.steps import (
    fits_model,
    proximal_step,
    search_upwards,
)

__all__ = ["IstaReverse"]

SMALLEST_SHARE = 1e-6  # of L; a flat direction would admit any step


@dataclass(frozen=True, eq=False)
class IstaReverseState:
    """Where the reversed search stands."""

    point: Point
    largest: float  # L, where every search begins
    curvature: float  # inverse step size that the last search ended with


@dataclass(frozen=True)
class IstaReverse:
    """Every search starts at L and lengthens the step while the model holds."""

    shrink: float = 0.8
    constants: Constants = exact_constants

    look_every: ClassVar[int] = 10

    def start(self, problem: Problem, point: Point) -> IstaReverseState:
        """Find L."""
        largest = self.constants(problem).smoothness or 1.0
        return IstaReverseState(point, largest, largest)

    def step(self, problem: Problem, state: IstaReverseState) -> IstaReverseState:
        """Take the last curvature that held; if L itself fails, grow it."""
        base = state.point
        point, curvature = search_upwards(
            problem, base, state.largest, 1.0 / self.shrink
        )
        while SMALLEST_SHARE * state.largest < curvature <= state.largest:
            longer = proximal_step(problem, base, curvature * self.shrink)
            if not fits_model(problem, longer, base, curvature * self.shrink):
                break
            if (longer.coef == point.coef).all():
                break  # at a fixed point every step is admissible
            point, curvature = longer, curvature * self.shrink
        return IstaReverseState(point, state.largest, curvature)
