"""What engines share: conjugate gradients that never multiply by M."""

from functools import partial

import numpy as np
import pytest

from instances import random_blocks
from priormtl.graphs import Laplacian
from priormtl.solvers.descent import MOST_SWEEPS
from priormtl.solvers.engines import ActiveRows, TaskBlocks
from priormtl.solvers.engines.base import (
    conjugate_gradients,
    graph_of,
    penalty,
    run_sweeps,
)
from priormtl.solvers.kernels.graph import CHAIN, LOOSE


def spd(rng, n):
    A = rng.standard_normal((n, n))
    return A @ A.T + n * np.eye(n)


def test_conjugate_gradients_solve_m_plus_correction():
    rng = np.random.default_rng(0)
    M, low = spd(rng, 6), rng.standard_normal((6, 2))
    correction = -0.5 * low @ low.T
    rhs = rng.standard_normal((6, 3))
    found = conjugate_gradients(
        lambda r: np.linalg.solve(M, r), lambda x: correction @ x, rhs, 1e-13
    )
    assert found == pytest.approx(np.linalg.solve(M + correction, rhs), abs=1e-10)


def test_conjugate_gradients_stop_where_nothing_curves():
    rhs = np.ones((2, 1))
    found = conjugate_gradients(lambda r: r, lambda x: -2.0 * x, rhs, 1e-6)
    assert not found.any()


def test_straighten_is_the_penaltys_curvature_along_rows():
    unit = np.array([[0.6, 0.8], [1.0, 0.0]])
    rows = ActiveRows(np.arange(2), np.array([2.0, 3.0]), unit, np.zeros(2))
    x = np.array([[1.0, 2.0], [4.0, 5.0]])
    expected = [2.0 * 2.2 * unit[0], 3.0 * 4.0 * unit[1]]
    assert rows.straighten(x) == pytest.approx(np.array(expected))


def test_graphs_are_laid_out_once():
    laplacian = Laplacian.empty(3)
    assert graph_of(laplacian) is graph_of(laplacian)


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

    def sweep():
        moves.append(factor ** len(moves))
        return moves[-1] ** 2

    assert run_sweeps(sweep, 3, 0.5) == pytest.approx(factor)
    assert len(moves) == (MOST_SWEEPS if factor < 0.5 else 3)
    assert run_sweeps(lambda: 0.0, 3, 0.5) == 1.0


@pytest.mark.parametrize("limit", [0.1, 0.999])
def test_the_compiled_loop_is_the_same(limit):
    blocks, Q = random_blocks(4, 6, tie=0.5)
    engine, results = TaskBlocks(blocks, blocks.form), []
    for compiled in (True, False):
        rows, mu = Q.copy(), np.full(len(Q), -1.0)
        descent = engine.descend(rows, engine.gradient(rows), mu)
        run = descent.run if compiled else partial(run_sweeps, descent.sweep)
        results.append((run(3, limit), rows))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-12)
    assert np.array_equal(results[0][1], results[1][1])
