from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from priormtl.baselines.multiplicative.alternation import (
    JointPenalty,
    alternate,
    begin,
    stationarity,
)
from priormtl.baselines.multiplicative.row_lasso import LassoStep
from priormtl.baselines.multiplicative.row_ridge import ProductRidge, ridge_step
from priormtl.data import from_labels
from priormtl.losses import FreeIntercepts, Logistic, Squared

PAIRS = [(2, 2), (1, 1), (1, 2), (2, 1)]
STEPS = {1: [LassoStep], 2: [ridge_step, ProductRidge]}


def random_fit(loss, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, d))
    task = np.arange(60) % 4
    truth = np.zeros((d, 4))
    truth[:3] = 1.0 + 0.3 * rng.standard_normal((3, 4))
    y = np.sum(X * truth[:, task].T, axis=1) + 0.5 * rng.standard_normal(60) + 0.2
    if isinstance(loss, Logistic):
        y = np.where(y > 0, 1.0, -1.0)
    return loss.bind(from_labels(X, y, task), FreeIntercepts())


def run(fit, penalty, make=None, tol=1e-10):
    make = make or STEPS[penalty.p][0]
    start = begin(make(fit), fit.evaluate(np.zeros(fit.shape)))
    return list(alternate(start, penalty, tol))


@pytest.mark.parametrize(("p", "k"), PAIRS)
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


@pytest.mark.parametrize(("p", "k"), PAIRS)
def test_shared_part_without_its_factor_is_best_for_equal_norms_only(p, k):
    W = np.random.default_rng(0).standard_normal((6, 4))
    sums = np.sum(np.abs(W) ** p, axis=1)
    v = sums ** (1 / (p + k))
    excess = np.sum(sums / v**p + v**k) - JointPenalty(p, k, 1.0).value(W)
    assert excess == pytest.approx(0.0) if p == k else excess > 0.1


def test_penalties_by_hand():
    W = np.array([[3.0, -4.0], [0.0, 0.0]])
    constant = 2.0 ** (1 / 3) + 2.0 ** (-2 / 3)
    assert constant == pytest.approx(1.8899, abs=1e-4)
    assert JointPenalty(2, 2, 0.5).value(W) == pytest.approx(5.0)
    assert JointPenalty(1, 1, 0.5).value(W) == pytest.approx(np.sqrt(7.0))
    assert JointPenalty(1, 2, 0.5).value(W) == pytest.approx(
        0.5 * constant * 7.0 ** (2 / 3)
    )
    assert JointPenalty(2, 1, 0.5).value(W) == pytest.approx(
        0.5 * constant * 5.0 ** (2 / 3)
    )


def test_penalty_of_one_task_is_the_root_of_its_coefficients():
    W = np.array([[4.0], [-0.25], [0.0]])
    assert JointPenalty(1, 1, 1.0).value(W) == pytest.approx(2 * (2.0 + 0.5))


@pytest.mark.parametrize(("p", "k"), PAIRS)
def test_tangent_touches_the_penalty_from_above(p, k):
    rng = np.random.default_rng(1)
    W = rng.standard_normal((5, 3))
    penalty = JointPenalty(p, k, 1.3)
    v = penalty.shared(W)
    gap = penalty.tangent(W, v) - penalty.value(W)
    for size in (1e-3, 0.1, 1.0, 10.0):
        other = W + size * rng.standard_normal(W.shape)
        assert penalty.tangent(other, v) - penalty.value(other) >= gap - 1e-12


@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=["squared", "logistic"])
@pytest.mark.parametrize(("p", "k"), PAIRS)
@pytest.mark.parametrize("lam", [0.05, 1.0, 5.0])
def test_no_turn_raises_the_objective(loss, p, k, lam):
    fit = random_fit(loss)
    for make in STEPS[p]:
        objectives = [
            state.objective for state in run(fit, JointPenalty(p, k, lam), make)
        ]
        assert np.all(np.diff(objectives) <= 1e-12 * objectives[0])


@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=["squared", "logistic"])
@pytest.mark.parametrize(("p", "k"), PAIRS)
def test_nothing_near_the_end_is_better(loss, p, k):
    fit, penalty = random_fit(loss), JointPenalty(p, k, 0.5)
    state = run(fit, penalty, tol=1e-13)[-1]
    W = state.whole(6)
    rng = np.random.default_rng(2)
    assert np.any(W)
    for size in (1e-4, 1e-3, 1e-2):
        for _ in range(20):
            other = W + size * rng.standard_normal(W.shape)
            value = fit.evaluate(other).value + penalty.value(other)
            assert value >= state.objective - 1e-10
    assert stationarity(fit, penalty, W, fit.evaluate(W)) < 1e-6


@pytest.mark.parametrize(("p", "k"), PAIRS)
def test_rows_that_are_left_out_change_nothing(p, k):
    fit = random_fit(Squared(), d=40)
    penalty = JointPenalty(p, k, 3.0)
    state = run(fit, penalty)[-1]
    assert len(state.features) < 30
    W = state.whole(40)
    objective = fit.evaluate(W).value + penalty.value(W)
    assert state.objective == pytest.approx(objective, rel=1e-10)


@pytest.mark.parametrize(("p", "k"), [(1, 1), (1, 2), (2, 1)])
def test_starts_elsewhere_are_seldom_better(p, k):
    fit, penalty = random_fit(Squared(), seed=3), JointPenalty(p, k, 1.0)
    rng = np.random.default_rng(0)
    start = begin(STEPS[p][0](fit), fit.evaluate(np.zeros(fit.shape)))
    others = [replace(start, shared=rng.exponential(size=6) ** 3) for _ in range(20)]
    ends = [[*alternate(state, penalty, 1e-8)][-1].objective for state in others]
    from_one = [*alternate(start, penalty, 1e-8)][-1].objective
    assert from_one <= min(ends) * 1.05
    assert from_one < np.median(ends) + 1e-6


@pytest.mark.parametrize(("p", "k"), [(1, 1), (1, 2), (2, 1)])
def test_rows_that_are_zero_stay_zero(p, k):
    fit, penalty = random_fit(Squared()), JointPenalty(p, k, 0.1)
    start = begin(STEPS[p][0](fit), fit.evaluate(np.zeros(fit.shape)))
    v = np.array([0.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    end = [*alternate(replace(start, shared=v), penalty, 1e-8)][-1]
    assert not end.whole(6)[0].any()
    assert end.objective > run(fit, penalty)[-1].objective + 1.0


def test_all_ways_to_step_agree():
    fit, penalty = random_fit(Squared()), JointPenalty(2, 1, 1.0)
    ends = [run(fit, penalty, make, tol=1e-13)[-1] for make in STEPS[2]]
    assert ends[0].objective == pytest.approx(ends[1].objective, rel=1e-8)


def test_zero_stays_where_there_is_nothing_to_learn():
    data = from_labels(np.eye(6, 3), np.full(6, 2.0), np.arange(6) % 2)
    fit = Squared().bind(data, FreeIntercepts())
    for p, k in PAIRS:
        (state,) = run(fit, JointPenalty(p, k, 1.0))
        assert state.settled
        assert not state.coef.any()


def test_stationarity_has_no_unit():
    fit, penalty = random_fit(Squared()), JointPenalty(2, 1, 1.0)
    zero = np.zeros(fit.shape)
    assert stationarity(fit, penalty, zero, fit.evaluate(zero)) == 0.0
    W = run(fit, penalty)[-1].whole(6)
    assert stationarity(fit, penalty, 2 * W, fit.evaluate(2 * W)) > 0.1
