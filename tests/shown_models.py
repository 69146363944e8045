"""Models to be drawn and reported: coefficients as given, and some small fits."""

from functools import cache
from types import SimpleNamespace

import numpy as np
import pandas as pd

from priormtl import FeaturePrior, MultiTaskRegressor, MultiTaskRegressorCV
from priormtl.datasets import make_related_tasks
from priormtl.design import Design
from priormtl.fitted import Certificate, Fitted, Outliers
from priormtl.reports.model import FittedModel

# Names that a careless figure would hide, parse or cut.
AWKWARD_NAMES = ("_hidden", "price $ per $", "größe", "two\nlines", "x" * 60)

SETTINGS = ("standardize", "task_prior")


def with_coef(
    coef, features=None, tasks=None, *, intercept=0.0, loss="squared", **learned
):
    """Model with these coefficients (m, d), and what else it has learned."""
    coef = np.asarray(coef, dtype=np.float64)
    m = len(coef)
    settings = {name: learned.pop(name) for name in SETTINGS if name in learned}
    model = MultiTaskRegressor(**{"task_prior": None} | settings)
    fitted = Fitted(
        "MultiTaskRegressor",
        model._model(loss=loss),
        np.arange(m) if tasks is None else np.array(tasks),
        coef,
        np.broadcast_to(intercept, m),
        design=None if features is None else Design.of_names(features),
        **learned,
    )
    model._adopt(fitted)
    return model


def random_effects(m, d, seed=0):
    return np.random.default_rng(seed).normal(size=(m, d))


@cache
def related_tasks():
    X, y, task = make_related_tasks(n_tasks=5, n_features=6, random_state=0)
    return X, y, task


@cache
def fitted_model(**settings):
    X, y, task = related_tasks()
    prior = FeaturePrior.similar([(0, 1), (1, 2)]) + FeaturePrior.opposite([(3, 4)])
    model = MultiTaskRegressor(5.0, feature_prior=prior, **settings)
    return model.fit(X, y, task=task)


def lightness(colours):
    """CIE lightness of colours (k, 3 or 4), as a print without colour shows them."""
    rgb = np.atleast_2d(colours)[:, :3]
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    return 116.0 * np.cbrt(luminance) - 16.0


# For reports.

FEATURES = ("age", "attendance", "books", "class size", "homework", "sleep")
TASKS = ("East", "North", "South", "West")
WRONG = ("age", "sleep")


@cache
def drawn_rows():
    """Named features, targets, and names of tasks."""
    drawn = make_related_tasks(4, 6, 25, n_informative=4, random_state=0)
    X = pd.DataFrame(drawn.X, columns=FEATURES)
    return X, drawn.y, np.array(TASKS)[drawn.task], drawn.feature_prior


@cache
def tuned_model():
    X, y, task, prior = drawn_rows()
    strengths = {"lams": 4, "thetas": [0.0, 1.0], "epsilons": [0.0, 10.0]}
    related = prior + FeaturePrior.similar([WRONG], weight=2.0)
    model = MultiTaskRegressorCV(**strengths, cv=3, feature_prior=related)
    return model.fit(X, y, task=task)


# Parts of what a fit learned, by the names of fitted attributes.
PARTS = {"feature_scale_": "scale", "feature_prior_": "feature_prior"}
NOT_NUMBERS = ("feature_prior_", "standardize", "task_prior")


def model_of(coef, features=None, tasks=None, **attributes):
    """Model with these coefficients (m, d), as if it had been fitted."""
    coef = np.array(coef, dtype=np.float64)
    m, d = coef.shape
    labels = np.array(list(range(m)) if tasks is None else tasks, dtype=object)
    gap = attributes.pop("dual_gap_", 1e-6)
    objective = attributes.pop("objective_", 10.0)
    own = attributes.pop("own_coef_", None)
    strength = attributes.pop("outlier_strength_", np.inf)
    if attributes.pop("outlier_tasks_", None) is not None or np.isfinite(strength):
        own = np.zeros((m, d)) if own is None else own
    learned = {
        PARTS.get(name, name.rstrip("_")): value
        if name in NOT_NUMBERS
        else np.asarray(value, dtype=np.float64)
        for name, value in attributes.items()
    }
    if own is not None:
        own = np.asarray(own, dtype=np.float64)
        learned["outliers"] = Outliers(coef - own, own, strength)
    if gap is not None:
        learned["certificate"] = Certificate(objective, gap, 3)
    usual = {"intercept": np.arange(m, dtype=np.float64), "task_prior": "chain"}
    return with_coef(coef, features, labels, **usual | learned)


def fitted_of(coef, *args, **attributes):
    return FittedModel.read(model_of(coef, *args, **attributes))


def resolved(prior, d, names=None):
    """Prior over d features."""
    design = None if names is None else Design.of_names(names)
    return prior.resolve(SimpleNamespace(shape=(d, 1), features=design))


def audit_of(**settings):
    """What an audit says, by its attributes."""
    relation = {
        "kind": "feature",
        "relation": "age ~ sleep",
        "weight": 2.0,
        "violation_before": 0.9,
        "violation_after": 0.4,
        "share": 1.0,
        "statistic": 12.0,
        "p_value": 1e-4,
        "verdict": "disagrees",
    }
    helped = {
        "metric": "mean squared error",
        "change": -0.12,
        "low": -0.19,
        "high": -0.05,
        "level": 0.95,
        "p_value": 0.01,
        "verdict": "helped",
        "sentence": "The prior lowered the mean squared error by 12 %.",
        "method": "Three times five folds.",
    }
    told = {
        "relations": (SimpleNamespace(**relation),),
        "helped": SimpleNamespace(**helped),
        "reason": None,
        "disagreeing": (SimpleNamespace(**relation),),
    }
    return SimpleNamespace(**told | settings)
