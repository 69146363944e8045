"""What experts know: held-out error with true and wrong statements, by rows per task.

Each form of prior information has a design from a textbook, in which one statement is
true and another one is wrong. Models are mixed models with all variances estimated
(``ties="adaptive"``), to which the statement is added; "tuned" leaves its strength to
the default grid of ``MultiTaskRegressorCV``, which contains zero.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import t as student

from benchmarks.report import Bar, Plot, Report, Section, Table
from priormtl import (
    FeaturePrior,
    MultiTaskRegressorCV,
    SplineFeatures,
)
from priormtl.datasets import make_related_tasks

TITLE = "What experts know, by rows per task"
ROWS = (5, 10, 20, 40)
FEW = 20  # rows per task up to which a true statement must help
TEST_ROWS = 50
SEEDS = 60
HELD = (100.0,)  # theta that is not tuned
LARGEST_DAMAGE = 0.02
MIXED: dict[str, Any] = {  # a mixed model, with all variances by REML
    "lams": (0.0,),
    "epsilons": (1.0,),
    "task_prior": "mean",
    "ties": "adaptive",
    "fit_intercept": "tied",
}

Settings = Mapping[str, Any]


class Sample(NamedTuple):
    """Rows, and the settings of each model that is fitted to them."""

    X: pd.DataFrame
    y: np.ndarray
    task: np.ndarray
    models: Mapping[str, Settings]


class Form(NamedTuple):
    """A form of prior information and the design that it is tried on."""

    title: str
    design: str
    draw: Callable[[np.random.Generator, int], Sample]


def trial(rng: np.random.Generator, rows: int) -> Sample:
    """Blood pressure in six centres; the effects of two drugs are known from a trial."""
    task, X = _rows(rng, 6, rows, ["drug", "salt", "age", "base"])
    y = _respond(rng, X, task, [-1.0, -1.0, 0.5, 1.5], spread=0.2, noise=3.0)
    true = FeaturePrior.near({"drug": -1.0, "salt": -1.0})
    wrong = FeaturePrior.near({"drug": 1.0})
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
    """Sales in eight shops, on the prices of the product and of seven others."""
    names = ["own", *(f"other {k}" for k in range(7))]
    task, X = _rows(rng, 8, rows, names)
    mean = np.array([-1.0, 0.6, 0.3, 0.1, 0.0, 0.0, 0.0, 0.0])
    y = _respond(rng, X, task, mean, spread=0.3 * np.abs(mean), noise=3.0)
    rise, fall = FeaturePrior.nonnegative, FeaturePrior.nonpositive
    true = fall(names[:1]) + rise(names[1:])
    return Sample(X, y, task, _fixed(true, rise(names[:1])))


def covariance(rng: np.random.Generator, rows: int) -> Sample:
    """Parallel lines: covariates a to f act alike in all groups, u and v do not."""
    names = ["a", "b", "c", "d", "e", "f", "u", "v"]
    task, X = _rows(rng, 8, rows, names)
    spread = np.array([0.0] * 6 + [0.7] * 2)
    y = _respond(rng, X, task, rng.normal(size=8), spread=spread, noise=1.5)
    common = FeaturePrior.common
    return Sample(X, y, task, _fixed(common(names[:6]), common(names[6:])))


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
    return Sample(X, y, task, models)


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


def _fixed(true: FeaturePrior, wrong: FeaturePrior) -> dict[str, Settings]:
    """Statements that hold exactly, or whose strength REML estimates."""
    return {
        "none": MIXED,
        "true": MIXED | {"feature_prior": true},
        "wrong": MIXED | {"feature_prior": wrong},
    }
