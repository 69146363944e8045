import numpy as np
import pytest

from instances import (
    INTERCEPTS,
    build_problem,
    kind_of_intercepts,
    random_coef,
    random_tasks,
    sine_problem,
    with_signs,
)
from priormtl.losses import Logistic
from priormtl.solvers import History, Newton, StopReason, gap_below, max_iter, solve


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
