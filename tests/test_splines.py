"""SplineFeatures: smooth curves whose ridge is the roughness penalty."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.interpolate import CubicSpline

from priormtl import FeaturePrior, MultiTaskRegressor, SplineFeatures
from priormtl.design import Design
from priormtl.design.splines import Curves


def column(n=200, seed=0):
    return np.sort(np.random.default_rng(seed).gamma(2.0, size=n))


def curves(x, **settings):
    return SplineFeatures(["x"], **settings).fit(pd.DataFrame({"x": x}))


def wiggles(model, x):
    return model.transform(pd.DataFrame({"x": x})).drop(columns="x").to_numpy()


def test_wiggles_are_orthogonal_to_straight_lines_and_to_each_other():
    x = column()
    W = wiggles(curves(x), x)
    lines = np.column_stack([np.ones_like(x), x])
    assert np.abs(lines.T @ W).max() < 1e-8 * len(x)
    gram = W.T @ W / len(x)
    assert np.allclose(gram, np.diag(np.diag(gram)), atol=1e-8)
    assert np.all(np.diff(np.diag(gram)) < 0)  # from smooth to rough
    assert gram[0, 0] == pytest.approx(1.0)


def test_a_ridge_on_wiggles_is_the_roughness():
    x = column()
    model = curves(x)
    fine = np.linspace(x.min(), x.max(), 20_001)
    W = wiggles(model, fine)
    bends = np.column_stack([CubicSpline(fine, w)(fine, 2) for w in W.T])
    roughness = bends.T @ bends * (fine[1] - fine[0])
    rng = np.random.default_rng(0)
    for gamma in rng.normal(size=(5, W.shape[1])):
        ratio = gamma @ roughness @ gamma / (gamma @ gamma)
        assert ratio == pytest.approx(roughness[0, 0], rel=0.02)


def test_curves_go_straight_on_beyond_the_training_range():
    x = column()
    model = curves(x)
    for ends in ([x[-1], x[-1] + 1.0, x[-1] + 2.0], [x[0] - 2.0, x[0] - 1.0, x[0]]):
        W = wiggles(model, np.array(ends))
        assert np.allclose(W[2] - W[1], W[1] - W[0], atol=1e-9)


@pytest.mark.parametrize(("a", "c"), [(1e-3, 0.0), (7.0, -1e3), (-2.0, 5.0)])
def test_wiggles_do_not_notice_shifts_and_scales(a, c):
    x = column()
    ours, theirs = wiggles(curves(x), x), wiggles(curves(a * x + c), a * x + c)
    assert np.allclose(np.abs(ours), np.abs(theirs), atol=1e-5)


@pytest.mark.parametrize("period", [None, 24.0])
def test_wiggles_do_not_notice_the_order_of_rows(period):
    x = np.tile(np.arange(24.0), 5)
    curves = Curves.fit(x, 10, period)
    for seed in range(10):
        other = Curves.fit(np.random.default_rng(seed).permutation(x), 10, period)
        np.testing.assert_allclose(other.rotation, curves.rotation, atol=1e-7)


def test_periodic_curves_repeat_and_leave_the_column_out():
    hour = np.arange(200) % 24
    model = SplineFeatures(["hour"], periodic={"hour": 24})
    out = model.fit_transform(pd.DataFrame({"hour": hour}))
    assert list(out.columns) == [f"hour~{r}" for r in range(1, 9)]
    again = model.transform(pd.DataFrame({"hour": hour + 48}))
    assert np.allclose(out, again)


def test_only_numbers_with_many_values_are_expanded_by_default():
    table = pd.DataFrame(
        {"few": np.arange(60) % 15, "many": np.arange(60), "text": ["a", "b"] * 30}
    )
    model = SplineFeatures().fit(table)
    assert model.columns_ == ["many"]
    out = model.transform(table)
    assert list(out.columns) == list(model.get_feature_names_out())
    assert list(out["text"]) == list(table["text"])


def test_frames_of_polars_and_arrays_are_taken():
    x = column()
    frame = SplineFeatures().fit_transform(pl.DataFrame({"x": x}))
    array = SplineFeatures().fit_transform(x[:, np.newaxis])
    assert isinstance(frame, pl.DataFrame)
    assert np.allclose(frame.to_numpy(), array)


@pytest.mark.parametrize(
    ("settings", "table", "match"),
    [
        ({"columns": ["y"]}, {"x": [1.0, 2.0, 3.0, 4.0]}, "unknown column 'y'"),
        ({"columns": ["x"]}, {"x": [1.0, 2.0, 1.0]}, "at least 4 distinct values"),
        ({"columns": ["x"]}, {"x": [1.0, np.nan, 3.0]}, "no missing values"),
        ({"n_knots": 2}, {"x": [1.0, 2.0]}, "whole number from 3 on: got 2"),
        ({"periodic": {"x": -1.0}}, {"x": [1.0, 2.0]}, "period above 0: got -1.0"),
    ],
)
def test_bad_input_is_named(settings, table, match):
    with pytest.raises(ValueError, match=match):
        SplineFeatures(**settings).fit(pd.DataFrame(table))


def test_names_tell_which_features_are_wiggles():
    assert Design.of_names(["age", "age~1", "b", "age~2", "x~0", "~1"]).wiggles() == {
        "age": [1, 3]
    }


def sine_rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"x": rng.uniform(0.0, 6.0, n)})
    task = np.arange(n) % 5
    return table, np.sin(table["x"]) + 0.1 * rng.normal(size=n), task


def test_a_smooth_prior_fits_a_curve_and_an_infinite_one_a_line():
    table, y, task = sine_rows()
    wide = SplineFeatures().fit_transform(table)
    settings = {"task_prior": "mean", "fit_intercept": "tied", "standardize": True}
    prior = FeaturePrior.smooth(["x"])
    rough = MultiTaskRegressor(0.0, 0.01, 1e6, feature_prior=prior, **settings)
    stiff = MultiTaskRegressor(0.0, 1e9, 1e6, feature_prior=prior, **settings)
    line = MultiTaskRegressor(0.0, 0.0, 1e6, **settings).fit(table, y, task=task)
    assert rough.fit(wide, y, task=task).score(wide, y, task=task) > 0.95
    straight = stiff.fit(wide, y, task=task).predict(wide, task=task)
    assert np.allclose(straight, line.predict(table, task=task), atol=1e-4)


def test_adaptive_ties_estimate_the_smoothness():
    table, y, task = sine_rows()
    wide = SplineFeatures().fit_transform(table)
    model = MultiTaskRegressor(
        lam=0.0,
        task_prior="mean",
        fit_intercept="tied",
        ties="adaptive",
        standardize=True,
        feature_prior=FeaturePrior.smooth(),
    ).fit(wide, y, task=task)
    truth = np.sin(table["x"])
    assert np.sqrt(np.mean((model.predict(wide, task=task) - truth) ** 2)) < 0.04
    assert np.ptp(model.coef_, axis=0).max() < 1e-2  # tasks do not differ


def test_smooth_without_wiggles_says_what_to_do():
    prior = FeaturePrior.smooth(["x"])
    model = MultiTaskRegressor(feature_prior=prior)
    with pytest.raises(ValueError, match="Add them with SplineFeatures"):
        model.fit(pd.DataFrame({"x": [1.0, 2.0, 3.0]}), [1.0, 2.0, 3.0])


def test_priors_survive_their_plain_form():
    prior = FeaturePrior.smooth(["x"], 2.0) + FeaturePrior.shrink()
    again = FeaturePrior.from_plain(prior.to_plain())
    assert again == prior
