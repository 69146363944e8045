from itertools import islice

import numpy as np
import pytest

from instances import sine_problem, with_counted_products
from priormtl.solvers import (
    METHODS,
    Fista,
    Gd,
    StopReason,
    gap_below,
    iterate,
    max_iter,
    method_by_name,
    solve,
)

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
    assert solution.certificate is last.certificate
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
        method_by_name(name, problem),
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
        method = method_by_name(name, problem)
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
