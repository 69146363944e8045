"""What a fit leaves behind: coefficients in the user's frames, and training R²."""

from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import r2_score

from priormtl import (
    MultiTaskClassifier,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    load,
    save,
    summarize,
)
from priormtl.datasets import make_related_tasks


@pytest.fixture
def data():
    X, y, task = make_related_tasks(3, 4, 20, random_state=0)
    return X, y, np.array(["n", "s", "w"])[task]


def fit(data, **settings):
    X, y, task = data
    return MultiTaskRegressor(0.5, **settings).fit(X, y, task=task)


def test_tidy_rows_hold_every_coefficient(data):
    model = fit(data)
    frame = model.coef_frame()
    assert frame.columns.tolist() == ["task", "feature", "coefficient"]
    square = frame.pivot(index="task", columns="feature", values="coefficient")
    names = [f"x{j}" for j in range(4)]
    np.testing.assert_array_equal(square.loc[model.tasks_, names], model.coef_)
    np.testing.assert_array_equal(square["(intercept)"], model.intercept_)


def test_wide_rows_hold_the_same(data):
    model = fit(data)
    wide = model.coef_frame(wide=True)
    assert wide.columns.tolist() == ["task", "(intercept)", "x0", "x1", "x2", "x3"]
    tidy = wide.melt("task", var_name="feature", value_name="coefficient")
    order = ["task", "feature"]
    pd.testing.assert_frame_equal(
        tidy.sort_values(order, ignore_index=True),
        model.coef_frame().sort_values(order, ignore_index=True),
    )


def test_a_model_without_intercepts_shows_none(data):
    model = fit(data, fit_intercept=False)
    assert "(intercept)" not in set(model.coef_frame()["feature"])
    assert model.coef_frame(wide=True).shape == (3, 5)


@pytest.mark.parametrize(
    ("build", "kind"),
    [
        (pd.DataFrame, pd.DataFrame),
        (pl.DataFrame, pl.DataFrame),
        (pa.table, pa.Table),
    ],
)
@pytest.mark.parametrize("wide", [False, True])
def test_the_frame_is_of_the_library_that_was_fitted(data, build, kind, wide):
    X, y, task = data
    table = build(dict(zip("abcd", X.T, strict=True)))
    model = MultiTaskClassifier().fit(table, y > 0, task=task)
    assert isinstance(model.coef_frame(wide=wide), kind)
    assert isinstance(model.summary().to_frame(), kind)


def test_names_come_from_statistics_too(data):
    X, y, task = data
    table = pl.DataFrame(dict(zip("abcd", X.T, strict=True)))
    model = MultiTaskRegressor().fit(table, y, task=task)
    model.fit_statistics(summarize(table, y, task))
    frame = model.coef_frame(wide=True)
    assert isinstance(frame, pd.DataFrame)  # statistics are no polars frame
    assert frame.columns.tolist()[2:] == list("abcd")


@pytest.mark.parametrize(
    "labels",
    [
        [date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 3)],
        [("a", 1), ("b", 2), ("c", 3)],
        [1.5, 2.5, 3.5],
        ["é", "ß", "特"],
    ],
)
@pytest.mark.parametrize("build", [pd.DataFrame, pl.DataFrame, pa.table])
def test_any_label_can_be_shown(data, labels, build):
    X, y, task = data
    table = build(dict(zip("abcd", X.T, strict=True)))
    given = dict(zip("nsw", labels, strict=True))
    model = MultiTaskRegressor().fit(table, y, task=[given[t] for t in task])
    assert len(model.coef_frame(wide=True)) == 3
    assert len(model.coef_frame()) == 15


def test_a_feature_called_task_needs_the_tidy_layout(data):
    X, y, task = data
    table = pd.DataFrame(X, columns=["task", "b", "c", "d"])
    model = MultiTaskRegressor().fit(table, y, task=task)
    assert len(model.coef_frame()) == 15
    with pytest.raises(ValueError, match="wide must be False where a feature"):
        model.coef_frame(wide=True)


def test_an_unfitted_model_has_none():
    with pytest.raises(ValueError, match="not fitted"):
        MultiTaskRegressor().coef_frame()


# Training R², from moments.


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
def offset(request):
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
def test_it_is_the_r2_of_the_predictions(offset, settings):
    X, y, task = offset
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    model = MultiTaskRegressor(**settings)
    model.fit(X, y, task=task, sample_weight=weight)
    expected = by_hand(model, X, y, task, weight)
    np.testing.assert_allclose(model.task_r2_, expected, rtol=1e-6, atol=1e-7)


def test_sparse_rows_statistics_searches_and_files_agree(offset, tmp_path):
    X, y, task = offset
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
