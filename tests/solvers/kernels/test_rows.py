"""Sweeps over rows in compiled loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instances import random_blocks
from priormtl.graphs import Laplacian
from priormtl.solvers.engines import TaskBlocks
from priormtl.solvers.kernels import rows as kernels
from priormtl.solvers.kernels.graph import LOOSE, lay_out_graph

SEEDS = st.integers(0, 2**32 - 1)


def random_graph(rng, m):
    """Chain, one group of all, or nothing."""
    kind = int(rng.integers(3))
    if kind == 0 or m == 1:
        return Laplacian.empty(m)
    if kind == 1:
        return Laplacian.from_groups(m, [np.arange(m)], 1.5)
    return Laplacian.from_edges(m, np.arange(m - 1), np.arange(1, m), np.ones(m - 1))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(SEEDS, st.floats(0.0, 5.0), st.sampled_from([1e-8, 1.0, 1e8]))
def test_shrunken_row_is_optimal(seed, lam, scale):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 8))
    laplacian = random_graph(rng, m)
    tie = scale * float(rng.choice([0.0, 0.1, 10.0]))
    own = scale * rng.random(m) * (rng.random(m) < 0.8)
    T = np.diag(own) + tie * laplacian.dense()
    target = T @ rng.standard_normal(m) / scale
    x, graph = np.empty(m), lay_out_graph(laplacian)
    mu = kernels.shrink_row(graph, graph.kind, tie, own, lam, target, -1.0, x)
    size = np.linalg.norm(x)
    if size == 0:
        assert np.linalg.norm(target) <= lam * (1 + 1e-12)
    else:
        slope = T @ x - target + lam * x / size
        assert np.abs(slope).max() <= 1e-8 * (1.0 + lam + np.abs(target).max())
        assert mu * size == pytest.approx(lam, rel=1e-9, abs=1e-12)


def test_a_good_guess_changes_nothing():
    rng = np.random.default_rng(1)
    own, target = rng.random(6), rng.standard_normal(6)
    graph = lay_out_graph(Laplacian.empty(6))
    first, second = np.empty(6), np.empty(6)
    mu = kernels.shrink_row(graph, LOOSE, 0.0, own, 0.3, target, -1.0, first)
    again = kernels.shrink_row(graph, LOOSE, 0.0, own, 0.3, target, mu, second)
    assert second == pytest.approx(first, rel=1e-8)
    assert again == pytest.approx(mu, rel=1e-8)


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
