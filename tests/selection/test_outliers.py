"""Strengths of own parts: what noise pays, and what pulls suggest."""

import numpy as np
import pytest

from planted import plant
from priormtl import MultiTaskRegressor
from priormtl.data import from_labels
from priormtl.losses import OutlierFit
from priormtl.selection import (
    Solver,
    column_pulls,
    pose_outliers,
    solve_outliers,
    suggest_strength,
)
from priormtl.solvers import (
    default_method,
    gap_below,
    max_iter,
    no_progress,
    solve,
)

SOLVER = Solver(default_method, lambda _: [gap_below(1e-9, 1), max_iter(200)], 1e-9)


def planted_problem(weight=1.0, **settings):
    X, y, task, *_ = plant(**settings)
    model = MultiTaskRegressor(3.0, 0.0, 30.0, task_prior="mean")
    data = from_labels(X, y, task, np.full(len(y), weight))
    return model._set_up(data).problem


def solve_plain(problem):
    return solve(problem, default_method(problem), stop=SOLVER.rules(None))


def test_the_largest_pull_is_where_outliers_begin():
    problem = planted_problem()
    plain = solve_plain(problem)
    limit = column_pulls(problem, plain.point).max()
    above = solve_outliers(pose_outliers(problem, 1.0001 * limit), plain, SOLVER)
    below = solve_outliers(pose_outliers(problem, 0.99 * limit), plain, SOLVER)
    np.testing.assert_array_equal(above.point.total, plain.coef)
    assert above.certificate.primal == pytest.approx(plain.certificate.primal)
    assert below.point.fit.specific.any(axis=0).sum() == 1
    assert below.certificate.primal < plain.certificate.primal


def test_more_rows_of_the_same_kind_pull_no_harder():
    """Noise pulls with the root of the rows, and so does the price."""
    rng = np.random.default_rng(0)
    means = []
    for n in (20, 2000):
        X, task = rng.normal(size=(10 * n, 6)), np.repeat(np.arange(10), n)
        data = from_labels(X, rng.normal(size=10 * n), task)
        problem = MultiTaskRegressor(task_prior=None)._set_up(data).problem
        means.append(column_pulls(problem, problem.null_point).mean())
    assert means[0] == pytest.approx(means[1], rel=0.2)
    assert means[1] == pytest.approx(1.0, rel=0.2)


def test_units_of_targets_are_those_of_pulls():
    problem = planted_problem()
    pulls = column_pulls(problem, problem.null_point)
    X, y, task, *_ = plant()
    other = MultiTaskRegressor()._set_up(from_labels(5.0 * X, 7.0 * y, task)).problem
    np.testing.assert_allclose(column_pulls(other, other.null_point), 7.0 * pulls)


@pytest.mark.parametrize("m", [1, 2, 3, 10, 100])
def test_tasks_that_are_alike_are_not_suggested(m):
    rng = np.random.default_rng(m)
    named = [np.isfinite(suggest_strength(_chi(rng, m))) for _ in range(100)]
    assert np.mean(named) <= 0.08


def _chi(rng, m, d=8):
    return np.sqrt(rng.chisquare(d, m) / d)


@pytest.mark.parametrize("m", [10, 20, 100])
def test_tasks_that_pull_much_harder_are(m):
    pulls = _chi(np.random.default_rng(m), m)
    pulls[:2] *= 5.0
    strength = suggest_strength(pulls)
    assert np.flatnonzero(pulls > strength).tolist() == [0, 1]


def test_no_pull_suggests_no_outlier():
    assert suggest_strength(np.zeros(3)) == np.inf
    assert suggest_strength(np.array([0.0, 0.0, 4.0])) == np.inf
    assert pose_outliers(planted_problem(), np.inf).fit.is_quadratic


def test_many_outliers_converge():
    problem = planted_problem(n_outliers=5)
    plain = solve_plain(problem)
    pulls = column_pulls(problem, plain.point)
    for share in (0.02, 0.3, 0.9):
        posed = pose_outliers(problem, float(np.quantile(pulls, share)))
        assert isinstance(posed.fit, OutlierFit)
        method = default_method(posed)
        stop = [gap_below(1e-9, 1), no_progress(30), max_iter(200)]
        solution = solve(posed, method, coef=plain.coef, stop=stop)
        assert solution.certificate.gap <= 1e-9 * posed.null_objective
