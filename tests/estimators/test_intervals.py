"""Prediction intervals: coverage on simulated rows, storage, statistics, errors."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from priormtl import (
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    load,
    save,
    summarize,
    tabular_model,
)
from priormtl.losses import Squared
from priormtl.selection import Calibration, Residuals, Spread

pytestmark = pytest.mark.usefixtures("few_trees")


def rows(m=20, per_task=30, d=3, *, between=1.0, noise=None, seed=0):
    """Stacked rows of related tasks, half for training; noise differs by task."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(m), 2 * per_task)
    X = rng.normal(size=(len(task), d))
    coef = 1.0 + 0.3 * between * rng.normal(size=(m, d))
    level = between * rng.normal(size=m)
    sizes = np.ones(m) if noise is None else noise
    y = np.einsum("ij,ij->i", X, coef[task]) + level[task]
    y = y + sizes[task] * rng.normal(size=len(task))
    train = np.arange(len(task)) % 2 == 0
    return X, y, task, train


def adaptive(**settings):
    return MultiTaskRegressorCV(
        lams=(0.0,),
        ties="adaptive",
        fit_intercept="tied",
        task_prior="mean",
        **settings,
    )


def covered(y, ends):
    return (y >= ends[..., 0]) & (y <= ends[..., 1])


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.98])
def test_intervals_cover_the_share_that_is_asked_for(coverage):
    X, y, task, train = rows(m=30)
    model = adaptive().fit(X[train], y[train], task=task[train])
    ends = model.predict_interval(X[~train], task=task[~train], coverage=coverage)
    share = covered(y[~train], ends).mean()
    assert abs(share - coverage) < 0.03
    prediction = model.predict(X[~train], task=task[~train])
    assert np.all((ends[:, 0] < prediction) & (prediction < ends[:, 1]))


def test_noisy_tasks_get_wider_intervals():
    noise = np.where(np.arange(20) < 10, 0.3, 3.0)
    X, y, task, train = rows(noise=noise)
    model = adaptive().fit(X[train], y[train], task=task[train])
    ends = model.predict_interval(X[~train], task=task[~train])
    width, inside = ends[:, 1] - ends[:, 0], covered(y[~train], ends)
    quiet = task[~train] < 10
    assert width[~quiet].mean() > 3.0 * width[quiet].mean()
    assert 0.82 < inside[quiet].mean() < 0.97
    assert 0.82 < inside[~quiet].mean() < 0.97


def test_unseen_tasks_are_covered_by_wider_intervals():
    X, y, task, _ = rows(m=160, per_task=4, between=2.0)
    new = task >= 40
    model = adaptive(unseen_tasks="shared").fit(X[~new], y[~new], task=task[~new])
    ends = model.predict_interval(X[new], task=task[new])
    known = model.predict_interval(X[~new], task=task[~new])
    assert covered(y[new], ends).mean() > 0.85
    assert np.diff(ends).mean() > 1.5 * np.diff(known).mean()


def test_fixed_strengths_ask_for_calibration_once():
    X, y, task, train = rows()
    model = MultiTaskRegressor(1.0, task_prior="mean", fit_intercept="tied")
    model.fit(X[train], y[train], task=task[train])
    with pytest.raises(ValueError, match=r"call calibrate\(X, y, task=...\) once"):
        model.predict_interval(X, task=task)
    before = model.coef_.copy()
    model.calibrate(X[train], y[train], task=task[train])
    ends = model.predict_interval(X[~train], task=task[~train])
    assert abs(covered(y[~train], ends).mean() - 0.9) < 0.04
    assert np.array_equal(model.coef_, before)
    with pytest.raises(ValueError, match="rows of the 20 tasks"):
        model.calibrate(X[task < 3], y[task < 3], task=task[task < 3])
    model.fit(X, y, task=task)  # another fit has other residuals
    assert not hasattr(model, "calibration_")


def test_targets_in_columns_have_an_interval_each():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    Y = X @ rng.normal(size=(4, 3)) + rng.normal(size=(200, 3))
    Y[::9, 1] = np.nan
    model = adaptive().fit(X[:100], Y[:100])
    ends = model.predict_interval(X[100:])
    assert ends.shape == (100, 3, 2)
    known = ~np.isnan(Y[100:])
    assert abs(covered(Y[100:], ends)[known].mean() - 0.9) < 0.06


def test_weights_count_as_repetitions_and_zero_as_absence():
    rng = np.random.default_rng(1)
    codes, size = np.arange(300) % 5, rng.exponential(size=300)
    parts = codes, np.ones(300), rng.normal(size=300), size, 2.0 * size, 0.1 * size
    alone = Calibration.of(Residuals(*parts), None, 5, 5)
    absent = Residuals(*(np.concatenate([part, part[:7]]) for part in parts))
    absent.weight[300:], absent.residual[300:] = 0.0, 1e6
    found = Calibration.of(absent, None, 5, 5)
    assert np.allclose(found.scale, alone.scale)
    assert np.allclose(found.knots, alone.knots)


def test_scales_are_common_unless_noise_differs_for_certain():
    rng = np.random.default_rng(2)
    codes, prediction = np.arange(800) % 20, rng.uniform(1.0, 5.0, size=800)
    noise = rng.normal(size=800)

    def learn(residual):
        parts = codes, np.ones(800), prediction, residual, residual, np.zeros(800)
        return Calibration.of(Residuals(*parts), None, 20, 5)

    alike = learn(noise)
    assert np.ptp(alike.scale) == 0
    assert len(alike.places) == 0
    by_task = learn(noise * np.where(codes < 5, 4.0, 1.0))
    assert by_task.scale[:5].min() > 2.0 * by_task.scale[5:].max()
    assert len(by_task.places) == 0
    by_size = learn(noise * prediction**2)
    assert np.ptp(by_size.scale) == 0
    new = rng.uniform(1.0, 5.0, size=4000)
    none = np.zeros((0, 4000)), np.zeros(4000, int), np.zeros(4000, bool)
    ends = Spread(new, *none).interval(by_size, 0.9, Squared())
    inside = covered(new + new**2 * rng.normal(size=4000), ends)
    assert abs(inside[new < 2.0].mean() - 0.9) < 0.06
    assert abs(inside[new > 4.0].mean() - 0.9) < 0.06


@pytest.mark.slow
def test_saved_models_give_the_same_intervals(tmp_path):
    X, y, task, train = rows(m=6)
    names = pd.DataFrame(X, columns=["a", "b", "c"]).assign(shop=task)
    linear = adaptive().fit(X[train], y[train], task=task[train])
    table = tabular_model("regressor", task="shop")
    bent = y + 3.0 * (names["a"] > 0) * (names["b"] > 0)  # trees take part
    table.fit(names[train], bent[train])
    assert table[-1].trees_weight_ > 0
    ends = table.predict_interval(names[~train])
    assert abs(covered(bent[~train].to_numpy(), ends).mean() - 0.9) < 0.07
    for number, (model, call) in enumerate(
        [
            (linear, lambda one: one.predict_interval(X, task=task)),
            (table, lambda one: one.predict_interval(names, coverage=0.8)),
        ]
    ):
        path = tmp_path / f"{number}.model"
        save(model, path)
        assert np.array_equal(call(load(path)), call(model))
    kilobytes = (tmp_path / "0.model").stat().st_size / 1024
    assert kilobytes < 20 + 2 * 6


def test_pipelines_clone_and_classifiers_have_no_intervals():
    again = clone(tabular_model("regressor", task="shop"))
    assert hasattr(again, "predict_interval")
    assert not hasattr(tabular_model("classifier", task="shop"), "predict_interval")


def test_intervals_from_statistics_are_normal_and_say_so():
    X, y, task, train = rows(m=30)
    half = np.flatnonzero(train)
    parts = [summarize(X[p], y[p], task[p]) for p in (half[::2], half[1::2])]
    for model in (
        adaptive().fit_statistics(parts),
        MultiTaskRegressor(0.1, task_prior="mean").fit_statistics(parts[0] + parts[1]),
    ):
        assert model.calibration_.kind == "normal"
        with pytest.warns(UserWarning, match="Intervals assume normal"):
            ends = model.predict_interval(X[~train], task=task[~train])
        assert abs(covered(y[~train], ends).mean() - 0.9) < 0.04


@pytest.mark.parametrize("coverage", [0.0, 1.0, 90, "0.9", None])
def test_coverage_must_be_a_share(coverage):
    with pytest.raises(ValueError, match="coverage must be a number between 0 and 1"):
        MultiTaskRegressorCV().predict_interval([[1.0]], coverage=coverage)
