"""Simple methods against scikit-learn and statsmodels, and against naive twins."""

import numpy as np
import pytest
from sklearn.linear_model import MultiTaskLassoCV, Ridge
from sklearn.metrics import mean_squared_error, roc_auc_score
from statsmodels.regression.mixed_linear_model import MixedLM

from priormtl.experiments.simple import (
    MixedModel,
    PooledRidge,
    RidgePerTask,
    SharedLasso,
    mean_auc,
    negative_error,
    ridge_path,
)
from priormtl.selection import split_by_fold

ALPHAS = np.array([0.1, 1.0, 10.0, 100.0])
KINDS = ("stacked", "shared")


def numbers(seed=0, n=60, d=5, m=3):
    """X, (n, m) targets, tasks and folds; some rows are never held out."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 3.0
    common = rng.normal(size=(d, 1)) + 0.5 * rng.normal(size=(d, m))
    y = X @ common + 4.0 * rng.normal(size=(n, m)) + np.arange(m)
    task = np.array(["c", "a", "b"])[np.arange(n) % m]
    folds = rng.permutation(np.arange(n) % 4) - 1
    return X, y, task, folds


def table(kind, **shape):
    """Rows as ``fit`` takes them, and folds."""
    X, y, task, folds = numbers(**shape)
    if kind == "shared":
        return X, y, None, folds
    return X, y[np.arange(len(y)), np.arange(len(y)) % 3], task, folds


def naive_per_task(alpha, X, y, task):
    """Predictions of scikit-learn's Ridge, one per task."""
    if task is None:
        models = [Ridge(alpha).fit(X, column) for column in y.T]
        return lambda Z, _: np.column_stack([model.predict(Z) for model in models])
    models = {k: Ridge(alpha).fit(X[task == k], y[task == k]) for k in np.unique(task)}
    return lambda Z, names: np.array(
        [models[k].predict(z[np.newaxis])[0] for z, k in zip(Z, names, strict=True)]
    )


def naive_pooled(alpha, X, y, task):
    """Predictions of scikit-learn's Ridge on the stacked rows."""
    if task is not None:
        model = Ridge(alpha).fit(X, y)
        return lambda Z, _: model.predict(Z)
    m = y.shape[1]
    model = Ridge(alpha).fit(np.tile(X, (m, 1)), y.T.ravel())
    return lambda Z, _: np.column_stack([model.predict(Z)] * m)


TWINS = [(RidgePerTask, naive_per_task), (PooledRidge, naive_pooled)]
ridges = pytest.mark.parametrize(("kind_of_ridge", "naive"), TWINS)


@pytest.mark.parametrize(("n", "d"), [(30, 4), (5, 5), (4, 9), (6, 5), (1, 3)])
def test_a_path_is_ridge_at_every_strength(n, d):
    X, y, *_ = numbers(n=n, d=d)
    coefs, intercepts = ridge_path(X, y[:, 0], ALPHAS)
    for alpha, coef, intercept in zip(ALPHAS, coefs, intercepts, strict=True):
        twin = Ridge(alpha, solver="svd").fit(X, y[:, 0])
        np.testing.assert_allclose(coef, twin.coef_, atol=1e-9)
        assert intercept == pytest.approx(twin.intercept_)


def test_a_path_survives_constant_and_collinear_columns():
    X, y, *_ = numbers()
    X = np.column_stack([X, np.full(len(X), 7.0), X[:, 0]])
    coefs, _ = ridge_path(X, y[:, 0], ALPHAS)
    np.testing.assert_allclose(coefs[:, 5], 0.0, atol=1e-12)
    np.testing.assert_allclose(coefs[:, 6], coefs[:, 0])


@ridges
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [5, 40])
def test_ridge_equals_scikit_learn_at_the_alpha_it_chose(kind_of_ridge, naive, kind, d):
    X, y, task, folds = table(kind, d=d)
    model = kind_of_ridge(ALPHAS, folds, negative_error).fit(X, y, task=task)
    twin = naive(model.alpha_, X, y, task)
    assert model.alpha_ in ALPHAS
    order = np.random.default_rng(1).permutation(len(X))
    held = None if task is None else task[order]
    np.testing.assert_allclose(
        model.predict(X[order], task=held), twin(X[order], held), rtol=1e-8
    )


@ridges
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_the_alpha_is_the_best_on_the_folds(kind_of_ridge, naive, kind, seed):
    X, y, task, folds = table(kind, seed=seed)
    errors = np.zeros(len(ALPHAS))
    for train, test in split_by_fold(folds):
        fitted, held = (None, None) if task is None else (task[train], task[test])
        for i, alpha in enumerate(ALPHAS):
            guess = naive(alpha, X[train], y[train], fitted)(X[test], held)
            errors[i] += mean_squared_error(y[test], guess)
    model = kind_of_ridge(ALPHAS, folds, negative_error).fit(X, y, task=task)
    assert model.alpha_ == ALPHAS[np.argmin(errors)]


def test_alphas_are_chosen_by_the_judge():
    X, y, task, folds = table("stacked")
    asked = []

    def judge(truth, guess, names):
        asked.append(set(names))
        return -float(np.var(guess))  # the strongest shrinkage is best

    model = RidgePerTask(ALPHAS, folds, judge).fit(X, y, task=task)
    assert model.alpha_ == max(ALPHAS)
    assert len(asked) == 3 * len(ALPHAS)
    assert all(names <= set(task) for names in asked)


def test_ridge_per_task_asks_for_the_tasks_of_new_rows():
    X, y, task, folds = table("stacked")
    model = RidgePerTask(ALPHAS, folds, negative_error).fit(X, y, task=task)
    with pytest.raises(ValueError, match="task must"):
        model.predict(X)
    with pytest.raises(ValueError, match=r"task must .* 'new'"):
        model.predict(X[:1], task=np.array(["new"]))


def test_negative_error_is_the_mean_over_all_rows():
    y, guess = numbers()[1], numbers(seed=1)[1]
    assert negative_error(y, guess, None) == pytest.approx(
        -mean_squared_error(y.ravel(), guess.ravel())
    )


@pytest.mark.parametrize("kind", KINDS)
def test_mean_auc_is_the_mean_over_tasks_with_both_classes(kind):
    _, y, task, _ = table(kind)
    signs = np.where(y > np.median(y), 1.0, -1.0)
    guess = signs + 3 * np.random.default_rng(0).normal(size=y.shape)
    if task is None:
        columns = zip(signs.T, guess.T, strict=True)
    else:
        columns = ((signs[task == k], guess[task == k]) for k in np.unique(task))
    expected = np.mean([roc_auc_score(*column) for column in columns])
    assert mean_auc(signs, guess, task) == pytest.approx(expected)
    assert np.isnan(mean_auc(np.ones(3), np.arange(3.0), np.array(list("aab"))))


def fit_statsmodels(X, y, task):
    design = np.column_stack([np.ones(len(X)), X])
    return MixedLM(y, design, groups=task).fit(), design


def test_the_mixed_model_is_that_of_statsmodels():
    X, y, task, _ = table("stacked", n=90)
    y = y + 8.0 * (task == "a")
    result, design = fit_statsmodels(X, y, task)
    model = MixedModel().fit(X, y, task=task)
    own = np.array([result.random_effects[name].iloc[0] for name in task])
    np.testing.assert_array_equal(model.kept_, np.arange(5))
    np.testing.assert_allclose(
        model.predict(X, task=task), design @ result.fe_params + own
    )
    np.testing.assert_allclose(model.predict(X, task=task), result.fittedvalues)


def test_the_mixed_model_does_without_collinear_and_constant_columns():
    X, y, task, _ = table("stacked", n=90)
    y = y + 8.0 * (task == "a")
    wide = np.column_stack([X[:, :2], np.full(len(X), 3.0), X, X @ np.arange(5.0)])
    plain = MixedModel().fit(X, y, task=task)
    model = MixedModel().fit(wide, y, task=task)
    assert len(model.kept_) == 5
    np.testing.assert_allclose(
        model.predict(wide, task=task), plain.predict(X, task=task), rtol=1e-4
    )


def test_the_mixed_model_takes_constant_columns_only():
    _, y, task, _ = table("stacked", n=90)
    y = y + 8.0 * (task == "a")
    flat = np.full((len(y), 2), 3.0)
    predicted = MixedModel().fit(flat, y, task=task).predict(flat, task=task)
    means = [y[task == name].mean() for name in np.unique(task)]
    shown = [predicted[task == name][0] for name in np.unique(task)]
    assert np.ptp(shown) < np.ptp(means)  # shrunk
    assert np.argsort(shown).tolist() == np.argsort(means).tolist()


def test_the_shared_lasso_is_that_of_scikit_learn():
    X, y, _, folds = numbers()
    alphas = np.geomspace(5.0, 0.05, 6)
    splits = [tuple(split) for split in split_by_fold(folds)]
    twin = MultiTaskLassoCV(alphas=alphas, cv=splits, tol=1e-3).fit(X, y)
    model = SharedLasso(alphas, folds).fit(X, y)
    assert model.alpha_ == twin.alpha_
    np.testing.assert_array_equal(model.predict(X), twin.predict(X))
    assert model.predict(X).shape == y.shape
