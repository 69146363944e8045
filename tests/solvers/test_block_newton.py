import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest

from instances import build_problem, random_blocks, sine_problem, sine_tasks
from priormtl.data import from_columns, summarize_tasks
from priormtl.losses import FreeIntercepts, NoIntercepts, Squared, TiedIntercepts
from priormtl.penalties import L21, Nuclear
from priormtl.priors import TaskPrior, laplacian
from priormtl.problem import Problem, QuadraticPrior
from priormtl.solvers import BlockNewton, Fista, blocks, gap_below, max_iter, solve
from priormtl.solvers import block_newton as sweeps
from priormtl.solvers.block_newton import newton_step
from priormtl.solvers.layouts import TaskBlocks

TIES = {
    "chain": TaskPrior.chain(),
    "mean": TaskPrior.mean(),
    "groups": TaskPrior.groups({"a": [0, 1], "b": [2, 3]}),
    "graph": TaskPrior.from_graph([(0, 2), (1, 3), (0, 3)]),
}


def best(problem, method=None, tol=1e-11):
    rules = [gap_below(tol, every=1), max_iter(50 if method is None else 50_000)]
    return solve(problem, method or BlockNewton(), stop=rules)


def agrees(problem):
    ours, reference = best(problem), best(problem, Fista(restart=True), 1e-9)
    gap = 1e-9 * problem.null_objective
    assert ours.certificate.gap <= 1e-11 * problem.null_objective
    assert abs(ours.certificate.primal - reference.certificate.primal) <= gap


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 10.0, 1e3])
def test_any_graph_and_strength(ties, epsilon):
    agrees(sine_problem(4, 6, epsilon=epsilon, ties=TIES[ties]))


@pytest.mark.parametrize("share", [1e-3, 0.03, 0.5, 0.999])
def test_any_penalty(share):
    problem = sine_problem(5, 8)
    agrees(problem.with_strengths(lam=share * problem.lam_max))


def test_free_and_tied_intercepts():
    agrees(sine_problem(4, 5, intercepts=FreeIntercepts()))
    problem = sine_problem(4, 5)
    for strength in (0.0, 1.0, 1e6):
        tied = TiedIntercepts(problem.prior.laplacian, strength)
        fit = Squared().bind(problem.fit.moments, tied)
        agrees(Problem(fit, problem.prior, L21(), 0.5))


def test_weights_of_rows_and_ties():
    weights = np.array([0.5, 1.0, 2.0, 4.0, 1.0])
    tie_weights = np.array([0.0, 1.0, 3.0, 0.1, 10.0])
    agrees(sine_problem(4, 5, penalty=L21(weights), tie_weights=tie_weights))


@pytest.mark.parametrize("epsilon", [0.0, 2.0])
def test_shared_rows(epsilon):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((12, 7)), rng.standard_normal((12, 4))
    data = summarize_tasks(from_columns(X, Y))
    assert len(data.xx) == 1
    graph = laplacian(TaskPrior.chain(), data.tasks)
    prior = QuadraticPrior.none(7, 4)
    prior = QuadraticPrior(prior.D, graph, 0.0, epsilon)
    for intercepts in (FreeIntercepts(), NoIntercepts(), TiedIntercepts(graph, 1.0)):
        agrees(Problem(Squared().bind(data, intercepts), prior, L21(), 1.0))


def test_more_features_than_the_data_can_tell_apart():
    problem = sine_problem(1, 12, lam=0.01, theta=0.0)
    agrees(problem)


def test_few_steps_suffice():
    problem = sine_problem(8, 5, lam=0.05, epsilon=50.0)
    assert best(problem).n_iter <= 8


def test_zero_columns_and_zero_targets():
    data = sine_tasks(4, 6)
    X = data.X.copy()
    X[:, 1] = 0.0
    agrees(build_problem(data.with_matrix(X), lam=0.5, epsilon=1.0))
    silent = best(build_problem(replace(data, y=0.0 * data.y), lam=0.5, epsilon=1.0))
    assert not silent.coef.any()


def test_only_rows_are_written_out():
    with pytest.raises(TypeError, match="penalty of rows"):
        best(sine_problem(penalty=Nuclear()))


def test_same_input_gives_the_same_bits():
    a, b = best(sine_problem(6, 9)), best(sine_problem(6, 9))
    assert np.array_equal(a.coef, b.coef)


@pytest.mark.parametrize("kind", ["free", "tied"])
def test_layouts_are_kept_along_a_path(kind):
    problem = sine_problem(4, 8)
    if kind == "tied":
        tied = TiedIntercepts(problem.prior.laplacian, 1.0)
        problem = replace(problem, fit=Squared().bind(problem.fit.moments, tied))
    for share in (0.8, 0.3, 0.1, 0.5):
        step = problem.with_strengths(lam=share * problem.lam_max)
        assert step.memo is problem.memo
        fresh = replace(step, memo={})
        assert best(step).certificate.primal == pytest.approx(
            best(fresh).certificate.primal, rel=1e-10
        )
    assert problem.memo


@pytest.mark.parametrize("theta", [0.0, 1.0])
@pytest.mark.parametrize("share", [0.02, 0.2])
def test_few_features_of_large_matrices_are_laid_out_first(monkeypatch, share, theta):
    sizes, lay_out = [], sweeps._lay_out

    def counted(*arguments):
        sizes.append(len(lay_out(*arguments).features))
        return problem.memo[sweeps.MEMO]

    problem = sine_problem(4, 12, intercepts=FreeIntercepts(), theta=theta)
    problem = problem.with_strengths(lam=share * problem.lam_max)
    usual = best(problem)
    monkeypatch.setattr(blocks, "LARGE", 0)
    monkeypatch.setattr(sweeps, "FIRST_FEATURES", 2)
    monkeypatch.setattr(sweeps, "_lay_out", counted)
    problem = replace(problem, memo={})
    agrees(problem)
    assert sizes[0] == 2
    assert sizes == sorted(sizes)
    unit = problem.null_objective
    assert abs(best(problem).certificate.primal - usual.certificate.primal) <= (
        1e-10 * unit
    )


def test_a_layout_of_another_problem_is_not_used():
    one, other = sine_problem(4, 8), sine_problem(4, 8, epsilon=50.0)
    best(one)
    mixed = replace(other, memo=one.memo)
    assert best(mixed).certificate.primal == best(other).certificate.primal
    assert not one.with_strengths(lam=one.lam, epsilon=3.0).memo
    assert not one.restrict(np.arange(3)).memo
    assert one.restrict(np.arange(8)) is one


def test_many_rows_jump_ahead_and_newton_helps_where_they_are_stuck():
    rng = np.random.default_rng(0)
    X = np.cumsum(rng.standard_normal((30, 90)), axis=1)  # nearly alike
    y = X[:, 3] + rng.standard_normal(30)
    data = summarize_tasks(from_columns(X, np.column_stack([y, -y, y**2])))
    fit = Squared().bind(data, FreeIntercepts())
    problem = Problem(fit, QuadraticPrior.none(90, 3), L21(), 1.0)
    problem = problem.with_strengths(lam=1e-3 * problem.lam_max)
    rules = [gap_below(1e-8, every=1), max_iter(200)]
    solution = solve(problem, BlockNewton(), stop=rules)
    assert solution.certificate.gap <= 1e-8 * problem.null_objective


def test_nothing_stays_in_memory_after_a_solution():
    problem = sine_problem(4, 6)
    best(problem)
    layout = weakref.ref(problem.memo["layout of block Newton"])
    gc.disable()  # what is not held in a circle goes at once
    try:
        del problem
        assert layout() is None
    finally:
        gc.enable()


class Shrinking:
    """A descent whose moves shrink by a constant factor; Q goes to zero."""

    def __init__(self, factor):
        self.trail = (np.ones((1, 2)),)
        self.factor, self.count = factor, 0

    def sweep(self):
        self.count += 1
        before = self.trail[0].copy()
        self.trail[0][:] *= self.factor
        return float(np.sum((self.trail[0] - before) ** 2))

    def value(self):
        return float(np.sum(self.trail[0] ** 2))


def test_nothing_moves_at_the_optimum():
    descent = Shrinking(1.0)
    assert not sweeps.descend_extrapolated(descent)
    assert descent.count == 1


def test_weights_of_a_linear_sequence_hit_its_limit():
    places = [np.array([1.0 + 0.9**k, 2.0 - 3.0 * 0.9**k]) for k in range(6)]
    weights = sweeps.anderson_weights(np.diff(places, axis=0))
    assert weights.sum() == pytest.approx(1.0)
    assert weights @ np.array(places[1:]) == pytest.approx([1.0, 2.0], abs=1e-3)


def test_extrapolation_never_climbs():
    blocks, Q = random_blocks(3, 8, tie=0.5)
    engine = TaskBlocks(blocks, blocks.form)
    descent = engine.descend(Q, engine.gradient(Q), np.full(len(Q), -1.0))
    before = descent.value()
    assert sweeps.descend_extrapolated(descent)
    assert descent.value() < before
    assert descent.gradient() == pytest.approx(engine.gradient(Q), abs=1e-9)


def test_extrapolation_ends_nearer_than_sweeps():
    ahead, sweeping = Shrinking(0.9), Shrinking(0.9)
    sweeps.descend_extrapolated(ahead)
    for _ in range(sweeps.N_SWEEPS):
        sweeping.sweep()
    assert ahead.value() < 1e-6 * sweeping.value()


def test_an_extrapolation_that_climbs_is_taken_back(monkeypatch):
    monkeypatch.setattr(
        sweeps, "anderson_weights", lambda moves: np.full(len(moves), 9.0)
    )
    descent = Shrinking(0.9)
    sweeps.descend_extrapolated(descent)
    assert descent.trail[0] == pytest.approx(0.9**sweeps.N_SWEEPS)


def test_without_a_penalty_one_step_is_enough():
    blocks, Q = random_blocks(3, 4, tie=0.5)
    blocks = replace(blocks, lam=np.zeros(4))
    engine = TaskBlocks(blocks, blocks.form)
    for _ in range(9):  # directions are only as exact as a step pays for
        newton_step(engine, Q, engine.gradient(Q))
    assert engine.gradient(Q) == pytest.approx(0.0, abs=1e-5)


def test_steps_descend_and_leave_zero_rows_alone():
    blocks, Q = random_blocks(3, 4, tie=0.5)
    engine = TaskBlocks(blocks, blocks.form)
    values = []
    for _ in range(4):
        gradient = engine.gradient(Q)
        values.append(engine.descend(Q, gradient, np.full(4, -1.0)).value())
        newton_step(engine, Q, gradient)
    assert np.all(np.diff(values) <= 0.0)
    assert not Q[1].any()


def test_nothing_to_do_where_all_rows_are_zero():
    blocks, Q = random_blocks(3, 4, tie=0.5)
    engine, Q = TaskBlocks(blocks, blocks.form), np.zeros_like(Q)
    newton_step(engine, Q, engine.gradient(Q))
    assert not Q.any()
