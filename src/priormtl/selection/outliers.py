"""Task-specific components: how much they cost, which tasks need one, fit and search.

P = S + O with the penalty strength Σ_i √t_i ‖o_i‖, where t_i is the trace of task i's
Hessian. Which tasks are outliers is decided by the test of `outlier_test`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from priormtl._arrays import Array
from priormtl.losses import OutlierFit
from priormtl.model import Posed, Solver
from priormtl.problem import Point, Problem
from priormtl.selection.outlier_test import FALSE_NAMES, OutlierTest, find_outliers
from priormtl.selection.search import (
    Candidate,
    SearchResult,
    Setup,
    Trial,
    mean_scores,
    run_jobs,
    standard_error,
)
from priormtl.solvers import Solution


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
    # Of roots of pulls, relative: few tasks can look too much alike by chance.
    least_spread = 0.125
    limit = (middle + tail * max(spread, least_spread * middle)) ** 2
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


# The search: candidates with outlier tasks beside those without, tried on splits.


class Proposal(NamedTuple):
    """Strengths to try, and which tasks may have a part of their own."""

    candidate: Candidate
    own: OwnChoice


def propose_outliers(
    setup: Setup, chosen: Candidate, strengths: Array | None, solver: Solver
) -> list[Proposal]:
    """Candidates with outliers around what was chosen without.

    Tasks that do not belong make ties look worse than they are: only stronger ones
    are tried. Strengths at which no task of the whole data is an outlier change
    nothing, and are left out. None: for each candidate the tasks and the strength
    that the data suggest.
    """
    assert setup.posed is not None
    problem, grid = setup.posed.problem, setup.grid
    epsilons = [chosen.epsilon, *grid.epsilons[grid.epsilons > chosen.epsilon].tolist()]
    # The chosen value of lam, and those next to it in the grid.
    lams = np.unique(grid.lams)
    position = int(np.searchsorted(lams, chosen.lam))
    proposals = []
    for lam in lams[max(0, position - 1) : position + 2][::-1].tolist():
        judged = find_outliers(
            problem.with_strengths(lam=lam, theta=chosen.theta), solver
        )
        for epsilon in epsilons:
            base = chosen._replace(epsilon=epsilon, lam=lam)
            at = base.at(setup.posed).problem
            plain = solver.solve(at)
            if strengths is None:
                own = suggest_own(at, plain, judged)
                tried = [own] if np.isfinite(own.strength) else []
            else:
                pulls = column_pulls(at, plain.point)
                anyone = np.ones(len(pulls), bool)
                helpful = strengths[strengths < pulls.max()].tolist()
                tried = [OwnChoice(s, anyone) for s in helpful]
            for own in tried:
                candidate = base._replace(outlier_strength=own.strength)
                proposals.append(Proposal(candidate, own))
    return proposals


def search_outliers(
    plain: SearchResult,
    extra: Sequence[Proposal],
    trials: Sequence[Trial],
    solver: Solver,
    *,
    n_jobs: int = 1,
    advance: Callable[[], None] = lambda: None,
) -> SearchResult:
    """Score candidates with outliers on every trial; ``advance`` follows each path."""
    # A path has the candidates that differ in lam and strength alone, by position.
    paths = dict[float, dict[int, Proposal]]()
    for position, proposal in enumerate(extra):
        paths.setdefault(proposal.candidate.epsilon, {})[position] = proposal
    pairs = list(product(paths.values(), range(len(trials))))
    jobs = [partial(_score_path, path, trials[t], solver) for path, t in pairs]
    portable = all(trial.posed.model.device is None for trial in trials)
    done = run_jobs(jobs, n_jobs, advance, portable=portable) if jobs else []
    outcomes, unsolved = np.empty((3, len(extra), len(trials))), plain.unsolved
    for (_, t), path in zip(pairs, done, strict=True):
        for position, (*numbers, is_unsolved) in path.items():
            outcomes[:, position, t] = numbers
            unsolved += int(is_unsolved)
    return replace(
        plain,
        scores=np.vstack([plain.scores, outcomes[0]]),
        fit_seconds=np.vstack([plain.fit_seconds, outcomes[1]]),
        score_seconds=np.vstack([plain.score_seconds, outcomes[2]]),
        unsolved=unsolved,
        outliers=[proposal.candidate for proposal in extra],
    )


def choose_outliers(result: SearchResult, plain: int, errors: float = 1.0) -> int:
    """Best candidate with outliers if it beats the best without, else that one.

    It must do so by more than so many standard errors of the difference over splits:
    one where any task might have got a part, none where tests have named the tasks.
    """
    if not result.outliers:
        return plain
    scores = result.scores
    first = len(scores) - len(result.outliers)
    means = mean_scores(scores[first:])
    if np.all(np.isnan(means)):
        return plain
    best = first + int(np.nanargmax(means))
    gains = scores[best] - scores[plain]
    gain = float(mean_scores(gains[np.newaxis])[0])
    return best if gain > errors * standard_error(gains) else plain


def _score_path(
    path: dict[int, Proposal], trial: Trial, solver: Solver
) -> dict[int, tuple[float, float, float, bool]]:
    """Score, seconds of the fit and of the score, and whether it is not solved.

    Solved from the fewest outliers on, each from where the last one has ended.
    """
    order = sorted(
        path, key=lambda position: -path[position].candidate.outlier_strength
    )
    outcomes, spent = {}, 0.0
    last = solver.solve(path[order[0]].candidate.at(trial.posed).problem)
    for position in order:
        plain = path[position].candidate.at(trial.posed).problem
        problem = pose_outliers(plain, path[position].own.spread())
        last = solve_outliers(problem, last, solver)
        unsolved = not solver.accepts(problem, last.certificate)
        begin = perf_counter()
        coef = last.point.total.T / trial.posed.scale
        score = float(trial.score(coef[np.newaxis], last.intercept[np.newaxis])[0])
        seconds = perf_counter() - begin
        outcomes[position] = score, last.seconds - spent, seconds, unsolved
        spent = last.seconds
    return outcomes
