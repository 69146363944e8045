"""NuclearSplitting: the optimum of NuclearNewton, sooner or later by its steps."""

import numpy as np
import pytest

from instances import bind, random_coef, random_tasks, sine_problem
from priormtl.data import from_labels
from priormtl.losses import FreeIntercepts, Squared
from priormtl.penalties import L21, Nuclear
from priormtl.priors import QuadraticPrior
from priormtl.problem import Problem
from priormtl.solvers import (
    NuclearNewton,
    NuclearSplitting,
    StopReason,
    gap_below,
    max_iter,
    solve,
)


def pose(fit, share):
    problem = Problem(fit, QuadraticPrior.none(*fit.shape), Nuclear(), 1.0)
    return problem.with_strengths(lam=share * problem.lam_max)


def minimise(problem, method, coef=None, tol=1e-11):
    return solve(problem, method, coef=coef, stop=[gap_below(tol, 1), max_iter(200)])


@pytest.mark.parametrize("layout", ["stacked", "wide", "shared", "gaps"])
@pytest.mark.parametrize("intercepts", ["free", "absent"])
@pytest.mark.parametrize("share", [0.9, 0.1, 1e-3])
def test_optimum_is_that_of_newton(layout, intercepts, share):
    problem = pose(bind("squared", random_tasks(layout), intercepts), share)
    ours, newton = (minimise(problem, m()) for m in (NuclearSplitting, NuclearNewton))
    assert ours.reason is StopReason.GAP
    known = newton.certificate.primal
    assert ours.certificate.primal == pytest.approx(known, rel=1e-10)
    # What exchanges know of the norm is what singular values say.
    again = problem.certify(problem.at(ours.coef))
    assert again.primal == pytest.approx(ours.certificate.primal, rel=1e-12)


def test_newton_ends_what_exchanges_cannot():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5)) * np.geomspace(1.0, 1e-3, 5)
    data = from_labels(X, rng.standard_normal(60), np.arange(60) % 4)
    problem = pose(Squared().bind(data, FreeIntercepts()), 1e-5)
    method = NuclearSplitting()
    state = method.start(problem, problem.null_point)
    for _ in range(200):
        if state.newton is not None:
            break
        state = method.step(problem, state)
    assert state.newton is not None
    assert minimise(problem, method).reason is StopReason.GAP


def test_known_starts_need_no_exchange():
    problem = pose(bind("squared", random_tasks("stacked"), "free"), 0.2)
    method, point = NuclearSplitting(), problem.at(random_coef(problem.shape))
    state = method.start(problem, point)
    assert state.exchanges is None
    assert minimise(problem, method, point.coef).reason is StopReason.GAP


def test_only_plain_nuclear_norms_fit():
    assert NuclearSplitting.fits(pose(bind("squared", random_tasks("wide"), "free"), 1))
    assert not NuclearSplitting.fits(sine_problem(penalty=Nuclear()))
    assert not NuclearSplitting.fits(sine_problem(theta=0, epsilon=0, penalty=L21()))
