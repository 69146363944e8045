"""Splitting finds what FISTA finds, from anywhere."""

import numpy as np
import pytest

from instances import PENALTIES, bind, random_coef, random_tasks, sine_problem
from priormtl.losses import SumFit
from priormtl.penalties import Columns, Dirty, Nuclear, Robust
from priormtl.problem import Problem, QuadraticPrior
from priormtl.solvers import (
    Fista,
    Splitting,
    StopReason,
    gap_below,
    max_iter,
    solve,
    solve_path,
)
from priormtl.solvers.splitting import (
    MOST_CHANGE,
    Iterate,
    _fit_curvature,
    adapt_rho,
)

LAYOUTS = pytest.mark.parametrize("layout", ["stacked", "wide", "shared", "gaps"])
NORMS = [Columns(), Dirty(1.6), Nuclear(), Robust(1.3)]
EVERY_NORM = pytest.mark.parametrize(
    "penalty", NORMS, ids=lambda norm: type(norm).__name__
)


def pose(penalty, layout="stacked", share=0.1, intercepts="free"):
    fit = bind("squared", random_tasks(layout), intercepts)
    fit = SumFit(fit) if isinstance(penalty, Robust) else fit
    problem = Problem(fit, QuadraticPrior.none(*fit.shape), penalty, 1.0)
    return problem.with_strengths(lam=share * problem.lam_max)


def minimise(problem, method, coef=None, tol=1e-11):
    rules = [gap_below(tol, method.check_every), max_iter(20_000)]
    return solve(problem, method, coef=coef, stop=rules)


@LAYOUTS
@EVERY_NORM
def test_optimum_is_that_of_fista(penalty, layout):
    problem = pose(penalty, layout)
    ours, plain = minimise(problem, Splitting()), minimise(problem, Fista(restart=True))
    assert ours.reason is StopReason.GAP
    assert ours.certificate.primal == pytest.approx(plain.certificate.primal, rel=1e-9)


@pytest.mark.parametrize("share", [0.9, 1e-2, 1e-4, 1e-5])
@EVERY_NORM
def test_every_strength_is_solved(penalty, share):
    solution = minimise(pose(penalty, share=share), Splitting(), tol=1e-8)
    assert solution.reason is StopReason.GAP
    assert solution.n_iter < 100


@EVERY_NORM
def test_starts_do_not_matter(penalty):
    problem = pose(penalty)
    cold = minimise(problem, Splitting(), tol=1e-13)
    for seed in range(2):
        start = random_coef(problem.shape, seed, 3.0)
        warm = minimise(problem, Splitting(), coef=start, tol=1e-13)
        total = getattr(problem.fit, "total", np.asarray)
        np.testing.assert_allclose(total(warm.coef), total(cold.coef), atol=1e-5)


def test_paths_cost_less_than_their_points():
    problem = pose(Robust(1.3))
    lams = problem.lam_max * np.geomspace(0.5, 1e-3, 8)

    def rules(method):
        return [gap_below(1e-8, method.check_every), max_iter(500)]

    path = solve_path(problem, lams, choose=lambda _: Splitting(), rules=rules)
    alone = [
        solve(problem.with_strengths(lam=lam), Splitting(), stop=rules(Splitting()))
        for lam in lams
    ]
    assert sum(s.n_iter for s in path) <= sum(s.n_iter for s in alone)
    for one, two in zip(path, alone, strict=True):
        unit = problem.null_objective
        assert abs(one.certificate.primal - two.certificate.primal) <= 1e-7 * unit


def test_badly_conditioned_features_cost_little():
    data = random_tasks("stacked").rescale(np.array([1.0, 1e-3, 1e3, 30.0]))
    fit = bind("squared", data, "free")
    problem = Problem(fit, QuadraticPrior.none(*fit.shape), Nuclear(), 1.0)
    problem = problem.with_strengths(lam=1e-3 * problem.lam_max)
    assert minimise(problem, Splitting(), tol=1e-8).n_iter < 60


def test_priors_and_other_losses_do_not_fit():
    assert not Splitting.fits(sine_problem())
    assert not Splitting.fits(pose(Nuclear(), share=0.0))
    fit = bind("logistic", random_tasks("stacked"))
    none = QuadraticPrior.none(*fit.shape)
    assert not Splitting.fits(Problem(fit, none, Nuclear(), 1.0))
    assert Splitting.fits(pose(PENALTIES["robust"]))


def test_rho_stays_where_a_residual_vanishes():
    # Nothing says then which of the two residuals is too large.
    problem = pose(Nuclear())
    one, other = random_coef(problem.shape, 0), random_coef(problem.shape, 1)
    rho = 7.0 * _fit_curvature(problem)
    for now, before in (
        (Iterate(one, one), Iterate(one, other)),  # coefficients did not move
        (Iterate(one, one), Iterate(other, one)),  # the dual variable did not move
        (Iterate(one, one), Iterate(one, one)),
        (Iterate(0 * one, one), Iterate(0 * one, other)),
        (Iterate(one, 0 * one), Iterate(other, 0 * one)),
    ):
        assert adapt_rho(problem, now, before, rho) == rho


def test_rho_balances_relative_residuals():
    problem, curvature = pose(Nuclear()), _fit_curvature(pose(Nuclear()))
    one, step = random_coef(problem.shape, 0), 1e-3 * random_coef(problem.shape, 1)
    for rho in (0.1 * curvature, 10.0 * curvature):
        far = Iterate(one, rho * one), Iterate(one - step, rho * (one - 9 * step))
        # The primal residual is nine times the dual one: rho grows by the root.
        grown = adapt_rho(problem, *far, rho)
        assert grown == pytest.approx(3.0 * rho)
        near = Iterate(one, rho * one), Iterate(one - 9 * step, rho * (one - step))
        assert adapt_rho(problem, *near, rho) == pytest.approx(rho / 3.0)
        wild = Iterate(one, rho * one), Iterate(one - step, rho * (one - 999 * step))
        assert adapt_rho(problem, *wild, rho) == pytest.approx(MOST_CHANGE * rho)
