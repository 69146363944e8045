"""Layouts of block Newton: the same mathematics, however the data are kept."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array

from instances import random_blocks
from priormtl import MultiTaskRegressor
from priormtl.priors import TaskPrior, laplacian
from priormtl.priors.graphs import Laplacian
from priormtl.problem import NormalForm, SampleForm
from priormtl.solvers import layouts
from priormtl.solvers.kernels import samples as kernels
from priormtl.solvers.kernels.rows import CHAIN, LOOSE, MOST_SWEEPS, lay_out_graph
from priormtl.solvers.layouts import (
    ActiveRows,
    Descent,
    SharedBlock,
    SharedSamples,
    TaskBlocks,
    TaskSamples,
    choose_layout,
    invert,
    penalty,
)


def test_straighten_is_the_penaltys_curvature_along_rows():
    unit = np.array([[0.6, 0.8], [1.0, 0.0]])
    rows = ActiveRows(np.arange(2), np.array([2.0, 3.0]), unit, np.zeros(2))
    x = np.array([[1.0, 2.0], [4.0, 5.0]])
    expected = [2.0 * 2.2 * unit[0], 3.0 * 4.0 * unit[1]]
    assert rows.straighten(x) == pytest.approx(np.array(expected))


def test_graphs_are_laid_out_once():
    laplacian = Laplacian.empty(3)
    assert lay_out_graph(laplacian) is lay_out_graph(laplacian)


@pytest.mark.parametrize(("tie", "kind"), [(1e-6, LOOSE), (1.0, CHAIN)])
def test_weak_ties_are_only_bounded_in_sweeps(tie, kind):
    blocks, _ = random_blocks(4, 3, tie=tie)
    engine = TaskBlocks(blocks, blocks.form)
    assert np.all(engine.system.kind == kind)
    assert engine.graph.kind == CHAIN


def test_penalty_weighs_row_norms():
    assert penalty(np.array([2.0, 1.0]), np.array([[3.0, 4.0], [0.0, 0.0]])) == 10.0


@pytest.mark.parametrize("factor", [0.2, 0.9])
def test_only_fast_descents_go_on(factor):
    moves = []

    class Shrinking(Descent):
        def sweep(self):
            moves.append(factor ** len(moves))
            return moves[-1] ** 2

    class Settled(Descent):
        def sweep(self):
            return 0.0

    assert Shrinking().run(3, 0.5) == pytest.approx(factor)
    assert len(moves) == (MOST_SWEEPS if factor < 0.5 else 3)
    assert Settled().run(3, 0.5) == 1.0


@pytest.mark.parametrize("limit", [0.1, 0.999])
def test_the_compiled_loop_is_the_same(limit):
    blocks, Q = random_blocks(4, 6, tie=0.5)
    engine, results = TaskBlocks(blocks, blocks.form), []
    for compiled in (True, False):
        rows, mu = Q.copy(), np.full(len(Q), -1.0)
        descent = engine.descend(rows, engine.gradient(rows), mu)
        run = descent.run if compiled else partial(Descent.run, descent)
        results.append((run(3, limit), rows))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-12)
    assert np.array_equal(results[0][1], results[1][1])


@pytest.mark.parametrize("m", [1, 4])
def test_gram_matrices(m):
    blocks, _ = random_blocks(m, 3, tie=0.0)
    assert isinstance(choose_layout(blocks), TaskBlocks)
    one = replace(blocks, form=blocks.form._replace(gram=blocks.form.gram[:1]))
    assert isinstance(choose_layout(one), SharedBlock if m > 1 else TaskBlocks)


def test_samples():
    blocks, _ = random_blocks(2, 3, tie=0.0)
    rows, none = np.ones((3, 4)), np.zeros(0)
    own = SampleForm(rows, np.ones(4), np.array([0, 2, 4]), none)
    shared = SampleForm(rows, np.ones((2, 4)), np.zeros(0, np.intp), none)
    assert isinstance(choose_layout(replace(blocks, form=own)), TaskSamples)
    assert isinstance(choose_layout(replace(blocks, form=shared)), SharedSamples)


K, M, N = 40, 3, 7  # more rows than a block of the kernel, more than samples


def both_forms(shared, tie):
    """Blocks on samples and on their Gram matrices, and rows Q."""
    rng = np.random.default_rng(0)
    blocks, Q = random_blocks(M, K, tie=tie)
    relation = csr_array(np.diag(rng.random(K)) + 0.1 * np.eye(K, k=1))
    relation = csr_array(relation + relation.T)
    if shared:
        rows, target = rng.standard_normal((K, N)), rng.standard_normal((M, N))
        starts = np.zeros(0, np.intp)
        gram, linear = (rows @ rows.T)[None], rows @ target.T
    else:
        starts = np.array([0, 2, 9, 14])
        rows, target = rng.standard_normal((K, 14)), rng.standard_normal(14)
        parts = [slice(a, b) for a, b in pairwise(starts)]
        gram = np.array([rows[:, p] @ rows[:, p].T for p in parts])
        linear = np.array([rows[:, p] @ target[p] for p in parts]).T
    kept = replace(
        blocks, form=SampleForm(rows, target, starts, np.zeros(0)), relation=relation
    )
    formed = replace(kept, form=NormalForm(gram, linear, np.zeros(0)))
    formed = formed.restrict(np.arange(K))  # Gram matrices then hold the relation
    engines = (SharedSamples, SharedBlock) if shared else (TaskSamples, TaskBlocks)
    return *(e(b, b.form) for e, b in zip(engines, (kept, formed), strict=True)), Q


def active(engine, Q):
    norms = np.linalg.norm(Q, axis=1)
    place = np.flatnonzero(norms)
    lam, tie = engine.system.lam[place], engine.system.tie[place]
    unit = Q[place] / norms[place, None]
    return ActiveRows(place, lam / norms[place], unit, tie)


CASES = pytest.mark.parametrize(
    ("shared", "tie"), [(False, 0.0), (False, 2.0), (True, 0.0), (True, 2.0)]
)


@CASES
def test_gradients_and_products_agree(shared, tie):
    samples, gram, Q = both_forms(shared, tie)
    assert samples.gradient(Q) == pytest.approx(gram.gradient(Q), abs=1e-9)
    rows = active(samples, Q)
    x = np.random.default_rng(1).standard_normal(rows.unit.shape)
    assert samples.multiply(rows, x) == pytest.approx(gram.multiply(rows, x), abs=1e-9)


@CASES
def test_directions_agree(shared, tie):
    samples, gram, Q = both_forms(shared, tie)
    rows = active(samples, Q)
    rows = rows._replace(unit=0.9 * rows.unit)
    x = np.random.default_rng(2).standard_normal(rows.unit.shape)
    ours, other = (e.direction(rows, x, 1e-12) for e in (samples, gram))
    assert ours == pytest.approx(other, rel=1e-5, abs=1e-7)


@CASES
def test_sweeps_agree_and_values_differ_by_a_constant(shared, tie):
    samples, gram, Q = both_forms(shared, tie)
    results, values = [], []
    for engine in (samples, gram):
        rows, mu = Q.copy(), np.full(len(Q), -1.0)
        descent = engine.descend(rows, engine.gradient(rows), mu)
        values.append([])
        for _ in range(3):
            values[-1].append(descent.value())
            moved = descent.sweep()
        results.append((rows, moved, descent.gradient()))
    for ours, other in zip(*results, strict=True):
        assert ours == pytest.approx(other, rel=1e-8, abs=1e-8)
    differences = np.subtract(*values)
    assert differences == pytest.approx(differences[0], rel=1e-9)


def test_inverse_by_the_samples():
    rng = np.random.default_rng(3)
    rows, weight, r = rng.random((6, 2)), rng.random(6), rng.random((6, 3))
    full = rows @ rows.T + np.diag(weight)
    assert invert(rows, weight)(r) == pytest.approx(np.linalg.solve(full, r))


def test_rows_without_weight_of_their_own_are_solved_too():
    samples, _, Q = both_forms(shared=False, tie=1.0)
    rows = active(samples, Q)
    rows = rows._replace(bend=np.where(rows.place == 0, 0.0, rows.bend))
    x = np.random.default_rng(4).standard_normal(rows.unit.shape)
    found = samples.direction(rows, x, 1e-12)
    product = samples.multiply(rows, found) - rows.straighten(found)
    product += rows.bend[:, None] * found
    assert product == pytest.approx(x, abs=1e-6)


def test_neighbours_are_products_inside_a_block():
    rows = np.random.default_rng(5).standard_normal((kernels.BLOCK + 3, 4))
    found = kernels.lay_out_neighbours(rows)
    full = rows @ rows.T
    assert found[:5] == pytest.approx(full[:5, : kernels.BLOCK])
    assert found[-3:, :3] == pytest.approx(full[-3:, -3:])


def shared_and_spread(tie):
    """Blocks with one Gram matrix, and the same with a copy for each task."""
    blocks, Q = random_blocks(4, 6, tie=tie)
    gram = blocks.form.gram[:1]
    one = replace(blocks, form=blocks.form._replace(gram=gram))
    each = replace(blocks, form=blocks.form._replace(gram=np.repeat(gram, 4, axis=0)))
    return one, each, Q


@pytest.mark.parametrize("tie", [0.0, 0.5, 1e3])
def test_shared_and_spread_matrices_agree(tie):
    one, each, Q = shared_and_spread(tie)
    a, b = SharedBlock(one, one.form), TaskBlocks(each, each.form)
    assert a.gradient(Q) == pytest.approx(b.gradient(Q), abs=1e-10)
    norms = np.linalg.norm(Q, axis=1)
    place = np.flatnonzero(norms)
    unit = Q[place] / norms[place, None]
    rows = ActiveRows(place, one.lam[place] / norms[place], unit, one.tie[place])
    x = np.random.default_rng(0).standard_normal(rows.unit.shape)
    assert a.multiply(rows, x) == pytest.approx(b.multiply(rows, x), abs=1e-9)
    assert a.direction(rows, x, 1e-12) == pytest.approx(
        b.direction(rows, x, 1e-12), rel=1e-6, abs=1e-8
    )


def test_both_sweeps_agree():
    one, each, Q = shared_and_spread(0.5)
    results = []
    for engine in (SharedBlock(one, one.form), TaskBlocks(each, each.form)):
        rows, mu = Q.copy(), np.full(len(Q), -1.0)
        engine.descend(rows, engine.gradient(rows), mu).sweep()
        results.append(rows)
    assert results[0] == pytest.approx(results[1], abs=1e-11)


def test_layout_is_chosen_by_shape():
    one, each, _ = shared_and_spread(0.0)
    assert isinstance(choose_layout(one), SharedBlock)
    assert isinstance(choose_layout(each), TaskBlocks)


GRAPHS = {
    "chain": TaskPrior.chain(),
    "mean": TaskPrior.mean(),
    "ring": TaskPrior.from_graph([(0, 1), (1, 2), (2, 3), (3, 0)]),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_both_preconditioners_lead_to_the_same_direction(name, monkeypatch):
    blocks, Q = random_blocks(4, 5, tie=3.0)
    blocks = replace(blocks, laplacian=laplacian(GRAPHS[name], range(4)))
    norms = np.linalg.norm(Q, axis=1)
    place = np.flatnonzero(norms)
    unit = Q[place] / norms[place, None]
    rows = ActiveRows(place, blocks.lam[place] / norms[place], unit, blocks.tie[place])
    x = np.random.default_rng(0).standard_normal(unit.shape)
    found = []
    for threshold in (np.inf, 0.0):
        monkeypatch.setattr(layouts, "STRONG_TIES", threshold)
        engine = TaskBlocks(blocks, blocks.form)
        assert (engine._modes(rows) is None) == (threshold > 0)
        found.append(engine.direction(rows, x, 1e-12))
    assert found[0] == pytest.approx(found[1], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_few_rigid_ties_among_loose_ones_are_solved_in_a_few_steps(share):
    """Ties as an adaptive fit finds them: some features differ between tasks."""
    rng = np.random.default_rng(0)
    m, d, n = 60, 20, 8
    X = rng.standard_normal((m * n, d))
    task = np.repeat(np.arange(m), n)
    y = X @ rng.standard_normal(d) + rng.standard_normal(m)[task]
    ties = np.where(np.arange(d) < share * d, 1e6, 1.0)
    model = MultiTaskRegressor(
        lam=0.5, theta=0.0, task_prior="mean", fit_intercept="tied", ties=ties
    )
    model.set_params(tol=1e-9).fit(X, y, task=task)
    assert model.n_iter_ <= 12
