"""Features that no task sees: found, left at zero, and nothing else changes."""

import numpy as np
import pytest

from instances import build_problem
from priormtl.data import from_labels
from priormtl.losses import FreeIntercepts, NoIntercepts, SumFit
from priormtl.penalties import L21, Nuclear, Robust, Schatten
from priormtl.priors import QuadraticPrior
from priormtl.problem import Problem
from priormtl.solvers import gap_below, lam_grid, max_iter, solve_path
from priormtl.solvers.visible import visible_features

VISIBLE = [0, 2, 3, 5]


def tasks(seed=0):
    """Features 1 and 4 differ between tasks only."""
    rng = np.random.default_rng(seed)
    task = np.arange(60) % 5
    X = rng.standard_normal((60, 6))
    X[:, 1], X[:, 4] = task / 3.0, 7.1
    return from_labels(X, X[:, 0] - X[:, 3] + rng.standard_normal(60), task)


def pose(penalty, intercepts=None, **parts):
    intercepts = intercepts or FreeIntercepts()
    return build_problem(
        tasks(), lam=1.0, penalty=penalty, intercepts=intercepts, **parts
    )


def rules(method):
    return [gap_below(1e-10, method.look_every), max_iter(20_000)]


@pytest.mark.parametrize("penalty", [Nuclear(), Schatten(1.5)], ids=["norm", "power"])
def test_what_is_constant_within_tasks_is_found(penalty):
    np.testing.assert_array_equal(visible_features(pose(penalty)), VISIBLE)


def test_all_are_asked_where_intercepts_penalties_or_relations_need_them():
    assert visible_features(pose(Nuclear(), NoIntercepts())) is None
    assert visible_features(pose(L21())) is None
    assert visible_features(pose(Nuclear(), theta=1.0)) is None


@pytest.mark.parametrize("kind", ["nuclear", "robust"])
def test_paths_are_those_of_all_features(kind, monkeypatch):
    fit = pose(Nuclear()).fit
    fit, penalty = (SumFit(fit), Robust(1.4)) if kind == "robust" else (fit, Nuclear())
    problem = Problem(fit, QuadraticPrior.none(*fit.shape), penalty, 1.0)
    lams = lam_grid(problem, 4)
    found = solve_path(problem, lams, rules=rules)
    monkeypatch.setattr("priormtl.solvers.path.visible_features", lambda problem: None)
    for lam, ours, whole in zip(
        lams, found, solve_path(problem, lams, rules=rules), strict=True
    ):
        assert ours.coef.shape == problem.shape
        assert not ours.coef[[1, 4]].any()
        known = whole.certificate.primal
        assert ours.certificate.primal == pytest.approx(known, rel=1e-9)
        alone = problem.with_strengths(lam=lam)
        assert alone.certify(ours.point).gap <= 1e-10 * problem.null_objective
        np.testing.assert_allclose(ours.intercept, whole.intercept, atol=1e-3)
