"""Families against their definitions: derivatives, conjugates, duals, errors."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import nbinom

from instances import (
    INTERCEPTS,
    LAYOUTS,
    build_problem,
    kind_of_intercepts,
    plain_rows,
    random_coef,
    random_tasks,
    turns,
)
from priormtl.losses import Gamma, Logistic, NegativeBinomial, Poisson
from priormtl.solvers import Solver

FAMILIES = [
    Logistic(),
    Poisson(),
    Gamma(),
    NegativeBinomial(0.5),
    NegativeBinomial(1e-6),
    NegativeBinomial(20.0),
]
SHAPE = (4, 3)
COUNTS = np.array([0.0, 1.0, 2.0, 7.0, 300.0])
WRITTEN = {  # third.md, section 3
    "logistic": lambda eta, y, r: np.log1p(np.exp(-y * eta)),
    "poisson": lambda eta, y, r: np.exp(eta) - y * eta,
    "gamma": lambda eta, y, r: eta + y * np.exp(-eta),
    "negative_binomial": lambda eta, y, r: (y + r) * np.log(r + np.exp(eta)) - y * eta,
}


def targets_of(family):
    if family.name == "logistic":
        return np.array([-1.0, 1.0])
    return COUNTS + 0.3 if family.name == "gamma" else COUNTS


def drawn(family, data, seed=0):
    """The same rows with targets that the family can have."""
    rng = np.random.default_rng(seed)
    if family.name == "logistic":
        y = np.where(data.y > 0, 1.0, -1.0)
    elif family.name == "gamma":
        y = rng.gamma(2.0, 1.0, data.y.shape) * np.exp(0.3 * np.tanh(data.y))
    else:
        y = rng.poisson(2.0 * np.exp(0.5 * np.tanh(data.y))).astype(np.float64)
    return replace(data, y=np.where(data.weight > 0, y, 0.0))


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_loss_is_as_written_less_its_least_value(family):
    r = 1.0 / getattr(family, "alpha", 1.0)
    for y in targets_of(family):
        written = WRITTEN[family.name]
        eta = np.linspace(-8.0, 8.0, 33)
        ours = family.loss(eta, np.full(33, y)) + family.constant(np.full(33, y))
        np.testing.assert_allclose(ours, written(eta, y, r), rtol=1e-9, atol=1e-9)
        assert np.all(family.loss(eta, np.full(33, y)) >= 0)
        if family.name != "logistic" and y > 0:
            least = family.loss(np.log([y]), np.array([y]))
            assert least == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_derivatives(family):
    eta, step = np.linspace(-6.0, 7.0, 27), 1e-5
    for y in (np.full(27, value) for value in targets_of(family)):
        ends = family.loss(eta + step, y), family.loss(eta - step, y)
        scale = 1e-6 * (1.0 + np.abs(family.loss(eta, y)) / step * 1e-4)
        slope = (ends[0] - ends[1]) / (2.0 * step)
        assert np.all(
            np.abs(family.slope(eta, y) - slope) <= scale * (1 + np.abs(slope))
        )
        ends = family.slope(eta + step, y), family.slope(eta - step, y)
        bend = (ends[0] - ends[1]) / (2.0 * step)
        np.testing.assert_allclose(family.bend(eta, y), bend, rtol=1e-6, atol=1e-6)
        # Generalised self-concordance, on which damped steps rest.
        third = (family.bend(eta + step, y) - family.bend(eta - step, y)) / (2 * step)
        assert np.all(np.abs(third) <= family.bend(eta, y) * (1 + 1e-6) + 1e-9)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
@pytest.mark.parametrize("share", [-1.0, -0.3, 0.0, 0.2, 0.9, 1.0])
def test_conjugate_is_the_largest_distance(family, share):
    for y in targets_of(family):
        low, high = (float(np.ravel(end)[0]) for end in family.domain(np.array([y])))
        v = share * min(abs(low if share < 0 else high), 5.0)
        if not low <= v <= high:
            continue
        below = minimize_scalar(
            lambda eta, v=v, y=y: (
                family.loss(np.array([eta]), np.array([y]))[0] - v * eta
            ),
            bounds=(-60.0, 60.0),
            method="bounded",
            options={"xatol": 1e-10},
        )
        found = family.conjugate(np.array([v]), np.array([y]))[0]
        assert found == pytest.approx(-below.fun, rel=1e-6, abs=1e-6)
        assert found >= -below.fun - 1e-9 * (1.0 + abs(found))


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_score_inverts_the_slope(family):
    eta = np.linspace(-6.0, 6.0, 25)
    for y in (np.full(25, value) for value in targets_of(family)):
        v = family.slope(eta, y)
        # Fenchel's equality holds at slopes.
        both = family.loss(eta, y) + family.conjugate(v, y)
        np.testing.assert_allclose(both, v * eta, rtol=1e-8, atol=1e-8)
        low, high = family.domain(y)
        inner = (v > 0.99 * low) & (v < 0.99 * high)
        np.testing.assert_allclose(
            family.score(v, y)[inner], eta[inner], rtol=1e-6, atol=1e-6
        )


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_far_scores_do_not_overflow(family):
    for y in targets_of(family):
        eta = np.array([-1e6, -800.0, -40.0, 40.0, 800.0, 1e6])
        for values in (family.loss, family.slope, family.bend):
            assert np.isfinite(values(eta, np.full(6, y))).all()


@turns(
    4,
    layout=LAYOUTS,
    family=FAMILIES[:4],
    intercepts=INTERCEPTS,
    offset=[False, True],
)
def test_value_gradient_and_hessian(family, layout, intercepts, offset):
    data = drawn(family, random_tasks(layout))
    if offset:
        shape = data.y.shape[:1] + (1,) * (data.y.ndim - 1)
        data = replace(data, offset=np.random.default_rng(3).normal(size=shape))
    kind = kind_of_intercepts(intercepts, 3)
    fit, P, V = family.bind(data, kind), random_coef(SHAPE), random_coef(SHAPE, 2)
    at = fit.evaluate(P)
    b = fit.intercept_at_zero(at)
    value = kind.value(b)
    rows = plain_rows(data)
    offsets = plain_rows(replace(data, y=data.y * 0 + data.offset)) if offset else rows
    for i, (X, y, weight) in enumerate(rows):
        eta = X @ P[:, i] + b[i] + (offsets[i][1] if offset else 0.0)
        value += weight @ family.loss(eta, y)
    assert at.value == pytest.approx(value, rel=1e-10)
    step = 1e-5
    ends = fit.evaluate(P + step * V), fit.evaluate(P - step * V)
    slope = (ends[0].value - ends[1].value) / (2.0 * step)
    assert np.vdot(at.gradient, V) == pytest.approx(slope, rel=1e-5, abs=1e-5)
    bend = (ends[0].gradient - ends[1].gradient) / (2.0 * step)
    np.testing.assert_allclose(fit.hessian(at, V), bend, rtol=1e-4, atol=1e-4)
    if intercepts != "absent":
        np.testing.assert_allclose(at.intercept_slope, 0.0, atol=1e-9)
    # No dual value is above the value, nor is the scaled one at its best.
    assert at.dual_value(1.0) <= at.value + np.vdot(at.gradient, -P) + 1e-9
    scale = at.best_scale(np.inf, 0.1)
    for other in np.linspace(0.0, 1.0, 21):
        best = at.dual_value(scale) - 0.1 * scale**2
        assert best >= at.dual_value(other) - 0.1 * other**2 - 1e-8


@turns(
    6,
    family=FAMILIES[:4],
    intercepts=INTERCEPTS,
    share=[0.0, 0.1, 0.5],
    layout=["weighted", "sparse", "gaps"],
)
def test_problems_are_solved_with_a_certificate(family, share, layout, intercepts):
    data = drawn(family, random_tasks(layout, n=20))
    kind = kind_of_intercepts(intercepts, 3)
    problem = build_problem(
        data, lam=1.0, theta=0.5, epsilon=0.3, loss=family, intercepts=kind
    )
    problem = problem.with_strengths(lam=share * problem.lam_max)
    solution = Solver(tol=1e-9).solve(problem)
    assert solution.certificate.gap <= 1e-9 * problem.null_objective
    assert solution.n_iter <= 30


@pytest.mark.parametrize(
    ("family", "y", "match"),
    [
        (Poisson(), [1.0, -2.0], 'must not be negative with loss="poisson": got -2'),
        (Poisson(), [1.0, 0.5], "whole numbers.*got 0.5. Rates are allowed with"),
        (Gamma(), [1.0, 0.0], 'must be above 0 with loss="gamma": got 0'),
    ],
)
def test_impossible_targets(family, y, match):
    with pytest.raises(ValueError, match=match):
        family.check(np.array(y), weighted=False)


def test_zeros_alone_are_refused():
    family = NegativeBinomial()
    family.check(np.zeros(2), weighted=False)  # some rows of a table
    with pytest.raises(ValueError, match="at least one count above 0"):
        family.check_mean(0.0)


def test_rates_are_allowed_with_weights():
    rates = np.array([0.5, 1.5])
    Poisson().check(rates, weighted=True)
    with pytest.raises(ValueError, match="whole numbers"):
        Poisson().check(rates, weighted=False)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_far_bend_is_the_mean_curvature_to_a_third_of_the_slope(family):
    eta = np.linspace(-5.0, 5.0, 23)
    for y in (np.full(23, value) for value in targets_of(family)):
        slope = family.slope(eta, y)
        end = family.score(slope / 3.0, y)
        np.testing.assert_allclose(
            family.far_bend(eta, y) * (eta - end), 2.0 / 3.0 * slope, rtol=1e-3
        )
    # At the best score both are the curvature there.
    best = family.link(np.array([3.0]))
    if family.name != "logistic":
        near = family.far_bend(best, np.array([3.0]))
        np.testing.assert_allclose(near, family.bend(best, np.array([3.0])), rtol=1e-6)


@pytest.mark.parametrize("family", [Poisson(), Gamma()], ids=repr)
def test_levels_in_closed_form_leave_no_slope(family):
    rng = np.random.default_rng(0)
    eta, tasks = rng.normal(size=40), np.repeat(np.arange(4), 10)
    y, weight = rng.integers(1, 9, 40) * 1.0, rng.uniform(0.5, 2.0, 40)

    def sums(values):
        return np.bincount(tasks, values)

    level = family.level(eta, y, weight, sums)
    slope = sums(weight * family.slope(eta + level[tasks], y))
    assert np.all(np.abs(slope) <= 1e-12 * sums(weight))


def test_dispersion_is_where_its_likelihood_is_largest():
    rng = np.random.default_rng(0)
    eta = rng.normal(size=300)
    for alpha in (0.05, 0.7, 6.0):
        y = rng.poisson(np.exp(eta) * rng.gamma(1.0 / alpha, alpha, 300)) * 1.0
        found = NegativeBinomial().refit(eta, y, np.ones(300)).alpha

        def unlikely(log_alpha, y=y):
            r = np.exp(-log_alpha)
            return -nbinom.logpmf(y, r, r / (r + np.exp(eta))).sum()

        best = minimize_scalar(unlikely, bounds=(-6.0, 4.0), method="bounded")
        assert np.log(found) == pytest.approx(best.x, abs=1e-3)
    even = np.full(300, 2.0)  # no scatter at all
    known = NegativeBinomial().refit(np.log(even), even, np.ones(300))
    assert known.alpha == pytest.approx(1e-6)
