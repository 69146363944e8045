"""Searches for outlier tasks: candidates beside those without, tried on splits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from priormtl._arrays import Array
from priormtl.problem import Problem
from priormtl.selection.outliers import (
    column_pulls,
    pose_outliers,
    solve_outliers,
    suggest_strength,
)
from priormtl.selection.search import (
    Grid,
    SearchResult,
    Solver,
    Trial,
    is_unsolved,
    mean_scores,
    results_table,
    run_jobs,
    standard_error,
)
from priormtl.solvers import Solution, solve

__all__ = [
    "OutlierCandidate",
    "OutlierResult",
    "choose_outliers",
    "propose_outliers",
    "search_outliers",
]


class OutlierCandidate(NamedTuple):
    """Strengths to try together."""

    epsilon: float
    lam: float
    outlier_strength: float
    theta: float

    def at(self, problem: Problem) -> Problem:
        """A problem at these strengths, without own parts."""
        return problem.with_strengths(
            lam=self.lam, theta=self.theta, epsilon=self.epsilon
        )


class Outcome(NamedTuple):
    """Score of a candidate on a trial."""

    score: float
    fit_seconds: float
    score_seconds: float
    unsolved: bool


@dataclass(frozen=True, eq=False)
class OutlierResult:
    """A search without outliers, and scores of candidates with some."""

    plain: SearchResult
    extra: Sequence[OutlierCandidate]
    outcomes: Array  # (3, extra, splits): scores, seconds of fits and of scores
    unsolved: int = 0

    @property
    def grid(self) -> Grid:
        """Strengths tried without outliers."""
        return self.plain.grid

    @property
    def scores(self) -> Array:
        """Of all candidates (candidates, splits), those without outliers first."""
        return np.vstack([self.plain.scores, self.outcomes[0]])

    @property
    def fit_seconds(self) -> Array:
        """In the same order."""
        return np.vstack([self.plain.fit_seconds, self.outcomes[1]])

    @property
    def score_seconds(self) -> Array:
        """In the same order."""
        return np.vstack([self.plain.score_seconds, self.outcomes[2]])

    @property
    def mean_scores(self) -> Array:
        """Mean over the splits in which a score exists."""
        return mean_scores(self.scores)

    def candidates(self) -> list[OutlierCandidate]:
        """All candidates, those without outliers first."""
        plain = [
            OutlierCandidate(epsilon, lam, np.inf, theta)
            for epsilon, lam, theta in self.grid.candidates().tolist()
        ]
        return [*plain, *self.extra]

    def table(self) -> dict[str, Any]:
        """Results under the names that GridSearchCV gives them."""
        params = [candidate._asdict() for candidate in self.candidates()]
        return results_table(params, self.scores, self.fit_seconds, self.score_seconds)


def propose_outliers(
    problem: Problem,
    grid: Grid,
    chosen: OutlierCandidate,
    strengths: Array | None,
    solver: Solver,
) -> list[OutlierCandidate]:
    """Candidates with outliers around what was chosen without.

    Tasks that do not belong make ties look worse than they are: only stronger ones
    are tried. Strengths at which no task of the whole data is an outlier change
    nothing, and are left out. None: the suggestion for each candidate.
    """
    epsilons = [chosen.epsilon, *grid.epsilons[grid.epsilons > chosen.epsilon]]
    found = []
    for epsilon, lam in product(epsilons, _neighbours(grid.lams, chosen.lam)):
        base = OutlierCandidate(float(epsilon), lam, np.inf, chosen.theta)
        plain = base.at(problem)
        pulls = column_pulls(plain, _solve(plain, solver).point)
        tried = [suggest_strength(pulls)] if strengths is None else strengths
        kept = [float(s) for s in tried if s < pulls.max()]
        found += [base._replace(outlier_strength=s) for s in kept]
    return found


def search_outliers(
    plain: SearchResult,
    extra: Sequence[OutlierCandidate],
    trials: Sequence[Trial],
    solver: Solver,
    n_jobs: int = 1,
) -> OutlierResult:
    """Score candidates with outliers on every trial."""
    pairs = list(product(extra, trials))
    done = run_jobs([_job(*pair, solver) for pair in pairs], n_jobs)
    shape = len(extra), len(trials)
    numbers = np.array([outcome[:3] for outcome in done]).reshape(*shape, 3)
    unsolved = plain.unsolved + sum(outcome.unsolved for outcome in done)
    return OutlierResult(plain, extra, np.moveaxis(numbers, 2, 0), unsolved)


def choose_outliers(result: OutlierResult, plain: int) -> int:
    """Best candidate with outliers if it beats the best without, else that one.

    It must do so by more than one standard error of the difference over splits.
    """
    if not len(result.extra):
        return plain
    scores = result.scores
    first = len(scores) - len(result.extra)
    means = result.mean_scores[first:]
    if np.all(np.isnan(means)):
        return plain
    best = first + int(np.nanargmax(means))
    gains = scores[best] - scores[plain]
    gain = float(mean_scores(gains[np.newaxis])[0])
    return best if gain > standard_error(gains) else plain


def _neighbours(lams: Array, lam: float) -> list[float]:
    """A value of the grid, and those next to it."""
    ordered = np.unique(lams)
    place = int(np.searchsorted(ordered, lam))
    return [float(x) for x in ordered[max(0, place - 1) : place + 2][::-1]]


def _solve(problem: Problem, solver: Solver) -> Solution:
    method = solver.choose(problem)
    return solve(problem, method, stop=solver.rules(method))


def _job(
    candidate: OutlierCandidate, trial: Trial, solver: Solver
) -> Callable[[], Outcome]:
    return lambda: _score(candidate, trial, solver)


def _score(candidate: OutlierCandidate, trial: Trial, solver: Solver) -> Outcome:
    plain = candidate.at(trial.problem)
    problem = pose_outliers(plain, candidate.outlier_strength)
    solution = solve_outliers(problem, _solve(plain, solver), solver)
    begin = perf_counter()
    coef = solution.point.total.T / trial.scale
    score = float(trial.score(coef[np.newaxis], solution.intercept[np.newaxis])[0])
    seconds = perf_counter() - begin
    above = is_unsolved(solution, solver.tol * problem.null_objective)
    return Outcome(score, solution.seconds, seconds, above)
