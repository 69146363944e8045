from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest

from instances import build_problem, random_coef, random_tasks, sine_problem
from priormtl.problem import paper_constants
from priormtl.solvers import (
    METHODS,
    Fista,
    Gd,
    Linear,
    Progress,
    StopReason,
    diverged,
    gap_below,
    iterate,
    max_iter,
    max_seconds,
    method_by_name,
    no_progress,
    small_change,
    solve,
    stalled,
)
from priormtl.solvers.first_order import ProximalState as GdState


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


def test_gap_rule_looks_every_few_steps_only():
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
        stop=[gap_below(0.0, every=1), max_iter(20_000)],
    )
    assert solution.reason in {StopReason.ROUNDING, StopReason.GAP}
    assert solution.certificate.gap <= 1e-14 * problem.null_objective


def test_small_change_is_the_papers_rule():
    problem = sine_problem()
    seen = []
    rules = [small_change(1e-3), max_iter(5000)]
    solution = solve(problem, Gd(), stop=rules, callbacks=[seen.append])
    changes = [abs(progress.rise) for progress in seen]
    assert solution.reason is StopReason.SMALL_CHANGE
    assert changes[-1] < 1e-3 <= min(changes[:-1])


def test_max_iter_counts_steps():
    solution = solve(sine_problem(), Gd(), stop=[max_iter(3)])
    assert (solution.n_iter, solution.reason) == (3, StopReason.MAX_ITER)


def test_max_seconds_looks_at_the_clock_of_steps():
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
    solution = solve(problem, method_by_name(name, problem), stop=rules)
    assert solution.reason is StopReason.GAP


@pytest.mark.parametrize("name", METHODS)
def test_warm_start_above_the_limit_is_not_called_diverging(name):
    problem = sine_problem()
    solution = solve(
        problem,
        method_by_name(name, problem),
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
    rules = [gap_below(0.0, every=1), max_iter(5000)]
    solution = solve(problem, Fista(restart=True), stop=rules)
    assert solution.reason in {StopReason.ROUNDING, StopReason.GAP}
    np.testing.assert_allclose(solution.coef, P, atol=1e-5)


class Wanderer:
    """A method that moves, but never to a better place."""

    look_every = 1

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


def test_no_progress_counts_looks_since_the_gap_last_halved():
    problem = sine_problem()
    rules = [no_progress(5), max_iter(50)]
    astray = solve(problem, Wanderer(), coef=np.ones(problem.shape), stop=rules)
    assert (astray.reason, astray.n_iter) == (StopReason.NO_PROGRESS, 5)
    rules = [gap_below(1e-10, every=1), no_progress(5)]
    newton = solve(problem, method_by_name("auto", problem), stop=rules)
    assert newton.reason is StopReason.GAP


@pytest.mark.parametrize(
    ("gap", "reason"),
    [(1e-15, StopReason.ROUNDING), (1e-13, None), (0.0, StopReason.GAP)],
)
def test_gaps_at_the_level_of_rounding_are_as_good_as_none(gap, reason):
    fit = SimpleNamespace(magnitude=1.0)
    problem = SimpleNamespace(null_objective=1.0, fit=fit)
    certificate = SimpleNamespace(gap=gap)
    progress = SimpleNamespace(n_iter=0, problem=problem, certificate=certificate)
    assert gap_below(1e-300)(progress) is reason


def test_divergence_is_looked_at_as_often_as_asked():
    def progress(n):
        return SimpleNamespace(n_iter=n, objective=np.nan)

    rule = diverged(every=3)
    found = [rule(progress(n)) for n in range(1, 7)]
    assert found == [None, None, StopReason.DIVERGED] * 2
