"""Coefficients in frames: every one, under its names, in the user's library."""

from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from priormtl import MultiTaskClassifier, MultiTaskRegressor, summarize
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
