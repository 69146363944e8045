"""Searches for outlier tasks: candidates beside those without, tried on splits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from priormtl._arrays import Array
from priormtl.model import Solver
from priormtl.problem import Problem
from priormtl.selection import outliers
from priormtl.selection.outlier_test import OutlierTest, find_outliers
from priormtl.selection.search import (
    Grid,
    SearchResult,
    Structure,
    Trial,
    mean_scores,
    results_table,
    standard_error,
)


class OutlierCandidate(NamedTuple):
    """Strengths to try together."""

    epsilon: float
    lam: float
    outlier_strength: float
    theta: float

    def at(self, problem: Problem) -> Problem:
        """A problem at these strengths, without task-specific components."""
        return problem.with_strengths(
            lam=self.lam, theta=self.theta, epsilon=self.epsilon
        )


class Proposal(NamedTuple):
    """Strengths to try, and which tasks may have a part of their own."""

    candidate: OutlierCandidate
    own: outliers.OwnChoice


Path = dict[int, Proposal]  # by places among all


class Outcome(NamedTuple):
    """Score of a candidate on a trial."""

    score: float
    fit_seconds: float
    score_seconds: float
    unsolved: bool


Job = Callable[[], dict[int, Outcome]]


@dataclass(frozen=True, eq=False)
class OutlierResult:
    """A search without outliers, and scores of candidates with some."""

    plain: SearchResult
    extra: Sequence[OutlierCandidate]
    outcomes: Array  # (3, extra, splits): scores, seconds of fits and of scores
    unsolved: int = 0
    structure: int = 0  # place of the structure that candidates with outliers have

    @property
    def grid(self) -> Grid:
        return self.plain.grid

    @property
    def structures(self) -> Sequence[Structure]:
        """Structures tried without outliers."""
        return self.plain.structures

    @property
    def scores(self) -> Array:
        """Of all candidates (candidates, splits), those without outliers first."""
        return np.vstack([self.plain.scores, self.outcomes[0]])

    @property
    def fit_seconds(self) -> Array:
        return np.vstack([self.plain.fit_seconds, self.outcomes[1]])

    @property
    def score_seconds(self) -> Array:
        return np.vstack([self.plain.score_seconds, self.outcomes[2]])

    def candidates(self) -> list[OutlierCandidate]:
        plain = [
            OutlierCandidate(one.epsilon, one.lam, np.inf, one.theta)
            for one in self.plain.candidates()
        ]
        return [*plain, *self.extra]

    def without_data(self) -> "OutlierResult":
        """Scores alone, to be kept with a fitted estimator."""
        return replace(self, plain=self.plain.without_data())

    def table(self) -> dict[str, Any]:
        """Results under the names that GridSearchCV gives them."""
        plain = [candidate.structure for candidate in self.plain.candidates()]
        places = [*plain, *[self.structure] * len(self.extra)]
        params = []
        for candidate, place in zip(self.candidates(), places, strict=True):
            settings = self.plain.structures[place].settings
            params.append({**candidate._asdict(), **settings})
        return results_table(params, self.scores, self.fit_seconds, self.score_seconds)


def propose_outliers(
    problem: Problem,
    grid: Grid,
    chosen: OutlierCandidate,
    strengths: Array | None,
    solver: Solver,
) -> list[Proposal]:
    """Candidates with outliers around what was chosen without.

    Tasks that do not belong make ties look worse than they are: only stronger ones
    are tried. Strengths at which no task of the whole data is an outlier change
    nothing, and are left out. None: for each candidate the tasks and the strength
    that the data suggest.
    """
    epsilons = [chosen.epsilon, *grid.epsilons[grid.epsilons > chosen.epsilon]]
    found = []
    for lam in _neighbours(grid.lams, chosen.lam):
        judged = find_outliers(
            problem.with_strengths(lam=lam, theta=chosen.theta), solver
        )
        for epsilon in epsilons:
            base = OutlierCandidate(float(epsilon), lam, np.inf, chosen.theta)
            found += _propose(base, base.at(problem), strengths, judged, solver)
    return found


def _propose(
    base: OutlierCandidate,
    problem: Problem,
    strengths: Array | None,
    judged: OutlierTest | None,
    solver: Solver,
) -> list[Proposal]:
    """Candidates at the strengths of one without outliers."""
    plain = solver.solve(problem)
    if strengths is None:
        own = outliers.suggest_own(problem, plain, judged)
        tried = [own] if np.isfinite(own.strength) else []
    else:
        pulls = outliers.column_pulls(problem, plain.point)
        anyone = np.ones(len(pulls), bool)
        tried = [
            outliers.OwnChoice(float(s), anyone) for s in strengths if s < pulls.max()
        ]
    return [Proposal(base._replace(outlier_strength=o.strength), o) for o in tried]


def search_outliers(
    plain: SearchResult,
    extra: Sequence[Proposal],
    trials: Sequence[Trial],
    solver: Solver,
    run: Callable[[Sequence[Job]], list[dict[int, Outcome]]],
) -> OutlierResult:
    """Score candidates with outliers on every trial, in jobs that may run at once."""
    jobs = [partial(_score_path, *pair, solver) for pair in _paths(extra, trials)]
    done = run(jobs) if jobs else []
    outcomes = np.empty((3, len(extra), len(trials)))
    for number, found in enumerate(done):
        for place, outcome in found.items():
            outcomes[:, place, number % len(trials)] = outcome[:3]
    unsolved = sum(outcome.unsolved for found in done for outcome in found.values())
    candidates = [proposal.candidate for proposal in extra]
    return OutlierResult(plain, candidates, outcomes, plain.unsolved + unsolved)


def count_outlier_paths(extra: Sequence[Proposal], trials: Sequence[Trial]) -> int:
    """Number of paths that a search for outliers follows."""
    return len(_paths(extra, trials))


def choose_outliers(result: OutlierResult, plain: int, errors: float = 1.0) -> int:
    """Best candidate with outliers if it beats the best without, else that one.

    It must do so by more than so many standard errors of the difference over splits:
    one where any task might have got a part, none where tests have named the tasks.
    """
    if not len(result.extra):
        return plain
    scores = result.scores
    first = len(scores) - len(result.extra)
    means = mean_scores(result.scores[first:])
    if np.all(np.isnan(means)):
        return plain
    best = first + int(np.nanargmax(means))
    gains = scores[best] - scores[plain]
    gain = float(mean_scores(gains[np.newaxis])[0])
    return best if gain > errors * standard_error(gains) else plain


def _neighbours(lams: Array, lam: float) -> list[float]:
    """A value of the grid, and those next to it."""
    ordered = np.unique(lams)
    place = int(np.searchsorted(ordered, lam))
    return [float(x) for x in ordered[max(0, place - 1) : place + 2][::-1]]


def _paths(
    extra: Sequence[Proposal], trials: Sequence[Trial]
) -> list[tuple[Path, Trial]]:
    """Candidates that differ in lam and strength alone, on each trial."""
    paths: dict[float, Path] = {}
    for place, proposal in enumerate(extra):
        paths.setdefault(proposal.candidate.epsilon, {})[place] = proposal
    return list(product(paths.values(), trials))


def _score_path(path: Path, trial: Trial, solver: Solver) -> dict[int, Outcome]:
    """Solve from the fewest outliers on, each from where the last one has ended."""
    order = sorted(path, key=lambda place: -path[place].candidate.outlier_strength)
    outcomes = {}
    base = trial.posed.problem
    last = solver.solve(path[order[0]].candidate.at(base))
    spent = 0.0
    for place in order:
        plain = path[place].candidate.at(base)
        problem = outliers.pose_outliers(plain, path[place].own.spread())
        last = outliers.solve_outliers(problem, last, solver)
        unsolved = not solver.accepts(problem, last.certificate)
        begin = perf_counter()
        coef = last.point.total.T / trial.posed.scale
        score = float(trial.score(coef[np.newaxis], last.intercept[np.newaxis])[0])
        seconds = perf_counter() - begin
        outcomes[place] = Outcome(score, last.seconds - spent, seconds, unsolved)
        spent = last.seconds
    return outcomes
