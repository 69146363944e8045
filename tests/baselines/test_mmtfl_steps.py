"""MMTFL inside: the joint penalty, ridge and lasso steps, and the alternation."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array
from sklearn.linear_model import Lasso

from priormtl.baselines.mmtfl import (
    JointPenalty,
    alternate,
    initial_state,
    stationarity,
)
from priormtl.baselines.mmtfl.steps import (
    LassoStep,
    RidgeStep,
    Samples,
    Subproblem,
    as_own_rows,
    lasso_form,
    ridge_step,
)
from priormtl.data import from_columns, from_labels
from priormtl.losses import FreeIntercepts, Logistic, NoIntercepts, Squared

PAIRS = [(2, 2), (1, 1), (1, 2), (2, 1)]
EVERY_PAIR = pytest.mark.parametrize(("p", "k"), PAIRS)
NOT_CONVEX = pytest.mark.parametrize(("p", "k"), PAIRS[1:])
LOSSES = [Squared(), Logistic()]
BOTH_LOSSES = pytest.mark.parametrize("loss", LOSSES, ids=["squared", "logistic"])
STEPS = {1: [LassoStep], 2: [ridge_step, lambda fit: RidgeStep(fit, "cg")]}


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
    return list(alternate(initial_state(make(fit)), penalty, tol))


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


# Ridge steps


def stacked(n=40, d=5):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) + 1.0
    weight = rng.integers(1, 3, n).astype(float)
    return from_labels(X, rng.standard_normal(n), np.arange(n) % 3, weight)


def shared(n=20, d=5):
    rng = np.random.default_rng(1)
    return from_columns(rng.standard_normal((n, d)), rng.standard_normal((n, 3)))


def subproblem(fit, v, lam=0.3, seed=0):
    W = np.random.default_rng(seed).standard_normal(fit.shape) * (v > 0)[:, np.newaxis]
    return Subproblem(W, fit.evaluate(W), v, lam, 0.0)


def repeat(step, problem, times):
    for _ in range(times):
        W = step.improve(problem)
        problem = problem._replace(coef=W, point=step.fit.evaluate(W))
    return problem


V = np.array([0.5, 1.0, 0.0, 2.0, 1e-3])
WAYS = [
    *product(("gram", "cg"), (stacked(), shared())),
    *product(("gram", "samples", "cg"), (stacked(9), shared(4))),
]


@pytest.mark.parametrize(("method", "data"), WAYS)
@pytest.mark.parametrize("intercepts", [FreeIntercepts(), NoIntercepts()])
def test_ridge_steps_end_where_the_slope_vanishes(method, data, intercepts):
    fit = Squared().bind(data, intercepts)
    step = RidgeStep(fit, method)
    W = repeat(step, subproblem(fit, V), 1 if method != "cg" else 30).coef
    assert not W[V == 0].any()
    slope = fit.evaluate(W).gradient + 2 * 0.3 * W / np.maximum(V, 1e-9)[:, None] ** 2
    np.testing.assert_allclose((V[:, None] * slope)[V > 0], 0.0, atol=1e-7)


@pytest.mark.parametrize("method", ["gram", "cg"])
def test_newton_steps_of_other_losses_use_their_curvature(method):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 5)), np.arange(60) % 3
    y = np.sign(X[:, 0] + rng.standard_normal(60))
    fit = Logistic().bind(from_labels(X, y, task), FreeIntercepts())
    end = repeat(RidgeStep(fit, method), subproblem(fit, V + 0.1, lam=1.0), 8)
    slope = end.point.gradient + 2 * end.coef / (V + 0.1)[:, np.newaxis] ** 2
    np.testing.assert_allclose(slope, 0.0, atol=1e-3)


def test_the_method_follows_the_sizes():
    def method(data):
        return ridge_step(Squared().bind(data, FreeIntercepts())).method

    assert method(stacked()) == "gram"
    assert method(stacked(9, 300)) == "samples"
    assert method(shared(10, 3000)) == "samples"
    wide = csr_array(np.eye(30, 6000))
    assert method(from_labels(wide, np.ones(30), np.arange(30) % 3)) == "cg"


@pytest.mark.parametrize("method", ["gram", "cg"])
def test_restricted_steps_are_steps_of_restricted_fits(method):
    fit = Squared().bind(stacked(), FreeIntercepts())
    kept = np.array([0, 3])
    v = np.where(np.isin(np.arange(5), kept), 1.0, 0.0)
    problem = subproblem(fit, v)
    coef = problem.coef[kept]
    part = problem._replace(
        coef=coef, point=fit.restrict(kept).evaluate(coef), shared=v[kept]
    )
    few = RidgeStep(fit, method).restrict(kept).improve(part)
    whole = RidgeStep(fit, "gram").improve(problem)[kept]
    np.testing.assert_allclose(few, whole, atol=1e-6)


def test_tiny_strengths_leave_systems_regular():
    fit = Squared().bind(stacked(6), FreeIntercepts())
    W = RidgeStep(fit, "gram").improve(subproblem(fit, np.ones(5), lam=1e-300))
    assert np.all(np.isfinite(W))


# Lasso steps

WEIGHTS = np.array([0.5, 1.0, 0.0, 2.0, 0.1] + [1.0] * 25)
LAM = 0.4


def lasso(fit, v, lam):
    W = np.zeros(fit.shape)
    start = Subproblem(W, fit.evaluate(W), v, lam, 1e-16)
    return repeat(LassoStep(fit), start, 50).coef


def lasso_rows(n, d):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) + 0.5
    return X, X[:, 0] + rng.standard_normal(n), np.arange(n) % 3


@pytest.mark.parametrize("shape", [(60, 5), (15, 30)], ids=["grams", "samples"])
@pytest.mark.parametrize("intercept", [True, False])
def test_steps_lead_to_the_lasso_of_each_task(shape, intercept):
    X, y, task = lasso_rows(*shape)
    v = WEIGHTS[: shape[1]]
    kind = FreeIntercepts() if intercept else NoIntercepts()
    fit = Squared().bind(from_labels(X, y, task), kind)
    layout = np.ndarray if shape == (60, 5) else Samples
    assert isinstance(lasso_form(fit), layout)
    W = lasso(fit, v, LAM)
    for i in range(3):
        rows = task == i
        peer = Lasso(LAM / rows.sum(), fit_intercept=intercept, tol=1e-12)
        peer.max_iter = 100_000
        peer.fit(X[rows][:, v > 0] * v[v > 0], y[rows])
        np.testing.assert_allclose(W[v > 0, i], v[v > 0] * peer.coef_, atol=1e-6)
    assert not W[v == 0].any()


@pytest.mark.parametrize("shape", [(20, 5), (6, 30)], ids=["grams", "samples"])
def test_shared_rows_are_rows_of_every_task(shape):
    rng = np.random.default_rng(1)
    X, Y = rng.standard_normal(shape), rng.standard_normal((shape[0], 3))
    data, v = from_columns(X, Y), WEIGHTS[: shape[1]]
    together, apart = (
        lasso(Squared().bind(rows, FreeIntercepts()), v, LAM)
        for rows in (data, as_own_rows(data))
    )
    np.testing.assert_allclose(together, apart, atol=1e-8)


def test_constant_columns_stay_at_zero():
    X, y, task = lasso_rows(30, 5)
    X[:, 1], X[task == 0, 2] = 3.0, 0.0
    fit = Squared().bind(from_labels(X, y, task), FreeIntercepts())
    W = lasso(fit, np.ones(5), 0.1)
    assert not W[1].any()
    assert W[2, 0] == 0.0
    assert np.all(np.isfinite(W))


def test_own_rows_keep_samples_and_weights():
    X = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 1.0]])
    Y = np.array([[1.0, np.nan], [2.0, 5.0], [3.0, 6.0]])
    own = as_own_rows(from_columns(csr_array(X), Y, np.array([1.0, 2.0, 3.0])))
    np.testing.assert_array_equal(own.X, X[[0, 1, 2, 1, 2]])
    np.testing.assert_array_equal(own.y, [1, 2, 3, 5, 6])
    np.testing.assert_array_equal(own.weight, [1, 2, 3, 2, 3])
    again = as_own_rows(from_labels(csr_array(X), np.ones(3), [0, 0, 1]))
    np.testing.assert_array_equal(again.X, X)


# The alternation


@BOTH_LOSSES
@EVERY_PAIR
@pytest.mark.parametrize("lam", [0.05, 1.0, 5.0])
def test_no_iteration_raises_the_objective(loss, p, k, lam):
    fit = random_fit(loss)
    for make in STEPS[p]:
        states = run(fit, JointPenalty(p, k, lam), make)
        objectives = [state.objective for state in states]
        assert np.all(np.diff(objectives) <= 1e-12 * objectives[0])


@BOTH_LOSSES
@EVERY_PAIR
def test_nothing_near_the_end_is_better(loss, p, k):
    fit, penalty = random_fit(loss), JointPenalty(p, k, 0.5)
    state = run(fit, penalty, tol=1e-13)[-1]
    W = state.full_coef(6)
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


@EVERY_PAIR
def test_rows_that_are_dropped_change_nothing(p, k):
    fit = random_fit(Squared(), d=40)
    penalty = JointPenalty(p, k, 3.0)
    state = run(fit, penalty)[-1]
    assert len(state.features) < 30
    W = state.full_coef(40)
    objective = fit.evaluate(W).value + penalty.value(W)
    assert state.objective == pytest.approx(objective, rel=1e-10)


@NOT_CONVEX
def test_starts_elsewhere_are_seldom_better(p, k):
    fit, penalty = random_fit(Squared(), seed=3), JointPenalty(p, k, 1.0)
    rng = np.random.default_rng(0)
    start = initial_state(STEPS[p][0](fit))
    others = [replace(start, shared=rng.exponential(size=6) ** 3) for _ in range(20)]
    ends = [[*alternate(state, penalty, 1e-8)][-1].objective for state in others]
    from_one = [*alternate(start, penalty, 1e-8)][-1].objective
    assert from_one <= min(ends) * 1.05
    assert from_one < np.median(ends) + 1e-6


@NOT_CONVEX
def test_rows_that_are_zero_stay_zero(p, k):
    fit, penalty = random_fit(Squared()), JointPenalty(p, k, 0.1)
    start = initial_state(STEPS[p][0](fit))
    v = np.array([0.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    end = [*alternate(replace(start, shared=v), penalty, 1e-8)][-1]
    assert not end.full_coef(6)[0].any()
    assert end.objective > run(fit, penalty)[-1].objective + 1.0


def test_all_methods_of_ridge_steps_agree():
    fit, penalty = random_fit(Squared()), JointPenalty(2, 1, 1.0)
    ends = [run(fit, penalty, make, tol=1e-13)[-1] for make in STEPS[2]]
    assert ends[0].objective == pytest.approx(ends[1].objective, rel=1e-8)


def test_zero_stays_where_there_is_nothing_to_learn():
    data = from_labels(np.eye(6, 3), np.full(6, 2.0), np.arange(6) % 2)
    fit = Squared().bind(data, FreeIntercepts())
    for p, k in PAIRS:
        (state,) = run(fit, JointPenalty(p, k, 1.0))
        assert state.converged
        assert not state.coef.any()
