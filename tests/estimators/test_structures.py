"""Structures chosen on the folds, and fits that do not notice units of features."""

import warnings

import numpy as np
import pandas as pd
import pytest

from instances import turns
from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
)


def tasks_with(spread, m=12, n=12, d=3, noise=0.5, walk=False, seed=0):
    """Coefficients that vary by ``spread`` (d + 1,), intercepts first."""
    rng = np.random.default_rng(seed)
    task = np.arange(m * n) % m
    X = rng.normal(size=(m * n, d))
    steps = np.asarray(spread)[:, np.newaxis] * rng.normal(size=(d + 1, m))
    P = rng.normal(size=(d + 1, 1)) + (np.cumsum(steps, axis=1) if walk else steps)
    y = P[0, task] + np.sum(X * P[1:, task].T, axis=1)
    return X, y + noise * rng.normal(size=m * n), task


def named(task):
    return np.array([f"t{i:02d}" for i in task])


def quick(**settings):
    return MultiTaskRegressorCV(**{"lams": 3, "epsilons": [0.1, 10.0], **settings})


def test_what_was_tried_stands_beside_what_was_chosen():
    X, y, task = tasks_with([1.0, 1.0, 0.0, 0.0])
    model = quick().fit(X, y, task=named(task))
    assert set(model.structure_) == {"task_prior", "ties", "fit_intercept"}
    assert model.structure_["task_prior"] == "mean"
    columns = [model.cv_results_[f"param_{name}"] for name in model.structure_]
    tried = set(zip(*columns, strict=True))
    assert tuple(model.structure_.values()) in tried
    assert len(tried) == 3  # one choice after the other
    params = model.cv_results_["params"][model.best_index_]
    assert {name: params[name] for name in model.structure_} == model.structure_


def test_ties_are_adaptive_where_only_some_coefficients_vary():
    X, y, task = tasks_with([0.0, 4.0, *[0.0] * 6], m=30, n=8, d=7, noise=1.0)
    model = MultiTaskRegressorCV().fit(X, y, task=named(task))
    assert model.structure_["ties"] == "adaptive"


def test_ordered_tasks_may_be_a_chain_and_named_ones_may_not():
    X, y, task = tasks_with([1.0] * 4, m=30, n=6, noise=1.0, walk=True)
    assert (
        MultiTaskRegressorCV().fit(X, y, task=task).structure_["task_prior"] == "chain"
    )
    shuffled = np.random.default_rng(0).permutation(30)
    model = MultiTaskRegressorCV().fit(X, y, task=named(shuffled[task]))
    assert model.structure_["task_prior"] == "mean"


def test_given_parts_of_the_structure_are_kept():
    X, y, task = tasks_with([1.0] * 4)
    given = {"task_prior": "chain", "ties": "uniform", "fit_intercept": True}
    model = quick(**given).fit(X, y, task=task)
    assert model.structure_ == given
    assert "param_ties" not in model.cv_results_


def test_a_refit_by_hand_is_the_same_model():
    X, y, task = tasks_with([1.0, 1.0, 0.1, 0.0])
    model = quick().fit(X, y, task=task)
    by_hand = MultiTaskRegressor(
        model.lam_,
        model.theta_,
        model.epsilon_,
        standardize=True,
        intercept_strength=1.0,
        **model.structure_,
    )
    if model.structure_["ties"] == "uniform":
        by_hand.set_params(intercept_strength=model.intercept_strength_)
    by_hand.fit(X, y, task=task)
    assert np.allclose(by_hand.coef_, model.coef_, atol=1e-5)


def test_held_out_rows_are_predicted_by_models_that_have_not_seen_them():
    X, y, task = tasks_with([1.0] * 4)
    model = quick().fit(X, y, task=task)
    assert set(model.folds_) <= set(range(-1, 5))
    known = model.folds_ >= 0
    errors = (y - model.held_out_)[known] ** 2
    by_fold = [errors[model.folds_[known] == k].mean() for k in range(5)]
    assert -np.mean(by_fold) == pytest.approx(model.best_score_, rel=1e-3)


def test_a_task_of_one_class_does_not_stop_a_search():
    X, y, task = tasks_with([1.0] * 4, m=6)
    classes = (y > 0).astype(int)
    classes[task == 0] = 1
    model = MultiTaskClassifierCV(lams=2, epsilons=[1.0], cv=2)
    model.fit(X, classes, task=task)
    assert model.structure_["fit_intercept"] == "tied"
    assert set(model.cv_results_["param_fit_intercept"]) == {"tied"}
    assert np.isfinite(model.intercept_).all()
    assert model.best_score_ < 0  # log-loss
    assert np.isfinite(model.predict_proba(X, task=task)).all()


def test_scores_of_classifiers_are_log_losses_or_areas():
    X, y, task = tasks_with([1.0] * 4, m=4, n=30)
    settings = {"lams": [0.1], "epsilons": [1.0], "ties": "uniform", "cv": 3}
    classes = (y > 0).astype(int)
    losses = MultiTaskClassifierCV(**settings).fit(X, classes, task=task)
    areas = MultiTaskClassifierCV(**settings, scoring="task_auc")
    areas.fit(X, classes, task=task)
    known = losses.folds_ >= 0
    signs = np.where(classes > 0, 1.0, -1.0)[known]
    loss = np.logaddexp(0.0, -signs * losses.held_out_[known])
    by_fold = [loss[losses.folds_[known] == k].mean() for k in range(3)]
    assert losses.best_score_ == pytest.approx(-np.mean(by_fold), rel=1e-4)
    assert 0.5 < areas.best_score_ <= 1.0


# Units of features.

KINDS = {
    "free": {"fit_intercept": True},
    "tied": {"fit_intercept": "tied"},
    "adaptive": {"fit_intercept": "tied", "ties": "adaptive"},
    "adaptive, free": {"fit_intercept": True, "ties": "adaptive"},
    "weights": {"fit_intercept": "tied", "ties": np.array([1.0, 0.3, 2.0])},
    "nuclear": {"fit_intercept": "tied", "penalty": "nuclear"},
    "relations": {
        "fit_intercept": "tied",
        "feature_prior": FeaturePrior.similar([(0, 1)]),
    },
    "shrunken": {
        "fit_intercept": "tied",
        "ties": "adaptive",
        "feature_prior": FeaturePrior.shrink(),
    },
}
UNITS = np.array([1e-4, 30.0, 2.0]), np.array([5.0, -1e4, 700.0])


@turns(
    2,
    kind=KINDS,
    build=[MultiTaskRegressor, MultiTaskClassifier],
    prior=["mean", "chain"],
)
def test_standardised_fits_do_not_notice_shifts_and_scales(build, kind, prior):
    X, y, task = tasks_with([1.0, 0.5, 0.2, 0.0], m=6)
    if build is MultiTaskClassifier:
        middle = np.array([np.median(y[task == i]) for i in range(6)])
        noise = np.random.default_rng(1).normal(size=len(y))
        y = (y + noise > middle[task]).astype(int)
    settings = {"standardize": True, "tol": 1e-9, "task_prior": prior, **KINDS[kind]}
    scale, shift = UNITS
    model = build(0.3, 1.0, 2.0, **settings).fit(X, y, task=task)
    other = build(0.3, 1.0, 2.0, **settings).fit(scale * X + shift, y, task=task)
    score = "predict" if build is MultiTaskRegressor else "decision_function"
    ours = getattr(model, score)(X, task=task)
    theirs = getattr(other, score)(scale * X + shift, task=task)
    assert np.allclose(ours, theirs, atol=2e-4 * np.std(ours))


def test_a_year_as_feature_is_as_good_as_centred_by_hand():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(10), 12)
    year = np.tile(np.arange(2000.0, 2012.0), 10)[:, np.newaxis]
    slopes, levels = rng.normal(size=10), 5.0 * rng.normal(size=10)
    y = levels[task] + slopes[task] * (year[:, 0] - 2005.5) + rng.normal(size=120)
    settings = {"fit_intercept": "tied", "task_prior": "mean", "standardize": True}
    far = MultiTaskRegressorCV(**settings).fit(year, y, task=task)
    near = MultiTaskRegressorCV(**settings).fit(year - 2005.5, y, task=task)
    assert far.best_score_ == pytest.approx(near.best_score_, rel=1e-5)


def test_literal_ties_far_from_zero_are_warned_of():
    X, y, task = tasks_with([1.0] * 4)
    model = MultiTaskRegressor(fit_intercept="tied", task_prior="mean")
    with pytest.warns(UserWarning, match="'x1' are far from zero"):
        model.fit(X + np.array([0.0, 100.0, 0.0]), y, task=task)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y, task=task)


def test_text_in_frames_becomes_features():
    X, y, task = tasks_with([1.0] * 4)
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    table["colour"] = np.where(np.arange(len(y)) % 3 == 0, "red", "blue")
    table["task"] = task
    model = MultiTaskRegressor(0.1, task="task").fit(table, y)
    assert list(model.feature_names_in_)[3:] == ["colour=blue", "colour=red"]
    wide = np.column_stack([X, table["colour"] == "blue", table["colour"] == "red"])
    plain = MultiTaskRegressor(0.1).fit(wide, y, task=task)
    assert np.allclose(model.predict(table), plain.predict(wide, task=task))
    with pytest.raises(ValueError, match=r"'a' lacks 1 of 144 values.*tabular_model"):
        model.fit(table.assign(a=[np.nan, *table["a"][1:]]), y)
