"""Outlier tasks: how much a part of their own costs, and which tasks need one."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from priormtl._arrays import Array
from priormtl.losses import OutlierFit
from priormtl.problem import Point, Problem
from priormtl.selection.belonging import Belonging
from priormtl.selection.search import Solver
from priormtl.solvers import Solution, solve

__all__ = [
    "OwnChoice",
    "column_pulls",
    "pose_outliers",
    "solve_outliers",
    "suggest_own",
    "suggest_strength",
]

FALSE_NAMES = 0.01  # chance of naming any task where all are alike, about
LEAST_SPREAD = (
    0.125  # of roots of pulls, relative: few tasks can look too much alike by chance
)
LEFT_TO_TIES = 0.1  # of the pull that they bear, where own parts are cheaper than noise
DIGITS = 3  # of suggested strengths
TO_DEVIATION = 1.4826  # median absolute to standard deviation of normal numbers


def suggest_own(
    problem: Problem, plain: Solution, found: Belonging | None
) -> "OwnChoice":
    """What the parts of tasks that do not belong should cost.

    As much as noise pays, or where ties cannot bear that, a tenth of what they bear in
    the ``plain`` solution, so that little of these tasks is left in what is shared.
    Where nobody is known to belong or not, pulls say who has a part.
    """
    pulls = column_pulls(problem, plain.point)
    if found is None:
        return OwnChoice(suggest_strength(pulls), np.ones(len(pulls), bool))
    borne = LEFT_TO_TIES * float(np.min(pulls[found.outliers], initial=np.inf))
    if not 0 < borne < np.inf:
        return OwnChoice(np.inf, found.outliers)
    return OwnChoice(float(f"{min(found.noise, borne):.{DIGITS}g}"), found.outliers)


class OwnChoice(NamedTuple):
    """Which tasks may have a part of their own, and at which strength."""

    strength: float
    tasks: NDArray[np.bool_]  # (m,)

    def spread(self) -> Array:
        """Strength of each task (m,)."""
        return np.where(self.tasks, self.strength, np.inf)


def pose_outliers(problem: Problem, strength: float | Array) -> Problem:
    """Same problem for shared parts, with own parts of tasks at ``strength``.

    The length of task i's part counts strength · √(trace of its curvature): noise of
    one standard deviation pulls as hard as that, however many rows a task has.
    """
    if np.all(np.isinf(strength)):
        return problem
    unit = _noise_pulls(problem)
    own = np.where(np.isinf(strength), np.inf, strength * unit)
    fit = OutlierFit(problem.fit, own)
    return replace(problem, fit=fit, memo={})


def column_pulls(problem: Problem, point: Point) -> Array:
    """How hard each task pulls at what it shares, in units of noise (m,).

    The largest is the smallest strength at which no task has a part of its own.
    """
    lengths = np.linalg.norm(point.fit.gradient, axis=0)
    unit = _noise_pulls(problem)
    return np.divide(lengths, unit, out=np.zeros_like(lengths), where=unit > 0)


def suggest_strength(pulls: Array) -> float:
    """Pull that hardly any task exceeds where all are alike: median plus spreads.

    Both are those of square roots, since pulls above the median lie further from it
    than those below. Infinite where no task exceeds it.
    """
    known = pulls[pulls > 0]
    if not len(known):
        return np.inf
    roots = np.sqrt(known)
    middle = float(np.median(roots))
    spread = TO_DEVIATION * float(np.median(np.abs(roots - middle)))
    tail = float(norm.isf(FALSE_NAMES / len(known)))
    limit = (middle + tail * max(spread, LEAST_SPREAD * middle)) ** 2
    return limit if known.max() > limit else np.inf


def solve_outliers(problem: Problem, plain: Solution, solver: Solver) -> Solution:
    """Solve a problem with own parts from where the one without has ended."""
    if not isinstance(problem.fit, OutlierFit):
        return plain
    method = solver.choose(problem)
    # Far from there most tasks look like outliers, and steps are many.
    found = solve(problem, method, coef=plain.coef, stop=solver.rules(method))
    steps, seconds = plain.n_iter + found.n_iter, plain.seconds + found.seconds
    return replace(found, n_iter=steps, seconds=seconds)


def _noise_pulls(problem: Problem) -> Array:
    """Root of the trace of each task's curvature (m,)."""
    curvature = problem.fit.task_curvature  # type: ignore[attr-defined]
    return np.asarray(np.sqrt(curvature))
