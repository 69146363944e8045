"""What every loss owes, whatever its data and intercepts look like."""

import numpy as np
import pytest
from scipy.optimize import minimize

from instances import (
    INTERCEPTS,
    LAYOUTS,
    LOSSES,
    bind,
    intercept_kinds,
    kind_of_intercepts,
    plain_rows,
    random_coef,
    random_tasks,
    turns,
    with_signs,
    write_out,
)
from priormtl.losses import FreeIntercepts, NoIntercepts, TiedIntercepts
from priormtl.priors.graphs import Laplacian

EVERY_LOSS = pytest.mark.parametrize("loss", LOSSES)
EVERY_LAYOUT = pytest.mark.parametrize("layout", LAYOUTS)
EVERYTHING = turns(2, layout=LAYOUTS, loss=LOSSES, intercepts=INTERCEPTS)
SHAPE = (4, 3)


def plain_misfit(loss, data, P, b):
    """Sum over rows, as it stands in the books."""
    total = 0.0
    for i, (X, y, weight) in enumerate(plain_rows(data)):
        scores = X @ P[:, i] + b[i]
        if loss == "squared":
            total += 0.5 * weight @ (scores - y) ** 2
        else:
            total += weight @ np.logaddexp(0.0, -np.where(y >= 0, 1, -1) * scores)
    return total


def plain_value(loss, data, P, b, intercepts):
    return plain_misfit(loss, data, P, b) + kind_of_intercepts(intercepts, 3).value(b)


@EVERYTHING
def test_value_is_the_plain_sum_at_the_reported_intercepts(loss, layout, intercepts):
    data, P = random_tasks(layout), random_coef(SHAPE)
    fit = bind(loss, data, intercepts)
    plain = plain_value(
        loss, data, P, fit.intercept_at_zero(fit.evaluate(P)), intercepts
    )
    assert fit.evaluate(P).value == pytest.approx(plain, rel=1e-12)


@pytest.mark.parametrize("intercepts", ["free", "tied"])
@EVERY_LAYOUT
@EVERY_LOSS
def test_no_other_intercepts_are_better(loss, layout, intercepts):
    data, P = random_tasks(layout), random_coef(SHAPE)
    fit = bind(loss, data, intercepts)
    b = fit.intercept_at_zero(fit.evaluate(P))

    def value(b):
        return plain_value(loss, data, P, b, intercepts)

    found = minimize(value, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
    assert value(b) <= found.fun * (1 + 1e-12)
    for move in np.vstack([np.eye(3), -np.eye(3)]):
        assert value(b + 1e-3 * move) >= value(b) * (1 - 1e-12)


@EVERY_LOSS
def test_absent_intercepts_are_zero(loss):
    fit = bind(loss, random_tasks("stacked"), "absent")
    assert not fit.intercept(random_coef(SHAPE)).any()


@EVERYTHING
def test_gradient_agrees_with_central_differences(loss, layout, intercepts):
    fit, P = bind(loss, random_tasks(layout), intercepts), random_coef(SHAPE)
    gradient, step = fit.evaluate(P).gradient, 1e-5
    for seed in range(4):
        V = random_coef(SHAPE, seed=10 + seed)
        ends = [fit.evaluate(P + sign * step * V).value for sign in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * step)
        assert np.vdot(gradient, V) == pytest.approx(slope, rel=1e-6, abs=1e-7)


@EVERYTHING
def test_hessian_agrees_with_differences_of_gradients(loss, layout, intercepts):
    fit, P = bind(loss, random_tasks(layout), intercepts), random_coef(SHAPE)
    V, step = random_coef(SHAPE, seed=7), 1e-5
    ends = [fit.evaluate(P + sign * step * V).gradient for sign in (1, -1)]
    turn = (ends[0] - ends[1]) / (2 * step)
    product = fit.hessian(fit.evaluate(P), V)
    np.testing.assert_allclose(product, turn, rtol=1e-6, atol=1e-7)


@EVERYTHING
def test_majorant_is_nowhere_below_the_hessian(loss, layout, intercepts):
    fit = bind(loss, random_tasks(layout), intercepts)
    majorant = write_out(fit.majorant, SHAPE)
    np.testing.assert_allclose(majorant, majorant.T, atol=1e-11)
    for scale in (0.0, 0.1, 1.0, 10.0):
        at = fit.evaluate(random_coef(SHAPE, scale=scale))
        hessian = write_out(lambda V, at=at: fit.hessian(at, V), SHAPE)
        room = np.linalg.eigvalsh(majorant - hessian)
        assert room[0] >= -1e-11 * np.linalg.norm(majorant, 2)


@EVERYTHING
def test_extrapolation_is_evaluation_there(loss, layout, intercepts):
    fit = bind(loss, random_tasks(layout), intercepts)
    current, previous = random_coef(SHAPE, 1), random_coef(SHAPE, 2)
    ahead = fit.extrapolate(fit.evaluate(current), fit.evaluate(previous), 0.7)
    there = fit.evaluate(current + 0.7 * (current - previous))
    assert ahead.value == pytest.approx(there.value, rel=1e-12)
    np.testing.assert_allclose(ahead.gradient, there.gradient, rtol=1e-10, atol=1e-11)


@EVERY_LAYOUT
@EVERY_LOSS
def test_a_neighbour_changes_nothing_but_the_work(loss, layout):
    fit, P = bind(loss, random_tasks(layout), "tied"), random_coef(SHAPE)
    alone = fit.evaluate(P)
    helped = fit.evaluate(P, near=fit.evaluate(3.0 * P))
    assert helped.value == pytest.approx(alone.value, rel=1e-13)
    np.testing.assert_allclose(helped.gradient, alone.gradient, rtol=1e-9, atol=1e-10)


@EVERYTHING
def test_restriction_holds_other_features_at_zero(loss, layout, intercepts):
    fit, features = bind(loss, random_tasks(layout), intercepts), np.array([0, 2])
    P = np.zeros(SHAPE)
    P[features] = random_coef((2, 3))
    whole, part = fit.evaluate(P), fit.restrict(features).evaluate(P[features])
    assert part.value == pytest.approx(whole.value, rel=1e-12)
    np.testing.assert_allclose(part.gradient, whole.gradient[features], atol=1e-10)


@EVERYTHING
def test_task_spectra_bracket_the_joint_hessian(loss, layout, intercepts):
    fit = bind(loss, random_tasks(layout), intercepts)
    lowest, highest = fit.task_spectra()
    at = fit.evaluate(random_coef(SHAPE))
    hessian = write_out(lambda V: fit.hessian(at, V), SHAPE)
    values = np.linalg.eigvalsh(0.5 * (hessian + hessian.T))
    assert lowest.min() <= values[0] + 1e-11
    assert highest.max() >= values[-1] - 1e-11


@EVERY_LOSS
def test_ties_lie_between_free_and_one_common_intercept(loss):
    data, P = random_tasks("weighted"), random_coef(SHAPE)
    data = with_signs(data) if loss == "logistic" else data
    everyone = Laplacian.from_groups(3, [np.arange(3)], 1.0)
    fits = [
        LOSSES[loss].bind(data, TiedIntercepts(everyone, strength))
        for strength in (1e-9, 1.0, 1e9)
    ]
    free, _, common = (fit.intercept_at_zero(fit.evaluate(P)) for fit in fits)
    values = [fit.evaluate(P).value for fit in fits]
    fit = bind(loss, data, "free")
    exact = fit.intercept_at_zero(fit.evaluate(P))
    np.testing.assert_allclose(free, exact, rtol=1e-6)
    assert np.ptp(common) < 1e-6
    assert values == sorted(values)


@pytest.mark.parametrize("kind", intercept_kinds(4), ids=INTERCEPTS)
def test_solver_minimises_the_quadratic_it_names(kind):
    h, r = np.array([1.0, 2.0, 0.5, 3.0]), np.array([1.0, -1.0, 4.0, 0.0])
    b = kind.solver(h)(r)
    balance = h * (b - r) + kind.slope(b)
    assert kind.are_fixed or np.abs(balance).max() < 1e-13
    assert not kind.are_fixed or not b.any()


@pytest.mark.parametrize("kind", intercept_kinds(4), ids=INTERCEPTS)
def test_scaling_scales_the_cost_and_its_slope(kind):
    b = np.array([1.0, -1.0, 4.0, 0.5])
    assert kind.scaled(4.0).value(b) == pytest.approx(4.0 * kind.value(b))
    np.testing.assert_allclose(kind.scaled(4.0).slope(b), 4.0 * kind.slope(b))


def test_equal_intercepts_cost_nothing():
    tied = kind_of_intercepts("tied", 5)
    assert tied.value(np.full(5, 3.0)) == pytest.approx(0.0, abs=1e-13)
    assert FreeIntercepts().value(np.ones(5)) == NoIntercepts().value(np.ones(5)) == 0
