"""Real tables, where they are at hand: School's one-hot blocks and Yale's pixels."""

import os
from pathlib import Path

import numpy as np
import pytest

from priormtl import FeaturePrior, MultiTaskClassifier, MultiTaskRegressor, one_vs_one
from priormtl.baselines import BASELINES
from priormtl.metrics import variance_explained

FOLDER = Path(
    os.environ.get("PRIORMTL_DATA", Path(__file__).parents[2] / "shared/data")
)


def arrays(name):
    path = FOLDER / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"{path} is missing; set PRIORMTL_DATA to the folder of data sets")
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


@pytest.fixture(scope="module")
def school():
    data = arrays("school")
    return data["X"].astype(float), data["y"].astype(float), data["task"]


def test_school_fits_with_its_collinear_and_constant_columns(school):
    X, y, task = school
    prior = FeaturePrior.from_correlation(10)
    model = MultiTaskRegressor(10.0, 10.0, 10.0, feature_prior=prior, standardize=True)
    fast = model.fit(X, y, task=task).objective_
    slow = model.set_params(solver="linear").fit(X, y, task=task)
    assert abs(fast - slow.objective_) <= 2 * slow.dual_gap_
    assert not slow.coef_[:, 27].any()  # the constant column


def test_school_tied_to_its_mean_explains_what_a_linear_model_can(school):
    X, y, task = school
    model = MultiTaskRegressor(
        10.0, 0.0, 1e5, task_prior="mean", fit_intercept="tied", intercept_strength=1e5
    ).set_params(standardize=True)
    fitted = model.fit(X, y, task=task).predict(X, task=task)
    # Pooled least squares explains 34.0 % of the variance in sample.
    assert variance_explained(y, fitted) == pytest.approx(0.34, abs=0.005)


def test_school_in_any_order_gives_the_same_coefficients(school):
    X, y, task = school
    order = np.random.default_rng(0).permutation(len(y))
    model = MultiTaskRegressor(30.0, epsilon=10.0, standardize=True, tol=1e-12)
    first = model.fit(X, y, task=task).coef_.copy()
    again = model.fit(X[order], y[order], task=task[order]).coef_
    assert again == pytest.approx(first, abs=1e-8)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_yale_fits_with_fewer_images_than_pixels(loss):
    data = arrays("yale")
    few = data["subject"] < 4
    X, y, task = one_vs_one(data["X"][few] / 255.0, data["subject"][few])
    prior = FeaturePrior.grid(32, 32)
    model = MultiTaskClassifier(1.0, 1.0, 1.0, feature_prior=prior, loss=loss)
    model.fit(X, y, task=task)
    assert model.score(X, y, task=task) > 0.95
    assert 0 < np.count_nonzero(model.coef_.any(axis=0)) < 1024


@pytest.mark.parametrize("name", BASELINES)
def test_compared_methods_bear_school_as_it_is(school, name):
    # Most columns are constant within a school, and together they are collinear.
    X, y, task = school
    few = np.concatenate([np.flatnonzero(task == i)[:6] for i in np.unique(task)[:40]])
    model = BASELINES[name](standardize=True, tol=1e-3)
    model.fit(X[few], y[few], task=task[few])
    predicted = model.predict(X[few], task=task[few])
    assert np.all(np.isfinite(predicted))
    assert np.mean((y[few] - predicted) ** 2) < np.var(y[few])
