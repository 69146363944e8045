import pytest

from instances import sine_problem, with_counted_products
from priormtl.solvers import Fista, Gd, History, gap_below, max_iter, solve


def run(history, n=20, method=None, problem=None):
    rules = [max_iter(n)]
    return solve(
        problem or sine_problem(), method or Gd(), stop=rules, callbacks=[history]
    )


def test_rows_tell_step_time_objective_and_gap():
    history = History()
    solution = run(history)
    assert [row.n_iter for row in history.rows] == list(range(21))
    last = history.rows[-1]
    assert last.objective == solution.certificate.primal
    assert last.gap == solution.certificate.gap
    assert last.seconds == solution.seconds


def test_seconds_never_run_backwards():
    history = History()
    run(history)
    seconds = [row.seconds for row in history.rows]
    assert seconds == sorted(seconds)
    assert seconds[0] >= 0.0


def test_objective_of_gradient_descent_falls_and_its_gap_bounds_what_is_left():
    history = History()
    problem = sine_problem()
    run(history, n=50, problem=problem)
    objectives = [row.objective for row in history.rows]
    assert objectives == sorted(objectives, reverse=True)
    best = solve(
        problem, Fista(restart=True), stop=[gap_below(1e-12), max_iter(5000)]
    ).certificate
    assert all(row.gap >= row.objective - best.primal for row in history.rows)


def test_every_few_steps_only():
    history = History(every=5)
    run(history, n=12)
    assert [row.n_iter for row in history.rows] == [0, 5, 10]


def test_gaps_only_where_asked():
    history = History(gaps=False)
    run(history)
    assert {row.gap for row in history.rows} == {None}


def test_looking_costs_no_product():
    watched, first = with_counted_products(sine_problem())
    alone, second = with_counted_products(sine_problem())
    run(History(), problem=watched)
    solve(alone, Gd(), stop=[max_iter(20)])
    assert first.count == second.count


def test_histories_do_not_share_rows():
    first, second = History(), History()
    run(first)
    assert second.rows == []
    assert first.rows[0].objective == pytest.approx(sine_problem().null_objective)
