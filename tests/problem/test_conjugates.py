"""Certificates of powers: bounds that hold everywhere and close at the optimum."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from instances import INTERCEPTS, LOSSES, POWERS, bind, random_coef, random_tasks, turns
from priormtl.problem import Problem, QuadraticPrior
from priormtl.problem.objective import PowerDual
from priormtl.solvers import Fista, gap_below, max_iter, solve

EVERY_LOSS = pytest.mark.parametrize("loss", LOSSES)
EVERY_POWER = pytest.mark.parametrize("penalty", POWERS)


def example(loss, penalty, intercepts="free", lam=0.4):
    fit = bind(loss, random_tasks("weighted", m=3, d=5), intercepts)
    return Problem(fit, QuadraticPrior.none(5, 3), POWERS[penalty], lam)


def optimum(problem, tol=1e-11):
    rules = [gap_below(tol, every=5), max_iter(20_000)]
    return solve(problem, Fista(restart=True), stop=rules)


@turns(2, penalty=POWERS, loss=LOSSES, intercepts=INTERCEPTS)
def test_the_gap_closes(loss, penalty, intercepts):
    problem = example(loss, penalty, intercepts)
    assert optimum(problem).certificate.gap <= 1e-11 * problem.null_objective


@EVERY_LOSS
@EVERY_POWER
def test_no_dual_value_exceeds_the_optimum(loss, penalty):
    problem = example(loss, penalty)
    best = optimum(problem).certificate.primal
    for seed in range(10):
        P = problem.penalty.prox(random_coef(problem.shape, seed), 0.1)
        certificate = problem.certify(problem.at(P))
        assert certificate.dual <= best * (1 + 1e-9)
        assert certificate.primal >= best * (1 - 1e-9)


@EVERY_LOSS
@EVERY_POWER
def test_the_scale_found_is_all_but_the_best(loss, penalty):
    problem = example(loss, penalty)
    point = problem.at(problem.penalty.prox(random_coef(problem.shape), 0.1))
    cost = problem.lam * problem.penalty.conjugate(point.gradient / problem.lam)
    dual = PowerDual(point.fit, 0.0, cost, problem.penalty.degree())
    values = [dual._value(scale) for scale in np.geomspace(1e-3, 1.0, 200)]
    assert dual.best() >= 0.95 * max(values)


@EVERY_LOSS
def test_ridge_and_power_certify_together(loss):
    problem = example(loss, "squared-nuclear")
    ridge = replace(problem.prior, D=csr_array(np.eye(5)), theta=0.3)
    both = replace(problem, prior=ridge, memo={})
    assert optimum(both).certificate.gap <= 1e-11 * both.null_objective


def test_strength_is_only_a_scale():
    problem = example("squared", "squared-nuclear")
    top = problem.with_strengths(lam=problem.lam_max)
    assert optimum(top).coef.any()
