"""Bounds by curvature: never below what can be gained, and near it at the optimum."""

import numpy as np
import pytest

from instances import (
    INTERCEPTS,
    bind,
    quadratic_prior,
    random_coef,
    random_tasks,
    turns,
)
from priormtl.penalties import L21
from priormtl.problem import Problem, QuadraticPrior
from priormtl.problem.second_order import largest_gain
from priormtl.solvers.loop import max_iter, solve
from priormtl.solvers.newton import Newton


@turns(
    3,
    layout=["weighted", "sparse", "gaps"],
    epsilon=[0.0, 1.0, 1e9],
    intercepts=INTERCEPTS,
)
def test_no_point_gains_more(layout, epsilon, intercepts):
    for seed in range(3):
        data = random_tasks(layout, seed=seed, n=20)
        prior = quadratic_prior(data, 0.3, epsilon)
        fit = bind("logistic", data, intercepts)
        problem = Problem(fit, prior, L21(), 0.0)
        best = solve(problem, Newton(), stop=[max_iter(60)]).point
        move = random_coef(problem.shape, seed, scale=0.2)
        if epsilon > 1e6:  # else ties are all that counts
            move[:] = move[:, :1]
        for share in (3.0, 1.0, 0.1, 1e-2, 1e-4):
            point = problem.at(best.coef + share * move)
            gained, noise = point.value - best.value, 1e-12 * best.value
            bound = largest_gain(problem, point)
            assert bound >= gained * (1.0 - 1e-9) - noise
            if share <= 1e-2:
                assert bound <= 1.1 * gained + noise


@pytest.mark.parametrize("intercepts", INTERCEPTS)
def test_gains_of_squared_loss_are_exact(intercepts):
    data = random_tasks("wide", d=6)
    prior = quadratic_prior(data, 0.3, 1e3)
    problem = Problem(bind("squared", data, intercepts), prior, L21(), 0.0)
    best = solve(problem, Newton(), stop=[max_iter(5)]).point
    for seed in range(3):
        point = problem.at(random_coef(problem.shape, seed))
        gain = largest_gain(problem, point)
        assert gain == pytest.approx(point.value - best.value, rel=1e-9)


def test_separated_classes_gain_all_of_their_loss():
    data = random_tasks("stacked", m=1, d=1, n=4)
    signs = np.where(data.y >= 0, 1.0, -1.0)
    data = data.with_matrix((signs * [2.0, 1.0, 1.0, 2.0])[:, np.newaxis])
    prior = QuadraticPrior.none(1, 1)
    problem = Problem(bind("logistic", data), prior, L21(), 0.0)
    for slope in (5.0, 20.0, 50.0):
        point = problem.at(np.array([[slope]]))
        assert largest_gain(problem, point) == pytest.approx(point.value, rel=1e-6)
