"""Simple methods against scikit-learn and statsmodels."""

import numpy as np
from sklearn.linear_model import MultiTaskLassoCV
from statsmodels.regression.mixed_linear_model import MixedLM

from priormtl.experiments.simple import MixedModel, SharedLasso
from priormtl.selection import split_by_fold

ALPHAS = np.array([0.1, 1.0, 10.0, 100.0])


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
