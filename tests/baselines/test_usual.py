"""Usual methods: what packages give, unseen by tasks, on numbers and classes."""

import importlib
import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import RidgeCV
from sklearn.metrics import log_loss

from priormtl.baselines import USUAL, UsualClassifier, UsualRegressor, usual
from priormtl.baselines.usual import Rows, fit_last_value, fit_random_intercepts
from priormtl.losses import find_family

WAYS = [name for name in USUAL if name != "last-value"]  # it needs times


def require(name):
    """Skip, with the reason, where the package of a way is not there."""
    package = USUAL[name].package
    try:
        importlib.import_module(package)
    except ImportError as error:
        pytest.skip(f"{name} needs {package}, which cannot be imported: {error}")


def draw(n_tasks=12, rows=20, seed=0):
    """Rows whose level depends on the task more than on the features."""
    rng = np.random.default_rng(seed)
    task = np.repeat([f"t{i:02d}" for i in range(n_tasks)], rows)
    X = rng.normal(size=(len(task), 3))
    level = np.repeat(rng.normal(0.0, 2.0, n_tasks), rows)
    y = X @ [1.0, -0.5, 0.0] + level + 0.3 * rng.normal(size=len(task))
    return X, y, task


@pytest.mark.parametrize("name", WAYS)
def test_numbers_are_predicted_by_task(name):
    require(name)
    X, y, task = draw()
    test = np.arange(len(y)) % 5 == 0
    model = UsualRegressor(name).fit(X[~test], y[~test], task=task[~test])
    assert model.tasks_.tolist() == sorted(set(task))
    assert model.score(X[test], y[test], task=task[test]) > 0.8
    again = clone(model).fit(X[~test], y[~test], task=task[~test])
    predicted = model.predict(X[test], task=task[test])
    np.testing.assert_array_equal(predicted, again.predict(X[test], task=task[test]))
    # New tasks are predicted without what tasks add, whatever their label.
    new, other = model.predict(X[[0, 0]], task=["t99", "s"])
    assert np.isfinite(new)
    assert new == other


@pytest.mark.parametrize(
    "name", [name for name in WAYS if USUAL[name].scope.most_classes]
)
def test_classes_have_probabilities(name):
    require(name)
    X, y, task = draw()
    labels = np.where(y > np.median(y), "yes", "no")
    labels[task == "t03"] = "no"  # a task of one class
    test = np.arange(len(y)) % 5 == 0
    model = UsualClassifier(name).fit(X[~test], labels[~test], task=task[~test])
    shares = model.predict_proba(X[test], task=task[test])
    assert shares.shape == (test.sum(), 2)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert log_loss(labels[test], np.clip(shares, 1e-3, 1 - 1e-3)) < 0.45
    assert model.score(X[test], labels[test], task=task[test]) > 0.8


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("loss", ["poisson", "gamma", "negative_binomial"])
def test_counts_and_amounts_follow_tasks_and_exposure(name, loss):
    require(name)
    rng = np.random.default_rng(0)
    X, level, task = draw()
    table = np.column_stack([X, rng.uniform(1.0, 100.0, len(X))])
    y = draw_family(loss, rng, np.log(table[:, 3]) + 0.5 * level)
    model = UsualRegressor(name, loss=loss, exposure=3)
    if loss not in USUAL[name].scope.losses:
        with pytest.raises(ValueError, match=f"{name} is not for loss='{loss}'"):
            model.fit(table, y, task=task)
        return
    if name == "gpboost":
        with pytest.raises(ValueError, match="no exposure"):
            model.fit(table, y, task=task)
        return
    test = np.arange(len(y)) % 5 == 0
    model.fit(table[~test], y[~test], task=task[~test])
    assert model.score(table[test], y[test], task=task[test]) > 0.7
    mean = model.predict(table[test], task=task[test])
    table[:, 3] *= 2.0
    np.testing.assert_allclose(model.predict(table[test], task=task[test]), 2.0 * mean)


@pytest.mark.parametrize("name", WAYS)
def test_several_classes_have_probabilities(name):
    require(name)
    X, y, task = draw()
    labels = np.array(["low", "mid", "top"])[np.searchsorted([-1.0, 1.0], y)]
    model, test = UsualClassifier(name), np.arange(len(y)) % 5 == 0
    if USUAL[name].scope.most_classes < 3:
        with pytest.raises(ValueError, match=r"is not for (3 )?classes"):
            model.fit(X, labels, task=task)
        return
    model.fit(X[~test], labels[~test], task=task[~test])
    assert model.classes_.tolist() == ["low", "mid", "top"]
    shares = model.predict_proba(X[test], task=task[test])
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert usual.log_loss(np.searchsorted(model.classes_, labels[test]), shares) < 0.7
    assert model.score(X[test], labels[test], task=task[test]) > 0.7
    assert np.isfinite(model.predict_proba(X[:1], task=["new"])).all()


def test_the_last_value_is_the_mean_of_the_last_time():
    y, codes = np.array([1.0, 2.0, 4.0, 7.0, 5.0]), np.array([0, 0, 0, 1, 1])
    rows = Rows(np.zeros((5, 1)), y, codes, 2, None, np.array([1.0, 3, 3, 2, 1]))
    predict = fit_last_value(rows)
    np.testing.assert_array_equal(predict(np.zeros((2, 1)), np.arange(2)), [3.0, 7.0])
    with pytest.raises(ValueError, match="needs the column of time"):
        UsualRegressor("last-value").fit(rows.X, y, task=codes)


@pytest.mark.parametrize("name", ["ridge-dummies", "mixed-slopes", "random-forest"])
def test_models_can_be_pickled(name):
    X, y, task = draw(4, 10)
    model = UsualRegressor(name).fit(X, y, task=task)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        model.predict(X, task=task), again.predict(X, task=task)
    )


def test_columns_of_targets_and_sparse_rows_are_read():
    X, y, _ = draw(4, 10)
    Y = np.column_stack([y, y + 3.0])
    Y[::7, 0] = np.nan
    model = UsualRegressor("ridge-dummies").fit(csr_array(X), Y)
    assert model.predict(csr_array(X)).shape == Y.shape
    assert np.mean(np.diff(model.predict(X))) == pytest.approx(3.0, abs=0.3)


def test_ridge_with_dummies_is_that_of_scikit_learn():
    X, y, task = draw(5, 12)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    Z = np.hstack([Z, task[:, np.newaxis] == np.unique(task)])
    expected = RidgeCV(np.geomspace(1e-4, 1e4, 17)).fit(Z, y).predict(Z)
    found = UsualRegressor().fit(X, y, task=task).predict(X, task=task)
    np.testing.assert_allclose(found, expected)


def test_mixed_models_are_those_of_statsmodels():
    mixed = pytest.importorskip("statsmodels.regression.mixed_linear_model")
    X, y, task = draw(8, 10)
    codes = np.unique(task, return_inverse=True)[1]
    Z = np.column_stack([np.ones(len(y)), X])
    result = mixed.MixedLM(y, Z, groups=codes).fit(reml=True)
    effects = np.array([result.random_effects[i].iloc[0] for i in range(8)])
    expected = Z @ result.fe_params + effects[codes]
    # Constant and repeated columns change nothing.
    wide = np.column_stack([X, np.ones(len(y)), X[:, 0] - X[:, 1]])
    found = UsualRegressor("mixed-model").fit(wide, y, task=task)
    np.testing.assert_allclose(found.predict(wide, task=task), expected, atol=1e-3)


@pytest.mark.slow
def test_slopes_help_where_they_differ():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(10), 15)
    X = rng.normal(size=(150, 2))
    slope = rng.normal(size=10)[task]
    y = slope * X[:, 0] + 0.1 * rng.normal(size=150)
    plain = UsualRegressor("mixed-model").fit(X, y, task=task)
    varied = UsualRegressor("mixed-slopes").fit(X, y, task=task)
    assert varied.score(X, y, task=task) > 0.95 > plain.score(X, y, task=task)


def draw_family(loss, rng, eta):
    if loss == "logistic":
        return np.where(rng.random(len(eta)) < expit(eta), 1.0, -1.0)
    if loss == "gamma":
        return np.exp(eta) * rng.gamma(4.0, 0.25, len(eta))
    noise = rng.gamma(2.0, 0.5, len(eta)) if loss == "negative_binomial" else 1.0
    return rng.poisson(np.exp(eta) * noise).astype(float)


@pytest.mark.parametrize("loss", ["logistic", "poisson", "negative_binomial"])
def test_random_intercepts_are_at_their_optimum(loss):
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(30), 20)
    X = np.column_stack([np.ones(600), rng.normal(size=600)])
    truth, offset = rng.normal(0.0, 1.5, 30), rng.normal(size=600)
    y = draw_family(loss, rng, X[:, 1] + truth[codes] + offset)
    rows = Rows(X, y, codes, 30, None, offset=offset)
    beta, u = fit_random_intercepts(X, rows, find_family(loss))
    eta = X @ beta + u[codes] + offset
    family = find_family(loss).refit(eta, y, np.ones(600))
    # The gradient in beta vanishes, and intercepts balance residual and shrinkage.
    residual = -family.slope(eta, y)
    np.testing.assert_allclose(X.T @ residual, 0.0, atol=5e-2)
    np.testing.assert_allclose(beta[1], 1.0, atol=0.2)
    pull = np.bincount(codes, residual)
    ratio = pull / u
    assert np.ptp(ratio) < 1e-2 * ratio.mean()
    assert 1.0 < 1.0 / np.sqrt(ratio.mean()) < 2.2  # the deviation of intercepts
    assert np.corrcoef(u, truth)[0, 1] > 0.9


def test_absent_packages_are_one_sentence(monkeypatch):
    monkeypatch.setattr(usual, "find_spec", lambda name: None)
    X, y, task = draw(3, 5)
    with pytest.raises(ImportError, match=r"lightgbm needs .* 'priormtl\[compare\]'"):
        UsualRegressor("lightgbm").fit(X, y, task=task)


@pytest.mark.parametrize("name", ["mixed-model", "gpboost"])
def test_weights_are_refused_where_they_have_no_meaning(name):
    require(name)
    X, y, task = draw(3, 5)
    with pytest.raises(ValueError, match="take"):
        UsualRegressor(name).fit(X, y, task=task, sample_weight=np.arange(1.0, 16.0))
