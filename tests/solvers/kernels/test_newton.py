"""Newton systems in compiled loops, against NumPy."""

import numpy as np
import pytest

from instances import random_blocks
from priormtl.solvers.engines import ActiveRows, TaskBlocks
from priormtl.solvers.kernels import newton


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
        full[:, i, :, i] += blocks.form.gram[i][np.ix_(rows.place, rows.place)]
    for r in range(a):
        full[r, :, r, :] += rows.tie[r] * L
        bent = np.eye(m) - np.outer(rows.unit[r], rows.unit[r])
        full[r, :, r, :] += rows.bend[r] * bent
    return full.reshape(a * m, a * m)


@pytest.mark.parametrize("tie", [0.0, 0.3, 1e4])
def test_conjugate_gradients_solve_the_newton_system(tie):
    blocks, Q = random_blocks(4, 6, tie=tie)
    engine, rows = TaskBlocks(blocks, blocks.form), active(blocks, Q)
    rhs = np.random.default_rng(2).standard_normal(rows.unit.shape)
    found = engine.direction(rows, rhs, 1e-12)
    expected = np.linalg.solve(dense_hessian(blocks, rows), rhs.ravel())
    assert found.ravel() == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_factors_solve_each_tasks_block():
    blocks, Q = random_blocks(3, 5, tie=0.0)
    engine, rows = TaskBlocks(blocks, blocks.form), active(blocks, Q)
    layout = engine._rows(rows)
    factor = newton.factor_tasks(layout)
    rhs = np.random.default_rng(3).standard_normal(rows.unit.shape)
    x = newton.solve_tasks(factor, rhs)
    for i in range(rhs.shape[1]):
        block = blocks.form.gram[i][np.ix_(rows.place, rows.place)] + np.diag(rows.bend)
        assert block @ x[:, i] == pytest.approx(rhs[:, i], abs=1e-9)
