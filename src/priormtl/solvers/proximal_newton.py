"""ProximalNewton: quadratic models of the loss, solved by the methods for those."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from priormtl.problem import Point, Problem
from priormtl.solvers.loop import Method
from priormtl.solvers.partly import solve_partly

__all__ = ["ProximalNewton"]

MOST_HALVINGS = 30
ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class ProximalNewtonState:
    """Where the method stands."""

    point: Point


@dataclass(frozen=True)
class ProximalNewton:
    """Iteratively reweighted least squares with the penalty left as it is.

    Each step binds squared loss to the same samples with other weights and targets,
    solves that with ``inner``'s choice, and searches along the way there.
    """

    inner: Callable[[Problem], Method[Any]]

    look_every: ClassVar[int] = 1

    def start(self, problem: Problem, point: Point) -> ProximalNewtonState:
        """Nothing to prepare."""
        return ProximalNewtonState(point)

    def step(self, problem: Problem, state: ProximalNewtonState) -> ProximalNewtonState:
        """Minimise the model, then take as much of the way as lowers the objective."""
        point = state.point
        model = replace(problem, fit=problem.fit.quadratic_model(point.fit))
        solution = solve_partly(model, self.inner(model), point.coef)
        return ProximalNewtonState(_search(problem, point, solution.coef))


def _search(problem: Problem, point: Point, coef: np.ndarray) -> Point:
    """Halve the step until the objective falls enough."""
    end = problem.at(coef, near=point)
    before = problem.objective(point)
    move = coef - point.coef
    penalties = problem.lam * (
        problem.penalty.value(coef) - problem.penalty.value(point.coef)
    )
    promised = float(np.vdot(point.gradient, move)) + penalties
    # Near the optimum objectives have no digits left, but the model's step has.
    noise = ROUNDING * abs(before)
    for halvings in range(MOST_HALVINGS):
        size = 0.5**halvings
        trial = end if halvings == 0 else problem.extrapolate(end, point, size - 1.0)
        if problem.objective(trial) <= before + 1e-4 * size * promised + noise:
            return trial
    return point
