"""Compiled loops against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instances import random_blocks
from priormtl.graphs import Laplacian
from priormtl.solvers import kernels
from priormtl.solvers.engines import ActiveRows, TaskBlocks, lay_out_graph

SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(
    "laplacian",
    [
        Laplacian.empty(5),
        Laplacian.from_edges(5, np.arange(4), np.arange(1, 5), np.arange(1.0, 5.0)),
        Laplacian.from_groups(5, [np.arange(3), np.arange(2, 5)], 0.7),
    ],
)
def test_tie_product_is_that_of_the_laplacian(laplacian):
    x = np.random.default_rng(0).standard_normal(5)
    out = np.empty(5)
    kernels.tie_product(x, lay_out_graph(laplacian), out)
    assert out == pytest.approx(laplacian.dense() @ x, abs=1e-13)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(SEEDS, st.floats(0.0, 5.0), st.sampled_from([1e-8, 1.0, 1e8]))
def test_shrunken_row_is_optimal(seed, lam, scale):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 8))
    diagonal = scale * rng.random(m) * (rng.random(m) < 0.8)
    target = rng.standard_normal(m) * np.where(diagonal > 0, 1.0, 0.0)
    x = np.empty(m)
    mu = kernels.shrink_row(target, diagonal, lam, -1.0, x)
    norm = np.linalg.norm(x)
    if norm == 0:
        assert np.linalg.norm(target) <= lam * (1 + 1e-12)
    else:
        slope = diagonal * x - target + lam * x / norm
        assert np.abs(slope).max() <= 1e-9 * (1.0 + lam)
        assert mu * norm == pytest.approx(lam, abs=1e-9)


def test_a_good_guess_changes_nothing():
    rng = np.random.default_rng(1)
    diagonal, target = rng.random(6), rng.standard_normal(6)
    first, second = np.empty(6), np.empty(6)
    mu = kernels.shrink_row(target, diagonal, 0.3, -1.0, first)
    again = kernels.shrink_row(target, diagonal, 0.3, mu, second)
    assert second == pytest.approx(first, rel=1e-12)
    assert again == pytest.approx(mu, rel=1e-12)


def active(blocks, Q):
    norms = np.linalg.norm(Q, axis=1)
    place = np.flatnonzero(norms)
    unit = Q[place] / norms[place, None]
    return ActiveRows(place, blocks.lam[place] / norms[place], unit, blocks.tie[place])


def dense_hessian(blocks, rows):
    """Hessian on active rows, written out over (row, task) pairs."""
    a, m = rows.unit.shape
    full = np.zeros((a, m, a, m))
    L = blocks.laplacian.dense()
    for i in range(m):
        full[:, i, :, i] += blocks.gram[i][np.ix_(rows.place, rows.place)]
    for r in range(a):
        full[r, :, r, :] += rows.tie[r] * L
        bent = np.eye(m) - np.outer(rows.unit[r], rows.unit[r])
        full[r, :, r, :] += rows.bend[r] * bent
    return full.reshape(a * m, a * m)


@pytest.mark.parametrize("tie", [0.0, 0.3, 1e4])
def test_conjugate_gradients_solve_the_newton_system(tie):
    blocks, Q = random_blocks(4, 6, tie=tie)
    engine, rows = TaskBlocks(blocks), active(blocks, Q)
    rhs = np.random.default_rng(2).standard_normal(rows.unit.shape)
    found = engine.direction(rows, rhs, 1e-12)
    expected = np.linalg.solve(dense_hessian(blocks, rows), rhs.ravel())
    assert found.ravel() == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_factors_solve_each_tasks_block():
    blocks, Q = random_blocks(3, 5, tie=0.0)
    engine, rows = TaskBlocks(blocks), active(blocks, Q)
    layout = engine._rows(rows)
    factor = kernels.factor_tasks(layout, blocks.degree)
    rhs = np.random.default_rng(3).standard_normal(rows.unit.shape)
    x = kernels.solve_tasks(factor, rhs)
    for i in range(rhs.shape[1]):
        block = blocks.gram[i][np.ix_(rows.place, rows.place)] + np.diag(rows.bend)
        assert block @ x[:, i] == pytest.approx(rhs[:, i], abs=1e-9)


def test_gradient_and_sweep_keep_step():
    blocks, Q = random_blocks(4, 6, tie=0.5)
    engine = TaskBlocks(blocks)
    gradient = engine.gradient(Q)
    mu = np.full(len(Q), -1.0)
    engine.sweep(Q, gradient, mu)
    assert gradient == pytest.approx(engine.gradient(Q), abs=1e-10)
