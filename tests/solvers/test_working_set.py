"""WorkingSet: the whole problem's optimum from small problems."""

import numpy as np
import pytest

from instances import build_problem, from_lists, sine_problem
from priormtl.losses import FreeIntercepts, Logistic
from priormtl.penalties import Nuclear
from priormtl.solvers import (
    BlockNewton,
    Fista,
    WorkingSet,
    default_method,
    gap_below,
    max_iter,
    solve,
)


def wide_tasks(d=60, seed=0, signs=False):
    rng = np.random.default_rng(seed)
    X = [rng.standard_normal((10 + i, d)) for i in range(4)]
    coef = np.array([3.0, -2.0, 2.0])
    y = [rows[:, :3] @ coef + rng.standard_normal(len(rows)) for rows in X]
    if signs:
        y = [np.where(target > 0, 1.0, -1.0) for target in y]
    return from_lists(X, y)


def run(problem, method, tol=1e-10):
    rules = [gap_below(tol, method.check_every), max_iter(20_000)]
    return solve(problem, method, stop=rules)


@pytest.mark.parametrize("share", [0.02, 0.2, 0.9])
@pytest.mark.parametrize("initial_size", [1, 8, 1000])
def test_agrees_with_all_features_at_once(share, initial_size):
    problem = build_problem(
        wide_tasks(), lam=1.0, theta=1.0, epsilon=0.5, intercepts=FreeIntercepts()
    )
    problem = problem.with_strengths(lam=share * problem.lam_max)
    small = run(problem, WorkingSet(lambda _: BlockNewton(), initial_size))
    whole = run(problem, Fista(restart=True), 1e-9)
    unit = problem.null_objective
    assert small.certificate.gap <= 1e-10 * unit
    assert abs(small.certificate.primal - whole.certificate.primal) <= 1e-9 * unit


def test_small_problems_stay_small():
    sizes = []

    def inner(problem):
        sizes.append(problem.shape[0])
        return BlockNewton()

    problem = build_problem(wide_tasks(400), lam=1.0)
    problem = problem.with_strengths(lam=0.7 * problem.lam_max)
    run(problem, WorkingSet(inner, initial_size=8))
    assert max(sizes) <= 64


def test_logistic_loss_too():
    problem = build_problem(wide_tasks(signs=True), lam=1.0, loss=Logistic())
    problem = problem.with_strengths(lam=0.2 * problem.lam_max)
    method = WorkingSet(default_method, initial_size=4)
    ours = run(problem, method, 1e-8).certificate
    reference = run(problem, Fista(restart=True), 1e-8).certificate
    assert ours.primal == pytest.approx(reference.primal, rel=1e-7)


def test_needs_rows():
    with pytest.raises(TypeError, match="penalty of rows"):
        run(sine_problem(penalty=Nuclear()), WorkingSet(default_method))
