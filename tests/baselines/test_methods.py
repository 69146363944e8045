"""Laws of every compared method, over the list: a new one is tested by being listed."""

import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning

from priormtl import baselines, save
from priormtl.baselines import (
    BASELINES,
    CLASSIFIERS,
    TunedClassifier,
    TunedRegressor,
)
from priormtl.baselines.base import LinearModel, find_distinct
from priormtl.baselines.tuned import find_baseline
from priormtl.data import from_labels
from priormtl.datasets import make_related_tasks

REGRESSORS = pytest.mark.parametrize("name", BASELINES)
BOTH = pytest.mark.parametrize(
    "kind",
    [
        # The slowest of them.
        pytest.param(kind, marks=pytest.mark.slow if "MKMTL" in kind.__name__ else ())
        for kind in (*BASELINES.values(), *CLASSIFIERS.values())
    ],
    ids=lambda kind: kind.__name__,
)
# What all methods share, such as reading data, is tested on one of each kind.
A_FEW = pytest.mark.parametrize(
    "kind",
    [baselines.DMTL, baselines.MTFLClassifier, baselines.FedEM],
    ids=lambda kind: kind.__name__,
)


@pytest.fixture
def rows():
    return make_related_tasks(4, 5, 14, noise=0.5, random_state=1)


def fit(kind, X, y, task=None, **settings):
    target = np.asarray(y) > 0 if is_classifier(kind()) else y
    return kind(**settings).fit(X, target, task=task)


def scores_of(model, X, task=None):
    ask = getattr(model, "decision_function", model.predict)
    return ask(X, task=task)


# Names.


def test_every_method_has_a_regressor_and_a_classifier_under_its_own_name():
    assert set(BASELINES) == set(CLASSIFIERS)
    for name in BASELINES:
        regressor, classifier = BASELINES[name], CLASSIFIERS[name]
        assert regressor.__name__.lower() == name
        assert classifier.__name__ == f"{regressor.__name__}Classifier"
        assert is_regressor(regressor())
        assert is_classifier(classifier())
        assert getattr(baselines, regressor.__name__) is regressor
        assert getattr(baselines, classifier.__name__) is classifier


def test_unknown_names_are_answered_with_near_ones():
    with pytest.raises(ValueError, match="Did you mean 'clmt'"):
        find_baseline("clmtt")


# Tables in, scores out.


@BOTH
def test_tasks_learn_something_of_their_own(kind, rows):
    X, y, task = rows
    model = fit(kind, X, y, task)
    target = y > 0 if is_classifier(model) else y
    # Components that all tasks share say little of tasks that differ.
    least = 0.0 if isinstance(model, baselines.FedEM) else 0.2
    assert model.score(X, target, task=task) > (0.7 if is_classifier(model) else least)
    assert model.tasks_.tolist() == [0, 1, 2, 3]
    assert np.isfinite(model.objective_)


@A_FEW
def test_labels_of_tasks_may_be_anything_and_come_in_any_order(kind, rows):
    X, y, task = rows
    names = np.array(["d", "b", "c", "a"])[task]
    order = np.random.default_rng(0).permutation(len(y))
    plain = scores_of(fit(kind, X, y, names), X, names)
    mixed = fit(kind, X[order], y[order], names[order])
    np.testing.assert_allclose(scores_of(mixed, X, names), plain, atol=2e-3)


@A_FEW
def test_frames_and_arrays_are_the_same(kind, rows):
    X, y, task = rows
    plain = scores_of(fit(kind, X, y, task), X, task)
    table = dict(zip("abcde", X.T, strict=True))
    for frame in (pd.DataFrame(table), pl.DataFrame(table)):
        model = fit(kind, frame, y, task)
        assert model.feature_names_in_.tolist() == list("abcde")
        np.testing.assert_allclose(scores_of(model, frame, task), plain, atol=1e-10)


@BOTH
def test_free_intercepts_leave_no_mean_residual_far_from_the_origin(kind, rows):
    X, y, task = rows
    X = X + np.arange(5.0)
    model = fit(kind, X, y, task)
    if not hasattr(model, "coef_") or isinstance(model, baselines.FedEM):
        return  # no intercepts of single tasks
    target = np.where(y > 0, 1.0, -1.0) if is_classifier(model) else y
    predicted = scores_of(model, X, task)
    if model.loss == "logistic":
        target, predicted = target > 0, model.predict_proba(X, task=task)[:, 1]
    sums = np.bincount(task, predicted - target)
    np.testing.assert_allclose(sums, 0.0, atol=1e-4 * len(y))


@BOTH
def test_sparse_and_dense_are_the_same(kind, rows):
    X, y, task = rows
    thin = np.where(np.abs(X) > 0.5, X, 0.0)
    dense = scores_of(fit(kind, thin, y, task), thin, task)
    sparse = scores_of(fit(kind, csr_array(thin), y, task), csr_array(thin), task)
    np.testing.assert_allclose(sparse, dense, atol=2e-3)


@BOTH
def test_shared_rows_are_stacked_rows_said_shorter(kind, rows):
    X = rows.X[:14]
    Y = X @ np.random.default_rng(0).standard_normal((5, 3)) + 0.1
    Y[2] -= 0.3
    together = fit(kind, X, Y)
    task = np.repeat(np.arange(3), 14)
    apart = fit(kind, np.tile(X, (3, 1)), Y.T.ravel(), task)
    stacked = scores_of(apart, np.tile(X, (3, 1)), task).reshape(3, 14).T
    np.testing.assert_allclose(scores_of(together, X), stacked, atol=5e-3)


@REGRESSORS
def test_targets_that_were_not_measured_do_not_count(name, rows):
    kind = BASELINES[name]
    X = rows.X[:14]
    Y = X @ np.random.default_rng(0).standard_normal((5, 3)) + 0.1
    gaps = Y.copy()
    gaps[[0, 5], [1, 2]] = np.nan
    known = ~np.isnan(gaps)
    task = np.repeat(np.arange(3), 14).reshape(3, 14).T[known]
    places = np.nonzero(known)[0]
    apart = fit(kind, X[places], gaps[known], task)
    together = fit(kind, X, gaps)
    expected = np.column_stack(
        [apart.predict(X, task=np.full(14, i)) for i in range(3)]
    )
    np.testing.assert_allclose(together.predict(X), expected, atol=5e-3)


@A_FEW
def test_one_task_needs_no_label(kind, rows):
    X, y, _ = rows
    model = fit(kind, X, y)
    assert scores_of(model, X).shape == y.shape


# What must not change a result.


@A_FEW
def test_fits_are_repeatable(kind, rows):
    X, y, task = rows
    one, two = fit(kind, X, y, task), clone(fit(kind, X, y, task))
    two.fit(X, y > 0 if is_classifier(two) else y, task=task)
    np.testing.assert_array_equal(scores_of(one, X, task), scores_of(two, X, task))


@A_FEW
def test_pickles_score_alike(kind, rows):
    X, y, task = rows
    model = fit(kind, X, y, task)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(scores_of(copy, X, task), scores_of(model, X, task))


@A_FEW
def test_standardized_fits_do_not_see_units(kind, rows):
    X, y, task = rows
    units = np.array([1.0, 1e3, 1e-3, 7.0, 0.1])
    plain = fit(kind, X, y, task, standardize=True)
    other = fit(kind, X * units, y, task, standardize=True)
    np.testing.assert_allclose(
        scores_of(other, X * units, task), scores_of(plain, X, task), atol=2e-3
    )


@BOTH
def test_weights_are_repetitions(kind, rows):
    X, y, task = rows
    times = np.random.default_rng(0).integers(1, 3, len(y))
    target = y > 0 if is_classifier(kind()) else y
    weighted = kind().fit(X, target, task=task, sample_weight=times)
    repeated = kind().fit(
        np.repeat(X, times, axis=0),
        np.repeat(target, times),
        task=np.repeat(task, times),
    )
    np.testing.assert_allclose(
        scores_of(weighted, X, task), scores_of(repeated, X, task), atol=5e-3
    )


@A_FEW
def test_task_weights_undo_the_size_of_tasks(kind, rows):
    X, y, task = rows
    target = y > 0 if is_classifier(kind()) else y
    doubled = np.where(task == 0, 2.0, 1.0)
    plain = kind(task_weight="mean").fit(X, target, task=task)
    heavy = kind(task_weight="mean").fit(X, target, task=task, sample_weight=doubled)
    np.testing.assert_allclose(
        scores_of(heavy, X, task), scores_of(plain, X, task), atol=5e-3
    )


def test_models_come_back_to_the_units_of_the_data():
    scale = np.array([2.0, 0.5])
    model = LinearModel(np.array([[1.0, 3.0]]), np.array([0.5]))
    X = np.array([[4.0, 1.0]])
    back = model.in_user_units(scale)
    np.testing.assert_array_equal(back.scores(X, 0), model.scores(X / scale, 0))


# Degenerate data.


@BOTH
@pytest.mark.parametrize("d", [1, 30])
def test_one_row_per_task_is_enough_for_something_finite(kind, d):
    X = np.random.default_rng(0).standard_normal((6, d))
    y = np.array([1.0, -1.0, 2.0, -0.5, 0.3, -3.0])
    model = kind()
    task = np.arange(6)
    if is_classifier(model) and model.loss == "logistic":
        task = np.arange(6) // 2
    fitted = fit(kind, X, y, task)
    assert np.all(np.isfinite(scores_of(fitted, X, task)))


@BOTH
def test_constant_and_duplicate_columns_do_no_harm(kind, rows):
    X, y, task = rows
    wide = np.column_stack([X, X[:, 0], np.full(len(X), 3.0), np.zeros(len(X))])
    assert np.all(np.isfinite(scores_of(fit(kind, wide, y, task), wide, task)))


@REGRESSORS
def test_constant_targets_are_predicted(name, rows):
    X, _, task = rows
    target = np.array([1.0, -2.0, 0.5, 3.0])[task]
    model = BASELINES[name]()
    constant = model.fit(X, np.full(len(X), 2.0), task=task).predict(X, task=task)
    np.testing.assert_allclose(constant, 2.0, atol=1e-3)
    assert np.all(np.isfinite(model.fit(X, target, task=task).predict(X, task=task)))


@BOTH
def test_scales_of_features_leave_everything_finite(kind, rows):
    (X, y, task), size = rows, np.array([1e-6, 1e6, 1.0, 1e6, 1e-6])
    model = fit(kind, size * X, y, task, standardize=True)
    assert np.all(np.isfinite(scores_of(model, size * X, task)))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_separable_classes_stay_finite(name):
    X = np.linspace(-1.0, 1.0, 20)[:, np.newaxis]
    task = np.arange(20) % 2
    model = CLASSIFIERS[name]().fit(X, X[:, 0] > 0, task=task)
    assert np.all(np.isfinite(model.decision_function(X, task=task)))
    assert model.score(X, X[:, 0] > 0, task=task) >= 0.9


# Settings.


@BOTH
@pytest.mark.parametrize("n", [1, 6])
def test_suggestions_are_few_and_can_all_be_set(kind, rows, n):
    X, y, task = rows
    method = kind()
    target = np.where(y > 0, 1.0, -1.0) if is_classifier(method) else y
    data = from_labels(X, target, task)
    settings = method._suggest(method._bind(data), n)
    assert 1 <= len(settings) <= n
    assert len({tuple(sorted(part.items())) for part in settings}) == len(settings)
    for part in settings:
        assert clone(method).set_params(**part).get_params().items() >= part.items()


@A_FEW
def test_tuned_methods_choose_among_suggestions(kind, rows):
    X, y, task = rows
    classify = is_classifier(kind())
    search = (TunedClassifier if classify else TunedRegressor)(
        kind(tol=1e-4), n_settings=2, cv=2
    )
    search.fit(X, y > 0 if classify else y, task=task)
    assert search.best_params_ in search.cv_results_["params"]
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))


@BOTH
def test_wrong_settings_are_refused_in_one_sentence(kind, rows):
    X, y, task = rows
    for settings in ({"task_weight": "median"}, {"tol": -1.0}, {"max_iter": 0}):
        (name,) = settings
        with pytest.raises(ValueError, match=f"{name} must be"):
            fit(kind, X, y, task, **settings)


@BOTH
def test_too_few_steps_are_told(kind, rows):
    X, y, task = rows
    with pytest.warns(ConvergenceWarning, match="not converged"):
        fit(kind, X, y, task, max_iter=1, tol=1e-14)


@A_FEW
def test_failed_fits_leave_the_method_as_it_was(kind, rows):
    X, y, task = rows
    model = fit(kind, X, y, task)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full_like(X, np.nan), y > 0, task=task)
    assert vars(model) == before


def test_the_way_out_of_save_keeps_methods(rows, tmp_path):
    X, y, task = rows
    model = baselines.RMTL().fit(X, y, task=task)
    with pytest.raises(TypeError, match=r"got RMTL; keep others by joblib\.dump\("):
        save(model, tmp_path / "model")
    joblib.dump(model, tmp_path / "model")
    again = joblib.load(tmp_path / "model")
    np.testing.assert_array_equal(
        again.predict(X, task=task), model.predict(X, task=task)
    )


# Equal rows.

EQUAL = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, -0.0], [0.0, 2.0], [3.0, 0.0]])


@pytest.mark.parametrize("table", [EQUAL, csr_array(EQUAL)])
def test_equal_rows_are_one_kind(table):
    first, kind = find_distinct(table)
    assert len(first) == 3
    assert kind[0] == kind[2]
    assert kind[1] == kind[3]
    np.testing.assert_array_equal(EQUAL[first][kind], EQUAL)


def test_the_order_depends_on_contents_alone():
    order = [3, 4, 1, 0, 0, 2, 1]
    np.testing.assert_array_equal(
        EQUAL[find_distinct(EQUAL).first],
        EQUAL[order][find_distinct(EQUAL[order]).first],
    )


@pytest.mark.parametrize("kind", ["normal", "small whole numbers", "bits"])
def test_equal_rows_are_found(kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 7))
    if kind != "normal":
        X = rng.integers(0, 2 if kind == "bits" else 5, X.shape).astype(float)
    X = np.asfortranarray(X[rng.integers(0, 50, 300)])
    first, place = find_distinct(X)
    np.testing.assert_array_equal(X[first][place], X)
    assert len(first) == len(np.unique(X, axis=0))
