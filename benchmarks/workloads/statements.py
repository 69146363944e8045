"""What experts know: held-out error with true and wrong statements, by rows per task.

Each form of prior information has a design from a textbook, in which one statement is
true and another one is wrong. Models are mixed models, or have one coupling of all
effects, as folds decide. To these the statement is added; "tuned" leaves its strength
to the default grid of ``MultiTaskRegressorCV``, which contains zero.
"""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import t as student

from benchmarks.report import Bar, Plot, Report, Section, Table
from priormtl import (
    FeaturePrior,
    MultiTaskRegressorCV,
    SplineFeatures,
    TaskPrior,
)
from priormtl.datasets import make_related_tasks

TITLE = "What experts know, by rows per task"
FEW = 20  # rows per task up to which a true statement must help
TEST_ROWS = 50
ROWS = (5, 10, 20, 40)  # per task
SEEDS = {5: 24, 10: 12, 20: 20, 40: 4}
QUICK_SEEDS = 3
HELD = (100.0,)  # theta that is not tuned
LARGEST_DAMAGE = 0.02
MIXED: dict[str, Any] = {  # a mixed model, or one coupling of all, as folds decide
    "lams": (0.0,),
    "task_prior": "mean",
    "ties": "auto",
    "fit_intercept": "tied",
}

Settings = Mapping[str, Any]


class Sample(NamedTuple):
    """Rows, and the settings of each model that is fitted to them."""

    X: pd.DataFrame
    y: np.ndarray
    task: np.ndarray
    models: Mapping[str, Settings]


def trial(rng: np.random.Generator, rows: int) -> Sample:
    """Blood pressure in eight centres; three effects are known from a trial."""
    task, X = _rows(rng, 8, rows, ["drug", "salt", "sport", "age"])
    y = _respond(rng, X, task, [-1.5, 1.0, -1.0, 0.5], spread=0.2, noise=4.0)
    true = FeaturePrior.near({"drug": -1.5, "salt": 1.0, "sport": -1.0})
    wrong = FeaturePrior.near({"drug": 1.5})
    return Sample(X, y, task, _tuned(true, wrong))


def pairs(rng: np.random.Generator, rows: int) -> Sample:
    """The paper's synthetic tasks: pairs of features act alike or oppositely."""
    data = make_related_tasks(
        6, 10, rows + TEST_ROWS, n_informative=10, noise=3.0, random_state=rng
    )
    X = pd.DataFrame(data.X, columns=[f"x{k}" for k in range(10)])
    a, b = np.argsort(data.coef.mean(axis=0))[[0, -1]].tolist()
    return Sample(
        X,
        data.y,
        data.task,
        _tuned(data.feature_prior, FeaturePrior.similar([(a, b)])),
    )


def demand(rng: np.random.Generator, rows: int) -> Sample:
    """Sales in ten shops, on the prices of the product and of three others."""
    names = ["own", "other 1", "other 2", "other 3"]
    task, X = _rows(rng, 10, rows, names)
    mean = np.array([-0.6, 0.4, 0.0, 0.0])
    y = _respond(rng, X, task, mean, spread=0.3 * np.abs(mean), noise=4.0)
    rise, fall = FeaturePrior.nonnegative, FeaturePrior.nonpositive
    true = fall(names[:1]) + rise(names[1:])
    return Sample(X, y, task, _fixed(true, rise(names[:1])))


def covariance(rng: np.random.Generator, rows: int) -> Sample:
    """Parallel lines: covariates a to d act alike in all groups, u does not."""
    names = ["a", "b", "c", "d", "u"]
    task, X = _rows(rng, 6, rows, names)
    spread = np.array([0.0, 0.0, 0.0, 0.0, 1.0])
    y = _respond(rng, X, task, rng.normal(size=5), spread=spread, noise=1.5)
    common = FeaturePrior.common
    return Sample(X, y, task, _fixed(common(names[:4]), common(names[4:])))


def curves(rng: np.random.Generator, rows: int) -> Sample:
    """Gu and Wahba's additive model; the effect of ``teeth`` is not smooth."""
    task, X = _rows(rng, 8, rows, ["x0", "x1", "x2", "x3", "teeth"])
    X = X.rank() / len(X)
    x0, x1, x2, _, teeth = X.to_numpy().T
    bell = 0.2 * x2**11 * (10 * (1 - x2)) ** 6 + 10 * (10 * x2) ** 3 * (1 - x2) ** 10
    y = 2 * np.sin(np.pi * x0) + np.exp(2 * x1) + bell + (40 * teeth) % 2
    y = y + rng.normal(size=8)[task] + 2 * rng.normal(size=len(y))
    models = _fixed(FeaturePrior.smooth(), FeaturePrior.smooth())
    models["true"] = models["true"] | {"curves": ["x0", "x1", "x2", "x3"]}
    models["wrong"] = models["wrong"] | {"curves": ["teeth"]}
    return Sample(X, y, task, _estimated(models))


def schools(rng: np.random.Generator, rows: int) -> Sample:
    """Pupils of 24 schools in six districts; districts differ more than schools."""
    district = np.repeat(np.arange(6), 4)
    task, X = _rows(rng, 24, rows, ["score", "hours", "books"])
    effects = 0.5 + 0.4 * rng.normal(size=(6, 3))[district]
    effects = effects + 0.15 * rng.normal(size=(24, 3))
    level = 1.5 * rng.normal(size=6)[district] + 0.5 * rng.normal(size=24)
    y = np.sum(X.to_numpy() * effects[task], axis=1) + level[task]
    y = y + 2.0 * rng.normal(size=len(y))
    models = _fixed(None, None)
    for name, groups in (("true", district), ("wrong", rng.permutation(district))):
        parents = {i: f"district {g}" for i, g in enumerate(groups.tolist())}
        models[name] = MIXED | {"task_prior": TaskPrior.nested(parents)}
    return Sample(X, y, task, _estimated(models))


def _rows(
    rng: np.random.Generator, m: int, rows: int, names: list[str]
) -> tuple[np.ndarray, pd.DataFrame]:
    """Task of each row, and standard normal features."""
    task = np.repeat(np.arange(m), rows + TEST_ROWS)
    return task, pd.DataFrame(rng.normal(size=(len(task), len(names))), columns=names)


def _respond(
    rng: np.random.Generator,
    X: pd.DataFrame,
    task: np.ndarray,
    mean: Any,
    *,
    spread: Any,
    noise: float,
) -> np.ndarray:
    """Targets of effects that vary between tasks around their means."""
    m, d = task[-1] + 1, X.shape[1]
    effects = np.asarray(mean) + spread * rng.normal(size=(m, d))
    level = rng.normal(size=m)[task]
    signal = np.sum(X.to_numpy() * effects[task], axis=1)
    return np.asarray(signal + level + noise * rng.normal(size=len(task)))


def _tuned(true: FeaturePrior, wrong: FeaturePrior) -> dict[str, Settings]:
    """Statements whose strength can be tuned."""
    models = _fixed(true, wrong)
    models["wrong, tuned"] = models["wrong"]
    models["wrong"] = models["wrong"] | {"thetas": HELD}
    return models


def _fixed(true: Any, wrong: Any) -> dict[str, Settings]:
    """Statements that hold exactly, or whose strength REML estimates."""
    return {
        "none": MIXED,
        "true": MIXED | {"feature_prior": true},
        "wrong": MIXED | {"feature_prior": wrong},
    }


def _estimated(models: Mapping[str, Settings]) -> dict[str, Settings]:
    """The same where REML estimates all strengths."""
    return {
        name: {**given, "ties": "adaptive", "epsilons": (1.0,)}
        for name, given in models.items()
    }


FORMS = {  # with the design; the last: which wrong models must do no harm
    "known values": (trial, "Brown and Prescott, multi-centre trial", "wrong, tuned"),
    "similar and opposite": (pairs, "Zhang and Liu, synthetic tasks", "wrong, tuned"),
    "signs": (demand, "Rossi, Allenby and McCulloch, demand by shop", None),
    "common effects": (covariance, "Snedecor and Cochran, parallel lines", None),
    "smooth effects": (curves, "Gu and Wahba, additive model", "wrong"),
    "nested tasks": (schools, "Snijders and Bosker, schools in districts", "wrong"),
}
Errors = dict[tuple[str, int], dict[str, np.ndarray]]  # of a form and rows: by model


def measure(quick: bool) -> Report:
    """All forms with few and many rows per task, over many seeds."""
    errors: Errors = {}
    for name, (draw, _, _) in FORMS.items():
        for rows in ROWS:
            seeds = range(QUICK_SEEDS if quick else SEEDS[rows])
            found = [fit_models(draw(_generator(k, rows), rows), rows) for k in seeds]
            errors[name, rows] = {
                model: np.array([one[model] for one in found]) for model in found[0]
            }
            print(f"  {name}, {rows} rows: {_words(errors[name, rows])}", flush=True)
    counts = [len(errors["signs", rows]["none"]) for rows in ROWS]
    note = (
        "Root mean squared error on 50 new rows of each task. All models are those of "
        "MultiTaskRegressorCV with lam = 0, tied intercepts and coupling to the mean, "
        "adaptive or uniform as the folds decide: without a statement, with a true "
        "one, and with a wrong one. Known values and relations have a strength: a "
        f"wrong one is held at theta = {HELD[0]:g}, or tuned with the default thetas, "
        "which contain 0; true ones are tuned. Signs and common effects are "
        "constraints, which hold even where they are wrong: ask audit_prior first. For "
        "smooth effects and nested tasks REML estimates the strength. Differences are "
        "shares of the error without a statement, paired by seed, with standard "
        f"errors over {', '.join(map(str, counts))} seeds. The designs of known "
        "values, signs and common effects were changed after pilot runs on overlapping "
        "seeds, so that goals that are met say less than they seem to."
    )
    sections = [_section(name, errors) for name in FORMS]
    numbers = {f"{name}, {rows} rows": found for (name, rows), found in errors.items()}
    return Report(TITLE, note, _bars(errors), sections, numbers)


def fit_models(sample: Sample, rows: int) -> dict[str, float]:
    """Error of each model on the rows that it was not fitted to."""
    train = np.arange(len(sample.y)) % (rows + TEST_ROWS) < rows
    y, task, found = sample.y, sample.task, {}
    for name, settings in sample.models.items():
        X, given = sample.X, dict(settings)
        columns = given.pop("curves", None)
        if columns is not None:
            X = SplineFeatures(columns).fit(X[train]).transform(X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # few rows
            model = MultiTaskRegressorCV(**given).fit(
                X[train], y[train], task=task[train]
            )
        missed = model.predict(X[~train], task=task[~train]) - y[~train]
        found[name] = float(np.sqrt(np.mean(missed**2)))
    return found


def _generator(seed: int, rows: int) -> np.random.Generator:
    return np.random.default_rng([seed, rows])


def _difference(found: Mapping[str, np.ndarray], model: str) -> tuple[float, float]:
    """Mean difference from no statement, as a share, and its standard error."""
    shares = found[model] / found["none"] - 1.0
    return float(shares.mean()), float(shares.std(ddof=1) / np.sqrt(len(shares)))


def _percent(found: Mapping[str, np.ndarray], model: str) -> str:
    mean, error = _difference(found, model)
    return f"{100 * mean:+.1f} ± {100 * error:.1f} %"


def _words(found: Mapping[str, np.ndarray]) -> str:
    others = [model for model in found if model != "none"]
    return ", ".join(f"{model} {_percent(found, model)}" for model in others)


def _bars(errors: Errors) -> list[Bar]:
    bars = []
    for name in FORMS:
        few = [errors[name, rows] for rows in ROWS if rows <= FEW]
        met = True
        for found in few:
            mean, error = _difference(found, "true")
            met &= mean + student.ppf(0.975, len(found["true"]) - 1) * error < 0
        goal = f"{name}: 5 to 20 rows per task, a true statement lowers the error"
        bars.append(Bar(goal, "; ".join(_percent(f, "true") for f in few), met))
    for name, (_, _, tuned) in FORMS.items():
        if tuned is not None:
            every = [errors[name, rows] for rows in ROWS]
            worst = max(every, key=lambda found: _difference(found, tuned)[0])
            met = _difference(worst, tuned)[0] <= LARGEST_DAMAGE
            limit = f"at most {100 * LARGEST_DAMAGE:g} %"
            goal = f"{name}: a wrong statement whose strength is chosen costs {limit}"
            bars.append(Bar(goal, f"most {_percent(worst, tuned)}", met))
    return bars


def _section(name: str, errors: Errors) -> Section:
    draw, source, _ = FORMS[name]
    models = list(errors[name, ROWS[0]])
    head = ["rows per task", "none: error", *models[1:]]
    rows = [
        [
            str(n),
            f"{errors[name, n]['none'].mean():.3g}",
            *(_percent(errors[name, n], model) for model in models[1:]),
        ]
        for n in ROWS
    ]
    series = {m: (ROWS, [errors[name, n][m].mean() for n in ROWS]) for m in models}
    plot = Plot(name.replace(" ", "-"), name, "rows per task", "held-out error", series)
    note = f"{(draw.__doc__ or '').strip()} Design: {source}."
    return Section(name.capitalize(), note, Table(head, rows), [plot])
