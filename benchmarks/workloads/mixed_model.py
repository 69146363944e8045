"""Against the mixed model: random intercepts and slopes on grouped tables."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import qr
from scipy.stats import t as student
from statsmodels.regression.mixed_linear_model import MixedLM, MixedLMParams

from benchmarks.data import MissingDataError, Rows, load_school
from benchmarks.report import Bar, Report, Section, Table, seconds_of, times
from benchmarks.timing import Seconds
from priormtl import MultiTaskRegressor, MultiTaskRegressorCV

TITLE = "Against the mixed model"
SHAPES = ((51, 23, 9), (35, 176, 8))  # groups, rows in each, features
TEST_ROWS = 100
SCHOOL_SHARE = 0.75  # of its rows train
LEAST_RATIO = 20.0
CASE = "groups × rows × features; MixedLM with"
EQUAL = 0.005  # share by which a mean error may differ
MIXED = {"task_prior": "mean", "fit_intercept": "tied", "ties": "adaptive"}
GRID = {"thetas": (0.0,), "lams": 5, "epsilons": (0.3, 1.0, 3.0)}

Predict = Callable[[Rows], np.ndarray]


class Split(NamedTuple):
    """Rows to learn from, and rows to predict."""

    train: Rows
    test: Rows


class Trial(NamedTuple):
    """One model on all seeds: CPU seconds of its fits, mean squared errors."""

    seconds: Seconds
    errors: np.ndarray


class Comparison(NamedTuple):
    """Our models and one mixed model on one kind of table."""

    ours: dict[str, Trial]
    rival: Trial
    inflation: float  # of the variance of a mean over seeds, where splits overlap

    def ratio(self, model: str) -> float:
        """How many times as long as one of ours the mixed model takes."""
        return self.rival.seconds / self.ours[model].seconds

    def difference(self, model: str) -> tuple[float, float, float]:
        """Our error above theirs as a share: mean, ends of its 95 % interval."""
        shares = self.ours[model].errors / self.rival.errors - 1.0
        count = len(shares)
        error = shares.std(ddof=1) * np.sqrt(1.0 / count + self.inflation)
        reach = student.ppf(0.975, count - 1) * error
        mean = float(shares.mean())
        return mean, mean - reach, mean + reach

    def interval(self, model: str) -> str:
        """The same in per cent."""
        mean, low, high = (100 * value for value in self.difference(model))
        return f"{mean:+.2f} % [{low:+.2f}, {high:+.2f}]"


def measure(quick: bool) -> Report:
    """Two shapes, slopes that vary alike or very differently, and School."""
    seeds = 3 if quick else 6
    found: dict[str, Comparison] = {}
    for name, splits in synthetic(seeds):
        rivals = {
            "free covariance": fit_slopes,
            "independent slopes": partial(fit_slopes, independent=True),
        }
        found |= _compare(name, splits, rivals, 0.0)
    try:
        splits = split_school(seeds)
    except MissingDataError as reason:
        print(f"  {reason}", flush=True)
    else:
        # Nadeau and Bengio (2003): random splits share most of their rows.
        inflation = 1.0 / SCHOOL_SHARE - 1.0
        rivals = {"random intercepts": fit_intercepts}
        found |= _compare("School, 139 × 83 × 27", splits, rivals, inflation)
    note = (
        "Synthetic groups with random intercepts and slopes, unit noise; slopes vary "
        "between groups by 0.3 in every feature, or by 0 to 1 with the feature: "
        "statsmodels MixedLM with random intercept and slopes by REML, with its "
        "default free covariance and with independent slopes (as the data are drawn). "
        "School: MixedLM with random intercepts only, on a full-rank part of the "
        f"columns; {100 * SCHOOL_SHARE:g} % of rows train. One fit: MultiTaskRegressor "
        "with lam = 0, coupling to the mean, tied intercepts, all variances by REML, "
        "which is the mixed model with independent slopes. Tuned: MultiTaskRegressorCV "
        "with the same structure, 5 λ and 3 ε tried on five folds. Defaults: "
        f"MultiTaskRegressorCV(), which also chooses the structure. {seeds} seeds. CPU "
        "time of one thread, medians over seeds (shortest–longest); ratios: MixedLM's "
        "median divided by that of ours before it. Error: mean squared error on 100 "
        "new rows of each group, or on the other rows of School; differences of ours "
        "as shares of the mixed model's, paired by seed, with 95 % intervals (School: "
        "corrected for overlapping splits)."
    )
    sections = [_time_section(found), _error_section(found)]
    return Report(TITLE, note, _bars(found), sections, found)


def synthetic(seeds: int) -> Iterator[tuple[str, list[Split]]]:
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


def split_school(seeds: int) -> list[Split]:
    """Random splits, columns scaled."""
    rows = load_school()
    rows = rows._replace(X=rows.X / rows.X.std(axis=0))
    splits = []
    for seed in range(seeds):
        train = np.random.default_rng(seed).random(len(rows.y)) < SCHOOL_SHARE
        parts = (Rows(*(a[kept] for a in rows)) for kept in (train, ~train))
        splits.append(Split(*parts))
    return splits


def fit_ours(rows: Rows, model: Any) -> Predict:
    """One of our models."""
    model.fit(rows.X, rows.y, task=rows.task)
    return lambda new: model.predict(new.X, task=new.task)


OURS = {
    "one fit": MultiTaskRegressor(
        0.0, 0.0, 1.0, **MIXED, intercept_strength="adaptive", standardize=True
    ),
    "tuned": MultiTaskRegressorCV(**MIXED, **GRID),
    "defaults": MultiTaskRegressorCV(),
}


def fit_slopes(rows: Rows, independent: bool = False) -> Predict:
    """Mixed model with random intercepts and slopes."""
    Z = np.column_stack([np.ones(len(rows.y)), rows.X])
    size = Z.shape[1]
    diagonal = MixedLMParams.from_components(np.ones(size), np.eye(size))
    model = MixedLM(rows.y, Z, groups=rows.task, exog_re=Z)
    result = model.fit(reml=True, free=diagonal if independent else None)
    effects = result.random_effects
    coef = np.array([result.fe_params + effects[i] for i in np.unique(rows.task)])

    def predict(new: Rows) -> np.ndarray:
        chosen = coef[new.task]
        return chosen[:, 0] + np.sum(chosen[:, 1:] * new.X, axis=1)

    return predict


def fit_intercepts(rows: Rows) -> Predict:
    """Mixed model with random intercepts, on columns that are not collinear."""
    Z = np.column_stack([np.ones(len(rows.y)), rows.X])
    R, order = qr(Z.T @ Z, mode="r", pivoting=True)
    rank = np.sum(np.abs(R.diagonal()) > 1e-10 * abs(R[0, 0]))
    kept = np.sort(order[:rank])
    result = MixedLM(rows.y, Z[:, kept], groups=rows.task).fit(reml=True)
    levels = {task: float(u.iloc[0]) for task, u in result.random_effects.items()}

    def predict(new: Rows) -> np.ndarray:
        fixed = np.column_stack([np.ones(len(new.y)), new.X])[:, kept]
        return fixed @ result.fe_params + np.array([levels[i] for i in new.task])

    return predict


def _compare(
    name: str,
    splits: list[Split],
    rivals: Mapping[str, Callable[[Rows], Predict]],
    inflation: float,
) -> dict[str, Comparison]:
    """All models on each split in turn."""
    ours = {name: partial(fit_ours, model=model) for name, model in OURS.items()}
    models = {**ours, **rivals}
    for fit in ours.values():
        fit(splits[0].train)  # compiled code is loaded, not timed
    seconds: dict[str, list[float]] = {model: [] for model in models}
    errors: dict[str, list[float]] = {model: [] for model in models}
    for train, test in splits:
        for model, fit in models.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                begin = process_time()
                predict = fit(train)
                seconds[model].append(process_time() - begin)
            errors[model].append(float(np.mean((predict(test) - test.y) ** 2)))
    trials = {m: Trial(Seconds(seconds[m]), np.array(errors[m])) for m in models}
    found = {}
    for rival in rivals:
        one = Comparison({m: trials[m] for m in OURS}, trials[rival], inflation)
        found[f"{name}; {rival}"] = one
        words = [f"{m} {one.interval(m)}, {times(one.ratio(m))}×" for m in OURS]
        print(f"  {name}, {rival}: {'; '.join(words)}", flush=True)
    return found


def _bars(found: dict[str, Comparison]) -> list[Bar]:
    slopes = {name: one for name, one in found.items() if "School" not in name}
    bars = []
    for model in ("one fit", "tuned"):
        slowest = min(slopes, key=lambda name: slopes[name].ratio(model))
        ratio = slopes[slowest].ratio(model)
        goal = f"{model}: at least {LEAST_RATIO:g}× faster than MixedLM with slopes"
        bars.append(
            Bar(goal, f"least {times(ratio)}× ({slowest})", ratio >= LEAST_RATIO)
        )
        for name in found.keys() - slopes.keys():
            ratio = found[name].ratio(model)
            goal = f"{model}: not slower than MixedLM with random intercepts on School"
            bars.append(Bar(goal, f"{times(ratio)}×", ratio >= 1))
    for name, one in found.items():
        mean, low, _ = one.difference("tuned")
        # With few seeds the interval is wide: it alone would excuse any error.
        equal = low <= 0 and mean <= EQUAL
        goal = f"tuned: error equal or better (within {100 * EQUAL:g} %): {name}"
        bars.append(Bar(goal, one.interval("tuned"), equal))
    return bars


def _time_section(found: dict[str, Comparison]) -> Section:
    rows = []
    for name, one in found.items():
        row = [name, seconds_of(one.rival.seconds)]
        for model, trial in one.ours.items():
            row += [seconds_of(trial.seconds), times(one.ratio(model))]
        rows.append(row)
    head = [CASE, "MixedLM, s", *(t for m in OURS for t in (f"{m}, s", "ratio"))]
    return Section("Time", "", Table(head, rows))


def _error_section(found: dict[str, Comparison]) -> Section:
    rows = [
        [name, f"{one.rival.errors.mean():.4f}", *map(one.interval, OURS)]
        for name, one in found.items()
    ]
    return Section("Error", "", Table([CASE, "MixedLM's error", *OURS], rows))
