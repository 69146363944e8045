from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array

from instances import (
    INTERCEPTS,
    build_problem,
    kind_of_intercepts,
    random_coef,
    random_tasks,
    sine_problem,
    with_signs,
)
from priormtl.losses import Logistic, Multinomial, TiedIntercepts, by_class
from priormtl.penalties import L21, RowConstraints
from priormtl.priors import TaskPrior, laplacian
from priormtl.problem import Problem, QuadraticPrior
from priormtl.solvers import (
    History,
    Newton,
    StopReason,
    approach,
    gap_below,
    max_iter,
    solve,
)


def logistic_problem(intercepts="free", n=40):
    data = with_signs(random_tasks("weighted", m=3, d=4, n=n))
    kind = kind_of_intercepts(intercepts, 3)
    return build_problem(
        data, lam=0.0, theta=0.5, epsilon=0.8, loss=Logistic(), intercepts=kind
    )


def test_penalty_must_be_absent():
    with pytest.raises(ValueError, match=r"needs lam = 0: got 0\.6"):
        solve(sine_problem(lam=0.6), Newton(), stop=[max_iter(1)])


def test_squared_loss_needs_one_step():
    problem = sine_problem(lam=0.0)
    solution = solve(problem, Newton(), stop=[gap_below(1e-10, every=1), max_iter(9)])
    assert solution.n_iter == 1
    assert np.abs(problem.at(solution.coef).gradient).max() < 1e-9


@pytest.mark.parametrize("intercepts", INTERCEPTS)
def test_logistic_loss_converges_quadratically(intercepts):
    history = History()
    solution = solve(
        logistic_problem(intercepts),
        Newton(),
        stop=[gap_below(1e-13, every=1), max_iter(30)],
        callbacks=[history],
    )
    assert solution.n_iter <= 10
    objectives = [row.objective for row in history.rows]
    assert objectives == sorted(objectives, reverse=True)


def test_far_starts_are_halved_until_they_descend():
    problem, history = logistic_problem(), History(gaps=False)
    far = random_coef(problem.shape, scale=30.0)
    rules = [gap_below(1e-10, every=1), max_iter(200)]
    solution = solve(problem, Newton(), coef=far, stop=rules, callbacks=[history])
    assert solution.reason is StopReason.GAP
    objectives = np.array([row.objective for row in history.rows])
    assert np.all(np.diff(objectives) <= 1e-12 * objectives[:-1])


def test_at_the_minimum_it_stays():
    problem = sine_problem(lam=0.0)
    ends = [solve(problem, Newton(), stop=[max_iter(n)]) for n in (1, 5)]
    np.testing.assert_allclose(ends[0].coef, ends[1].coef, atol=1e-10)


def class_problem():
    """Three classes of three tasks, in which the first feature has one effect."""
    rng, data = np.random.default_rng(0), random_tasks("weighted", m=3, d=4, n=40)
    data = replace(data, y=rng.integers(0, 3, data.y.shape).astype(float))
    graph = by_class(laplacian(TaskPrior.mean(), data.tasks), 3)
    fit = Multinomial(3).bind(data, TiedIntercepts(graph, 2.0))
    rows = RowConstraints(np.zeros(4), np.arange(4) == 0, 3)
    prior = QuadraticPrior(csr_array((0, 4)), graph, 0.0, 0.8, ridge=np.full(4, 0.1))
    return Problem(fit, prior, L21(None, rows), 0.0)


PROBLEMS = {kind: partial(logistic_problem, kind) for kind in INTERCEPTS}


@pytest.mark.parametrize("size", [0.0, 3.0])
@pytest.mark.parametrize("problem", [*PROBLEMS.values(), class_problem])
def test_rough_steps_end_where_no_score_tells_the_difference(problem, size):
    problem = problem()
    point = approach(
        problem, size * np.sin(np.arange(np.prod(problem.shape))).reshape(problem.shape)
    )
    best = solve(problem, Newton(), stop=[gap_below(1e-10, 1), max_iter(50)])
    assert best.reason is StopReason.GAP
    left = point.value - problem.objective(best.point)
    assert left <= 1e-6 * problem.null_objective
