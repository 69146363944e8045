"""The grid search: one warm-started path per fold, theta and epsilon."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.stats import rankdata

from priormtl._arrays import Array
from priormtl.exceptions import FoldsError
from priormtl.problem import Problem
from priormtl.selection.scores import Score
from priormtl.solvers import Method, Solution, StopReason, StopRule, solve_path

__all__ = [
    "RULES",
    "Grid",
    "SearchResult",
    "Solver",
    "Trial",
    "choose_candidate",
    "count_paths",
    "is_unsolved",
    "mean_scores",
    "results_table",
    "run_jobs",
    "search",
    "standard_error",
]

R = TypeVar("R")
RULES = ("best", "1se")
STRENGTHS = ("epsilon", "lam", "theta")  # as GridSearchCV orders them


@dataclass(frozen=True, eq=False)
class Grid:
    """Strengths to try, all with all."""

    lams: Array
    thetas: Array
    epsilons: Array

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of epsilons, lams and thetas."""
        return len(self.epsilons), len(self.lams), len(self.thetas)

    def candidates(self) -> Array:
        """Epsilon, lam and theta of every candidate, theta changing fastest."""
        return np.array(list(product(self.epsilons, self.lams, self.thetas)))


class Trial(NamedTuple):
    """One split: the problem of its training part, and how solutions are judged."""

    problem: Problem
    scale: Array  # (d,) what features were divided by
    score: Score


class Solver(NamedTuple):
    """How problems are solved."""

    choose: Callable[[Problem], Method[Any]]
    rules: Callable[[Method[Any]], Sequence[StopRule]]
    tol: float


class PathScores(NamedTuple):
    """A path's scores and times, one per lam."""

    scores: Array
    fit_seconds: Array
    score_seconds: Array
    unsolved: int


@dataclass(frozen=True, eq=False)
class SearchResult:
    """Scores of all candidates on all splits, in the order of ``grid.candidates``."""

    grid: Grid
    scores: Array  # (candidates, splits)
    fit_seconds: Array
    score_seconds: Array
    unsolved: int = 0  # fits that ended above the tolerance

    @property
    def mean_scores(self) -> Array:
        """Mean over the splits in which a score exists."""
        return mean_scores(self.scores)

    def table(self) -> dict[str, Any]:
        """Results under the names that GridSearchCV gives them."""
        candidates = self.grid.candidates().tolist()
        params = [dict(zip(STRENGTHS, row, strict=True)) for row in candidates]
        return results_table(params, self.scores, self.fit_seconds, self.score_seconds)


def results_table(
    params: Sequence[Mapping[str, Any]],
    scores: Array,
    fit_seconds: Array,
    score_seconds: Array,
) -> dict[str, Any]:
    """Scores and times (candidates, splits) under the names of GridSearchCV."""
    mean = mean_scores(scores)
    return {
        "mean_fit_time": fit_seconds.mean(axis=1),
        "std_fit_time": fit_seconds.std(axis=1),
        "mean_score_time": score_seconds.mean(axis=1),
        "std_score_time": score_seconds.std(axis=1),
        **{f"param_{name}": _column(name, params) for name in _names(params)},
        "params": [dict(part) for part in params],
        **{f"split{k}_test_score": s for k, s in enumerate(scores.T.copy())},
        "mean_test_score": mean,
        "std_test_score": _spread(scores),
        "rank_test_score": rankdata(-mean, method="min").astype(np.int32),
    }


def _names(params: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted({name for part in params for name in part})


def _column(name: str, params: Sequence[Mapping[str, Any]]) -> np.ma.MaskedArray:
    """One parameter over all candidates, masked where a candidate lacks it."""
    absent = [name not in part for part in params]
    values = [part.get(name) for part in params]
    numbers = all(isinstance(value, float) for value in values)
    column = np.array(values, dtype=np.float64 if numbers else object)
    return np.ma.MaskedArray(column, mask=absent)


def search(
    trials: Sequence[Trial],
    grid: Grid,
    solver: Solver,
    *,
    n_jobs: int = 1,
    advance: Callable[[], None] = lambda: None,
) -> SearchResult:
    """Score every candidate on every trial; ``advance`` is called after each path.

    Paths do not know of each other, so that the result is the same to the bit for
    any number of threads.
    """
    paths = [key for t, trial in enumerate(trials) for key in _keys(t, trial, grid)]
    jobs = [_job(trials[t], grid.lams, solver, *pair) for t, *pair in paths]
    done = dict(zip(paths, run_jobs(jobs, n_jobs, advance), strict=True))
    parts = [_gather(t, trial, grid, done) for t, trial in enumerate(trials)]
    scores, fit_seconds, score_seconds = np.stack(parts, axis=-1)
    unsolved = sum(path.unsolved for path in done.values())
    return SearchResult(grid, scores, fit_seconds, score_seconds, unsolved)


def count_paths(trials: Sequence[Trial], grid: Grid) -> int:
    """Number of paths that a search follows."""
    return sum(len(list(_keys(t, trial, grid))) for t, trial in enumerate(trials))


def choose_candidate(result: SearchResult, rule: str) -> int:
    """Best mean score, or the largest lam within one standard error of it."""
    mean = result.mean_scores
    if np.all(np.isnan(mean)):
        raise FoldsError(
            "no candidate has a score on any split: with AUC every held-out part shows "
            "one class only; use fewer folds, or another scoring."
        )
    best = int(np.nanargmax(mean))
    if rule == "best":
        return best
    near = mean >= mean[best] - standard_error(result.scores[best])
    lams = result.grid.candidates()[:, STRENGTHS.index("lam")]
    largest = near & (lams == lams[near].max())
    return int(np.nanargmax(np.where(largest, mean, -np.inf)))


def standard_error(scores: Array) -> float:
    """Of the mean of scores, leaving out those that do not exist."""
    known = scores[~np.isnan(scores)]
    if len(known) < 2:
        return 0.0
    return float(known.std(ddof=1) / np.sqrt(len(known)))


def _keys(t: int, trial: Trial, grid: Grid) -> Iterator[tuple[int, float, float]]:
    """Trial, theta and epsilon of each path that differs from the others."""
    # Without relations or ties all values of their strength give the same problem.
    prior = trial.problem.prior
    thetas = grid.thetas if prior.D.nnz else grid.thetas[:1]
    epsilons = grid.epsilons[:1] if prior.laplacian.is_zero else grid.epsilons
    return ((t, float(a), float(b)) for b, a in product(epsilons, thetas))


def _job(
    trial: Trial, lams: Array, solver: Solver, theta: float, epsilon: float
) -> Callable[[], PathScores]:
    return lambda: _score_path(trial, lams, solver, theta, epsilon)


def _score_path(
    trial: Trial, lams: Array, solver: Solver, theta: float, epsilon: float
) -> PathScores:
    """Solve for decreasing lam, then judge all solutions at once."""
    order = np.argsort(-lams, kind="stable")
    problem = trial.problem.with_strengths(lam=1.0, theta=theta, epsilon=epsilon)
    solutions = solve_path(
        problem, lams[order], choose=solver.choose, rules=solver.rules
    )
    begin = perf_counter()
    coefs = np.stack([solution.coef.T for solution in solutions]) / trial.scale
    intercepts = np.stack([solution.intercept for solution in solutions])
    scores = trial.score(coefs, intercepts)
    each = (perf_counter() - begin) / len(lams)
    back = np.argsort(order)
    limit = solver.tol * problem.null_objective
    return PathScores(
        scores[back],
        np.array([solution.seconds for solution in solutions])[back],
        np.full(len(lams), each),
        sum(is_unsolved(solution, limit) for solution in solutions),
    )


def is_unsolved(solution: Solution, limit: float) -> bool:
    """Whether a run ended above the largest gap allowed, and not by rounding."""
    by_rounding = solution.reason is StopReason.ROUNDING
    return solution.certificate.gap > limit and not by_rounding


def run_jobs(
    jobs: Sequence[Callable[[], R]],
    n_jobs: int,
    advance: Callable[[], None] = lambda: None,
) -> list[R]:
    """Run jobs in threads; their order decides nothing."""
    if n_jobs == 1:
        return [_then(job(), advance) for job in jobs]
    with ThreadPoolExecutor(min(n_jobs, len(jobs))) as pool:
        futures = [pool.submit(job) for job in jobs]
        try:
            for future in as_completed(futures):
                _then(future.result(), advance)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [future.result() for future in futures]


def _then(result: R, advance: Callable[[], None]) -> R:
    advance()
    return result


def _gather(t: int, trial: Trial, grid: Grid, done: dict[Any, PathScores]) -> Array:
    """Scores, fit and score seconds of all candidates on one trial (3, candidates)."""
    out = np.empty((3, *grid.shape))
    keys = list(_keys(t, trial, grid))
    thetas = {key[1] for key in keys}
    epsilons = {key[2] for key in keys}
    for a, epsilon in enumerate(grid.epsilons):
        for b, theta in enumerate(grid.thetas):
            path = done[
                t,
                theta if theta in thetas else grid.thetas[0],
                epsilon if epsilon in epsilons else grid.epsilons[0],
            ]
            out[:, a, :, b] = path[:3]
    return out.reshape(3, -1)


def mean_scores(scores: Array) -> Array:
    """Mean over splits, leaving out those without a score; NaN where none has one."""
    known = ~np.isnan(scores)
    count = known.sum(axis=1)
    total = np.where(known, scores, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _spread(scores: Array) -> Array:
    """Standard deviation over the same splits."""
    deviations = scores - mean_scores(scores)[:, np.newaxis]
    # Squares of large scores would leave the range of doubles.
    size = np.max(np.abs(deviations), initial=0.0, where=np.isfinite(deviations))
    if size == 0.0:
        return np.sqrt(mean_scores(deviations**2))
    return size * np.sqrt(mean_scores((deviations / size) ** 2))
