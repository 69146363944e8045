"""REML from rows in lme4's form is REML from statistics."""

import numpy as np
import pandas as pd
import pytest

from priormtl import MultiTaskRegressor, TaskPrior, summarize, tabular_model
from priormtl.data import Table
from priormtl.model import Model, Solver

MIXED = {
    "task_prior": "mean",
    "ties": "adaptive",
    "fit_intercept": "tied",
    "intercept_strength": "adaptive",
    "standardize": True,
}


def draw(seed, m=14, n=6, d=8):
    """Fewer rows in a task than features, so that rows are kept."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(m), n)
    X = rng.normal(size=(m * n, d)) + 3.0
    slope = 1.0 + 0.5 * rng.normal(size=m)
    y = 5.0 + X[:, 0] * slope[task] + rng.normal(size=m)[task]
    return X, y + rng.normal(size=m * n), task, rng.uniform(10.0, 30.0, m * n)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_and_statistics_agree(seed, weighted):
    X, y, task, weight = draw(seed)
    weight = weight / weight.mean() if weighted else None
    rows = MultiTaskRegressor(0.0, **MIXED).fit(X, y, task=task, sample_weight=weight)
    known = summarize(X, y, task=task, sample_weight=weight)
    statistics = MultiTaskRegressor(0.0, **MIXED).fit_statistics(known)
    for name in ("noise_sd_", "intercept_sd_", "task_sd_", "coef_", "intercept_"):
        np.testing.assert_allclose(
            getattr(rows, name), getattr(statistics, name), rtol=0.02, atol=0.02
        )
    ours, theirs = rows._errors(0.9), statistics._errors(0.9)
    for name in ("coef", "shared", "effect", "noise"):
        np.testing.assert_allclose(
            getattr(ours, name), getattr(theirs, name), rtol=0.05
        )


def test_weights_of_any_scale_give_one_estimate():
    X, y, task, weight = draw(0)
    small, large = (
        MultiTaskRegressor(0.0, **MIXED).fit(X, y, task=task, sample_weight=w)
        for w in (weight, 1e4 * weight)
    )
    np.testing.assert_allclose(small.coef_, large.coef_, rtol=1e-6)
    for name in ("coef", "shared", "effect"):
        np.testing.assert_allclose(
            getattr(small._errors(0.9), name),
            getattr(large._errors(0.9), name),
            rtol=1e-6,
        )


def test_effects_that_do_not_vary_are_the_same_in_all_tasks():
    X, y, task, _ = draw(1, d=40)
    model = MultiTaskRegressor(0.0, **MIXED).fit(X, y, task=task)
    common = model.task_sd_ == 0.0
    assert 20 <= common.sum() < 40
    assert np.all(np.ptp(model.coef_[:, common], axis=0) == 0.0)
    assert model.dual_gap_ <= 1e-6 * model.objective_


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
def test_offsets_of_targets_do_not_matter(offset):
    X, y, task, _ = draw(2)
    plain = MultiTaskRegressor(0.0, **MIXED).fit(X, y, task=task)
    far = MultiTaskRegressor(0.0, **MIXED).fit(X, y + offset, task=task)
    np.testing.assert_allclose(far.coef_, plain.coef_, atol=1e-6)
    np.testing.assert_allclose(far.intercept_ - offset, plain.intercept_, atol=1e-6)


def test_constant_targets_leave_ties_unknown():
    X, _, task, _ = draw(3)
    model = MultiTaskRegressor(0.0, **MIXED).fit(X, np.full(len(X), 7.0), task=task)
    np.testing.assert_allclose(model.predict(X, task=task), 7.0)


def test_too_few_rows_are_said():
    X, y, task, _ = draw(4, m=3, n=2, d=9)
    with pytest.warns(UserWarning, match="needs more rows"):
        MultiTaskRegressor(0.0, **MIXED).fit(X, y, task=task)


def test_levels_of_a_long_text_column_are_exchangeable():
    rng = np.random.default_rng(0)
    item = rng.integers(0, 40, 600)
    table = pd.DataFrame(
        {
            "t": [f"t{i}" for i in np.arange(600) % 30],
            "x": rng.normal(size=600),
            "item": [f"i{k}" for k in item],
        }
    )
    effect = rng.normal(size=40)
    y = table["x"] + effect[item] + rng.normal(size=600)
    model = tabular_model("regressor", task="t", trees="none").fit(table, y)
    linear = model[-1]
    assert model[0].get_feature_names_out()[0] == "x"
    effects = linear.crossed_effects_["item"]
    found = np.array([effects[f"i{k}"] for k in range(40)])
    assert np.corrcoef(found, effect)[0, 1] > 0.9
    # The variance between items is known: shrinkage is that of a random effect.
    count = np.bincount(item)
    means = np.bincount(item, y - table["x"]) / count
    noise = linear.noise_sd_**2
    shrunken = (means - means.mean()) * count / (count + noise / effect.var())
    np.testing.assert_allclose(found, shrunken, atol=0.25)
    assert linear.dual_gap_ <= 1e-6 * linear.objective_


def test_an_estimate_of_one_feature_is_no_start_for_all():
    X, y, task, _ = draw(5)
    data = Table(X, y, task, tuple(range(14)), None, None).to_tasks()
    settings = {**MIXED, "ties": "uniform", "task_prior": TaskPrior.mean()}
    model = Model(lam=0.0, theta=1.0, epsilon=1.0, common=tuple(range(8)), **settings)
    _, found = model.pose(data).fit(Solver(), data)
    assert found.coef.shape == (8, 14)
    assert np.all(np.ptp(found.coef, axis=1) == 0.0)
