"""Problems inside methods: solved as far as the outer method profits from it."""

from typing import Any

from priormtl._arrays import Array
from priormtl.problem import Problem
from priormtl.solvers.loop import Method, Solution, solve
from priormtl.solvers.stopping import gap_below, max_iter, stalled

__all__ = ["solve_partly"]

SHARE = 0.05  # of the gap at the start, at which the problem is left
MOST_STEPS = 1000
MOST_NEWTON_STEPS = 50


def solve_partly(problem: Problem, method: Method[Any], coef: Array) -> Solution:
    """Close all but a small share of the gap that ``coef`` leaves."""
    point = problem.at(coef)
    gap = problem.certify_rounded(point, problem.certify(point)).gap
    unit = problem.null_objective
    tol = SHARE * gap / unit if unit > 0 else 0.0
    return solve(
        problem,
        method,
        coef=point,
        stop=[
            gap_below(tol, method.look_every),
            stalled(),
            max_iter(MOST_STEPS if method.look_every > 1 else MOST_NEWTON_STEPS),
        ],
    )
