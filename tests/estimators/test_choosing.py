"""Attempt: the candidate that searches find, and how far they are."""

from contextlib import contextmanager

import numpy as np

from priormtl import MultiTaskRegressor, summarize
from priormtl.estimators.choosing import Attempt
from priormtl.selection import Grid, Solver, StatisticsError, Trial

GRID = Grid(np.array([10.0, 0.1]), np.array([1.0]), np.array([0.1, 100.0]))


def parts(m=8, n=6):
    """Two parts of tasks that agree but for the last."""
    rng = np.random.default_rng(0)
    coef = np.tile([2.0, -1.0], (m, 1))
    coef[-1] = [-8.0, 8.0]
    task = np.repeat(np.arange(m), n)
    for _ in range(2):
        X = rng.normal(size=(m * n, 2))
        y = np.sum(X * coef[task], axis=1) + 0.1 * rng.normal(size=m * n)
        yield summarize(X, y, task)


def attempt(told):
    """Both parts judge once; ``told`` gets a word after each path."""
    model = MultiTaskRegressor(task_prior="mean")
    trials = [
        Trial(setup.problem, setup.scale, StatisticsError(test))
        for train, test in zip(parts(), reversed(list(parts())), strict=True)
        for setup in [model._model().pose(train)]
    ]

    @contextmanager
    def progress(what, total):
        yield lambda: told.append((what, total))

    solver = Solver(model._choose_method, model._rules, model.tol)
    return Attempt(trials, solver, 1, progress)


def problem():
    whole = sum(parts())
    return MultiTaskRegressor(task_prior="mean")._model().pose(whole).problem


def test_the_best_candidate_is_taken():
    result, best = attempt([]).choose(GRID, "best")
    assert result.scores.shape == (4, 2)
    assert best == np.argmax(result.mean_scores)


def test_a_task_that_does_not_belong_is_let_out():
    tried = attempt([])
    plain, best = tried.choose(GRID, "best")
    result, chosen = tried.choose_outliers(problem(), plain, best, None)
    assert result.plain is plain
    assert result.mean_scores[chosen] > plain.mean_scores[best]


def test_every_path_is_told():
    told = []
    tried = attempt(told)
    chosen = tried.choose(GRID, "best")
    tried.choose_outliers(problem(), *chosen, None)
    names = [what for what, _ in told]
    assert set(names) == {"2 splits", "outlier tasks"}
    assert all(names.count(what) == total for what, total in told)
