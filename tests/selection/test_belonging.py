"""Who does not belong: found whatever ties are set, and nobody where all differ."""

import numpy as np
import pytest

from planted import plant
from priormtl import MultiTaskClassifier, MultiTaskRegressor, TaskPrior
from priormtl.data import from_labels
from priormtl.selection import Solver, find_outliers
from priormtl.solvers import default_method, gap_below, max_iter

SOLVER = Solver(default_method, lambda _: [gap_below(1e-8, 1), max_iter(200)], 1e-8)


def find(X, y, task, build=MultiTaskRegressor, **settings):
    problem = build(**settings)._set_up(from_labels(X, y, task)).problem
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
    problem = MultiTaskRegressor(task_prior=prior)._set_up(from_labels(X, y, task))
    found = find_outliers(problem.problem, SOLVER)
    assert found is None or not found.outliers.any()


def test_tasks_without_ties_or_targets_are_not_judged():
    X, y, task = draw(0, 0.1, (20, 30))
    free = MultiTaskRegressor(task_prior=None)._set_up(from_labels(X, y, task))
    assert find_outliers(free.problem, SOLVER) is None
    assert find(X, 0.0 * y, task) == []
    assert find(0.0 * X, y, task) == []
