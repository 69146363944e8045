"""Against the mixed model: random intercepts and slopes on grouped tables."""

import warnings
from collections.abc import Iterator
from time import process_time
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student
from statsmodels.regression.mixed_linear_model import MixedLM, MixedLMParams

from benchmarks.data import Rows
from benchmarks.report import Bar, Report, Section, Table, times
from benchmarks.timing import geometric_mean
from benchmarks.workloads.cross_validation import searcher

TITLE = "Against the mixed model"
SHAPES = ((51, 23, 9), (35, 176, 8))  # groups, rows in each, features
TEST_ROWS = 100
COVARIANCES = ("free covariance", "independent slopes")
LEAST_RATIO = 20.0
EQUAL = 0.005  # share by which a mean error may differ
OURS = {
    "task_prior": "mean",
    "fit_intercept": "tied",
    "ties": "adaptive",
    "thetas": (0.0,),
    "lams": 5,
    "epsilons": (0.3, 1.0, 3.0),
}


class Split(NamedTuple):
    """Rows to learn from, and rows to predict."""

    train: Rows
    test: Rows


class Trial(NamedTuple):
    """One seed: seconds and mean squared errors of both."""

    our_seconds: float
    their_seconds: float
    our_error: float
    their_error: float


def measure(quick: bool) -> Report:
    """Two shapes, slopes that vary alike or very differently, many seeds."""
    searcher()
    trials = {}
    for name, splits in cases(3 if quick else 20):
        runs = [_run(split) for split in splits]
        for rival in COVARIANCES:
            found = trials[f"{name}; {rival}"] = [run[rival] for run in runs]
            words = f"{_interval(found)}, {times(_speed(found))}× faster"
            print(f"  {name}, {rival}: {words}", flush=True)
    note = (
        "Synthetic groups with random intercepts and slopes, unit noise; slopes vary "
        "between groups by 0.3 in every feature, or by 0 to 1 with the feature. "
        "statsmodels MixedLM with random intercept and slopes by REML, with its "
        "default free covariance and with independent slopes (as the data are drawn), "
        "against MultiTaskRegressorCV with ties to the mean, tied intercepts, adaptive "
        "tie weights, 5 λ and 3 ε tried on five folds. CPU time of one thread. "
        "Error: mean squared error on 100 new rows of each group; difference as a "
        "share of the mixed model's, paired by seed, with a 95 % interval."
    )
    return Report(TITLE, note, _bars(trials), [_section(trials)])


def cases(seeds: int) -> Iterator[tuple[str, list[Split]]]:
    """Named lists of splits, one for each seed."""
    for shape in SHAPES:
        groups, rows, d = shape
        spreads = {"alike": np.full(d, 0.3), "differently": np.linspace(0, 1, d) ** 2}
        for name, spread in spreads.items():
            splits = [draw(shape, spread, seed) for seed in range(seeds)]
            yield f"{groups} × {rows} × {d}, slopes vary {name}", splits


def draw(shape: tuple[int, int, int], spread: np.ndarray, seed: int) -> Split:
    """Groups whose coefficients scatter around common ones."""
    groups, rows, d = shape
    rng = np.random.default_rng(seed)
    P = 0.5 * rng.standard_normal((d, 1)) + spread[:, None] * rng.standard_normal(
        (d, groups)
    )
    b = 0.5 * rng.standard_normal(groups)

    def sample(count: int) -> Rows:
        task = np.repeat(np.arange(groups), count)
        X = rng.standard_normal((len(task), d))
        signal = np.einsum("nd,dn->n", X, P[:, task]) + b[task]
        return Rows(X, signal + rng.standard_normal(len(task)), task)

    return Split(sample(rows), sample(TEST_ROWS))


def _run(split: Split) -> dict[str, Trial]:
    """Ours once, against the mixed model with each covariance."""
    begin = process_time()
    ours = searcher()(**OURS).fit(split.train.X, split.train.y, task=split.train.task)
    seconds = process_time() - begin
    predicted = ours.predict(split.test.X, task=split.test.task)
    error = _error(predicted, split)
    trials = {}
    for rival in COVARIANCES:
        begin = process_time()
        coef = fit_mixed_model(split.train, rival)
        spent = process_time() - begin
        their_error = _error(_predict(coef, split.test), split)
        trials[rival] = Trial(seconds, spent, error, their_error)
    return trials


def _error(predicted: np.ndarray, split: Split) -> float:
    return float(np.mean((predicted - split.test.y) ** 2))


def fit_mixed_model(rows: Rows, covariance: str) -> np.ndarray:
    """Intercept and slopes of each group (groups, 1 + d)."""
    Z = np.column_stack([np.ones(len(rows.y)), rows.X])
    size = Z.shape[1]
    diagonal = MixedLMParams.from_components(np.ones(size), np.eye(size))
    free = diagonal if covariance == "independent slopes" else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MixedLM(rows.y, Z, groups=rows.task, exog_re=Z)
        result = model.fit(reml=True, free=free)
        effects = result.random_effects
    return np.array([result.fe_params + effects[i] for i in np.unique(rows.task)])


def _predict(coef: np.ndarray, rows: Rows) -> np.ndarray:
    chosen = coef[rows.task]
    return chosen[:, 0] + np.sum(chosen[:, 1:] * rows.X, axis=1)


def _differences(trials: list[Trial]) -> np.ndarray:
    """Our error above theirs, as a share."""
    return np.array([trial.our_error / trial.their_error - 1.0 for trial in trials])


def _bounds(trials: list[Trial]) -> tuple[float, float, float]:
    """Mean difference, and the ends of its 95 % interval."""
    values = _differences(trials)
    mean = float(values.mean())
    spread = float(values.std(ddof=1)) / np.sqrt(len(values))
    reach = float(student.ppf(0.975, len(values) - 1)) * spread
    return mean, mean - reach, mean + reach


def _interval(trials: list[Trial]) -> str:
    mean, low, high = _bounds(trials)
    return f"{100 * mean:+.2f} % [{100 * low:+.2f}, {100 * high:+.2f}]"


def _speed(trials: list[Trial]) -> float:
    return geometric_mean(t.their_seconds / t.our_seconds for t in trials)


def _bars(trials: dict[str, list[Trial]]) -> list[Bar]:
    slowest = min(trials, key=lambda name: _speed(trials[name]))
    least = _speed(trials[slowest])
    words = f"least {times(least)}× ({slowest})"
    bars = [Bar(f"at least {LEAST_RATIO:g}× faster", words, least >= LEAST_RATIO)]
    for name, found in trials.items():
        mean, low, _ = _bounds(found)
        # With few seeds the interval is wide: it alone would excuse any error.
        equal = low <= 0 and mean <= EQUAL
        goal = f"error equal or better (within {100 * EQUAL:g} %): {name}"
        bars.append(Bar(goal, _interval(found), equal))
    return bars


def _section(trials: dict[str, list[Trial]]) -> Section:
    rows = [
        [
            name,
            f"{np.median([trial.our_seconds for trial in found]):.3g}",
            f"{np.median([trial.their_seconds for trial in found]):.3g}",
            times(_speed(found)),
            f"{np.mean([trial.our_error for trial in found]):.4f}",
            f"{np.mean([trial.their_error for trial in found]):.4f}",
            _interval(found),
        ]
        for name, found in trials.items()
    ]
    head = [
        "groups × rows × features",
        "ours, s",
        "MixedLM, s",
        "ratio",
        "our error",
        "its error",
        "difference",
    ]
    return Section("Time and error", "", Table(head, rows))
