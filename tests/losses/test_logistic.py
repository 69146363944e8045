import numpy as np
import pytest
from scipy.special import expit, xlogy

from instances import (
    INTERCEPTS,
    LAYOUTS,
    bind,
    build_problem,
    from_lists,
    kind_of_intercepts,
    plain_rows,
    random_coef,
    random_tasks,
    with_signs,
)
from priormtl.data import summarize_tasks
from priormtl.losses import FreeIntercepts, Logistic, NoIntercepts
from priormtl.solvers import Fista, gap_below, max_iter, solve

SHAPE = (4, 3)


@pytest.mark.parametrize("intercepts", INTERCEPTS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("scale", [0.0, 0.4, 1.0])
def test_dual_value_is_that_of_the_scaled_surprises(layout, intercepts, scale):
    data, P = with_signs(random_tasks(layout)), random_coef(SHAPE)
    fit = bind("logistic", data, intercepts)
    b = fit.intercept_at_zero(fit.evaluate(P))
    plain = -(scale**2) * kind_of_intercepts(intercepts, 3).value(b)
    for i, (X, y, weight) in enumerate(plain_rows(data)):
        u = scale * expit(-y * (X @ P[:, i] + b[i]))
        plain -= weight @ (xlogy(u, u) + xlogy(1 - u, 1 - u))
    assert fit.evaluate(P).dual_value(scale) == pytest.approx(plain, abs=1e-10)


@pytest.mark.parametrize("intercepts", INTERCEPTS)
@pytest.mark.parametrize("limit", [0.2, 1.0, 1.5, np.inf])
@pytest.mark.parametrize("size", [0.0, 0.5, 3.0])
def test_no_feasible_scale_has_a_larger_dual_value(size, limit, intercepts):
    # Scaled surprises must stay probabilities, and below the limit of the penalty.
    data = with_signs(random_tasks("stacked"))
    at = bind("logistic", data, intercepts).evaluate(random_coef(SHAPE, scale=size))
    largest = min(limit, 1.0 / np.abs(at.slopes).max())
    for prior in (0.0, 0.1, 10.0):
        found = at.best_scale(limit, prior)
        assert 0.0 <= found <= largest
        values = [
            at.dual_value(scale) - scale**2 * prior
            for scale in (found, *np.linspace(0.0, largest, 50))
        ]
        assert values[0] >= max(values) - 1e-9 * (1.0 + abs(values[0]))


@pytest.mark.parametrize("intercepts", ["free", "tied"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_weighted_surprises_balance_the_cost_of_intercepts(layout, intercepts):
    data, P = with_signs(random_tasks(layout)), random_coef(SHAPE)
    fit = bind("logistic", data, intercepts)
    b = fit.intercept_at_zero(fit.evaluate(P))
    slope = kind_of_intercepts(intercepts, 3).slope(b)
    for i, (X, y, weight) in enumerate(plain_rows(data)):
        pull = weight @ (y * expit(-y * (X @ P[:, i] + b[i])))
        assert pull == pytest.approx(slope[i], abs=1e-12 * weight.sum())


def test_statistics_do_not_suffice():
    statistics = summarize_tasks(random_tasks("stacked"))
    with pytest.raises(TypeError, match="raw samples, got TaskStatistics"):
        Logistic().bind(statistics, NoIntercepts())


@pytest.mark.parametrize("intercepts", INTERCEPTS)
def test_huge_margins_do_not_overflow(intercepts):
    fit = bind("logistic", random_tasks("weighted"), intercepts)
    P = random_coef(SHAPE, scale=1e6)
    at = fit.evaluate(P)
    assert np.isfinite(at.value)
    assert np.isfinite(at.gradient).all()
    assert np.isfinite(fit.hessian(at, P)).all()
    assert np.isfinite(at.dual_value(1.0))
    # Far out the loss is the hinge of the margins.
    hinge = np.sum(fit.data.weight * np.maximum(0.0, -fit.data.y * at.eta))
    cost = fit.intercepts.value(at.b)
    assert at.value == pytest.approx(hinge + cost, rel=1e-3)


def test_one_class_task_borrows_its_intercept_from_the_others():
    X = [random_coef((6, 4), seed) for seed in (1, 2, 3)]
    y = [
        np.ones(6),
        np.array([1.0, -1, 1, -1, 1, -1]),
        np.array([1.0, 1, 1, -1, -1, 1]),
    ]
    fit = Logistic().bind(from_lists(X, y), kind_of_intercepts("tied", 3))
    b = fit.intercept(np.zeros(SHAPE))
    assert np.isfinite(b).all()
    assert b[0] > max(b[1], b[2])
    assert fit.evaluate(np.zeros(SHAPE)).value < fit.data.y.size * np.log(2.0)


def test_one_class_task_with_its_own_intercept_costs_nothing():
    data = from_lists([random_coef((6, 4))], [np.ones(6)])
    at = Logistic().bind(data, FreeIntercepts()).evaluate(np.zeros((4, 1)))
    assert at.value == pytest.approx(0.0, abs=1e-12)
    assert np.abs(at.gradient).max() < 1e-12
    assert np.isfinite(at.b).all()


def test_one_class_tasks_do_not_spoil_the_certificate():
    X = [random_coef((6, 4), seed) for seed in (1, 2)]
    y = [np.ones(6), np.array([1.0, -1, 1, -1, 1, -1])]
    problem = build_problem(
        from_lists(X, y), lam=0.3, loss=Logistic(), intercepts=FreeIntercepts()
    )
    rules = [gap_below(1e-10), max_iter(2000)]
    solution = solve(problem, Fista(restart=True), stop=rules)
    assert solution.certificate.gap <= 1e-10 * problem.null_objective


def test_newton_dual_refuses_residuals_that_are_no_probabilities():
    fit = bind("logistic", random_tasks("stacked"))
    at, V = fit.evaluate(np.zeros(SHAPE)), random_coef(SHAPE, scale=100.0)
    assert fit.newton_dual(at, V, fit.hessian(at, V)) == -np.inf


def test_newton_dual_is_below_the_dual_value_it_predicts():
    fit = bind("logistic", random_tasks("gaps"), "tied")
    P, V = random_coef(SHAPE, 1), random_coef(SHAPE, 2, scale=1e-6)
    at, there = fit.evaluate(P), fit.evaluate(P + V)
    predicted = fit.newton_dual(at, V, fit.hessian(at, V))
    assert predicted == pytest.approx(there.dual_value(1.0), rel=1e-9)


def test_bounds_of_task_blocks_are_a_quarter_of_squared_loss():
    data = with_signs(random_tasks("stacked"))
    lowest, highest = bind("logistic", data, "free").task_spectra()
    _, squared = bind("squared", data, "free").task_spectra()
    assert not lowest.any()
    np.testing.assert_allclose(highest, 0.25 * squared)


def test_is_never_quadratic():
    assert not bind("logistic", random_tasks("stacked")).is_quadratic
