"""Newton's method for smooth problems: no penalty (lam = 0)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from priormtl.problem import Point, Problem
from priormtl.solvers.loop import AtPoint

MOST_HALVINGS = 40
ROUNDING = 1e-16


@dataclass(frozen=True)
class Newton:
    """Preconditioned conjugate gradients for the direction, halving for the step.

    Squared loss is solved in one step. The penalty must be absent.
    """

    check_every: ClassVar[int] = 1

    def start(self, problem: Problem, point: Point) -> AtPoint:
        if problem.lam != 0:
            raise ValueError(f"Newton needs lam = 0: got {problem.lam}.")
        return AtPoint(point)

    def step(self, problem: Problem, state: AtPoint) -> AtPoint:
        point = state.point
        direction = problem.newton_step(point).direction
        slope = float(np.vdot(point.gradient, direction))
        if abs(slope) <= ROUNDING * abs(point.value):
            return state
        for halvings in range(MOST_HALVINGS):
            size = 0.5**halvings
            trial = problem.at(point.coef + size * direction, near=point)
            # f(trial) − f(point), from the tangent: it keeps its digits.
            change = size * slope + problem.excess(trial, point)
            if change <= 1e-4 * size * slope:
                return AtPoint(trial)
        return state
