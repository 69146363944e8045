"""summary(level): standard errors against dense formulas, statsmodels and refits."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from statsmodels.regression.mixed_linear_model import MixedLM, MixedLMParams

from priormtl import (
    MultiTaskClassifier,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    load,
    save,
    summarize,
)


def rows(m=20, n=12, d=2, seed=0):
    """Rows of a mixed model with random intercepts and slopes."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(m), n)
    X = rng.normal(size=(m * n, d)) + 2.0
    coef = 0.5 + 0.4 * rng.normal(size=(m, d))
    y = rng.normal(size=m)[task] + np.einsum("ij,ij->i", X, coef[task])
    return X, y + rng.normal(size=m * n), task


def mixed(**settings):
    fixed = {"ties": "adaptive", "fit_intercept": "tied", "task_prior": "mean"}
    return MultiTaskRegressor(0.0, standardize=True, **(fixed | settings))


def dense(model, X, task):
    """Covariance of (shared, tasks) in a mixed model with the model's components."""
    m, d = model.coef_.shape
    A = np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / model.feature_scale_])
    ties = np.concatenate([[model.intercept_strength_], model.tie_weights_])
    Z = np.zeros((len(X), m, d + 1))
    Z[np.arange(len(X)), task] = A
    Z = np.hstack([A, Z.reshape(len(X), -1)])
    # Henderson's equations: fixed effects, then deviations of tasks.
    inverse = np.linalg.inv(
        Z.T @ Z + np.diag(np.concatenate([np.zeros(d + 1), np.tile(ties, m)]))
    )
    return inverse, d + 1


def test_conditional_variances_are_those_of_hendersons_equations():
    X, y, task = rows()
    model = mixed().fit(X, y, task=task)
    summary = model.summary(level=0.95)
    inverse, k = dense(model, X, task)
    scale, noise = model.feature_scale_, summary.noise
    shared = noise * np.sqrt(np.diag(inverse)[1:k]) / scale
    found = {one.name: one for one in summary.features}
    errors = [found[f"x{j}"].error for j in range(2)]
    assert errors == pytest.approx(shared, rel=1e-4)
    for i in (0, 7):
        take = np.zeros((k, len(inverse)))
        take[:, :k] = np.eye(k)
        take[:, k * (i + 1) : k * (i + 2)] = np.eye(k)
        own = noise * np.sqrt(np.diag(take @ inverse @ take.T)[1:]) / scale
        assert summary.coef_error[i] == pytest.approx(own, rel=1e-4)
        apart = np.zeros(len(inverse))
        apart[k::k] = -1.0 / 20
        apart[k * (i + 1)] += 1.0
        effect = noise * np.sqrt(apart @ inverse @ apart)
        assert summary.tasks[i].error == pytest.approx(effect, rel=1e-4)
    one = summary.features[0]
    assert (one.lower, one.upper) == pytest.approx(
        (one.mean - 1.959964 * one.error, one.mean + 1.959964 * one.error)
    )


def test_shared_effects_agree_with_statsmodels():
    X, y, task = rows(m=30)
    model = mixed().fit(X, y, task=task)
    summary = model.summary(level=0.9)
    A = np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / X.std(axis=0)])
    free = MixedLMParams.from_components(np.ones(3), np.eye(3))
    theirs = MixedLM(y, A, groups=task, exog_re=A).fit(reml=True, free=free)
    assert summary.noise**2 == pytest.approx(theirs.scale, rel=1e-3)
    same = task[:, np.newaxis] == task
    V = theirs.scale * np.eye(len(y)) + same * (A @ theirs.cov_re @ A.T)
    gls = sm.GLS(y, A, sigma=V).fit(cov_type="fixed scale")
    found = {one.name: one for one in summary.features}
    for j in range(2):
        one = found[f"x{j}"]
        scaled = one.error * one.scale
        assert scaled == pytest.approx(gls.bse[j + 1], rel=1e-3)
        between = np.sqrt(theirs.cov_re[j + 1, j + 1])
        assert one.between * one.scale == pytest.approx(between, rel=2e-3)


def test_bootstrap_agrees_with_refits_to_new_noise():
    X, y, task = rows(m=8, n=40, d=4, seed=1)
    X[:, 3] = np.random.default_rng(5).normal(size=len(X))
    settings = {"task_prior": "mean", "tol": 1e-9}
    model = MultiTaskRegressor(3.0, 1.0, 5.0, **settings).fit(X, y, task=task)
    summary = model.summary(level=0.9)
    assert summary.errors == "bootstrap"
    fitted = model.predict(X, task=task)
    rng, draws = np.random.default_rng(0), []
    for _ in range(150):
        noisy = fitted + summary.noise * rng.normal(size=len(y))
        again = MultiTaskRegressor(3.0, 1.0, 5.0, **settings)
        draws.append(again.fit(X, noisy, task=task).coef_)
    kept = model.coef_.any(axis=0)
    ratio = summary.coef_error[:, kept] / np.std(draws, axis=0)[:, kept]
    assert abs(ratio.mean() - 1.0) < 0.08


@pytest.mark.parametrize("settings", [{"fit_intercept": True}, {"task_prior": "chain"}])
def test_other_structures_have_errors(settings):
    X, y, task = rows()
    summary = mixed(**settings).fit(X, y, task=task).summary(level=0.95)
    assert np.all(summary.coef_error > 0)
    assert all(one.lower < one.effect < one.upper for one in summary.tasks)
    assert "Tasks at average features" in str(summary)


def test_effects_of_tasks_are_covered():
    rng = np.random.default_rng(0)
    m, n, inside = 40, 6, []
    for _ in range(5):
        task = np.repeat(np.arange(m), n)
        x = rng.normal(size=m * n) + 3.0
        level = rng.normal(size=m)
        y = level[task] + 2.0 * x + rng.normal(size=m * n)
        found = mixed().fit(x[:, np.newaxis], y, task=task).summary(level=0.9)
        truth = level - level.mean()
        inside += [
            one.lower < t < one.upper for one, t in zip(found.tasks, truth, strict=True)
        ]
    assert abs(np.mean(inside) - 0.9) < 0.05


def test_searches_have_errors_and_the_same_objective_again():
    X, y, task = rows()
    model = MultiTaskRegressorCV(lams=(0.0,)).fit(X, y, task=task)
    assert model.summary(level=0.5).level == 0.5
    posed = model._known_model().pose(model.statistics_)
    coef = model.coef_.T * model.feature_scale_[:, np.newaxis]
    assert posed.problem.at(coef).value == pytest.approx(model.objective_, rel=1e-6)


def test_files_keep_standard_errors(tmp_path):
    X, y, task = rows(m=6)
    model = mixed().fit(X, y, task=task)
    save(model, tmp_path / "model")
    ours, theirs = model.summary(level=0.9), load(tmp_path / "model").summary(level=0.9)
    assert theirs.errors == "conditional"
    assert theirs.coef_error == pytest.approx(ours.coef_error, rel=1e-6)
    for one, other in zip(ours.tasks, theirs.tasks, strict=True):
        assert other.lower == pytest.approx(one.lower, rel=1e-5)
    for one, other in zip(ours.features, theirs.features, strict=True):
        assert (other.error, other.between) == pytest.approx((one.error, one.between))


def test_fits_to_rows_have_the_errors_of_fits_to_statistics():
    X, y, task = rows(m=8, n=10, d=12)
    by_rows = mixed().fit(X, y, task=task)
    assert not hasattr(by_rows, "statistics_")
    known = {"ties": by_rows.tie_weights_}
    known["intercept_strength"] = by_rows.intercept_strength_
    ours, theirs = (
        one.summary(level=0.9)
        for one in (by_rows, mixed(**known).fit_statistics(summarize(X, y, task)))
    )
    assert ours.coef_error == pytest.approx(theirs.coef_error, rel=1e-3)
    assert ours.target_variance == pytest.approx(np.var(y))
    for one, other in zip(ours.tasks, theirs.tasks, strict=True):
        assert one.error == pytest.approx(other.error, rel=1e-3)


def test_models_without_statistics_say_what_is_missing():
    X, y, task = rows()
    model = MultiTaskClassifier(penalty="nuclear").fit(
        X, np.arange(len(y)) % 2, task=task
    )
    with pytest.raises(ValueError, match="got a model without standard errors"):
        model.summary(level=0.9)
    model = MultiTaskRegressor(1.0, penalty="nuclear").fit(X, y, task=task)
    with pytest.raises(ValueError, match='needs penalty="l21"'):
        model.summary(level=0.9)
    with pytest.raises(ValueError, match="level must be a number between 0 and 1"):
        model.summary(level=95)


def test_errors_are_found_when_they_are_asked_for():
    X, _, task = rows()
    model = MultiTaskClassifier(1.0).fit(X, (X[:, 0] > 2.0).astype(int), task=task)
    assert "errors" not in vars(model.fitted_)
    copy = pickle.loads(pickle.dumps(model))
    expected = model.fitted_.errors
    for one, other in zip(copy.fitted_.errors[2:], expected[2:], strict=True):
        np.testing.assert_array_equal(one, other)
    assert replace(copy.fitted_, data_name="x").errors is copy.fitted_.errors
