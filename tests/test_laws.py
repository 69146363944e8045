"""Laws of the model as a user sees it, on drawn data."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import Lasso

from priormtl import (
    FeaturePrior,
    MultiTaskClassifier,
    MultiTaskRegressor,
    load,
    save,
    summarize,
)

LAW = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
PRIOR = FeaturePrior.similar([(0, 1)]) + FeaturePrior.opposite([(1, 2)], weight=0.5)


@st.composite
def tables(draw, classes=False):
    """X, y, task of drawn sizes: few rows, repeated values, constant columns."""
    m = draw(st.integers(1, 4))
    d = draw(st.integers(3, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    counts = rng.integers(2, 9, m)
    task = np.repeat(np.arange(m), counts)
    X = np.round(rng.standard_normal((len(task), d)), draw(st.integers(0, 6)))
    if draw(st.booleans()):
        X[:, rng.integers(d)] = 1.0
    y = np.round(rng.standard_normal(len(task)) * 3, 3)
    if classes:
        y = np.where(y > np.median(y), 1.0, -1.0)
        y[np.cumsum(counts) - 1] = 1.0
        y[np.cumsum(counts) - 2] = -1.0
    return X, y, task


@st.composite
def models(draw, **fixed):
    """Regressors of drawn strengths and kinds, solved closely."""
    strength = st.floats(0.01, 20.0)
    drawn = {
        "lam": draw(strength),
        "theta": draw(strength),
        "epsilon": draw(strength),
        "task_prior": draw(st.sampled_from(["chain", "mean", None])),
        "fit_intercept": draw(st.booleans()),
        "penalty": draw(st.sampled_from(["l21", "nuclear"])),
        "feature_prior": PRIOR,
        "tol": 1e-11,
        "max_iter": 200_000,
    }
    return MultiTaskRegressor(**(drawn | fixed))


def close(model, other, unit):
    """Objectives agree within both gaps, and coefficients where these are unique."""
    room = model.dual_gap_ + other.dual_gap_ + 1e-9 * (1.0 + unit)
    return abs(model.objective_ - other.objective_) <= room


def fit(model, X, y, task, **kw):
    return clone(model).fit(X, y, task=task, **kw)


@LAW
@given(tables(), models())
def test_order_of_rows_does_not_matter(table, model):
    X, y, task = table
    order = np.random.default_rng(0).permutation(len(y))
    a, b = fit(model, X, y, task), fit(model, X[order], y[order], task[order])
    assert close(a, b, y @ y)


@LAW
@given(tables(), models(task_prior="mean"))
def test_names_of_tasks_do_not_matter_without_order(table, model):
    X, y, task = table
    m = task.max() + 1
    renamed = (m - task) * 7
    a, b = fit(model, X, y, task), fit(model, X, y, renamed)
    assert close(a, b, y @ y)
    assert a.predict(X, task=task) == pytest.approx(
        b.predict(X, task=renamed), abs=1e-3 * (1 + np.abs(y).max())
    )


@LAW
@given(tables(), models())
def test_order_of_features_does_not_matter(table, model):
    X, y, task = table
    d = X.shape[1]
    moved = np.roll(np.arange(d), 1)  # column j goes to moved.index(j)
    place = np.argsort(moved)
    prior = FeaturePrior.similar([(int(place[0]), int(place[1]))])
    prior += FeaturePrior.opposite([(int(place[1]), int(place[2]))], weight=0.5)
    a = fit(model, X, y, task)
    b = fit(clone(model).set_params(feature_prior=prior), X[:, moved], y, task)
    assert close(a, b, y @ y)


@LAW
@given(tables(), models(), st.floats(1e-3, 1e3))
def test_scaling_targets_and_lam_scales_coefficients(table, model, factor):
    X, y, task = table
    a = fit(model, X, y, task)
    scaled = clone(model).set_params(lam=model.lam * factor)
    b = fit(scaled, X, factor * y, task)
    unit = factor**2
    assert b.objective_ == pytest.approx(
        unit * a.objective_, abs=unit * (a.dual_gap_ + 1e-9 * (1 + y @ y)) + b.dual_gap_
    )


@LAW
@given(tables(), models())
def test_a_row_twice_is_weight_two(table, model):
    X, y, task = table
    weight = np.ones(len(y))
    weight[::2] = 2.0
    rows = np.r_[np.arange(len(y)), np.arange(0, len(y), 2)]
    a = fit(model, X, y, task, sample_weight=weight)
    b = fit(model, X[rows], y[rows], task[rows])
    assert close(a, b, y @ y)


@LAW
@given(tables(), models())
def test_weight_zero_is_absence(table, model):
    X, y, task = table
    weight = np.ones(len(y))
    weight[np.flatnonzero(np.diff(task, prepend=-1))] = 0.0
    a = fit(model, X, y, task, sample_weight=weight)
    kept = weight > 0
    assert close(a, fit(model, X[kept], y[kept], task[kept]), y @ y)


@LAW
@given(tables(), models(), st.integers(0, 2**32 - 1))
def test_statistics_of_any_split_give_the_same_coefficients(table, model, seed):
    X, y, task = table
    part = np.random.default_rng(seed).integers(0, 3, len(y))
    pieces = [
        summarize(X[part == k], y[part == k], task[part == k])
        for k in range(3)
        if np.any(part == k)
    ]
    total = pieces[0]
    for piece in pieces[1:]:
        total = total + piece
    whole = clone(model).fit_statistics(summarize(X, y, task))
    merged = clone(model).fit_statistics(total)
    assert merged.coef_ == pytest.approx(whole.coef_, abs=1e-9 * (1 + np.abs(y).max()))


@LAW
@given(tables(), models())
def test_zero_at_lam_max_and_not_just_below(table, model):
    X, y, task = table
    setup = clone(model)
    setup.fit(X, y, task=task)  # resolves names; the problem itself follows
    problem = setup._model().pose(summarize(X, y, task)).problem
    lam_max = problem.lam_max
    above = fit(clone(model).set_params(lam=lam_max * (1 + 1e-9)), X, y, task)
    assert not above.coef_.any()
    if lam_max > 1e-9:
        below = fit(clone(model).set_params(lam=0.99 * lam_max), X, y, task)
        assert below.coef_.any()


@LAW
@given(tables(), models())
def test_theta_zero_is_no_prior(table, model):
    X, y, task = table
    a = fit(clone(model).set_params(theta=0.0), X, y, task)
    b = fit(clone(model).set_params(feature_prior=None), X, y, task)
    assert np.array_equal(a.coef_, b.coef_)


@LAW
@given(tables(), models(penalty="l21", theta=0.0, fit_intercept=True))
def test_one_task_is_the_lasso(table, model):
    X, y, _ = table
    a = clone(model).fit(X, y)
    b = Lasso(alpha=model.lam / len(y), tol=1e-12, max_iter=10**6).fit(X, y)
    residual = y - b.predict(X)
    lasso = 0.5 * residual @ residual + model.lam * np.abs(b.coef_).sum()
    assert a.objective_ == pytest.approx(lasso, rel=1e-6, abs=1e-8)


@LAW
@given(tables(), models(), st.floats(0.1, 10.0))
def test_warm_start_ends_where_cold_start_does(table, model, factor):
    X, y, task = table
    warm = clone(model).set_params(warm_start=True).fit(X, y, task=task)
    warm.set_params(lam=factor * model.lam).fit(X, y, task=task)
    cold = fit(clone(model).set_params(lam=factor * model.lam), X, y, task)
    assert close(warm, cold, y @ y)


@LAW
@given(tables(), models())
def test_no_other_coefficients_beat_the_certificate(table, model):
    X, y, task = table
    a = fit(model, X, y, task)
    problem = a._model().pose(summarize(X, y, task)).problem
    rng = np.random.default_rng(0)
    for scale in (1e-6, 1e-3, 1.0):
        P = a.coef_.T + scale * rng.standard_normal(a.coef_.T.shape)
        value = problem.objective(problem.at(P))
        assert value >= a.objective_ - a.dual_gap_ - 1e-9 * (1 + y @ y)


@LAW
@given(tables(classes=True), models(), st.sampled_from(["logistic", "squared"]))
def test_swapping_classes_flips_scores(table, model, loss):
    X, y, task = table
    known = MultiTaskClassifier().get_params()
    settings_ = {k: v for k, v in model.get_params().items() if k in known}
    settings_ |= {"loss": loss, "tol": 1e-9}
    a = MultiTaskClassifier(**settings_).fit(X, y, task=task)
    b = MultiTaskClassifier(**settings_).fit(X, -y, task=task)
    assert close(a, b, y @ y)
    assert a.decision_function(X, task=task) == pytest.approx(
        -b.decision_function(X, task=task), abs=1e-2
    )


@LAW
@given(table=tables(), model=models())
def test_saving_changes_no_bit(table, model, tmp_path):
    X, y, task = table
    fitted = fit(model, X, y, task)
    save(fitted, tmp_path / "model")
    loaded = load(tmp_path / "model")
    a, b = fitted.predict(X, task=task), loaded.predict(X, task=task)
    assert np.array_equal(a, b)
