"""Models to report on: one that was tuned, and any coefficients as a model."""

from functools import cache
from types import SimpleNamespace

import numpy as np
import pandas as pd

from priormtl import FeaturePrior, MultiTaskRegressor, MultiTaskRegressorCV
from priormtl.datasets import make_related_tasks
from priormtl.reports.model import FittedModel

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


def model_of(coef, features=None, tasks=None, **attributes):
    """Model with these coefficients (m, d), as if it had been fitted."""
    coef = np.array(coef, dtype=np.float64)
    m, d = coef.shape
    model = MultiTaskRegressor()
    model.coef_, model.intercept_ = coef, np.arange(m, dtype=np.float64)
    model.tasks_ = np.array(list(range(m)) if tasks is None else tasks, dtype=object)
    model.n_features_in_, model._targets_are_columns = d, False
    model.objective_, model.dual_gap_, model.n_iter_ = 10.0, 1e-6, 3
    model.feature_prior_ = None
    if features is not None:
        model.feature_names_in_ = np.array(features, dtype=object)
    for name, value in attributes.items():
        setattr(model, name, value)
    return model


def fitted_of(coef, *args, **attributes):
    return FittedModel.read(model_of(coef, *args, **attributes))


def resolved(prior, d, names=None):
    """Prior over d features."""
    return prior.resolve(SimpleNamespace(shape=(d, 1), features=names))


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
        "helped_tuned": None,
        "reason": None,
        "disagreeing": (SimpleNamespace(**relation),),
    }
    return SimpleNamespace(**told | settings)
