"""Laws of the first-order methods; those over the list hold for "auto" too."""

from dataclasses import replace
from functools import lru_cache
from itertools import islice, pairwise

import numpy as np
import pytest

from instances import (
    INTERCEPTS,
    LOSSES,
    PENALTIES,
    best_objective,
    build_problem,
    kind_of_intercepts,
    random_coef,
    random_tasks,
    sine_problem,
    turns,
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
    Solver,
    StopReason,
    gap_below,
    iterate,
    max_iter,
    solve,
)
from priormtl.solvers.first_order import (
    backtrack,
    fits_model,
    initial_curvature,
    proximal_step,
)

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


@lru_cache
def known_optimum(loss, penalty, intercepts):
    return best_objective(example(loss, penalty, intercepts))


@turns(2, name=["auto", *METHODS], loss=LOSSES, penalty=PENALTIES)
def test_all_reach_the_same_objective(name, loss, penalty):
    # Kinds of intercepts take turns, so that each meets both losses and most norms.
    turn = list(PENALTIES).index(penalty) + list(LOSSES).index(loss)
    intercepts = INTERCEPTS[turn % len(INTERCEPTS)]
    problem = example(loss, penalty, intercepts)
    rules = [gap_below(1e-7), max_iter(20_000)]
    solution = solve(problem, Solver(name).choose(problem), stop=rules)
    assert solution.reason is StopReason.GAP
    known = known_optimum(loss, penalty, intercepts)
    assert solution.certificate.primal == pytest.approx(known, rel=1e-6)


@EVERY_METHOD
def test_all_reach_the_same_coefficients_where_these_are_unique(name):
    problem = example(intercepts="free")
    rules = [gap_below(1e-13), max_iter(20_000)]
    best = solve(problem, Fista(restart=True), stop=rules).coef
    solution = solve(problem, Solver(name).choose(problem), stop=rules)
    np.testing.assert_allclose(solution.coef, best, atol=1e-6)


@turns(
    2,
    name=["gd", "ista", "ista-reverse"],
    loss=LOSSES,
    layout=["wide", "gaps", "shared-wide"],
)
def test_objective_never_increases(name, loss, layout):
    problem = example(loss, intercepts="tied", layout=layout)
    values = objectives(problem, METHODS[name](), 100)
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
    sigma, largest = exact_constants(strong)
    root = np.sqrt(largest / sigma)
    start = Linear().start(strong, strong.null_point)
    assert start.momentum == pytest.approx((root - 1.0) / (root + 1.0))
    assert Linear().start(flat, flat.null_point).momentum is None
    states = [p.state for p in islice(iterate(strong, Linear()), 5)]
    for before, after in pairwise(states):
        assert_looks_ahead(before, after, start.momentum)


def assert_looks_ahead(before, after, momentum):
    move = after.point.coef - before.point.coef
    expected = after.point.coef + momentum * move
    np.testing.assert_allclose(after.lookahead.coef, expected, atol=1e-14)


def test_fista_follows_nesterovs_sequence():
    states = [p.state for p in islice(iterate(sine_problem(), Fista()), 200)]
    assert states[0].t == 1.0
    for k, (before, after) in enumerate(pairwise(states), start=1):
        assert after.t**2 - after.t == pytest.approx(before.t**2)
        assert before.t >= (k + 1) / 2
        assert_looks_ahead(before, after, (before.t - 1.0) / after.t)


@pytest.mark.parametrize(
    ("method", "d"), [(Fista(restart=True), 5), (Linear(), 40), (Fista(), 5)]
)
def test_momentum_restarts_only_when_the_last_move_went_uphill(method, d):
    problem = sine_problem(m=4, d=d, lam=0.05, epsilon=5.0)
    n_restarts = 0
    for before, after in pairwise(
        p.state for p in islice(iterate(problem, method), 150)
    ):
        back = before.lookahead.coef - after.point.coef
        uphill = np.vdot(back, after.point.coef - before.point.coef) > 0
        restarted = after.t == 1.0
        assert restarted == (uphill and method != Fista())
        if restarted:
            assert_looks_ahead(before, after, 0.0)
            n_restarts += 1
    assert bool(n_restarts) == (method != Fista())


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
        problem, Solver(name).choose(problem), stop=[gap_below(1e-10), max_iter(10)]
    )
    assert solution.n_iter == 0
    assert not solution.coef.any()


@EVERY_METHOD
def test_one_more_step_from_the_optimum_changes_nothing(name):
    problem = example()
    rules = [gap_below(1e-14), max_iter(20_000)]
    best = solve(problem, Fista(restart=True), stop=rules)
    after = solve(
        problem, Solver(name).choose(problem), coef=best.coef, stop=[max_iter(3)]
    )
    np.testing.assert_allclose(after.coef, best.coef, atol=1e-7)


@pytest.mark.parametrize("name", METHODS)
def test_many_steps_beyond_convergence_end_and_keep_the_optimum(name):
    problem = example("logistic", intercepts="free")
    solution = solve(problem, METHODS[name](), stop=[max_iter(600)])
    assert solution.certificate.gap <= 1e-8 * problem.null_objective


@pytest.mark.slow
def test_acceleration_pays():
    problem = sine_problem(m=8, lam=0.05, epsilon=50.0)
    rules = [gap_below(1e-8, every=1), max_iter(20_000)]
    methods = (Gd(), Ista(), IstaReverse(), Linear(), Fista(restart=True))
    gd, ista, reverse, linear, restarted = (
        solve(problem, method, stop=rules).n_iter for method in methods
    )
    assert linear < restarted < reverse < gd
    assert restarted < ista


def model(problem, base, curvature, U):
    """Quadratic model of the smooth part around ``base``, plus the penalty."""
    move = U - base.coef
    quadratic = np.vdot(base.gradient, move) + 0.5 * curvature * np.vdot(move, move)
    return base.value + quadratic + problem.lam * problem.penalty.value(U)


@EVERY_PENALTY
@EVERY_LOSS
def test_proximal_step_minimises_the_model(loss, penalty):
    problem = example(loss, penalty)
    base = problem.at(random_coef(problem.shape))
    point = proximal_step(problem, base, 7.0)
    lowest = model(problem, base, 7.0, point.coef)
    for seed in range(10):
        other = point.coef + random_coef(problem.shape, seed, scale=1e-2)
        assert model(problem, base, 7.0, other) > lowest


@EVERY_LOSS
def test_model_holds_exactly_where_it_lies_above_the_objective(loss):
    problem = example(loss)
    base = problem.at(random_coef(problem.shape))
    for curvature in np.geomspace(0.05, 50.0, 12):
        point = proximal_step(problem, base, curvature)
        above = model(problem, base, curvature, point.coef) >= problem.objective(point)
        assert fits_model(problem, point, base, curvature) == above


@EVERY_LOSS
def test_model_holds_at_the_largest_curvature(loss):
    problem = example(loss)
    largest = largest_curvature(problem)
    for seed in range(10):
        base = problem.at(random_coef(problem.shape, seed, scale=2.0))
        assert fits_model(problem, proximal_step(problem, base, largest), base, largest)


@EVERY_LOSS
def test_backtracking_ends_at_the_first_power_of_growth_that_holds(loss):
    problem = example(loss)
    base = problem.at(random_coef(problem.shape))
    _, curvature = backtrack(problem, base, 1e-3, 2.0)
    before = proximal_step(problem, base, curvature / 2.0)
    assert np.log2(curvature / 1e-3) == pytest.approx(round(np.log2(curvature / 1e-3)))
    assert not fits_model(problem, before, base, curvature / 2.0)
    assert curvature <= 2.0 * largest_curvature(problem)


@EVERY_LOSS
def test_first_guess_is_below_the_largest_curvature_and_positive(loss):
    problem = example(loss)
    guess = initial_curvature(problem, problem.null_point)
    assert 0 < guess <= largest_curvature(problem) * (1 + 1e-12)


def test_first_guess_without_a_gradient_is_one():
    data = random_tasks("stacked")
    problem = build_problem(replace(data, y=0.0 * data.y), lam=0.4)
    assert initial_curvature(problem, problem.null_point) == 1.0
