"""Task graphs, one row, and sweeps over rows in compiled loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instances import random_blocks
from priormtl.priors.graphs import Laplacian
from priormtl.solvers.kernels import rows as kernels
from priormtl.solvers.kernels.rows import LOOSE, lay_out_graph
from priormtl.solvers.layouts import TaskBlocks

PATH = Laplacian.from_edges(5, np.arange(4), np.arange(1, 5), np.arange(1.0, 5.0))
# Tasks 0 and 1, 2 and 3, and 4 alone, in three groups of one tree.
TREE = Laplacian.from_tree(
    5,
    np.array([5, 5, 6, 6, 7, 8, 8, 8, -1]),
    ["a", "b", "alone", "all"],
    np.array([0, 0, 0, 0, 0, 1, 1, 1, 0]),
    (0.3,),
    0.7,
)
KINDS = {
    "none": (Laplacian.empty(5), kernels.LOOSE),
    "chain": (PATH, kernels.CHAIN),
    "one group": (Laplacian.from_groups(5, [np.arange(5)], 0.7), kernels.GROUP),
    "groups": (
        Laplacian.from_groups(5, [np.arange(3), np.arange(2, 5)], 0.7),
        kernels.LOOSE,
    ),
    "groups apart": (
        Laplacian.from_groups(5, [np.arange(2), np.arange(2, 4)], 0.7),
        kernels.TREE,
    ),
    "tree": (TREE, kernels.TREE),
    "ring": (
        PATH + Laplacian.from_edges(5, np.array([0]), np.array([4]), np.ones(1)),
        kernels.LOOSE,
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_ties_are_those_of_the_laplacian(name):
    laplacian, _ = KINDS[name]
    x = np.random.default_rng(0).standard_normal(5)
    out = np.ones(5)
    kernels.add_ties(*kernels.lay_out_graph(laplacian), 0.3, x, out)
    assert out == pytest.approx(1.0 + 0.3 * laplacian.dense() @ x, abs=1e-13)


@pytest.mark.parametrize("name", KINDS)
def test_kinds_and_degrees(name):
    laplacian, kind = KINDS[name]
    graph = kernels.lay_out_graph(laplacian)
    assert graph.kind == kind
    assert graph.degree == pytest.approx(np.diag(laplacian.dense()))
    # Loops for trees and loose graphs are compiled only where there is one.
    assert (graph.tree is not None) == (kind == kernels.TREE)
    assert (graph.loose is not None) == (name in {"groups", "ring"})


SEEDS = st.integers(0, 2**32 - 1)


def random_graph(rng, m):
    """Chain, one group of all, two groups in one, or nothing."""
    kind = int(rng.integers(4))
    if kind == 0 or m == 1:
        return Laplacian.empty(m)
    if kind == 1:
        return Laplacian.from_groups(m, [np.arange(m)], 1.5)
    if kind == 3:
        parent = np.array([m + i % 2 for i in range(m)] + [m + 2, m + 2, -1])
        level = np.array([0] * m + [1, 1, 0])
        return Laplacian.from_tree(m, parent, ["a", "b", "all"], level, (0.4,), 1.5)
    return Laplacian.from_edges(m, np.arange(m - 1), np.arange(1, m), np.ones(m - 1))


def one_row(laplacian, tie, own, lam):
    """System of a row, not bounded."""
    graph = lay_out_graph(laplacian)
    steepest = float(np.max(own + 2.0 * tie * graph.degree))
    layout = graph.band, graph.tree, graph.kind
    return kernels.Row(own, *layout, tie, lam, steepest, None)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(SEEDS, st.just(0.0) | st.floats(1e-100, 5.0), st.sampled_from([1e-8, 1.0, 1e8]))
def test_shrunken_row_is_optimal(seed, lam, scale):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 8))
    laplacian = random_graph(rng, m)
    tie = scale * float(rng.choice([0.0, 0.1, 10.0]))
    own = scale * rng.random(m) * (rng.random(m) < 0.8)
    T = np.diag(own) + tie * laplacian.dense()
    target = T @ rng.standard_normal(m) / scale
    x, one = np.zeros(m), one_row(laplacian, tie, own, lam)
    mu, moved = kernels.update_row(one, x, -target, -1.0, np.empty((6, m)))
    size = np.linalg.norm(x)
    assert moved == (size > 0)
    if size == 0:
        assert np.linalg.norm(target) <= lam * (1 + 1e-12)
        assert mu == -1.0
    else:
        slope = T @ x - target + lam * x / size
        assert np.abs(slope).max() <= 1e-8 * (1.0 + lam + np.abs(target).max())
        assert mu * size == pytest.approx(lam, rel=1e-7, abs=1e-12)


def test_a_good_guess_changes_nothing():
    rng = np.random.default_rng(1)
    own, target = rng.random(6), rng.standard_normal(6)
    one, length = one_row(Laplacian.empty(6), 0.0, own, 0.3), np.linalg.norm(target)
    first, second = np.empty((5, 6)), np.empty((5, 6))
    mu = kernels.shrink_row(one, target, length, -1.0, first)
    again = kernels.shrink_row(one, target, length, mu, second)
    assert second[0] == pytest.approx(first[0], rel=1e-8)
    assert again == pytest.approx(mu, rel=1e-8)


@pytest.mark.parametrize("kind", [LOOSE, None])
def test_a_probe_solves_twice(kind):
    rng = np.random.default_rng(2)
    chain = Laplacian.from_edges(5, np.arange(4), np.arange(1, 5), np.ones(4))
    own, target, work = rng.random(5), rng.standard_normal(5), np.empty((6, 5))
    one = one_row(chain, 0.7, own, 1.0)
    one = one if kind is None else one._replace(kind=kind)
    found = kernels.probe_row(one, 0.2, target, work)
    L = 2.0 * np.diag(np.diag(chain.dense())) if kind == LOOSE else chain.dense()
    matrix = np.diag(own + 0.2) + 0.7 * L
    x = np.linalg.solve(matrix, target)
    turned = np.linalg.solve(matrix, x)
    assert work[:2] == pytest.approx(np.array([x, turned]), rel=1e-10)
    assert found == pytest.approx((x @ x, x @ turned), rel=1e-10)


@pytest.mark.parametrize("tie", [0.0, 0.4, 1e8])
@pytest.mark.parametrize("name", ["none", "chain", "one group", "groups apart", "tree"])
def test_rows_are_solved_exactly(name, tie):
    laplacian, _ = KINDS[name]
    graph = lay_out_graph(laplacian)
    rng = np.random.default_rng(1)
    own, rhs = rng.random(5), rng.standard_normal(5)
    parts, out = np.empty((3, 5)), np.empty(5)
    left = kernels.factor_row(*graph[:3], tie, own, 0.2, parts)
    kernels.solve_row(*graph[:3], tie, parts, left, rhs, out)
    matrix = np.diag(own + 0.2) + tie * laplacian.dense()
    assert out == pytest.approx(np.linalg.solve(matrix, rhs), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", ["groups", "ring"])
def test_loose_rows_are_bounded(name):
    laplacian, _ = KINDS[name]
    graph = lay_out_graph(laplacian)
    own, parts = np.arange(5.0), np.empty((3, 5))
    kernels.factor_row(*graph[:3], 0.4, own, 0.1, parts)
    bound = np.diag(1.0 / parts[0])
    exact = np.diag(own + 0.1) + 0.4 * laplacian.dense()
    assert np.linalg.eigvalsh(bound - exact).min() >= -1e-12


def test_a_pivot_that_vanishes_is_left_out():
    graph = lay_out_graph(Laplacian.empty(2))
    parts, out = np.empty((3, 2)), np.empty(2)
    left = kernels.factor_row(*graph[:3], 0.0, np.array([0.0, 2.0]), 0.0, parts)
    kernels.solve_row(*graph[:3], 0.0, parts, left, np.ones(2), out)
    assert out.tolist() == [0.0, 0.5]


@pytest.mark.parametrize("m", [1, 2, 3, 4, 7, 8])
def test_chains_of_any_length_are_solved_from_both_ends(m):
    rng = np.random.default_rng(m)
    first, second, weight = np.arange(m - 1), np.arange(1, m), rng.random(m - 1)
    laplacian = Laplacian.from_edges(m, first, second, weight)
    own, rhs = rng.random(m), rng.standard_normal(m)
    parts, out = np.empty((3, m)), np.empty(m)
    graph = lay_out_graph(laplacian)
    kernels.factor_chain(graph.band, 2.0, own, 0.1, parts)
    kernels.solve_chain(parts, rhs, out)
    matrix = np.diag(own + 0.1) + 2.0 * laplacian.dense()
    assert matrix @ out == pytest.approx(rhs, abs=1e-12)


@pytest.mark.parametrize("tie", [0.0, 0.5, 100.0])
@pytest.mark.parametrize("bounded", [False, True])
def test_gradient_keeps_step_and_sweeps_descend(tie, bounded):
    blocks, Q = random_blocks(4, 6, tie=tie)
    engine = TaskBlocks(blocks, blocks.form)
    if bounded:
        engine.system = engine.system._replace(kind=np.full(6, LOOSE))
    mu = np.full(len(Q), -1.0)
    descent = engine.descend(Q, engine.gradient(Q), mu)
    values = [descent.value()]
    for _ in range(5):
        descent.sweep()
        values.append(descent.value())
    assert np.all(np.diff(values) <= 1e-12 * np.abs(values[0]))
    assert descent.gradient() == pytest.approx(engine.gradient(Q), abs=1e-10)


def test_sweeps_end_at_the_optimum():
    blocks, Q = random_blocks(4, 6, tie=0.5)
    engine = TaskBlocks(blocks, blocks.form)
    mu = np.full(len(Q), -1.0)
    descent = engine.descend(Q, engine.gradient(Q), mu)
    for _ in range(500):
        moved = descent.sweep()
    assert moved <= 1e-18
    gradient, norms = engine.gradient(Q), np.linalg.norm(Q, axis=1)
    unit = Q / np.where(norms > 0, norms, 1.0)[:, None]
    residual = np.linalg.norm(gradient + blocks.lam[:, None] * unit, axis=1)
    zero = norms == 0
    assert residual[~zero] == pytest.approx(0.0, abs=1e-8)
    assert np.all(np.linalg.norm(gradient[zero], axis=1) <= blocks.lam[zero])
