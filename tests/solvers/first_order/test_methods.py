"""Laws of the methods, over the list: a new one is tested by being listed."""

from itertools import islice

import numpy as np
import pytest

from instances import (
    INTERCEPTS,
    LOSSES,
    PENALTIES,
    best_objective,
    build_problem,
    kind_of_intercepts,
    random_tasks,
    sine_problem,
    with_counted_products,
    with_signs,
)
from priormtl.problem import bound_constants, exact_constants, largest_curvature
from priormtl.solvers import (
    METHODS,
    Fista,
    Gd,
    History,
    Ista,
    IstaReverse,
    Linear,
    StopReason,
    gap_below,
    iterate,
    max_iter,
    method_by_name,
    solve,
)
from priormtl.solvers.first_order.momentum import ConstantMomentum, NesterovMomentum

EVERY_METHOD = pytest.mark.parametrize("name", ["auto", *METHODS])
EVERY_LOSS = pytest.mark.parametrize("loss", LOSSES)
EVERY_PENALTY = pytest.mark.parametrize("penalty", PENALTIES)
MONOTONE = pytest.mark.parametrize("name", ["gd", "ista", "ista-reverse"])


def example(loss="squared", penalty="l21", intercepts="absent", layout="stacked"):
    data = random_tasks(layout, m=4, d=5)
    return build_problem(
        with_signs(data) if loss == "logistic" else data,
        lam=0.5,
        theta=0.5,
        epsilon=0.8,
        loss=LOSSES[loss],
        penalty=PENALTIES[penalty],
        intercepts=kind_of_intercepts(intercepts, 4),
    )


def objectives(problem, method, n):
    history = History(gaps=False)
    solve(problem, method, stop=[max_iter(n)], callbacks=[history])
    return np.array([row.objective for row in history.rows])


def products_of_steps(problem, method, n):
    """States after each step, and how many products each step cost."""
    counted, counter = with_counted_products(problem)
    states, counts = [], []
    for progress in islice(iterate(counted, method), n + 1):
        states.append(progress.state)
        counts.append(counter.count)
    return states, np.diff(counts)


@pytest.mark.parametrize("intercepts", INTERCEPTS)
@EVERY_PENALTY
@EVERY_LOSS
@EVERY_METHOD
def test_all_reach_the_same_objective(name, loss, penalty, intercepts):
    problem = example(loss, penalty, intercepts)
    rules = [gap_below(1e-9), max_iter(20_000)]
    solution = solve(problem, method_by_name(name, problem), stop=rules)
    assert solution.reason is StopReason.GAP
    assert solution.certificate.primal == pytest.approx(
        best_objective(problem), rel=1e-8
    )


@EVERY_METHOD
def test_all_reach_the_same_coefficients_where_these_are_unique(name):
    problem = example(intercepts="free")
    rules = [gap_below(1e-13), max_iter(20_000)]
    best = solve(problem, Fista(restart=True), stop=rules).coef
    solution = solve(problem, method_by_name(name, problem), stop=rules)
    np.testing.assert_allclose(solution.coef, best, atol=1e-6)


@pytest.mark.parametrize("layout", ["wide", "gaps", "shared-wide"])
@EVERY_LOSS
@MONOTONE
def test_objective_never_increases(name, loss, layout):
    problem = example(loss, intercepts="tied", layout=layout)
    values = objectives(problem, METHODS[name](), 300)
    assert np.all(np.diff(values) <= 1e-13 * values[:-1])


@pytest.mark.parametrize("method", [Gd(), Linear(), Gd(bound_constants)])
def test_constant_steps_cost_one_product_each(method):
    _, products = products_of_steps(sine_problem(), method, 30)
    assert set(products) == {1}


@pytest.mark.parametrize("method", [Ista(), Fista(), Fista(restart=True)])
def test_searching_upwards_costs_one_product_for_each_trial(method):
    states, products = products_of_steps(sine_problem(m=8), method, 50)
    curvatures = np.array([state.curvature for state in states])
    backtracks = np.log2(curvatures[1:] / curvatures[:-1])
    np.testing.assert_allclose(products, 1 + backtracks)
    assert curvatures[-1] <= 2.0 * largest_curvature(sine_problem(m=8))


def test_searching_downwards_costs_the_steps_that_held_and_one_that_did_not():
    states, products = products_of_steps(sine_problem(m=8), IstaReverse(), 50)
    curvatures = np.array([state.curvature for state in states[1:]])
    shrinks = np.log(curvatures / states[0].largest) / np.log(0.8)
    np.testing.assert_allclose(products, 2 + shrinks)
    assert shrinks.max() > 1


def test_reversed_search_takes_the_longest_step_that_holds():
    problem = sine_problem(m=8)
    largest = largest_curvature(problem)
    states = [p.state for p in islice(iterate(problem, IstaReverse()), 30)]
    assert all(state.curvature <= largest for state in states)
    assert min(state.curvature for state in states) < 0.5 * largest


@MONOTONE
def test_certificates_cost_no_product(name):
    bare, looked = (with_counted_products(sine_problem()) for _ in range(2))
    solve(bare[0], METHODS[name](), stop=[max_iter(40)])
    solve(looked[0], METHODS[name](), stop=[gap_below(0.0, every=1), max_iter(40)])
    assert bare[1].count == looked[1].count


@pytest.mark.parametrize(("m", "epsilon"), [(4, 0.8), (4, 50.0), (8, 5.0)])
def test_linear_keeps_the_rate_of_its_theorem(m, epsilon):
    problem = sine_problem(m=m, lam=0.05, epsilon=epsilon)
    rules = [gap_below(1e-14), max_iter(20_000)]
    best = solve(problem, Fista(restart=True), stop=rules)
    sigma, largest = exact_constants(problem)
    values = objectives(problem, Linear(), 400) - best.certificate.primal
    start = values[0] + 0.5 * sigma * np.sum(best.coef**2)
    bound = start * (1 - np.sqrt(sigma / largest)) ** np.arange(401)
    assert np.all(values <= bound + 1e-12 * problem.null_objective)


def test_linear_uses_constant_momentum_only_with_strong_convexity():
    strong, flat = sine_problem(m=4, d=5), sine_problem(m=4, d=40)
    starts = [Linear().start(p, p.null_point).momentum for p in (strong, flat)]
    assert isinstance(starts[0], ConstantMomentum)
    assert starts[1] == NesterovMomentum(restart=True)


def test_linear_without_strong_convexity_converges():
    problem = sine_problem(m=4, d=40, lam=2.0, epsilon=5.0)
    assert exact_constants(problem).strong_convexity == 0.0
    rules = [gap_below(1e-10), max_iter(2000)]
    assert solve(problem, Linear(), stop=rules).reason is StopReason.GAP


@EVERY_METHOD
def test_features_that_are_all_zero_stay_out(name):
    data = random_tasks("stacked", m=2, d=4)
    data = data.with_matrix(0.0 * data.X)
    problem = build_problem(data, lam=0.5)
    solution = solve(
        problem, method_by_name(name, problem), stop=[gap_below(1e-10), max_iter(10)]
    )
    assert solution.n_iter == 0
    assert not solution.coef.any()


@EVERY_METHOD
def test_one_more_step_from_the_optimum_changes_nothing(name):
    problem = example()
    rules = [gap_below(1e-14), max_iter(20_000)]
    best = solve(problem, Fista(restart=True), stop=rules)
    after = solve(
        problem, method_by_name(name, problem), coef=best.coef, stop=[max_iter(3)]
    )
    np.testing.assert_allclose(after.coef, best.coef, atol=1e-7)


@pytest.mark.parametrize("name", METHODS)
def test_many_steps_beyond_convergence_end_and_keep_the_optimum(name):
    problem = example("logistic", intercepts="free")
    solution = solve(problem, METHODS[name](), stop=[max_iter(3000)])
    assert solution.certificate.gap <= 1e-8 * problem.null_objective


def test_acceleration_pays():
    problem = sine_problem(m=8, lam=0.05, epsilon=50.0)
    rules = [gap_below(1e-8, every=1), max_iter(20_000)]
    methods = (Gd(), Ista(), IstaReverse(), Linear(), Fista(restart=True))
    gd, ista, reverse, linear, restarted = (
        solve(problem, method, stop=rules).n_iter for method in methods
    )
    assert linear < restarted < reverse < gd
    assert restarted < ista
