"""Outlier tasks: found whatever ties are set, nobody where all differ, at what cost."""

import numpy as np
import pytest

from drawn_tasks import plant_outliers
from instances import turns
from priormtl import MultiTaskClassifier, MultiTaskRegressor, TaskPrior
from priormtl.data import from_labels
from priormtl.losses import OutlierFit
from priormtl.model import Solver
from priormtl.selection import (
    column_pulls,
    find_outliers,
    outlier_test,
    pose_outliers,
    solve_outliers,
    suggest_strength,
)
from priormtl.selection.outlier_test import usual_variance

SOLVER = Solver(tol=1e-9, max_iter=200)


# Noise of tasks: how much the others' says about it.


def variances(spread, free, m=200, seed=0):
    """Sums of squares of tasks whose noise differs by a factor of exp(±spread)."""
    rng = np.random.default_rng(seed)
    sigma = np.exp(spread * rng.uniform(-1.0, 1.0, size=m))
    free = np.full(m, float(free))
    return sigma**2 * rng.chisquare(free), free


def test_equal_noise_is_pooled_and_unequal_noise_is_not():
    alike, apart = (usual_variance(*variances(spread, 8), 0.5) for spread in (0.0, 1.5))
    assert alike[0] == pytest.approx(1.0, rel=0.1)
    assert alike[1] > 50.0
    assert apart[1] < 4.0


def test_few_tasks_say_little_about_each_other():
    degrees = [usual_variance(*variances(0.0, 4, m), 0.5)[1] for m in (3, 20, 500)]
    assert degrees[0] < degrees[1] < degrees[2]
    assert degrees[0] < 8.0


# P-values: uniform where no task is an outlier, whatever rows and noise.


def p_values(X, y, task, **settings):
    problem = MultiTaskRegressor(**settings)._model().pose(from_labels(X, y, task))
    return find_outliers(problem.problem, SOLVER).p_values


@turns(2, task_prior=["mean", "chain"], rows=[(9, 13), (10, 200)], spread=[0.0, 0.4])
def test_p_values_are_uniform_where_tasks_vary_alike(task_prior, rows, spread):
    p = p_values(*draw(1, spread, rows, m=150, d=3), task_prior=task_prior)
    assert np.mean(p) == pytest.approx(0.5, abs=0.12)
    assert np.mean(p < 0.1) <= 0.16
    assert p.min() > 1e-4


def test_noisy_tasks_are_no_outliers():
    X, y, task = draw(2, 0.0, (10, 30), m=100, d=3, noise=0.0)
    rng = np.random.default_rng(3)
    sigma = np.exp(rng.uniform(-1.5, 1.5, size=100))[task]
    for noise in (rng.normal(size=len(y)), rng.standard_t(3, size=len(y))):
        assert find(X, y + sigma * noise, task, task_prior="mean") == []


def test_one_feature_that_varies_makes_no_outliers_of_five_tasks():
    named = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y, task = draw(seed, 0.0, (40, 80), m=5)
        y = y + 0.3 * X[:, 0] * rng.normal(size=5)[task]
        named += bool(find(X, y, task, task_prior="mean"))
    assert named <= 1


def test_drifting_chains_have_no_outliers_but_jumps():
    rng = np.random.default_rng(4)
    X, y, task = draw(4, 0.0, (30, 60), m=40, d=3)
    walk = np.cumsum(0.3 * rng.normal(size=(40, 3)), axis=0)
    y = y + np.sum(X * walk[task], axis=1)
    assert find(X, y, task, task_prior="chain") == []
    y = y + 3.0 * X[:, 0] * (task == 17)
    assert find(X, y, task, task_prior="chain") == [17]


@pytest.mark.parametrize("together", [False, True])
def test_three_of_eight_do_not_hide_each_other(together):
    X, y, task = draw(5, 0.0, (40, 60), m=8, d=4)
    away = np.random.default_rng(6).normal(size=(8, 4))
    away = 2.0 * away / np.linalg.norm(away, axis=1, keepdims=True)
    away = away[:1] if together else away
    out = np.isin(task, [1, 4, 6])
    y = y + np.sum(X * away[0 if together else task], axis=1) * out
    assert find(X, y, task, task_prior="mean") == [1, 4, 6]


def test_dense_graphs_are_judged_by_their_mean(monkeypatch):
    X, y, task = draw(7, 0.1, (30, 60), m=9)
    y = np.where(task == 4, -2.0 * y, y)
    graph = [(a, b) for b in range(9) for a in range(b)]
    prior = TaskPrior.from_graph(graph)
    assert find(X, y, task, task_prior=prior) == [4]
    monkeypatch.setattr(outlier_test, "MOST_BLOCK_STEPS", 50)
    assert find(X, y, task, task_prior=prior) == [4]


def test_without_rows_to_tell_noise_what_tasks_leave_stands_for_it():
    X, y, task = draw(8, 0.0, (4, 5), m=40, d=3)
    assert find(X, y, task, task_prior="mean") == []
    y = y + 60.0 * X[:, 0] * (task == 7)
    assert find(X, y, task, task_prior="mean") == [7]


def test_more_features_than_rows_keep_those_that_matter():
    rng = np.random.default_rng(9)
    X, task = rng.normal(size=(200, 120)), np.repeat(np.arange(8), 25)
    y = X[:, :3] @ np.ones(3) + 0.3 * rng.normal(size=200)
    assert find(X, y, task, task_prior="mean", lam=5.0) == []
    y = np.where(task == 5, -y, y)
    assert find(X, y, task, task_prior="mean", lam=5.0) == [5]


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
@pytest.mark.parametrize("seed", range(2))
def test_outliers_are_found_whatever_the_strength_of_ties(seed, task_prior):
    X, y, task, _, outliers = plant_outliers(seed)
    found = [
        find(X, y, task, task_prior=task_prior, epsilon=epsilon)
        for epsilon in (0.0, 1.0, 1e3)
    ]
    assert found == [outliers] * 3


@turns(spread=[0.0, 0.3, 2.0], rows=[(4, 12), (20, 21), (15, 400)])
def test_tasks_that_all_vary_are_not_named(rows, spread):
    named = [bool(find(*draw(seed, spread, rows))) for seed in range(5)]
    assert sum(named) <= 1


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_units_do_not_matter(unit):
    X, y, task, _, outliers = plant_outliers()
    assert find(X, unit * y, task, lam=unit) == outliers
    assert find(unit * X, y, task, lam=unit) == outliers


@pytest.mark.parametrize("fit_intercept", [True, False, "tied"])
def test_intercepts_may_be_of_any_kind(fit_intercept):
    X, y, task, _, outliers = plant_outliers(1)
    y = y - 0.3 * task
    assert find(X, y, task, fit_intercept=fit_intercept) == outliers


def test_groups_are_held_against_themselves():
    X, y, task, *_ = plant_outliers(1, n_outliers=0, rows=(30, 60))
    second = task >= 8
    y = np.where(second, -y, y)
    groups = {"a": range(8), "b": range(8, 16)}
    prior = TaskPrior.groups({name: list(part) for name, part in groups.items()})
    assert find(X, y, task, task_prior=prior) == []
    y = np.where(task == 3, -y, y)
    assert find(X, y, task, task_prior=prior) == [3]


def test_classes_are_judged_by_a_model_of_their_loss():
    X, y, task, _, outliers = plant_outliers(2, rows=(80, 160))
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
    X, y, task, *_ = plant_outliers(**settings)
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
    X, y, task, *_ = plant_outliers()
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
