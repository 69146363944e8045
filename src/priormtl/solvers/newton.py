"""Newton's method for smooth problems, and proximal Newton for those with a penalty.

Without a penalty (lam = 0) each step solves the Newton system of fit and prior. With
one, and a loss that is not squared, each step minimises a quadratic model of the fit at
the present point plus prior and penalty, inexactly, and searches along the way there
(Lee, Sun and Saunders, "Proximal Newton-type methods for minimizing composite
functions", SIAM Journal on Optimization 24, 2014).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from priormtl._numerics import EPS, ROUNDING, SUFFICIENT, line_search
from priormtl.problem import Point, Problem
from priormtl.solvers.loop import AtPoint, Method, solve_inexactly


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
        if abs(slope) <= 0.5 * EPS * abs(point.value):
            return state

        def attempt(size: float) -> Point | None:
            trial = problem.at(point.coef + size * direction, near=point)
            # f(trial) − f(point), from the tangent: it keeps its digits.
            change = size * slope + problem.excess(trial, point)
            return trial if change <= SUFFICIENT * size * slope else None

        return AtPoint(line_search(attempt) or point)


@dataclass(frozen=True)
class ProximalNewton:
    """Iteratively reweighted least squares with the penalty left as it is.

    Each step binds squared loss to the same samples with other weights and targets,
    solves that with ``inner``'s choice, and searches along the way there.
    """

    inner: Callable[[Problem], Method]

    check_every: ClassVar[int] = 1

    def start(self, problem: Problem, point: Point) -> AtPoint:
        return AtPoint(point)

    def step(self, problem: Problem, state: AtPoint) -> AtPoint:
        """Minimise the model, then take as much of the way as lowers the objective."""
        point = state.point
        model = replace(problem, fit=problem.fit.quadratic_model(point.fit))
        solution = solve_inexactly(model, self.inner(model), point.coef)
        return AtPoint(_search(problem, point, solution.coef))


def _search(problem: Problem, point: Point, coef: np.ndarray) -> Point:
    """Halve the step until the objective falls enough."""
    end = problem.at(coef, near=point)
    before = problem.objective(point)
    move = coef - point.coef
    penalties = problem.lam * (
        problem.penalty.value(coef) - problem.penalty.value(point.coef)
    )
    # A model that promises a rise is at its optimum, or has no digits left.
    predicted = min(0.0, float(np.vdot(point.gradient, move)) + penalties)
    # Near the optimum objectives have no digits left, but the model's step has.
    most = before + 8.0 * ROUNDING * abs(before)

    def attempt(size: float) -> Point | None:
        trial = end if size == 1.0 else problem.extrapolate(end, point, size - 1.0)
        falls = problem.objective(trial) <= most + SUFFICIENT * size * predicted
        return trial if falls else None

    return line_search(attempt) or point
