"""Outlier tasks: found whatever ties are set, nobody where all differ, at what cost."""

import numpy as np
import pytest

from planted import plant
from priormtl import MultiTaskClassifier, MultiTaskRegressor, TaskPrior
from priormtl.data import from_labels
from priormtl.losses import FreeIntercepts, OutlierFit, Squared
from priormtl.model import Solver
from priormtl.selection import (
    column_pulls,
    find_outliers,
    pose_outliers,
    solve_outliers,
    suggest_strength,
)
from priormtl.selection.outliers import TaskResiduals

SOLVER = Solver(tol=1e-9, max_iter=200)


# Residuals of tasks: standard normal where all vary alike, whatever their rows.


def leave(rows, spread, noise, d=4, seed=0, reference=None):
    """What the true centre leaves of tasks with these numbers of rows."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(len(rows)), rows)
    X = rng.normal(size=(len(task), d))
    coef = spread * rng.normal(size=(len(rows), d))
    y = np.sum(X * coef[task], axis=1) + noise * rng.normal(size=len(task))
    fit = Squared().bind(from_labels(X, y, task), FreeIntercepts())
    share = np.ones(len(rows))
    return TaskResiduals.at(fit, np.zeros(fit.shape), share, reference)


EVERYONE = np.ones(200, bool)


@pytest.mark.parametrize("noise", [0.1, 3.0])
def test_noise_alone_is_told_and_leaves_normal_scores(noise):
    left = leave([20] * 200, 0.0, noise)
    assert np.sqrt(left.noise) == pytest.approx(noise, rel=0.05)
    scores = left.scores(EVERYONE)
    assert np.mean(scores) == pytest.approx(0.0, abs=0.3)
    assert np.std(scores) <= 1.1


def test_variation_is_not_taken_for_evidence_against_tasks_with_many_rows():
    left = leave([10, 400] * 100, 0.5, 1.0)
    scores = left.scores(EVERYONE)
    few, many = scores[::2], scores[1::2]
    assert np.median(few) == pytest.approx(np.median(many), abs=0.3)
    assert scores.max() < 4.0


def test_one_task_that_differs_more_stands_out():
    left = leave([30] * 200, 0.1, 1.0)
    left.squares[7] *= 30.0
    assert np.argmax(left.scores(EVERYONE)) == 7
    assert left.scores(EVERYONE)[7] > 4.0


def test_few_rows_leave_noise_unknown_but_judge_all_the_same():
    left = leave([3] * 200, 0.0, 2.0)
    assert left.noise is None
    assert np.sqrt(left.noise_variance(EVERYONE)) == pytest.approx(2.0, rel=0.2)
    assert np.median(left.scores(EVERYONE)) == pytest.approx(0.0, abs=0.1)


@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_flat_axes_do_not_matter(spread):
    left = leave([20] * 200, spread, 1.0)
    more = ((0, 0), (0, 3))
    values = np.pad(left.values, more, constant_values=1.0)
    wide = TaskResiduals(values, np.pad(left.squares, more), left.axes, left.noise)
    expected = left.scores(EVERYONE)
    assert wide.scores(EVERYONE) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_tasks_that_nobody_can_judge_score_least():
    left = leave([20] * 200, 0.0, 1.0)
    blind = TaskResiduals(left.values, left.squares, 0 * left.axes, left.noise)
    assert np.all(blind.scores(EVERYONE) == -np.inf)


# Which tasks are outliers.


def find(X, y, task, build=MultiTaskRegressor, **settings):
    problem = build(**settings)._model().pose(from_labels(X, y, task)).problem
    found = find_outliers(problem, SOLVER)
    return np.flatnonzero(found.outliers).tolist()


def draw(seed, spread, rows, m=10, d=6, noise=1.0):
    """Tasks that all vary about a mean, some with many more rows than others."""
    rng = np.random.default_rng(seed)
    coef = rng.normal(size=d) + spread * rng.normal(size=(m, d))
    task = np.repeat(np.arange(m), rng.integers(*rows, size=m))
    X = rng.normal(size=(len(task), d))
    y = np.sum(X * coef[task], axis=1) + noise * rng.normal(size=len(task))
    return X, y, task


@pytest.mark.parametrize("task_prior", ["chain", "mean"])
@pytest.mark.parametrize("seed", range(3))
def test_outliers_are_found_whatever_the_strength_of_ties(seed, task_prior):
    X, y, task, _, outliers = plant(seed)
    found = [
        find(X, y, task, task_prior=task_prior, epsilon=epsilon)
        for epsilon in (0.0, 1.0, 1e3)
    ]
    assert found == [outliers] * 3


@pytest.mark.parametrize("spread", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("rows", [(4, 12), (20, 21), (15, 400)])
def test_tasks_that_all_vary_are_not_named(rows, spread):
    named = [bool(find(*draw(seed, spread, rows))) for seed in range(5)]
    assert sum(named) <= 1


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_units_do_not_matter(unit):
    X, y, task, _, outliers = plant()
    assert find(X, unit * y, task, lam=unit) == outliers
    assert find(unit * X, y, task, lam=unit) == outliers


@pytest.mark.parametrize("fit_intercept", [True, False, "tied"])
def test_intercepts_may_be_of_any_kind(fit_intercept):
    X, y, task, _, outliers = plant(1)
    y = y - 0.3 * task
    assert find(X, y, task, fit_intercept=fit_intercept) == outliers


def test_groups_are_held_against_themselves():
    X, y, task, *_ = plant(1, n_outliers=0, rows=(30, 60))
    second = task >= 8
    y = np.where(second, -y, y)
    groups = {"a": range(8), "b": range(8, 16)}
    prior = TaskPrior.groups({name: list(part) for name, part in groups.items()})
    assert find(X, y, task, task_prior=prior) == []
    y = np.where(task == 3, -y, y)
    assert find(X, y, task, task_prior=prior) == [3]


def test_classes_are_judged_by_a_model_of_their_loss():
    X, y, task, _, outliers = plant(2, rows=(80, 160))
    sign = np.where(y - 0.3 * task > 0, 1.0, -1.0)
    assert find(X, sign, task, MultiTaskClassifier) == outliers


@pytest.mark.parametrize("m", [1, 2])
def test_two_tasks_cannot_outvote_each_other(m):
    X, y, task = draw(0, 5.0, (20, 30), m=m)
    prior = TaskPrior.groups({"all": list(range(m))})
    posed = MultiTaskRegressor(task_prior=prior)._model().pose(from_labels(X, y, task))
    found = find_outliers(posed.problem, SOLVER)
    assert found is None or not found.outliers.any()


def test_tasks_without_ties_or_targets_are_not_judged():
    X, y, task = draw(0, 0.1, (20, 30))
    free = MultiTaskRegressor(task_prior=None)._model().pose(from_labels(X, y, task))
    assert find_outliers(free.problem, SOLVER) is None
    assert find(X, 0.0 * y, task) == []
    assert find(0.0 * X, y, task) == []


# What components of their own cost.


def planted_problem(weight=1.0, **settings):
    X, y, task, *_ = plant(**settings)
    model = MultiTaskRegressor(3.0, 0.0, 30.0, task_prior="mean")
    data = from_labels(X, y, task, np.full(len(y), weight))
    return model._model().pose(data).problem


def test_the_largest_pull_is_where_outliers_begin():
    problem = planted_problem()
    plain = SOLVER.solve(problem)
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
        problem = MultiTaskRegressor(task_prior=None)._model().pose(data).problem
        means.append(column_pulls(problem, problem.null_point).mean())
    assert means[0] == pytest.approx(means[1], rel=0.2)
    assert means[1] == pytest.approx(1.0, rel=0.2)


def test_units_of_targets_are_those_of_pulls():
    problem = planted_problem()
    pulls = column_pulls(problem, problem.null_point)
    X, y, task, *_ = plant()
    data = from_labels(5.0 * X, 7.0 * y, task)
    other = MultiTaskRegressor()._model().pose(data).problem
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
    plain = SOLVER.solve(problem)
    pulls = column_pulls(problem, plain.point)
    for share in (0.02, 0.3, 0.9):
        posed = pose_outliers(problem, float(np.quantile(pulls, share)))
        assert isinstance(posed.fit, OutlierFit)
        solution = SOLVER.solve(posed, plain.coef)
        assert solution.certificate.gap <= 1e-9 * posed.null_objective
