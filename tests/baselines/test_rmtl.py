"""RMTL: optima, regimes and parts of robust learning."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from compared_tasks import golden_classes, split_tasks
from golden import golden_rows
from naive_twins import naive_robust, naive_trace
from priormtl.baselines.clmt import CLMT
from priormtl.baselines.rmtl import RMTL, RMTLClassifier
from priormtl.data import from_labels
from priormtl.datasets import make_related_tasks
from wrong_checks import list_wrong_checks

EXACT = {"fit_intercept": False, "tol": 1e-12}


@parametrize_with_checks(
    [RMTL(tol=1e-4), RMTLClassifier(tol=1e-3), RMTLClassifier(loss="squared")],
    expected_failed_checks=list_wrong_checks,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_published_optima():
    X, y, task = golden_rows(4, 5)
    model = RMTL(0.7, ratio=1 / 0.7, **EXACT).fit(X, y, task=task)
    assert model.objective_ == pytest.approx(5.0869135960, abs=1e-9)
    X, y, task = golden_classes()
    model = RMTLClassifier(0.7, ratio=1 / 0.7, **EXACT).fit(X, y, task=task)
    assert model.objective_ == pytest.approx(9.6648303462, abs=1e-9)


def test_loops_reach_the_same():
    X, y, task = golden_rows(4, 5)
    model = RMTL(0.7, ratio=1.4, **EXACT).fit(X, y, task=task)
    tasks = split_tasks(X, y, task)
    run = naive_robust(tasks, 0.98, 0.7, lambda _: False, 2000)
    np.testing.assert_allclose(run.total.T, model.coef_, atol=1e-5)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("seed", [0, 2, 3])
def test_a_general_solver_agrees(seed, loss):
    X, y, task = make_related_tasks(4, 6, 9, noise=0.5, random_state=seed)
    y = np.where(y > 0, 1.0, -1.0) if loss == "logistic" else y
    y[[0, 9, 18, 27]], y[[1, 10, 19, 28]] = 1.0, -1.0
    kind = RMTLClassifier if loss == "logistic" else RMTL
    lam, ratio = 0.8, 1.3
    model = kind(lam, ratio=ratio, tol=1e-10).fit(X, y, task=task)
    L, S, b = cp.Variable((6, 4)), cp.Variable((6, 4)), cp.Variable(4)
    fit = 0
    for i in range(4):
        scores = X[task == i] @ (L[:, i] + S[:, i]) + b[i]
        target = y[task == i]
        if loss == "logistic":
            fit += cp.sum(cp.logistic(-cp.multiply(target, scores)))
        else:
            fit += 0.5 * cp.sum_squares(scores - target)
    cost = ratio * cp.normNuc(L) + cp.sum(cp.norm(S, 2, axis=0))
    best = cp.Problem(cp.Minimize(fit + lam * cost)).solve(solver=cp.CLARABEL)
    assert model.objective_ == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("ratio", [0.1, 0.5, 1.0])
def test_small_ratios_are_the_trace_norm(ratio):
    X, y, task = golden_rows(4, 5)
    model = RMTL(0.7 / ratio, ratio=ratio, **EXACT).fit(X, y, task=task)
    # CLMT leaves 2 √(lam · gamma) times the trace norm, gamma being lam.
    trace = CLMT(0.35, penalty="trace", **EXACT).fit(X, y, task=task)
    run = naive_trace(split_tasks(X, y, task), 0.7, lambda _: False, 2000)
    assert model.objective_ == pytest.approx(trace.objective_, rel=1e-10)
    np.testing.assert_allclose(model.coef_, trace.coef_, atol=1e-5)
    np.testing.assert_allclose(model.coef_, run.total.T, atol=1e-4)
    assert not model.outliers_.any()


@pytest.mark.parametrize("ratio", [2.0, 7.0])
def test_large_ratios_leave_nothing_but_outliers(ratio):
    X, y, task = golden_rows(4, 5)
    model = RMTL(0.7, ratio=ratio, **EXACT).fit(X, y, task=task)
    assert not model.low_rank_.any()
    total = 0.0
    for i in range(4):
        w = cp.Variable(5)
        fit = 0.5 * cp.sum_squares(X[task == i] @ w - y[task == i])
        total += cp.Problem(cp.Minimize(fit + 0.7 * cp.norm(w))).solve(
            solver=cp.CLARABEL
        )
    assert model.objective_ == pytest.approx(total, rel=1e-6)


@pytest.mark.parametrize("ratio", [0.999999, 1.000001, 1.999999, 2.000001])
def test_regimes_join(ratio):
    X, y, task = golden_rows(4, 5)
    edge = RMTL(0.7, ratio=round(ratio), **EXACT).fit(X, y, task=task)
    near = RMTL(0.7, ratio=ratio, **EXACT).fit(X, y, task=task)
    assert near.objective_ == pytest.approx(edge.objective_, rel=1e-5)


@pytest.mark.parametrize("ratio", [0.8, 1.4, 9.0])
def test_coefficients_vanish_exactly_from_the_largest_strength_on(ratio):
    X, y, task = golden_rows(4, 5)
    tables, targets = split_tasks(X, y, task)
    Z = np.column_stack([A.T @ b for A, b in zip(tables, targets, strict=True)])

    def largest(ratio):
        return max(np.linalg.norm(Z, axis=0).max(), np.linalg.norm(Z, 2) / ratio)

    above = RMTL(1.0001 * largest(ratio), ratio=ratio, **EXACT).fit(X, y, task=task)
    below = RMTL(0.999 * largest(ratio), ratio=ratio, **EXACT).fit(X, y, task=task)
    assert not above.coef_.any()
    assert below.coef_.any()
    model = RMTL(fit_intercept=False)
    bound = model._bind(from_labels(X, y, task))
    suggested = {s["ratio"]: s["lam"] for s in reversed(model._suggest(bound, 30))}
    assert len(suggested) == 5
    for each, lam in suggested.items():
        assert lam == pytest.approx(largest(each))


def test_a_planted_outlier_is_found():
    rng = np.random.default_rng(0)
    W = rng.standard_normal((10, 2)) @ rng.standard_normal((2, 8))
    W[:, 5] = 4.0 * rng.standard_normal(10)
    task = np.repeat(np.arange(8), 25)
    X = rng.standard_normal((200, 10))
    y = np.sum(X * W.T[task], axis=1) + 0.1 * rng.standard_normal(200)
    model = RMTL(3.0, ratio=1.3).fit(X, y, task=task)
    lengths = np.linalg.norm(model.outliers_, axis=1)
    assert lengths[5] > 5.0
    assert np.delete(lengths, 5).max() < 0.5
    assert np.linalg.matrix_rank(model.low_rank_, tol=1e-3) == 2


def test_parts_add_up_in_the_units_of_the_features():
    X, y, task = make_related_tasks(4, 6, 15, noise=0.5, random_state=0)
    model = RMTL(2.0, standardize=True).fit(X * np.arange(1.0, 7.0), y, task=task)
    np.testing.assert_allclose(
        model.low_rank_ + model.outliers_, model.coef_, atol=1e-12
    )
    assert model.outliers_.shape == (4, 6)
    assert model.dual_gap_ >= 0
