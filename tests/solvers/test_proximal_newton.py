"""ProximalNewton: logistic optima in few steps."""

import numpy as np
import pytest

from instances import (
    build_problem,
    intercept_kinds,
    random_coef,
    sine_problem,
    sine_tasks,
    with_signs,
)
from priormtl.losses import Logistic
from priormtl.solvers import (
    Fista,
    ProximalNewton,
    default_method,
    gap_below,
    max_iter,
    solve,
)
from priormtl.solvers.newton import _search


def run(problem, method, tol):
    rules = [gap_below(tol, method.check_every), max_iter(5000)]
    return solve(problem, method, stop=rules)


@pytest.mark.parametrize("kind", range(3))
@pytest.mark.parametrize("share", [0.01, 0.3, 0.95])
def test_agrees_with_first_order(kind, share):
    problem = build_problem(
        with_signs(sine_tasks(5, 6)),
        lam=1.0,
        theta=0.5,
        epsilon=0.8,
        loss=Logistic(),
        intercepts=intercept_kinds(5)[kind],
    )
    problem = problem.with_strengths(lam=share * problem.lam_max)
    ours = run(problem, ProximalNewton(default_method), 1e-9)
    reference = run(problem, Fista(restart=True), 1e-8)
    assert ours.certificate.gap <= 1e-9 * problem.null_objective
    assert ours.n_iter <= 30
    best = reference.certificate.primal
    assert ours.certificate.primal == pytest.approx(best, rel=1e-7)


def test_objective_never_rises():
    problem = build_problem(
        with_signs(sine_tasks(4, 8)), lam=0.05, epsilon=0.1, loss=Logistic()
    )
    seen = []
    method = ProximalNewton(default_method)
    solve(
        problem,
        method,
        stop=[gap_below(1e-9, every=1), max_iter(40)],
        callbacks=[lambda progress: seen.append(progress.objective)],
    )
    assert np.all(np.diff(seen) <= 1e-12 * seen[0])


def test_squared_loss_is_its_own_model():
    problem = sine_problem()
    assert run(problem, ProximalNewton(default_method), 1e-10).n_iter <= 6


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0, 30.0, 1000.0])
def test_the_line_search_takes_the_largest_halved_step_that_pays(factor):
    # Too long a step is halved until the objective falls by a share of what the
    # model of first order promises (Armijo's rule), and no further.
    problem = build_problem(
        with_signs(sine_tasks(4, 6)), lam=0.1, epsilon=0.3, loss=Logistic()
    )
    start = problem.at(random_coef(problem.shape))
    best = run(problem, Fista(restart=True), 1e-10).coef
    move = factor * (best - start.coef)
    before, penalty = problem.objective(start), problem.penalty.value
    change = penalty(start.coef + move) - penalty(start.coef)
    predicted = np.vdot(start.gradient, move) + problem.lam * change

    def pays(size):
        trial = problem.at(start.coef + size * move)
        return problem.objective(trial) <= before + 1e-4 * size * predicted

    size = next((0.5**k for k in range(20) if pays(0.5**k)), 0.0)
    found = _search(problem, start, start.coef + move)
    np.testing.assert_allclose(found.coef, start.coef + size * move, atol=1e-9)
    assert size > 0.0
