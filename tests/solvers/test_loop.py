"""The loop, its stopping rules and its records."""

from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest

from instances import (
    build_problem,
    random_coef,
    random_tasks,
    sine_problem,
    with_counted_products,
)
from priormtl.problem import paper_constants
from priormtl.solvers import (
    METHODS,
    Fista,
    Gd,
    History,
    Linear,
    Progress,
    Solver,
    StopReason,
    diverged,
    gap_below,
    iterate,
    max_iter,
    max_seconds,
    no_progress,
    solve,
    stalled,
)
from priormtl.solvers.first_order import ProximalState as GdState
from priormtl.solvers.loop import INEXACT_SHARE, solve_inexactly

EVERY_METHOD = pytest.mark.parametrize("name", ["auto", *METHODS])


def test_iterate_starts_at_zero_and_counts_steps():
    run = list(islice(iterate(sine_problem(), Gd()), 4))
    assert [progress.n_iter for progress in run] == [0, 1, 2, 3]
    assert not run[0].state.point.coef.any()
    assert run[0].before is None
    assert run[3].before is run[2].state


def test_iterate_starts_where_it_is_told():
    coef = np.ones((5, 4))
    progress = next(iterate(sine_problem(), Gd(), coef))
    np.testing.assert_array_equal(progress.state.point.coef, coef)


def test_rise_is_that_of_the_objective():
    first, second = islice(iterate(sine_problem(), Gd()), 2)
    assert first.rise == -np.inf
    assert second.rise == pytest.approx(second.objective - first.objective)


def test_solution_holds_what_the_last_step_left():
    problem, seen = sine_problem(), []
    solution = solve(problem, Gd(), stop=[max_iter(7)], callbacks=[seen.append])
    last = seen[-1]
    assert solution.n_iter == last.n_iter == 7
    assert solution.coef is last.state.point.coef
    assert solution.certificate is last.rounded
    assert solution.certificate.primal == last.objective
    assert solution.seconds == last.seconds
    np.testing.assert_array_equal(
        solution.intercept, problem.fit.intercept(solution.coef)
    )


def test_callbacks_see_every_step_once_in_order():
    seen = []
    first, second = (lambda p, k=k: seen.append((p.n_iter, k)) for k in "ab")
    solve(sine_problem(), Gd(), stop=[max_iter(2)], callbacks=[first, second])
    assert seen == [(n, k) for n in range(3) for k in "ab"]


def test_first_rule_that_speaks_gives_the_reason():
    problem = sine_problem()
    rules = [gap_below(1e9), max_iter(0)]
    assert solve(problem, Gd(), stop=rules).reason is StopReason.GAP
    assert solve(problem, Gd(), stop=rules[::-1]).reason is StopReason.MAX_ITER


def test_certificate_is_computed_at_most_once():
    progress = next(iterate(sine_problem(), Gd()))
    assert progress.certificate is progress.certificate


@EVERY_METHOD
def test_warm_start_at_the_optimum_stops_at_once(name):
    problem = sine_problem()
    rules = [gap_below(1e-12), max_iter(5000)]
    best = solve(problem, Fista(restart=True), stop=rules)
    again = solve(
        problem,
        Solver(name).choose(problem),
        coef=best.coef,
        stop=[gap_below(1e-11), max_iter(5000)],
    )
    assert again.n_iter == 0
    assert again.reason is StopReason.GAP


@EVERY_METHOD
def test_equal_problems_give_equal_bits(name):
    runs = []
    for _ in range(2):
        problem = sine_problem(m=8)
        method = Solver(name).choose(problem)
        runs.append(solve(problem, method, stop=[max_iter(60)]))
    np.testing.assert_array_equal(runs[0].coef, runs[1].coef)
    assert runs[0].certificate == runs[1].certificate


def test_certificates_cost_no_product_with_a_penalty():
    problem, counter = with_counted_products(sine_problem())
    point = problem.at(np.ones(problem.shape))
    spent = counter.count
    problem.certify(point)
    assert counter.count == spent


def test_zero_start_is_looked_at_once():
    problem, counter = with_counted_products(sine_problem())
    next(iterate(problem, Fista()))
    spent = counter.count
    assert problem.null_objective > 0
    assert problem.lam_max > 0
    assert counter.count == spent


def progress_after(n, problem=None, method=None):
    run = iterate(problem or sine_problem(), method or Gd())
    return next(islice(run, n, None))


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-9])
def test_gap_rule_keeps_its_promise(tol):
    problem = sine_problem()
    rules = [gap_below(tol), max_iter(5000)]
    solution = solve(problem, Fista(restart=True), stop=rules)
    assert solution.certificate.gap <= tol * problem.null_objective
    assert solution.reason is StopReason.GAP
    assert solution.n_iter % 10 == 0


def test_gap_rule_checks_every_few_steps_only():
    rule = gap_below(1e9, every=5)
    answers = [rule(progress) for progress in islice(iterate(sine_problem(), Gd()), 7)]
    assert [answer is StopReason.GAP for answer in answers] == [
        n % 5 == 0 for n in range(7)
    ]


def test_gap_rule_tells_when_only_rounding_is_left():
    problem = sine_problem()
    solution = solve(
        problem,
        Fista(restart=True),
        stop=[gap_below(0.0, every=1), stalled(), max_iter(20_000)],
    )
    ends = {StopReason.ROUNDING, StopReason.GAP, StopReason.STALLED}
    assert solution.reason in ends
    primal, dual = solution.certificate[:2]
    assert primal - dual <= solution.certificate.least_gap
    assert solution.certificate.gap <= 1e-12 * problem.null_objective


def test_max_iter_counts_steps():
    solution = solve(sine_problem(), Gd(), stop=[max_iter(3)])
    assert (solution.n_iter, solution.reason) == (3, StopReason.MAX_ITER)


def test_max_seconds_counts_steps_only():
    problem, rule = sine_problem(), max_seconds(1.5)
    state = progress_after(1, problem).state
    early, late = (Progress(problem, state, None, 1, s) for s in (1.4, 1.5))
    assert rule(early) is None
    assert rule(late) is StopReason.MAX_SECONDS


def test_no_time_means_no_step():
    solution = solve(sine_problem(), Gd(), stop=[max_seconds(0.0)])
    assert (solution.n_iter, solution.reason) == (0, StopReason.MAX_SECONDS)


def test_divergence_is_told_and_not_warned_about():
    problem = sine_problem(m=8, lam=0.05, epsilon=50.0)
    solution = solve(
        problem, Linear(constants=paper_constants), stop=[diverged(), max_iter(10_000)]
    )
    assert solution.reason is StopReason.DIVERGED
    assert solution.n_iter < 10_000


@pytest.mark.slow
def test_a_run_without_guard_overflows_and_is_told_in_the_end():
    problem = sine_problem(m=8, lam=0.05, epsilon=50.0)
    solution = solve(
        problem,
        Linear(constants=paper_constants),
        stop=[diverged(factor=np.inf), max_iter(20_000)],
    )
    assert solution.reason is StopReason.DIVERGED


@pytest.mark.parametrize("name", METHODS)
def test_converging_runs_are_not_called_diverging(name):
    problem = sine_problem()
    rules = [diverged(), gap_below(1e-9), max_iter(20_000)]
    solution = solve(problem, Solver(name).choose(problem), stop=rules)
    assert solution.reason is StopReason.GAP


@pytest.mark.parametrize("name", METHODS)
def test_warm_start_above_the_limit_is_not_called_diverging(name):
    problem = sine_problem()
    solution = solve(
        problem,
        Solver(name).choose(problem),
        coef=np.full(problem.shape, 100.0),
        stop=[diverged(), gap_below(1e-9), max_iter(20_000)],
    )
    assert solution.reason is StopReason.GAP


def test_every_reason_is_a_sentence():
    sentences = [reason.value for reason in StopReason]
    assert len(set(sentences)) == len(sentences)
    assert all(" " in sentence for sentence in sentences)


def test_nearly_perfect_fit_stops_at_rounding_level():
    data = random_tasks("stacked", m=2, d=4)
    P = random_coef(data.shape)
    exact = replace(data, y=data.forward(P))
    problem = build_problem(exact, lam=1e-5)
    rules = [gap_below(0.0, every=1), stalled(), max_iter(5000)]
    solution = solve(problem, Fista(restart=True), stop=rules)
    ends = {StopReason.ROUNDING, StopReason.GAP, StopReason.STALLED}
    assert solution.reason in ends
    assert solution.certificate.gap <= 1e-12 * problem.null_objective
    np.testing.assert_allclose(solution.coef, P, atol=1e-5)


class Wanderer:
    """A method that moves, but never to a better place."""

    check_every = 1

    def start(self, problem, point):
        return GdState(point, 1.0)

    def step(self, problem, state):
        return GdState(problem.at(-1.01 * state.point.coef), 1.0)


class Sleeper(Wanderer):
    """A method that stays where it is."""

    def step(self, problem, state):
        return GdState(problem.at(state.point.coef.copy()), 1.0)


def test_stalled_means_not_a_bit_has_changed():
    problem = sine_problem()
    start = np.ones(problem.shape)
    asleep = solve(problem, Sleeper(), coef=start, stop=[stalled(), max_iter(9)])
    assert (asleep.reason, asleep.n_iter) == (StopReason.STALLED, 1)
    astray = solve(problem, Wanderer(), coef=start, stop=[stalled(), max_iter(9)])
    assert (astray.reason, astray.n_iter) == (StopReason.MAX_ITER, 9)


def test_no_progress_counts_checks_since_the_gap_last_halved():
    problem = sine_problem()
    rules = [no_progress(5), max_iter(50)]
    astray = solve(problem, Wanderer(), coef=np.ones(problem.shape), stop=rules)
    assert (astray.reason, astray.n_iter) == (StopReason.NO_PROGRESS, 5)
    rules = [gap_below(1e-10, every=1), no_progress(5)]
    newton = solve(problem, Solver("auto").choose(problem), stop=rules)
    assert newton.reason is StopReason.GAP


@pytest.mark.parametrize(
    ("gap", "reason"),
    [(1e-15, StopReason.ROUNDING), (1e-13, None), (0.0, StopReason.GAP)],
)
def test_gaps_at_the_level_of_rounding_are_as_good_as_none(gap, reason):
    problem = SimpleNamespace(
        null_objective=1.0,
        fit=SimpleNamespace(noise=1e-14),
        is_nearly_smooth=lambda point, limit: False,
    )
    known = SimpleNamespace(gap=gap, least_gap=0.0)
    state = SimpleNamespace(point=None)
    progress = SimpleNamespace(
        n_iter=0, problem=problem, state=state, certificate=known, rounded=known
    )
    assert gap_below(1e-300)(progress) is reason


def test_divergence_is_checked_as_often_as_asked():
    def progress(n):
        return SimpleNamespace(n_iter=n, objective=np.nan)

    rule = diverged(every=3)
    found = [rule(progress(n)) for n in range(1, 7)]
    assert found == [None, None, StopReason.DIVERGED] * 2


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
    assert last.gap == solution.certificate._replace(rounding=0.0).gap
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


def test_most_of_the_gap_is_closed():
    problem = sine_problem()
    start = problem.certify(problem.null_point).gap
    solution = solve_inexactly(problem, Fista(restart=True), np.zeros(problem.shape))
    assert 0 < solution.certificate.gap <= INEXACT_SHARE * start
    assert solution.n_iter < 60


def test_nothing_happens_at_the_optimum():
    problem = sine_problem()
    problem = problem.with_strengths(lam=2.0 * problem.lam_max)
    solution = solve_inexactly(problem, Fista(restart=True), np.zeros(problem.shape))
    assert solution.n_iter == 0
