"""Searches for outlier tasks: candidates beside those without, tried on splits."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from time import perf_counter
from typing import NamedTuple

import numpy as np

from priormtl._arrays import Array
from priormtl.model import Solver
from priormtl.selection import outliers
from priormtl.selection.outlier_test import find_outliers
from priormtl.selection.search import (
    Candidate,
    SearchResult,
    Setup,
    Trial,
    mean_scores,
    standard_error,
)


class Proposal(NamedTuple):
    """Strengths to try, and which tasks may have a part of their own."""

    candidate: Candidate
    own: outliers.OwnChoice


Path = dict[int, Proposal]  # by positions among all


class Outcome(NamedTuple):
    """Score of a candidate on a trial."""

    score: float
    fit_seconds: float
    score_seconds: float
    unsolved: bool


Job = Callable[[], dict[int, Outcome]]


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
                own = outliers.suggest_own(at, plain, judged)
                tried = [own] if np.isfinite(own.strength) else []
            else:
                pulls = outliers.column_pulls(at, plain.point)
                anyone = np.ones(len(pulls), bool)
                helpful = strengths[strengths < pulls.max()].tolist()
                tried = [outliers.OwnChoice(s, anyone) for s in helpful]
            for own in tried:
                candidate = base._replace(outlier_strength=own.strength)
                proposals.append(Proposal(candidate, own))
    return proposals


def search_outliers(
    plain: SearchResult,
    extra: Sequence[Proposal],
    trials: Sequence[Trial],
    solver: Solver,
    run: Callable[[Sequence[Job]], list[dict[int, Outcome]]],
) -> SearchResult:
    """Score candidates with outliers on every trial, in jobs that may run at once."""
    jobs = [partial(_score_path, *pair, solver) for pair in _paths(extra, trials)]
    done = run(jobs) if jobs else []
    outcomes, unsolved = np.empty((3, len(extra), len(trials))), plain.unsolved
    for number, path in enumerate(done):
        for position, outcome in path.items():
            outcomes[:, position, number % len(trials)] = outcome[:3]
            unsolved += outcome.unsolved
    return replace(
        plain,
        scores=np.vstack([plain.scores, outcomes[0]]),
        fit_seconds=np.vstack([plain.fit_seconds, outcomes[1]]),
        score_seconds=np.vstack([plain.score_seconds, outcomes[2]]),
        unsolved=unsolved,
        outliers=[proposal.candidate for proposal in extra],
    )


def count_outlier_paths(extra: Sequence[Proposal], trials: Sequence[Trial]) -> int:
    """Number of paths that a search for outliers follows."""
    return len(_paths(extra, trials))


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


def _paths(
    extra: Sequence[Proposal], trials: Sequence[Trial]
) -> list[tuple[Path, Trial]]:
    """Candidates that differ in lam and strength alone, on each trial."""
    paths: dict[float, Path] = {}
    for position, proposal in enumerate(extra):
        paths.setdefault(proposal.candidate.epsilon, {})[position] = proposal
    return list(product(paths.values(), trials))


def _score_path(path: Path, trial: Trial, solver: Solver) -> dict[int, Outcome]:
    """Solve from the fewest outliers on, each from where the last one has ended."""
    order = sorted(
        path, key=lambda position: -path[position].candidate.outlier_strength
    )
    outcomes = {}
    last = solver.solve(path[order[0]].candidate.at(trial.posed).problem)
    spent = 0.0
    for position in order:
        plain = path[position].candidate.at(trial.posed).problem
        problem = outliers.pose_outliers(plain, path[position].own.spread())
        last = outliers.solve_outliers(problem, last, solver)
        unsolved = not solver.accepts(problem, last.certificate)
        begin = perf_counter()
        coef = last.point.total.T / trial.posed.scale
        score = float(trial.score(coef[np.newaxis], last.intercept[np.newaxis])[0])
        seconds = perf_counter() - begin
        outcomes[position] = Outcome(score, last.seconds - spent, seconds, unsolved)
        spent = last.seconds
    return outcomes
