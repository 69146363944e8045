"""A compared method tuned as ours are: same folds, same scores, any scorer."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from priormtl import MultiTaskRegressorCV
from priormtl.baselines import (
    CLMT,
    CLMTClassifier,
    TunedClassifier,
    TunedRegressor,
    tuned,
)
from priormtl.datasets import make_related_tasks
from wrong_checks import list_wrong_checks

TRACE = {"penalty": "nuclear", "thetas": [0.0], "epsilons": [0.0]}
LAMS = (4.0, 1.0, 0.25)


@pytest.fixture
def rows():
    return make_related_tasks(5, 6, 15, noise=0.5, random_state=0)


def trace_norm(**settings):
    """CLMT whose penalty is the trace norm at strength ``lam``."""
    return CLMT(penalty="trace", **settings)


def settings_for(lams):

    # What both strengths leave is 2 √(lam · gamma) times the trace norm.
    return [{"lam": lam / 2.0} for lam in lams]


@parametrize_with_checks(
    [
        TunedRegressor(CLMT(), settings_for(LAMS), cv=3),
        TunedClassifier(CLMTClassifier(), settings_for(LAMS), cv=3),
        TunedRegressor("clmt", n_settings=3, cv=3, n_jobs=2),
    ],
    expected_failed_checks=list_wrong_checks,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_folds_scores_and_choice_are_those_of_our_search(rows):
    X, y, task = rows
    ours = MultiTaskRegressorCV(LAMS, **TRACE, tol=1e-9).fit(X, y, task=task)
    theirs = TunedRegressor(trace_norm(tol=1e-9), settings_for(LAMS))
    theirs.fit(X, y, task=task)
    for name in ("mean_test_score", "std_test_score", "split0_test_score"):
        np.testing.assert_allclose(
            theirs.cv_results_[name], ours.cv_results_[name], rtol=1e-4
        )
    assert 2.0 * theirs.best_params_["lam"] == ours.lam_
    np.testing.assert_allclose(theirs.coef_, ours.coef_, atol=1e-3)


def test_the_best_setting_is_the_one_refitted(rows):
    X, y, task = rows
    model = tuned("clmt", n_settings=6, cv=3).fit(X, y, task=task)
    assert model.best_score_ == model.cv_results_["mean_test_score"].max()
    assert model.cv_results_["params"][model.best_index_] == model.best_params_
    alone = CLMT(**model.best_params_).fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-4)
    np.testing.assert_array_equal(model.tasks_, alone.tasks_)


def test_the_fitted_method_stands_on_its_own(rows):
    X, y, task = rows
    model = tuned("clmt", classify=True, n_settings=3, cv=3).fit(X, y > 0, task=task)
    inner = model.estimator_
    np.testing.assert_array_equal(
        inner.predict(X, task=task), model.predict(X, task=task)
    )
    assert inner.classes_.tolist() == [False, True]
    assert inner.score(X, y > 0, task=task) == model.score(X, y > 0, task=task)


def test_shared_rows_with_gaps_are_tuned_too(rows):
    X = rows.X[:15]
    Y = X @ np.arange(18.0).reshape(6, 3)
    Y[0, 0] = Y[3, 2] = np.nan
    model = tuned("clmt", n_settings=4, cv=3).fit(X, Y)
    assert model.predict(X).shape == (15, 3)
    assert model.best_score_ < 0


@pytest.mark.parametrize("scoring", ["r2", "neg_mean_absolute_error"])
def test_any_scorer_of_numbers_judges(rows, scoring):
    X, y, task = rows
    model = tuned("clmt", n_settings=3, cv=3, scoring=scoring).fit(X, y, task=task)
    assert np.all(np.isfinite(model.cv_results_["mean_test_score"]))


@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc", "neg_log_loss"])
def test_any_scorer_of_classes_judges(rows, scoring):
    X, y, task = rows
    model = tuned("clmt", classify=True, n_settings=3, cv=3, scoring=scoring)
    model.fit(X, np.where(y > 0, "up", "down"), task=task)
    assert np.all(np.isfinite(model.cv_results_["mean_test_score"]))


def test_the_task_may_be_a_column(rows):
    X = pd.DataFrame(rows.X, columns=list("abcdef")).assign(school=rows.task)
    by_column = tuned("clmt", task="school", n_settings=3, cv=3).fit(X, rows.y)
    by_labels = tuned("clmt", n_settings=3, cv=3).fit(rows.X, rows.y, task=rows.task)
    np.testing.assert_array_equal(by_column.coef_, by_labels.coef_)
    assert by_column.feature_names_in_.tolist() == list("abcdef")
    np.testing.assert_array_equal(
        by_column.predict(X), by_labels.predict(rows.X, task=rows.task)
    )


def test_splitters_are_heeded(rows):
    X, y, task = rows
    cv = KFold(4, shuffle=True, random_state=0)
    assert tuned("clmt", n_settings=2, cv=cv).fit(X, y, task=task).n_splits_ == 4


def test_settings_and_fixed_settings_reach_the_method(rows):
    X, y, task = rows
    model = tuned("clmt", standardize=True, settings=[{"lam": 1.0}], cv=3)
    fitted = clone(model).fit(X, y, task=task)
    assert fitted.estimator_.standardize
    assert fitted.best_params_ == {"lam": 1.0}


def test_fits_that_fall_short_are_told(rows):
    X, y, task = rows
    model = TunedRegressor(CLMT(max_iter=1, tol=1e-12), n_settings=2, cv=3)
    with pytest.warns(ConvergenceWarning) as told:
        model.fit(X, y, task=task)
    assert any("fits on training folds" in str(one.message) for one in told)


@pytest.mark.parametrize("name", ["RMTL", "rmtl", "FedEM"])
@pytest.mark.parametrize("classify", [False, True])
def test_capitals_do_not_matter(name, classify):
    found = tuned(name, classify=classify).method
    assert type(found).__name__.upper().startswith(name.upper())


def test_unknown_methods_are_named():
    with pytest.raises(ValueError, match=r"unknown method 'CLMD'; known: .*'clmt'\?"):
        tuned("CLMD")


def test_methods_of_the_wrong_kind_are_refused(rows):
    X, y, task = rows
    with pytest.raises(TypeError, match="a name or a regressor"):
        TunedRegressor(CLMTClassifier()).fit(X, y, task=task)


def test_no_settings_are_refused(rows):
    X, y, task = rows
    with pytest.raises(ValueError, match="settings must list at least one"):
        TunedRegressor("clmt", []).fit(X, y, task=task)
    with pytest.raises(ValueError, match="n_settings must be a positive"):
        TunedRegressor("clmt", n_settings=0).fit(X, y, task=task)


def test_folds_without_a_class_are_refused(rows):
    X, y, task = rows
    labels = y > 0
    first = np.flatnonzero((task == 0) & labels)
    rest = np.setdiff1d(np.arange(len(y)), first)
    with pytest.raises(ValueError, match="both classes of every task"):
        TunedClassifier("clmt", cv=[(rest, first)]).fit(X, labels, task=task)
