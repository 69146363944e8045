"""Search: models and their strengths, scored on splits of the data.

A structure is a model whose strengths are open, with a grid of them. For each split,
structure, theta and epsilon one path over decreasing lam is solved, each lam from the
last solution, and all its solutions are scored at once.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, product
from operator import attrgetter
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import joblib
import numpy as np
from joblib import Parallel, delayed
from scipy.stats import rankdata
from threadpoolctl import threadpool_limits

from priormtl._arrays import Array
from priormtl._processes import leaving_interrupts
from priormtl.exceptions import FoldsError
from priormtl.model import Model, Posed, Solver
from priormtl.selection.scores import Score
from priormtl.solvers import StopReason

__all__ = [
    "RULES",
    "Candidate",
    "Grid",
    "SearchResult",
    "Structure",
    "Trial",
    "choose_candidate",
    "choose_structure",
    "count_paths",
    "mean_scores",
    "results_table",
    "run_jobs",
    "search",
    "standard_error",
]

R = TypeVar("R")
RULES = ("best", "1se")
FEW_JOBS = 4  # per worker, up to which threads do them all
SHORT_SECONDS = 0.5  # of a job in which Python has a large share
WORTH_SECONDS = 2.0  # of work, beyond which workers pay for their start
BATCHES = 8  # per worker


class Grid(NamedTuple):
    """Strengths to try, all with all."""

    lams: Array
    thetas: Array
    epsilons: Array


class Trial(NamedTuple):
    """One split: the model posed on its training part, and the score of solutions."""

    posed: Posed
    score: Score


class Structure(NamedTuple):
    """A model with a grid of strengths, posed on all splits."""

    model: Model | None  # None where it was read from a file
    grid: Grid
    trials: Sequence[Trial]
    settings: Mapping[str, Any] = {}  # what makes it differ from other structures

    @classmethod
    def of(
        cls,
        posed: Posed,
        grid: Grid,
        folds: Sequence[tuple[Any, Score]],
        settings: Mapping[str, Any],
    ) -> "Structure":
        """Pose a model on the training part of each fold, as it is on all data."""
        model, trials = posed.model, []
        for data, score in folds:
            trials.append(Trial(model.pose(data, posed.estimate), score))
        return cls(model, grid, trials, settings)


class Candidate(NamedTuple):
    """Strengths to try; in the order of GridSearchCV, by name."""

    epsilon: float
    lam: float
    theta: float
    structure: int = 0  # place of its structure in the search

    def at(self, posed: Posed) -> Posed:
        """A posed model at these strengths."""
        return posed.at(self.lam, self.theta, self.epsilon)


class PathScores(NamedTuple):
    """A path's scores and times, one per lam."""

    scores: Array
    fit_seconds: Array
    score_seconds: Array
    unsolved: int


@dataclass(frozen=True, eq=False)
class SearchResult:
    """Scores of all candidates on all splits."""

    structures: Sequence[Structure]
    scores: Array  # (candidates, splits)
    fit_seconds: Array
    score_seconds: Array
    unsolved: int = 0  # fits that ended above the tolerance

    @property
    def grid(self) -> Grid:
        """Strengths of the first structure."""
        return self.structures[0].grid

    def candidates(self) -> list[Candidate]:
        """All candidates, theta changing fastest."""
        return [
            Candidate(float(epsilon), float(lam), float(theta), k)
            for k, (_, grid, *_) in enumerate(self.structures)
            for epsilon, lam, theta in product(grid.epsilons, grid.lams, grid.thetas)
        ]

    def __add__(self, other: "SearchResult") -> "SearchResult":
        """Candidates of both, on the same splits."""
        return SearchResult(
            [*self.structures, *other.structures],
            np.concatenate([self.scores, other.scores]),
            np.concatenate([self.fit_seconds, other.fit_seconds]),
            np.concatenate([self.score_seconds, other.score_seconds]),
            self.unsolved + other.unsolved,
        )

    def without_data(self) -> "SearchResult":
        """Scores alone, to be kept with a fitted estimator."""
        kept = [structure._replace(trials=()) for structure in self.structures]
        return replace(self, structures=kept)

    def table(self) -> dict[str, Any]:
        """Results under the names that GridSearchCV gives them."""
        params = []
        for candidate in self.candidates():
            named = candidate._asdict()
            del named["structure"]
            params.append({**named, **self.structures[candidate.structure].settings})
        return results_table(params, self.scores, self.fit_seconds, self.score_seconds)


def results_table(
    params: Sequence[Mapping[str, Any]],
    scores: Array,
    fit_seconds: Array,
    score_seconds: Array,
) -> dict[str, Any]:
    """Scores and times (candidates, splits) under the names of GridSearchCV."""
    table: dict[str, Any] = {
        "mean_fit_time": fit_seconds.mean(axis=1),
        "std_fit_time": fit_seconds.std(axis=1),
        "mean_score_time": score_seconds.mean(axis=1),
        "std_score_time": score_seconds.std(axis=1),
    }
    for name in sorted(set(chain.from_iterable(params))):
        # Masked where a candidate lacks the parameter.
        values, absent = np.full(len(params), None), np.zeros(len(params), bool)
        numbers = True
        for i, part in enumerate(params):
            values[i], absent[i] = part.get(name), name not in part
            numbers &= isinstance(part.get(name), float)
        column = values.astype(np.float64) if numbers else values
        table[f"param_{name}"] = np.ma.MaskedArray(column, mask=absent)
    table["params"] = list(map(dict, params))
    for k, split in enumerate(scores.T.copy()):
        table[f"split{k}_test_score"] = split
    mean = mean_scores(scores)
    # Squares of large scores would leave the range of doubles.
    deviations = scores - mean[:, np.newaxis]
    size = np.max(np.abs(deviations), initial=0.0, where=np.isfinite(deviations)) or 1.0
    table["mean_test_score"] = mean
    table["std_test_score"] = size * np.sqrt(mean_scores((deviations / size) ** 2))
    table["rank_test_score"] = rankdata(-mean, method="min").astype(np.int32)
    return table


def search(
    structures: Sequence[Structure],
    solver: Solver,
    *,
    n_jobs: int = 1,
    advance: Callable[[], None] = lambda: None,
) -> SearchResult:
    """Score every candidate on every split; ``advance`` is called after each path.

    Paths are independent, so that results are bit-identical for any ``n_jobs``.
    """
    keys, jobs = _paths(structures), []
    for k, t, theta, epsilon in keys:
        lams, trial = structures[k].grid.lams, structures[k].trials[t]
        jobs.append(partial(_run_path, lams, trial, solver, theta, epsilon))
    # Arrays on a graphics card stay in their process.
    portable = all(s.model is not None and s.model.device is None for s in structures)
    results = run_jobs(jobs, n_jobs, advance, portable=portable)
    done = dict(zip(keys, results, strict=True))
    parts = []
    for k, (_, grid, trials, _) in enumerate(structures):
        shape = len(grid.epsilons), len(grid.lams), len(grid.thetas), len(trials)
        out = np.empty((3, *shape))
        for t, trial in enumerate(trials):
            thetas, epsilons = _distinct(grid, trial)
            for (a, epsilon), (b, theta) in product(
                enumerate(grid.epsilons), enumerate(grid.thetas)
            ):
                # Without relations or ties all values of their strength are one.
                own = theta if len(thetas) > 1 else thetas[0]
                tie = epsilon if len(epsilons) > 1 else epsilons[0]
                out[:, a, :, b, t] = done[k, t, float(own), float(tie)][:3]
        parts.append(out.reshape(3, -1, len(trials)))
    scores, fit_seconds, score_seconds = np.concatenate(parts, axis=1)
    unsolved = sum(map(attrgetter("unsolved"), done.values()))
    return SearchResult(structures, scores, fit_seconds, score_seconds, unsolved)


def count_paths(structures: Sequence[Structure]) -> int:
    """Number of paths that a search follows."""
    return len(_paths(structures))


def choose_candidate(result: SearchResult, rule: str) -> int:
    """Best mean score, or the largest lam within one standard error of it."""
    mean = mean_scores(result.scores)
    if np.all(np.isnan(mean)):
        raise FoldsError(
            "no candidate has a score on any split: with AUC every held-out part shows "
            "one class only; use fewer folds, or another scoring."
        )
    best = int(np.nanargmax(mean))
    if rule == "best":
        return best
    near = mean >= mean[best] - standard_error(result.scores[best])
    lams = np.array([candidate.lam for candidate in result.candidates()])
    largest = near & (lams == lams[near].max())
    return int(np.nanargmax(np.where(largest, mean, -np.inf)))


def choose_structure(result: SearchResult, rule: str) -> int:
    """Same, but slopes are in common only if they gain more than a standard error."""
    best = choose_candidate(result, rule)
    common = np.array(
        [
            result.structures[candidate.structure].settings.get("slopes") == "common"
            for candidate in result.candidates()
        ]
    )
    if not common[best] or common.all():
        return best
    others = np.where(common[:, np.newaxis], np.nan, result.scores)
    other = choose_candidate(replace(result, scores=others), rule)
    gains = result.scores[best] - result.scores[other]
    return best if np.nanmean(gains) > standard_error(gains) else other


def standard_error(scores: Array) -> float:
    """Of the mean of scores, leaving out those that do not exist."""
    known = scores[~np.isnan(scores)]
    if len(known) < 2:
        return 0.0
    return float(known.std(ddof=1) / np.sqrt(len(known)))


def _distinct(grid: Grid, trial: Trial) -> tuple[Array, Array]:
    """Values of theta and epsilon that give different problems."""
    prior = trial.posed.problem.prior
    thetas = grid.thetas if prior.D.nnz else grid.thetas[:1]
    epsilons = grid.epsilons[:1] if prior.laplacian.is_zero else grid.epsilons
    return thetas, epsilons


def _paths(structures: Sequence[Structure]) -> list[tuple[int, int, float, float]]:
    """Structure, trial, theta and epsilon of each path that differs from the others."""
    found = []
    for k, (_, grid, trials, _) in enumerate(structures):
        for t, trial in enumerate(trials):
            thetas, epsilons = _distinct(grid, trial)
            for epsilon, theta in product(epsilons, thetas):
                found.append((k, t, float(theta), float(epsilon)))
    return found


def _run_path(
    lams: Array, trial: Trial, solver: Solver, theta: float, epsilon: float
) -> PathScores:
    """Solve for decreasing lam, then score all solutions at once."""
    posed, score = trial
    known = posed.estimated() if epsilon == 1.0 and 0.0 in lams else None
    if known is not None and len(lams) == 1:
        begin = perf_counter()
        coef, intercept = known
        scores = score(coef[np.newaxis], intercept[np.newaxis])
        taken = np.array([perf_counter() - begin])
        return PathScores(scores, np.zeros(1), taken, 0)
    order = np.argsort(-lams, kind="stable")
    problem = posed.problem.with_strengths(lam=1.0, theta=theta, epsilon=epsilon)
    solutions = solver.path(problem, lams[order])
    begin = perf_counter()
    coefs, intercepts, seconds, unsolved = [], [], [], 0
    for solution in solutions:
        coefs.append(solution.coef.T)
        intercepts.append(solution.intercept)
        seconds.append(solution.seconds)
        if solution.reason is not StopReason.GAP:
            unsolved += not solver.accepts(problem, solution.certificate)
    scores = score(np.stack(coefs) / posed.scale, np.stack(intercepts))
    each = (perf_counter() - begin) / len(lams)
    back = np.argsort(order)
    return PathScores(
        scores[back], np.array(seconds)[back], np.full(len(lams), each), unsolved
    )


def run_jobs(
    jobs: Sequence[Callable[[], R]],
    n_jobs: int,
    advance: Callable[[], None] = lambda: None,
    *,
    portable: bool = False,
) -> list[R]:
    """Run jobs, ``n_jobs`` at a time; where they run and their order decide nothing.

    Threads share the data, but short fits keep waiting for Python's lock. Where many
    short jobs are left after the first ones, and ``portable`` ones may be sent, they
    go to worker processes, which joblib keeps for the next search.
    """
    if n_jobs == 1:
        results = []
        for job in jobs:
            results.append(job())
            advance()
        return results
    first = len(jobs)
    if portable and len(jobs) > FEW_JOBS * n_jobs:
        first = n_jobs
    begin = perf_counter()
    results = _run_in_threads(jobs[:first], n_jobs, advance)
    seconds, left = (perf_counter() - begin) / first, jobs[first:]
    pays = seconds < SHORT_SECONDS and seconds * len(left) > WORTH_SECONDS
    if pays and _can_be_sent(left[0]):
        return results + _run_in_processes(left, n_jobs, advance)
    return results + _run_in_threads(left, n_jobs, advance)


def _run_in_threads(
    jobs: Sequence[Callable[[], R]], n_jobs: int, advance: Callable[[], None]
) -> list[R]:
    with ThreadPoolExecutor(n_jobs) as pool:
        futures = [pool.submit(job) for job in jobs]
        try:
            for future in as_completed(futures):
                future.result()
                advance()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [future.result() for future in futures]


def _run_in_processes(
    jobs: Sequence[Callable[[], R]], n_jobs: int, advance: Callable[[], None]
) -> list[R]:
    # Neighbours share their data, which are sent once for a batch.
    size = -(-len(jobs) // (BATCHES * n_jobs))
    batches = [jobs[k : k + size] for k in range(0, len(jobs), size)]
    with leaving_interrupts():
        running = Parallel(n_jobs, return_as="generator", pre_dispatch="all")(
            delayed(_run_batch)(batch) for batch in batches
        )
    results: list[R] = []
    for batch in running:
        results += batch
        for _ in batch:
            advance()
    return results


def _can_be_sent(job: Callable[[], Any]) -> bool:
    """Whether a job can be pickled, which hashing does; a user's scorer may not."""
    try:
        joblib.hash(job)
    except Exception:
        return False
    return True


def _run_batch(jobs: Sequence[Callable[[], R]]) -> list[R]:
    with threadpool_limits(1, user_api="blas"):  # as in the process that sent them
        return [job() for job in jobs]


def mean_scores(scores: Array) -> Array:
    """Mean over splits, leaving out those without a score; NaN where none has one."""
    known = ~np.isnan(scores)
    count = known.sum(axis=1)
    total = np.where(known, scores, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
