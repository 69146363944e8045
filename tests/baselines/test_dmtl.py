"""DMTL: optima, regimes and parts of the dirty model."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.linear_model import Lasso
from sklearn.utils.estimator_checks import parametrize_with_checks

from compared_tasks import golden_classes, split_tasks
from golden import golden_rows
from naive_twins import naive_dirty
from priormtl.baselines.dmtl import DMTL, DMTLClassifier
from priormtl.data import from_labels
from priormtl.datasets import make_related_tasks
from wrong_checks import list_wrong_checks

EXACT = {"fit_intercept": False, "tol": 1e-12}


@parametrize_with_checks(
    [DMTL(tol=1e-4), DMTLClassifier(tol=1e-3), DMTLClassifier(loss="squared")],
    expected_failed_checks=list_wrong_checks,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("shared", "squared", "logistic"),
    [(0.6, 2.8813421674, 6.0784552475), (0.51, 2.4919083499, 5.5483535514)],
)
def test_published_optima(shared, squared, logistic):
    X, y, task = golden_rows(4, 5)
    model = DMTL(0.3, ratio=shared / 0.3, **EXACT).fit(X, y, task=task)
    assert model.objective_ == pytest.approx(squared, abs=1e-9)
    X, y, task = golden_classes()
    model = DMTLClassifier(0.3, ratio=shared / 0.3, **EXACT).fit(X, y, task=task)
    assert model.objective_ == pytest.approx(logistic, abs=1e-9)


@pytest.mark.parametrize("ratio", [0.7, 1.0, 1.7, 3.0, 4.0, 6.0])
def test_two_blocks_reach_the_same(ratio):
    X, y, task = golden_rows(4, 5)
    model = DMTL(0.3, ratio=ratio, **EXACT).fit(X, y, task=task)
    run = naive_dirty(split_tasks(X, y, task), 0.3, 0.3 * ratio, lambda _: False, 4000)
    S, B = run.blocks
    misfit = np.sum(X * run.total.T[task], axis=1) - y
    cost = np.abs(S).sum() + ratio * np.abs(B).max(axis=1).sum()
    value = 0.5 * misfit @ misfit + 0.3 * cost
    assert value == pytest.approx(model.objective_, rel=1e-8)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("seed", range(3))
def test_a_general_solver_agrees(seed, loss):
    X, y, task = make_related_tasks(4, 6, 9, noise=0.5, random_state=seed)
    y = np.where(y > 0, 1.0, -1.0) if loss == "logistic" else y
    y[[0, 9, 18, 27]], y[[1, 10, 19, 28]] = 1.0, -1.0
    kind = DMTLClassifier if loss == "logistic" else DMTL
    lam, ratio = 0.8, 1.8
    model = kind(lam, ratio=ratio, tol=1e-10).fit(X, y, task=task)
    S, B, b = cp.Variable((6, 4)), cp.Variable((6, 4)), cp.Variable(4)
    fit = 0
    for i in range(4):
        scores = X[task == i] @ (S[:, i] + B[:, i]) + b[i]
        target = y[task == i]
        if loss == "logistic":
            fit += cp.sum(cp.logistic(-cp.multiply(target, scores)))
        else:
            fit += 0.5 * cp.sum_squares(scores - target)
    cost = cp.sum(cp.abs(S)) + ratio * cp.sum(cp.max(cp.abs(B), axis=1))
    best = cp.Problem(cp.Minimize(fit + lam * cost)).solve(solver=cp.CLARABEL)
    assert model.objective_ == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("ratio", [4.0, 11.0])
def test_large_ratios_are_a_lasso_for_each_task(ratio):
    X, y, task = make_related_tasks(4, 6, 15, noise=0.5, random_state=0)
    model = DMTL(3.0, ratio=ratio, tol=1e-13).fit(X, y, task=task)
    for i in range(4):
        rows = task == i
        lasso = Lasso(3.0 / rows.sum(), tol=1e-12, max_iter=100_000)
        lasso.fit(X[rows], y[rows])
        np.testing.assert_allclose(model.coef_[i], lasso.coef_, atol=1e-6)
        assert model.intercept_[i] == pytest.approx(lasso.intercept_, abs=1e-6)
    assert not model.shared_.any()


def test_a_ratio_of_one_shares_everything():
    X, y, task = golden_rows(4, 5)
    model = DMTL(0.5, ratio=1.0, **EXACT).fit(X, y, task=task)
    assert not model.own_.any()
    W = cp.Variable((5, 4))
    fit = sum(
        0.5 * cp.sum_squares(X[task == i] @ W[:, i] - y[task == i]) for i in range(4)
    )
    cost = 0.5 * cp.sum(cp.max(cp.abs(W), axis=1))
    best = cp.Problem(cp.Minimize(fit + cost)).solve(solver=cp.CLARABEL)
    assert model.objective_ == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("ratio", [0.8, 2.0, 9.0])
def test_coefficients_vanish_exactly_from_the_largest_strength_on(ratio):
    X, y, task = golden_rows(4, 5)
    tables, targets = split_tasks(X, y, task)
    Z = np.column_stack([A.T @ b for A, b in zip(tables, targets, strict=True)])
    largest = max(np.abs(Z).max(), np.abs(Z).sum(axis=1).max() / ratio)
    above = DMTL(1.0001 * largest, ratio=ratio, **EXACT).fit(X, y, task=task)
    below = DMTL(0.999 * largest, ratio=ratio, **EXACT).fit(X, y, task=task)
    assert not above.coef_.any()
    assert below.coef_.any()
    model = DMTL(fit_intercept=False)
    bound = model._bind(from_labels(X, y, task))
    suggested = {s["ratio"]: s["lam"] for s in reversed(model._suggest(bound, 30))}
    sums = np.abs(Z).sum(axis=1).max()
    assert len(suggested) == 5
    for each, lam in suggested.items():
        assert lam == pytest.approx(max(np.abs(Z).max(), sums / each))


def test_parts_add_up_in_the_units_of_the_features():
    X, y, task = make_related_tasks(4, 6, 15, noise=0.5, random_state=0)
    model = DMTL(2.0, standardize=True).fit(X * np.arange(1.0, 7.0), y, task=task)
    np.testing.assert_allclose(model.shared_ + model.own_, model.coef_, atol=1e-12)
    assert model.shared_.shape == (4, 6)
    assert model.dual_gap_ >= 0


def test_shared_rows_and_single_entries_are_told_apart():
    rng = np.random.default_rng(0)
    W = np.zeros((6, 8))
    W[0], W[1, 2] = rng.choice([-2.0, 2.0], 8), 3.0
    task = np.repeat(np.arange(8), 30)
    X = rng.standard_normal((240, 6))
    y = np.sum(X * W.T[task], axis=1) + 0.1 * rng.standard_normal(240)
    model = DMTL(3.0, ratio=3.0).fit(X, y, task=task)
    assert np.all(np.abs(model.shared_[:, 0]) > 1.0)
    assert np.abs(model.own_[2, 1]) > 2.0
    assert np.abs(np.delete(model.own_, 1, axis=1)).max() < 0.5
    assert np.abs(model.shared_[:, 1:]).max() < 0.2
