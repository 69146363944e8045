"""A loss with task-specific components minimised out is smooth and convex."""

from dataclasses import replace

import numpy as np
import pytest

from instances import INTERCEPTS, LAYOUTS, bind, random_coef, random_tasks, turns
from priormtl.losses import OutlierFit
from priormtl.losses.outliers import (
    TiedPoint,
    TiedProblem,
    column_norms,
    solve_components,
    solve_tied_components,
)
from priormtl.penalties import L21
from priormtl.problem import Problem, QuadraticPrior
from priormtl.solvers import Fista, default_method, gap_below, max_iter, solve

BOTH = pytest.mark.parametrize("loss", ["squared", "logistic"])
KINDS = pytest.mark.parametrize("intercepts", INTERCEPTS)


def outlier_fit(loss="squared", layout="stacked", intercepts="free", share=0.4):
    """Fit in which some tasks have components at most points."""
    fit = bind(loss, random_tasks(layout), intercepts)
    lengths = column_norms(fit.evaluate(np.zeros(fit.shape)).gradient)
    return OutlierFit(fit, share * np.median(lengths) * np.array([0.8, 1.0, 1.3]))


def difference(function, P, V, size=1e-5):
    return (function(P + size * V) - function(P - size * V)) / (2.0 * size)


@turns(2, layout=LAYOUTS, loss=["squared", "logistic"], intercepts=INTERCEPTS)
def test_gradient_and_hessian_agree_with_differences(
    loss, layout, intercepts, monkeypatch
):
    monkeypatch.setattr("priormtl.losses.outliers.DAMPING", 0.0)
    fit = outlier_fit(loss, layout, intercepts)
    P, V = random_coef(fit.shape), random_coef(fit.shape, 3)
    point = fit.evaluate(P)
    assert point.specific.any()
    rise = difference(lambda Q: fit.evaluate(Q).value, P, V)
    assert np.vdot(point.gradient, V) == pytest.approx(rise, rel=1e-6)
    turn = difference(lambda Q: fit.evaluate(Q).gradient, P, V)
    # Models of logistic loss keep a little curvature where it has none.
    scale = np.abs(turn).max()
    np.testing.assert_allclose(fit.hessian(point, V), turn, atol=3e-4 * scale)


@BOTH
@KINDS
def test_components_are_the_best(loss, intercepts):
    fit = outlier_fit(loss, intercepts=intercepts)
    P = random_coef(fit.shape)
    point = fit.evaluate(P)
    for seed in range(5):
        for size in (1e-3, 0.1):
            own = point.specific + random_coef(fit.shape, seed, size)
            other = fit.fit.evaluate(P + own).value + fit.cost(own)
            assert other > point.value


@BOTH
@KINDS
def test_no_column_of_the_gradient_is_longer_than_its_strength(loss, intercepts):
    fit = outlier_fit(loss, intercepts=intercepts)
    for scale in (0.1, 1.0, 5.0):
        point = fit.evaluate(random_coef(fit.shape, scale=scale))
        lengths = column_norms(point.inner.gradient)
        assert np.all(lengths <= fit.strength * (1.0 + 1e-9))


@BOTH
def test_the_damped_model_touches_and_bends_no_less(loss):
    fit = outlier_fit(loss)
    P = random_coef(fit.shape)
    point = fit.evaluate(P)
    model = fit.quadratic_model(point)
    gradient = model.evaluate(P).gradient
    np.testing.assert_allclose(gradient, point.gradient, atol=1e-12)
    along = np.where(column_norms(point.specific) > 0, point.specific, 0.0)
    assert np.vdot(along, model.majorant(along)) > 0
    assert model.evaluate(random_coef(fit.shape, 8, 50.0)).value >= 0


def test_infinite_strength_changes_nothing():
    fit = outlier_fit()
    plain = replace(fit, strength=np.full(3, np.inf))
    P = random_coef(fit.shape)
    assert plain.evaluate(P).value == fit.fit.evaluate(P).value
    assert not plain.evaluate(P).specific.any()
    assert plain.quadratic_model(plain.evaluate(P)) is fit.fit


@pytest.mark.parametrize("intercepts", ["free", "absent"])
def test_tiny_strength_leaves_nothing_to_share(intercepts):
    fit = outlier_fit(intercepts=intercepts, share=1e-9)
    for seed in range(3):
        point = fit.evaluate(random_coef(fit.shape, seed))
        np.testing.assert_allclose(point.gradient, 0.0, atol=1e-6)
        total = fit.evaluate(np.zeros(fit.shape)).total
        np.testing.assert_allclose(point.total, total, atol=1e-6)


@turns(
    3,
    layout=["stacked", "wide", "shared"],
    intercepts=INTERCEPTS,
    loss=["squared", "logistic"],
)
def test_both_solvers_close_the_gap_and_agree(loss, layout, intercepts):
    fit = outlier_fit(loss, layout, intercepts, share=0.6)
    prior = QuadraticPrior.none(*fit.shape)
    problem = Problem(fit, prior, L21(), 0.0)
    problem = replace(problem, lam=0.2 * problem.lam_max)
    fast = default_method(problem)
    rules = [gap_below(1e-9, 1), max_iter(100)]
    a = solve(problem, fast, stop=rules)
    b = solve(problem, Fista(restart=True), stop=[gap_below(1e-9), max_iter(20_000)])
    unit = problem.null_objective
    assert 0 <= a.certificate.gap <= 1e-9 * unit
    assert 0 <= b.certificate.gap <= 1e-9 * unit
    assert a.certificate.primal == pytest.approx(b.certificate.primal, abs=2e-9 * unit)


def test_the_certificate_holds_everywhere():
    fit = outlier_fit()
    problem = Problem(fit, QuadraticPrior.none(*fit.shape), L21(), 0.5)
    best = solve(problem, Fista(restart=True), stop=[gap_below(1e-10), max_iter(9999)])
    optimum = best.certificate.primal
    for seed in range(20):
        at = problem.at(random_coef(fit.shape, seed, 10.0 ** (seed % 5 - 3)))
        certificate = problem.certify(at)
        assert certificate.dual <= optimum + 1e-8 <= certificate.primal + 2e-8


def test_features_leave_shared_coefficients_only():
    fit = outlier_fit()
    features = np.array([2, 0])
    part = fit.restrict(features)
    S = random_coef((2, 3))
    P = np.zeros(fit.shape)
    P[features] = S
    small, whole = part.evaluate(S), fit.evaluate(P)
    assert small.value == pytest.approx(whole.value)
    np.testing.assert_allclose(small.specific, whole.specific)
    np.testing.assert_allclose(small.gradient, whole.gradient[features])
    np.testing.assert_allclose(part.intercept(S), fit.intercept(P))
    assert small.specific[[1, 3]].any()
    model = part.quadratic_model(small).evaluate(S)
    np.testing.assert_allclose(model.gradient, small.gradient, atol=1e-12)
    np.testing.assert_allclose(part.restrict(np.array([1])).features, [0])


def test_extrapolation_evaluates_there():
    fit = outlier_fit()
    P, Q = random_coef(fit.shape), random_coef(fit.shape, 5)
    ahead = fit.extrapolate(fit.evaluate(P), fit.evaluate(Q), 0.7)
    assert ahead.value == pytest.approx(fit.evaluate(P + 0.7 * (P - Q)).value)


def test_tied_intercepts_settle_with_components():
    fit = outlier_fit(intercepts="tied")
    P = random_coef(fit.shape)
    start = np.array([5.0, -3.0, 0.0])
    own = solve_tied_components(fit.fit, fit.strength, P, start)
    held = TiedProblem(fit.fit, fit.strength, P)
    at = TiedPoint(held, fit.fit.intercept(P + own.spread(3)))
    assert at.is_settled()
    assert at.value == pytest.approx(fit.evaluate(P).value)


def test_there_are_no_forms():
    fit = outlier_fit()
    assert fit.normal_size is fit.rows_per_task is fit.shifted_size is None
    with pytest.raises(TypeError, match="no normal form"):
        fit.normal_form()
    with pytest.raises(TypeError, match="no sample form"):
        fit.sample_form()
    with pytest.raises(TypeError, match="no fixed Hessian"):
        fit.solve_shifted(1.0, np.zeros(fit.shape))
    lowest, highest = fit.task_spectra()
    assert not lowest.any()
    np.testing.assert_array_equal(highest, fit.fit.task_spectra()[1])


# Components of squared loss minimise ½ oᵀG o + gᵀo + γ‖o‖.


def parts_of(layout, strength, intercepts="free"):
    """Fit, its slope at zero, and components at a strength."""
    fit = bind("squared", random_tasks(layout), intercepts)
    slope = fit.evaluate(np.zeros(fit.shape)).gradient
    own = solve_components(fit.modes, slope, np.full(fit.shape[1], strength))
    return fit, slope, own


@pytest.mark.parametrize("layout", ["stacked", "wide", "shared", "sparse", "gaps"])
@pytest.mark.parametrize("strength", [1e-6, 0.1, 3.0, 8.0])
def test_forces_balance(layout, strength):
    fit, slope, own = parts_of(layout, strength)
    whole = own.spread(fit.shape[1])
    gradient = slope + fit.majorant(whole)
    lengths = column_norms(whole)
    used = lengths > 0
    assert used.any() == (strength < column_norms(slope).max())
    force = gradient[:, used] + strength * whole[:, used] / lengths[used]
    np.testing.assert_allclose(force, 0.0, atol=1e-11 * column_norms(slope).max())
    assert np.all(column_norms(gradient)[~used] <= strength)
    np.testing.assert_allclose(own.shift * lengths[used], strength, rtol=1e-12)


def test_a_strength_at_the_slope_itself_leaves_nothing():
    fit, slope, _ = parts_of("stacked", 1.0)
    lengths = column_norms(slope)
    assert not len(solve_components(fit.modes, slope, lengths).tasks)
    assert (
        len(solve_components(fit.modes, slope, 0.999999 * lengths).tasks)
        == fit.shape[1]
    )


def test_strengths_are_per_task_and_may_be_infinite():
    fit, slope, _ = parts_of("stacked", 1.0)
    own = solve_components(fit.modes, slope, np.array([np.inf, 0.5, np.inf]))
    assert own.tasks.tolist() == [1]


@pytest.mark.parametrize("power", [-150, -8, 8, 150])
def test_units_do_not_matter(power):
    fit, slope, own = parts_of("stacked", 0.5)
    unit = 2.0**power
    other = solve_components(fit.modes, unit * slope, np.full(3, unit * 0.5))
    np.testing.assert_allclose(other.coef / unit, own.coef, rtol=1e-12)


def test_columns_are_spread_to_their_tasks():
    _, _, own = parts_of("stacked", 0.5)
    whole = own._replace(tasks=np.array([4, 0, 2])).spread(6)
    np.testing.assert_array_equal(whole[:, [4, 0, 2]], own.coef)
    assert not whole[:, [1, 3, 5]].any()


def test_lengths_of_columns():
    P = random_coef((4, 3))
    np.testing.assert_allclose(column_norms(P), np.linalg.norm(P, axis=0))
