"""Training R² from moments is that of the predictions."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import r2_score

from priormtl import MultiTaskRegressor, MultiTaskRegressorCV, load, save, summarize
from priormtl.datasets import make_related_tasks


def by_hand(model, X, y, task, weight=None):
    predicted = model.predict(X, task=task)
    return [
        r2_score(
            y[task == t],
            predicted[task == t],
            sample_weight=None if weight is None else weight[task == t],
        )
        for t in model.tasks_
    ]


@pytest.fixture(params=[(6, 30), (40, 12)], ids=["many rows", "few rows"])
def data(request):
    d, n = request.param
    X, y, task = make_related_tasks(3, d, n, noise=0.5, random_state=0)
    return X + 50.0, 1e3 + y, task


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"lam": 8.0, "standardize": True},
        {"fit_intercept": False},
        {"penalty": "nuclear", "fit_intercept": "tied"},
        {"lam": 1e9},
    ],
)
def test_it_is_the_r2_of_the_predictions(data, settings):
    X, y, task = data
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    model = MultiTaskRegressor(**settings)
    model.fit(X, y, task=task, sample_weight=weight)
    expected = by_hand(model, X, y, task, weight)
    np.testing.assert_allclose(model.task_r2_, expected, rtol=1e-6, atol=1e-7)


def test_sparse_rows_statistics_searches_and_files_agree(data, tmp_path):
    X, y, task = data
    model = MultiTaskRegressor().fit(X, y, task=task)
    sparse = MultiTaskRegressor().fit(csr_array(X), y, task=task)
    np.testing.assert_allclose(sparse.task_r2_, model.task_r2_, atol=1e-6)
    save(model, tmp_path / "m.model")
    loaded = load(tmp_path / "m.model")
    for name in ("task_r2_", "task_weight_", "feature_scale_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    merged = MultiTaskRegressor().fit_statistics(summarize(X, y, task))
    np.testing.assert_allclose(merged.task_r2_, model.task_r2_, atol=1e-6)
    search = MultiTaskRegressorCV(lams=2, thetas=[1.0], epsilons=[1.0], cv=3)
    search.fit(X, y, task=task)
    np.testing.assert_allclose(search.task_r2_, by_hand(search, X, y, task), atol=1e-6)


def test_columns_with_gaps_count_what_was_measured():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    Y = X @ rng.normal(size=(3, 2)) + rng.normal(size=(30, 2))
    Y[:7, 0] = np.nan
    model = MultiTaskRegressor().fit(X, Y)
    predicted = model.predict(X)
    expected = [
        r2_score(Y[7:, 0], predicted[7:, 0]),
        r2_score(Y[:, 1], predicted[:, 1]),
    ]
    np.testing.assert_allclose(model.task_r2_, expected, rtol=1e-9)
    assert model.task_weight_.tolist() == [23.0, 30.0]


@pytest.mark.parametrize("level", [0.0, 0.1, 1e12])
def test_constant_targets_have_none(level):
    X = np.random.default_rng(0).normal(size=(9, 2))
    model = MultiTaskRegressor().fit(X, np.full(9, level))
    assert np.isnan(model.task_r2_).all()


def test_one_row_has_none():
    assert np.isnan(MultiTaskRegressor().fit([[1.0]], [2.0]).task_r2_).all()
