"""Tuned methods: our folds and scores, any scorer, paths that share their data."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from paper_data import PAPER
from priormtl import MultiTaskRegressorCV
from priormtl.baselines import (
    CLMT,
    RMTL,
    CLMTClassifier,
    SingleTaskRidge,
    TunedClassifier,
    TunedRegressor,
    tuned,
)
from priormtl.baselines.base import LinearModel
from priormtl.baselines.mkmtl import Gaussian, Linear
from priormtl.baselines.tuned import (
    Fold,
    group_paths,
    score_samples,
    search_settings,
)
from priormtl.data import from_columns, from_labels
from priormtl.datasets import make_related_tasks

pytestmark = pytest.mark.slow  # test_methods.py has the laws of all methods

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


def test_folds_scores_and_choice_are_those_of_our_search(rows):
    X, y, task = rows
    ours = MultiTaskRegressorCV(LAMS, **TRACE, **PAPER, tol=1e-9).fit(X, y, task=task)
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


def test_the_task_may_be_a_column(rows):
    X = pd.DataFrame(rows.X, columns=list("abcdef")).assign(school=rows.task)
    by_column = tuned("clmt", task="school", n_settings=3, cv=3).fit(X, rows.y)
    by_labels = tuned("clmt", n_settings=3, cv=3).fit(rows.X, rows.y, task=rows.task)
    np.testing.assert_array_equal(by_column.coef_, by_labels.coef_)
    assert by_column.feature_names_in_.tolist() == list("abcdef")
    np.testing.assert_array_equal(
        by_column.predict(X), by_labels.predict(rows.X, task=rows.task)
    )


@pytest.mark.parametrize("method", ["ridge-single", "mkmtl"])
def test_held_out_rows_are_scored_in_the_users_units(rows, method):
    X, y, task = rows
    units = np.array([1e-3, 1e3, 1.0, 50.0, 0.1, 7.0])
    settings = {"n_settings": 3, "cv": 3, "standardize": True}
    if method == "mkmtl":
        settings |= {"kernels": (Gaussian(2.0), Linear()), "cv": 2}
    plain, scaled = (
        tuned(method, **settings).fit(table, y, task=task) for table in (X, X * units)
    )
    found = [model.cv_results_["mean_test_score"] for model in (plain, scaled)]
    np.testing.assert_allclose(*found, rtol=1e-6)
    assert np.ptp(found[0]) > 0


def test_tasks_absent_from_a_fold_are_scored_by_their_own_coefficients(rows):
    X, y, task = rows
    test = np.flatnonzero((task == 1) | (task == 3))[::2]
    train = np.setdiff1d(np.arange(len(y)), test)
    model = tuned("ridge-single", settings=[{}], cv=[(train, test)])
    found = model.fit(X, y, task=task).best_score_
    alone = SingleTaskRidge().fit(X[train], y[train], task=task[train])
    expected = -np.mean((alone.predict(X[test], task=task[test]) - y[test]) ** 2)
    assert found == pytest.approx(expected, rel=1e-10)


def test_scores_that_are_never_defined_are_refused(rows):
    X, y, task = rows
    labels = y > 0
    # One held-out row of one class in each task has no area under a curve.
    test = np.array([np.flatnonzero((task == i) & labels)[0] for i in range(5)])
    train = np.setdiff1d(np.arange(len(y)), test)
    model = tuned("ridge-single", classify=True, n_settings=2, cv=[(train, test)])
    with pytest.raises(ValueError, match="no candidate has a score on any split"):
        model.fit(X, labels, task=task)


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
    with pytest.raises(ValueError, match="all classes of every task"):
        TunedClassifier("clmt", cv=[(rest, first)]).fit(X, labels, task=task)


# The search over settings and folds.


@pytest.fixture
def data():
    return from_labels(*make_related_tasks(4, 5, 12, noise=0.3, random_state=0))


def fold_of(data):
    return Fold(lambda: data, lambda model: -float(np.abs(model.coef).sum()))


def scale_of(lam, standardize):
    return {"lam": lam, "standardize": standardize}


def test_settings_that_share_all_but_the_followed_one_are_one_path():
    settings = [scale_of(lam, kind) for kind in (False, True) for lam in (2.0, 1.0)]
    assert len(group_paths(CLMT(), settings)) == 2
    assert len(group_paths(CLMT(), settings[:3])) == 2
    assert len(group_paths(CLMT(), [{}])) == 1


def test_scores_stand_at_their_settings_place(data):
    settings = [{"lam": lam} for lam in (0.5, 4.0, 1.0)]
    method, folds = CLMT(tol=1e-12), [fold_of(data)]
    found = search_settings(method, settings, folds)
    alone = [search_settings(method, [part], folds).scores for part in settings]
    np.testing.assert_allclose(found.scores, np.concatenate(alone), rtol=1e-4)
    assert found.scores.shape == found.fit_seconds.shape == (3, 1)


def test_a_setting_that_is_not_tried_keeps_its_value(data):
    kept = search_settings(CLMT(lam=3.0), [{}], [fold_of(data)]).scores
    named = search_settings(CLMT(), [{"lam": 3.0}], [fold_of(data)]).scores
    np.testing.assert_array_equal(kept, named)


def test_threads_change_nothing(data):
    settings = [{"lam": lam} for lam in (4.0, 1.0)]
    folds = [fold_of(data)] * 3
    alone = search_settings(CLMT(), settings, folds).scores
    together = search_settings(CLMT(), settings, folds, n_jobs=3).scores
    np.testing.assert_array_equal(alone, together)


def test_settings_that_change_how_data_are_bound_take_effect(rows):
    X, y, task = rows
    X = X * np.geomspace(1.0, 100.0, 6)
    others = ("standardize", True), ("task_weight", "mean"), ("fit_intercept", False)
    for name, value in others:
        settings = [{"lam": 1.0}, {"lam": 1.0, name: value}]
        both = TunedRegressor(SingleTaskRidge(), settings, cv=3).fit(
            X, y + task, task=task
        )
        scores = both.cv_results_["mean_test_score"]
        for method, score in zip(
            (SingleTaskRidge(), SingleTaskRidge(**{name: value})), scores, strict=True
        ):
            alone = TunedRegressor(method, [{"lam": 1.0}], cv=3)
            assert alone.fit(X, y + task, task=task).best_score_ == score
        assert scores[0] != scores[1]
        alone = SingleTaskRidge(**both.best_params_).fit(X, y + task, task=task)
        np.testing.assert_array_equal(both.coef_, alone.coef_)


def test_data_are_bound_once_for_suggested_settings(data, monkeypatch):
    seen = []
    bind = RMTL._bind
    monkeypatch.setattr(
        RMTL, "_bind", lambda self, data: seen.append(1) or bind(self, data)
    )
    settings = [{"ratio": ratio, "lam": 1.0} for ratio in (1.1, 1.3)]
    once = search_settings(RMTL(), settings, [fold_of(data)], bind_once=True)
    assert len(seen) == 1
    twice = search_settings(RMTL(), settings, [fold_of(data)])
    assert len(seen) == 3
    np.testing.assert_array_equal(once.scores, twice.scores)


def test_fits_that_fall_short_are_counted(data):
    found = search_settings(
        CLMT(max_iter=1, tol=1e-12), [{"lam": 1.0}], [fold_of(data)]
    )
    assert found.unsolved == 1


def test_every_path_counts_as_progress(data):
    seen = []
    settings = [scale_of(1.0, False), scale_of(1.0, True)]
    search_settings(
        CLMT(), settings, [fold_of(data)] * 2, advance=lambda: seen.append(1)
    )
    assert len(seen) == 4


def test_samples_are_scored_by_their_own_task():
    model = LinearModel(np.array([[1.0], [2.0], [3.0]]), np.array([0.0, 0.0, 1.0]))
    stacked = from_labels(np.ones((3, 1)), np.zeros(3), ["b", "c", "b"])
    places = np.array([1, 2])
    np.testing.assert_array_equal(score_samples(model, stacked, places), [2, 2, 4])
    shared = from_columns(np.ones((1, 1)), np.zeros((1, 2)))
    np.testing.assert_array_equal(score_samples(model, shared, places), [[2, 4]])
