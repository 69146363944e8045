"""Task-specific components: how much they cost, which tasks need one, and the fit.

P = S + O with the penalty strength Σ_i √t_i ‖o_i‖, where t_i is the trace of task i's
Hessian. Which tasks are outliers is decided by the test of `outlier_test`.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from priormtl._arrays import Array
from priormtl.losses import OutlierFit
from priormtl.model import Posed, Solver
from priormtl.problem import Point, Problem
from priormtl.selection.outlier_test import FALSE_NAMES, OutlierTest, find_outliers
from priormtl.solvers import Solution

# Of roots of pulls, relative: few tasks can look too much alike by chance.
LEAST_SPREAD = 0.125


def suggest_own(
    problem: Problem, plain: Solution, found: OutlierTest | None
) -> "OwnChoice":
    """What the parts of tasks that do not belong should cost.

    As much as noise pays, or where ties cannot bear that, a tenth of what they bear in
    the ``plain`` solution, so that little of these tasks is left in what is shared.
    Where nobody is known to belong or not, pulls say who has a part.
    """
    pulls = column_pulls(problem, plain.point)
    if found is None:
        return OwnChoice(suggest_strength(pulls), np.ones(len(pulls), bool))
    # of the pull that they bear, where own parts are cheaper than noise
    left_to_ties = 0.1
    borne = left_to_ties * float(np.min(pulls[found.outliers], initial=np.inf))
    if not 0 < borne < np.inf:
        return OwnChoice(np.inf, found.outliers)
    digits = 3  # of suggested strengths
    return OwnChoice(float(f"{min(found.noise, borne):.{digits}g}"), found.outliers)


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
    to_deviation = 1.4826  # median absolute to standard deviation of normal numbers
    spread = to_deviation * float(np.median(np.abs(roots - middle)))
    tail = float(norm.isf(FALSE_NAMES / len(known)))
    limit = (middle + tail * max(spread, LEAST_SPREAD * middle)) ** 2
    return limit if known.max() > limit else np.inf


def fit_outliers(
    posed: Posed, plain: Solution, solver: Solver, strength: float | Array | None
) -> tuple[Posed, Solution]:
    """Fit again with task-specific components, from a fit in which no task has one.

    ``strength`` is one number, one for each task, or None: then tasks are tested
    against what the others have in common, and only those that fail get a component.
    """
    constraints = posed.problem.constraints
    if constraints is not None and constraints.signs.any():
        raise ValueError(
            "outlier_tasks must be False where feature_prior states signs: components "
            "of single tasks would not keep them."
        )
    if strength is None:
        found = find_outliers(posed.problem, solver)
        strength = suggest_own(posed.problem, plain, found).spread()
    problem = pose_outliers(posed.problem, strength)
    solution = solve_outliers(problem, plain, solver)
    gamma = float(np.min(strength))
    return posed._replace(problem=problem, outlier_strength=gamma), solution


def fit_outlier_path(
    posed: Posed, lams: Array, solver: Solver, strength: float | Array | None
) -> list[Solution]:
    """Solutions with task-specific components for each lam, in this order."""
    found = []
    for lam, plain in zip(lams, solver.path(posed.problem, lams), strict=True):
        here = posed._replace(problem=posed.problem.with_strengths(lam=float(lam)))
        found.append(fit_outliers(here, plain, solver, strength)[1])
    return found


def solve_outliers(problem: Problem, plain: Solution, solver: Solver) -> Solution:
    """Solve a problem with own parts from where the one without has ended."""
    if not isinstance(problem.fit, OutlierFit):
        return plain
    # Far from there most tasks look like outliers, and steps are many.
    found = solver.solve(problem, plain.coef)
    steps, seconds = plain.n_iter + found.n_iter, plain.seconds + found.seconds
    return replace(found, n_iter=steps, seconds=seconds)


def _noise_pulls(problem: Problem) -> Array:
    """Root of the trace of each task's curvature (m,)."""
    curvature = problem.fit.task_curvature  # type: ignore[attr-defined]
    return np.asarray(np.sqrt(curvature))
