"""update: conditional means of tasks given the shared part, as in a mixed model."""

import numpy as np
import pandas as pd
import pytest

from priormtl import (
    FeaturePrior,
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    load,
    save,
    tabular_model,
)

MIXED = {"ties": "adaptive", "fit_intercept": "tied", "task_prior": "mean"}
MIXED |= {"intercept_strength": "adaptive", "standardize": True, "tol": 1e-12}


def rows(m=12, n=15, seed=0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(m), n)
    X = rng.normal(3.0, 1.0, size=(m * n, 3))
    coef = rng.normal([1.0, -0.5, 0.3], [0.5, 0.3, 0.4], size=(m, 3))
    y = np.sum(X * coef[task], axis=1) + rng.normal(size=m)[task]
    return X, y + 0.3 * rng.normal(size=m * n), task


def test_update_is_the_conditional_mean_of_the_mixed_model():
    """β̂ + D Zᵀ (Z D Zᵀ + σ² I)⁻¹ (y − Z β̂), from the published variances alone."""
    X, y, task = rows()
    old = task < 11
    model = MultiTaskRegressor(0.0, **MIXED).fit(X[old], y[old], task=task[old])
    centre, noise = X[old].mean(axis=0), model.noise_sd_**2
    D = np.diag(np.append(model.intercept_sd_, model.task_sd_) ** 2)
    level = model.intercept_ + model.coef_ @ centre
    beta = np.append(level.mean(), model.coef_.mean(axis=0))
    model.update(X[~old], y[~old], task=task[~old])
    Z = np.column_stack([np.ones((~old).sum()), X[~old] - centre])
    V = Z @ D @ Z.T + noise * np.eye(len(Z))
    u = beta + D @ Z.T @ np.linalg.solve(V, y[~old] - Z @ beta)
    np.testing.assert_allclose(model.coef_[-1], u[1:], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(model.intercept_[-1], u[0] - centre @ u[1:], rtol=1e-8)
    assert model.tasks_.tolist() == list(range(12))


RELATED = FeaturePrior.similar([(0, 1)]) + FeaturePrior.near({2: 0.25})


@pytest.mark.parametrize("prior", [None, RELATED, RELATED + FeaturePrior.common([0])])
@pytest.mark.parametrize("as_statistics", [False, True])
def test_tasks_of_a_fit_are_their_own_conditional_means(as_statistics, prior):
    X, y, task = rows(seed=1)
    kind = MultiTaskRegressorCV if as_statistics else MultiTaskRegressor
    strengths = ([0.0], [30.0]) if as_statistics else (0.0, 30.0)
    model = kind(*strengths, feature_prior=prior, **MIXED).fit(X, y, task=task)
    before = model.coef_.copy(), model.intercept_.copy()
    given = model.fitted_.conditional
    for i in range(12):
        coef, intercept = given.coefficients(i)
        np.testing.assert_allclose(coef, before[0][i], rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(intercept, before[1][i], rtol=1e-7, atol=1e-8)


def test_rows_may_come_one_after_the_other_and_after_a_file(tmp_path):
    X, y, task = rows(seed=2)
    old, new = task < 10, task >= 10
    model = MultiTaskRegressor(0.0, **MIXED).fit(X[old], y[old], task=task[old])
    save(model, tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    model.update(X[new], y[new], task=task[new]).update(
        X[:5], 2.0 + y[:5], task=[0] * 5
    )
    for k in np.random.default_rng(0).permutation(np.flatnonzero(new)):
        again.update(X[k : k + 1], y[k : k + 1], task=task[k : k + 1])
    again.update(X[:5], 2.0 + y[:5], task=[0] * 5)
    order = [again.tasks_.tolist().index(t) for t in model.tasks_]
    np.testing.assert_allclose(again.coef_[order], model.coef_, rtol=1e-8, atol=1e-9)
    assert np.abs(model.intercept_[0] - again.intercept_[order[0]]) < 1e-8


@pytest.mark.slow
def test_classes_are_conditional_modes():
    X, y, task = rows(m=14, n=40, seed=3)
    classes, old = y > np.median(y), task < 13
    model = MultiTaskClassifierCV([0.0], **MIXED | {"tol": 1e-10})
    model.fit(X[old], classes[old], task=task[old])
    given = model.fitted_.conditional
    model.update(X[~old], classes[~old], task=task[~old])
    u = np.append(
        model.intercept_[-1] + model.coef_[-1] @ given.centre, model.coef_[-1]
    )
    Z = np.column_stack([np.ones(40), X[~old] - given.centre])
    share = 1.0 / (1.0 + np.exp(-Z @ u))
    gradient = Z.T @ (share - classes[~old])
    vary = given.varying
    pull = given.precision[vary] * (u - given.mean)[vary]
    np.testing.assert_allclose((gradient[vary] + pull), 0.0, atol=1e-8)
    np.testing.assert_allclose(model.predict_proba(X[~old], task=13)[:, 1], share)
    with pytest.raises(ValueError, match="y must hold the classes"):
        model.update(X[:1], ["maybe"], task=[99])


@pytest.mark.slow
def test_pipelines_take_new_tasks():
    X, y, task = rows(seed=4)
    table = pd.DataFrame(X, columns=list("abc")).assign(site=task)
    old = task < 11
    model = tabular_model("regressor", task="site", task_prior="mean")
    model.fit(table[old], y[old])
    unseen = model.predict(table[~old])
    wide = np.ptp(model.predict_interval(table[~old]), axis=1).mean()
    before = model.predict(table[old])
    assert model.update(table[~old], y[~old]) is model
    np.testing.assert_array_equal(model.predict(table[old]), before)
    error = np.mean((model.predict(table[~old]) - y[~old]) ** 2)
    assert error < 0.5 * np.mean((unseen - y[~old]) ** 2)
    assert np.ptp(model.predict_interval(table[~old]), axis=1).mean() < wide
    assert len(model.fitted_.tasks) == 12


def test_update_says_what_it_needs():
    X, y, task = rows(4, 8)
    model = MultiTaskRegressor(1.0).fit(X, y, task=task)
    with pytest.raises(ValueError, match="tied to their mean"):
        model.update(X, y, task=task)
    model = MultiTaskRegressor(0.0, **MIXED).fit(X, y, task=task)
    with pytest.raises(ValueError, match="task must be given"):
        model.update(X, y)
    model.set_params(unseen_tasks="shared")
    with pytest.raises(ValueError, match="task must not hold missing labels: 1 of 32"):
        model.update(X, y, task=[*task[:-1], None])
    assert model.tasks_.tolist() == [0, 1, 2, 3]


def test_nested_tasks_need_all_parts_of_their_labels_in_update():
    X, y, task = rows(8, 12)
    table = pd.DataFrame(X, columns=list("abc")).assign(area=task // 4, site=task % 4)
    model = tabular_model(
        "regressor", task=["area", "site"], task_prior="mean", trees="none"
    )
    model.fit(table, y)
    unnamed = table.astype({"area": "Int64", "site": "Int64"})
    unnamed.loc[0, "site"] = None
    unnamed.loc[1, "area"] = None
    before = model.predict(unnamed)
    with pytest.raises(ValueError, match="task must not hold missing labels: 2 of 96"):
        model.update(unnamed, y)
    np.testing.assert_array_equal(model.predict(unnamed), before)
