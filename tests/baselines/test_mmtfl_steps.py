"""MMTFL inside: the joint penalty, steps for a given shared part, the alternation."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.linear_model import Lasso, Ridge

from priormtl.baselines.mmtfl import (
    JointPenalty,
    alternate,
    lasso_step,
    ridge_step,
    stationarity,
)
from priormtl.data import from_labels
from priormtl.losses import FreeIntercepts, Logistic, Squared

pytestmark = pytest.mark.slow  # test_methods.py has the laws of all methods

PAIRS = [(2, 2), (1, 1), (1, 2), (2, 1)]
EVERY_PAIR = pytest.mark.parametrize(("p", "k"), PAIRS)
NOT_CONVEX = pytest.mark.parametrize(("p", "k"), PAIRS[1:])
LOSSES = [Squared(), Logistic()]
BOTH_LOSSES = pytest.mark.parametrize("loss", LOSSES, ids=["squared", "logistic"])


def random_rows(loss, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, d))
    task = np.arange(60) % 4
    truth = np.zeros((d, 4))
    truth[:3] = 1.0 + 0.3 * rng.standard_normal((3, 4))
    y = np.sum(X * truth[:, task].T, axis=1) + 0.5 * rng.standard_normal(60) + 0.2
    return X, (np.where(y > 0, 1.0, -1.0) if isinstance(loss, Logistic) else y), task


def random_fit(loss, d=6, seed=0):
    return loss.bind(from_labels(*random_rows(loss, d, seed)), FreeIntercepts())


def run(fit, penalty, tol=1e-10):
    return list(alternate(fit, penalty, tol))


# The penalty


@EVERY_PAIR
def test_penalty_is_what_the_best_shared_part_leaves(p, k):
    W = np.random.default_rng(0).standard_normal((5, 3))
    penalty = JointPenalty(p, k, 0.7)
    for row, value, v in zip(W, penalty.row_values(W), penalty.shared(W), strict=True):
        size = np.sum(np.abs(row) ** p)

        def cost(log_v, size=size):
            return 0.7 * (size / np.exp(p * log_v) + np.exp(k * log_v))

        best = minimize_scalar(cost, bracket=(-1, 1), options={"xtol": 1e-10})
        assert value == pytest.approx(best.fun, rel=1e-10)
        assert v == pytest.approx(np.exp(best.x), rel=1e-6)
    # Without the factor p/k the shared part is best for equal norms only.
    sums = np.sum(np.abs(W) ** p, axis=1)
    v = sums ** (1 / (p + k))
    excess = np.sum(sums / v**p + v**k) - JointPenalty(p, k, 1.0).value(W)
    assert excess == pytest.approx(0.0) if p == k else excess > 0.1


def test_penalties_by_hand():
    W = np.array([[3.0, -4.0], [0.0, 0.0]])
    constant = 0.5 * (2.0 ** (1 / 3) + 2.0 ** (-2 / 3))
    found = [JointPenalty(p, k, 0.5).value(W) for p, k in PAIRS]
    expected = [5.0, 7.0**0.5, constant * 7.0 ** (2 / 3), constant * 5.0 ** (2 / 3)]
    assert found == pytest.approx(expected)
    one = np.array([[4.0], [-0.25], [0.0]])
    assert JointPenalty(1, 1, 1.0).value(one) == pytest.approx(2 * (2.0 + 0.5))


@EVERY_PAIR
def test_majoriser_touches_the_penalty_from_above(p, k):
    rng = np.random.default_rng(1)
    W = rng.standard_normal((5, 3))
    penalty = JointPenalty(p, k, 1.3)
    v = penalty.shared(W)
    gap = penalty.majoriser(W, v) - penalty.value(W)
    for size in (1e-3, 0.1, 1.0, 10.0):
        other = W + size * rng.standard_normal(W.shape)
        assert penalty.majoriser(other, v) - penalty.value(other) >= gap - 1e-12


# Steps


def test_steps_lead_to_ridge_and_lasso_of_each_task():
    """With weights 1 / v per feature, in the units of scikit-learn."""
    X, y, task = random_rows(Squared())
    fit, v, lam = random_fit(Squared()), np.array([1.0, 0.5, 2.0, 1.0, 0.0, 3.0]), 1.5
    ridge = lasso = np.zeros((6, 4))
    for _ in range(100):
        ridge = ridge_step(fit, ridge, fit.evaluate(ridge), v, lam, 0.0)
    lasso = lasso_step(fit, lasso, fit.evaluate(lasso), v, lam, 1e-14)
    for i in range(4):
        Z, target = X[task == i] * v, y[task == i]
        model = Ridge(2.0 * lam).fit(Z, target)
        np.testing.assert_allclose(ridge[:, i], v * model.coef_, atol=1e-8)
        model = Lasso(lam / len(target), tol=1e-12, max_iter=10**5).fit(Z, target)
        np.testing.assert_allclose(lasso[:, i], v * model.coef_, atol=1e-6)


# The alternation


@BOTH_LOSSES
@EVERY_PAIR
def test_no_iteration_raises_the_objective(loss, p, k):
    fit, lam = random_fit(loss), 1.0
    objectives = [state.objective for state in run(fit, JointPenalty(p, k, lam))]
    assert np.all(np.diff(objectives) <= 1e-12 * objectives[0])


@BOTH_LOSSES
@EVERY_PAIR
def test_nothing_near_the_end_is_better(loss, p, k):
    fit, penalty = random_fit(loss), JointPenalty(p, k, 0.5)
    state = run(fit, penalty, tol=1e-11)[-1]
    W = state.coef
    rng = np.random.default_rng(2)
    assert np.any(W)
    for size in (1e-4, 1e-3, 1e-2):
        for _ in range(20):
            other = W + size * rng.standard_normal(W.shape)
            value = fit.evaluate(other).value + penalty.value(other)
            assert value >= state.objective - 1e-10
    assert stationarity(fit, penalty, W) < 1e-6
    assert stationarity(fit, penalty, 2 * W) > 0.1
    assert stationarity(fit, penalty, 0 * W) == 0.0


@NOT_CONVEX
def test_starts_elsewhere_are_seldom_better(p, k):
    fit, penalty = random_fit(Squared(), seed=3), JointPenalty(p, k, 1.0)
    rng = np.random.default_rng(0)
    starts = [rng.exponential(size=6) ** 3 for _ in range(20)]
    ends = [[*alternate(fit, penalty, 1e-8, v)][-1].objective for v in starts]
    from_one = run(fit, penalty, 1e-8)[-1].objective
    assert from_one <= min(ends) * 1.05
    assert from_one < np.median(ends) + 1e-6


@NOT_CONVEX
def test_rows_that_are_zero_stay_zero(p, k):
    fit, penalty = random_fit(Squared()), JointPenalty(p, k, 0.1)
    v = np.array([0.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    end = [*alternate(fit, penalty, 1e-8, v)][-1]
    assert not end.coef[0].any()
    assert end.objective > run(fit, penalty)[-1].objective + 1.0


def test_zero_stays_where_there_is_nothing_to_learn():
    data = from_labels(np.eye(6, 3), np.full(6, 2.0), np.arange(6) % 2)
    fit = Squared().bind(data, FreeIntercepts())
    for p, k in PAIRS:
        (state,) = run(fit, JointPenalty(p, k, 1.0))
        assert state.converged
        assert not state.coef.any()
