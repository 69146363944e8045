"""Fitted: what every estimator learned survives its arrays, and is what it shows."""

import numpy as np
import pandas as pd
import pytest

from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    TaskPrior,
    tabular_model,
)
from priormtl.fitted import VIEWS, Fitted

pytestmark = pytest.mark.usefixtures("few_trees")

PRIOR = FeaturePrior.near({"x": 1.0}) + FeaturePrior.nonnegative(["z"])
FEW = {"lams": [0.1, 1.0], "epsilons": [1.0], "thetas": [1.0], "cv": 2}


def table(n=120, m=4):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n, 2)), columns=["x", "z"])
    X["colour"] = np.array(["blue", "green", "red"])[rng.integers(0, 3, n)]
    X["task"] = np.array(list("abcd"))[np.arange(n) % m]
    y = X["x"] * X["z"] + X["x"] + 0.3 * rng.normal(size=n)
    return X, y


MODELS = {
    "fixed": MultiTaskRegressor(0.5, task="task", feature_prior=PRIOR),
    "outliers": MultiTaskRegressor(0.5, task="task", outlier_tasks=True),
    "groups": MultiTaskRegressor(
        0.5, task="task", task_prior=TaskPrior.groups({"g": ["a", "b"]})
    ),
    "mixed": MultiTaskRegressorCV(task="task", ties="adaptive", cv=2),
    "searched": MultiTaskRegressorCV(**FEW, task="task", feature_prior=PRIOR),
    "nuclear": MultiTaskRegressor(0.5, task="task", penalty="nuclear"),
    "classes": MultiTaskClassifier(0.5, task="task"),
    "searched classes": MultiTaskClassifierCV(**FEW, task="task"),
    "table": tabular_model("regressor", task="task", cv=2, trees="none"),
    "trees": tabular_model("regressor", task="task", cv=2, smooth="none"),
    "table of classes": tabular_model("classifier", task="task", cv=2),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    X, y = table()
    classes = "classes" in request.param
    return MODELS[request.param].fit(X, y > 0 if classes else y)


def test_arrays_and_back_are_the_same(model):
    arrays = model.fitted_.to_arrays()
    again = Fitted.from_arrays(arrays)
    twice = again.to_arrays()
    assert arrays.keys() == twice.keys()
    for name, array in arrays.items():
        same = np.array_equal(array, twice[name], equal_nan=array.dtype.kind == "f")
        assert same, name
        assert array.dtype == twice[name].dtype
    assert (again.trees is None) == (model.fitted_.trees is None)
    assert again.labels == model.fitted_.labels
    assert again.names == model.fitted_.names


def is_float(value):
    return value.dtype.kind == "f"


def test_attributes_are_views(model):
    last = model[-1] if hasattr(model, "steps") else model
    linear = getattr(last, "model_", last)
    for name, view in VIEWS.items():
        value = view(linear.fitted_)
        if value is None and name != "feature_prior_":
            assert not hasattr(linear, name)
        elif isinstance(value, np.ndarray):
            shown = getattr(linear, name)
            assert np.array_equal(shown, value, equal_nan=is_float(value))


DAMAGES = {
    "intercept": lambda a: a["intercept"][:1],
    "coef": lambda a: np.full_like(a["coef"], np.nan),
    "tie_weights": lambda a: -np.ones_like(a["tie_weights"]),
    "scale": lambda a: a["scale"].astype(np.float32),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_parts_that_do_not_fit_are_refused(name):
    X, y = table()
    arrays = MODELS["fixed"].fit(X, y).fitted_.to_arrays()
    with pytest.raises(ValueError, match="wrong"):
        Fitted.from_arrays(arrays | {name: DAMAGES[name](arrays)})


def test_a_value_is_frozen():
    X, y = table()
    fitted = MODELS["fixed"].fit(X, y).fitted_
    with pytest.raises(AttributeError):
        fitted.coef = np.zeros(3)
