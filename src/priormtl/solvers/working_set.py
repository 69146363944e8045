"""Working sets: solve small problems over the features that matter, and grow them.

Features outside the set stay at zero. After each inner solve the gradient of the whole
problem tells which features come next; the certificate is that of the whole problem.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from priormtl._arrays import Index
from priormtl.penalties import RowSeparable
from priormtl.problem import Point, Problem
from priormtl.solvers.loop import Method, solve_inexactly


@dataclass(frozen=True, eq=False)
class WorkingSetState:
    """State of the working set method."""

    point: Point
    size: int  # features in the last working set


@dataclass(frozen=True)
class WorkingSet:
    """Working sets of features, for penalties of rows.

    ``inner`` chooses a method for each small problem. From a share ``whole`` of the
    features on, the set might as well hold all. The certificate is always that of the
    whole problem.
    """

    inner: Callable[[Problem], Method]
    initial_size: int = 32
    whole: float = 0.5

    check_every: ClassVar[int] = 1

    def start(self, problem: Problem, point: Point) -> WorkingSetState:
        """Begin with what is not zero and a few more."""
        if not isinstance(problem.penalty, RowSeparable):
            raise TypeError("WorkingSet needs a penalty of rows.")
        return WorkingSetState(point, self.initial_size)

    def step(self, problem: Problem, state: WorkingSetState) -> WorkingSetState:
        """Choose features, solve for them, then evaluate at all features again."""
        features = self._choose(problem, state)
        small = problem.restrict(features)
        solution = solve_inexactly(small, self.inner(small), state.point.coef[features])
        coef = np.zeros(problem.shape)
        coef[features] = solution.coef
        return WorkingSetState(problem.at(coef, near=state.point), len(features))

    def _choose(self, problem: Problem, state: WorkingSetState) -> Index:
        """Features that are not zero, and those whose gradient is nearest to moving."""
        coef = state.point.coef
        d, used = len(coef), coef.any(axis=1)
        urgency = problem.penalty.row_dual_norms(state.point.gradient)  # type: ignore[attr-defined]
        called = int(np.count_nonzero((urgency > problem.lam) | used))
        # At most four times as many features as before.
        size = max(state.size, min(called, 4 * state.size), 2 * int(used.sum()))
        if size >= self.whole * d:
            return np.arange(d)
        return np.sort(np.argpartition(-np.where(used, np.inf, urgency), size)[:size])
