"""Newton systems by each task's block, against NumPy."""

import numpy as np
import pytest

from instances import dense_hessian, nonzero_rows, random_blocks
from priormtl.solvers.engines import TaskBlocks
from priormtl.solvers.kernels import by_tasks


@pytest.mark.parametrize("tie", [0.0, 0.3, 1e4])
def test_newton_systems_are_solved(tie):
    blocks, Q = random_blocks(4, 6, tie=tie)
    engine, rows = TaskBlocks(blocks, blocks.form), nonzero_rows(blocks, Q)
    rhs = np.random.default_rng(2).standard_normal(rows.unit.shape)
    found = by_tasks.solve_by_tasks(engine._rows(rows), rhs, 1e-12, 500)
    expected = np.linalg.solve(dense_hessian(blocks, rows), rhs.ravel())
    assert found.ravel() == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_factors_solve_each_tasks_block():
    blocks, Q = random_blocks(3, 5, tie=0.0)
    engine, rows = TaskBlocks(blocks, blocks.form), nonzero_rows(blocks, Q)
    layout = engine._rows(rows)
    factor = by_tasks.factor_tasks(layout)
    rhs = np.random.default_rng(3).standard_normal(rows.unit.shape)
    x = by_tasks.solve_tasks(factor, rhs)
    for i in range(rhs.shape[1]):
        block = blocks.form.gram[i][np.ix_(rows.place, rows.place)] + np.diag(rows.bend)
        assert block @ x[:, i] == pytest.approx(rhs[:, i], abs=1e-9)


def test_products_of_any_number_are_subtracted():
    rng = np.random.default_rng(4)
    for n in range(7):
        left, right, out = rng.random((n, 5)), rng.random((n, 5)), rng.random(5)
        expected = out - np.sum(left * right, axis=0)
        by_tasks.subtract_products(left, right, out)
        assert out == pytest.approx(expected, abs=1e-14)


def test_a_block_that_does_not_curve_has_finite_answers():
    blocks, Q = random_blocks(3, 5, tie=0.0)
    blocks.form.gram[:, :, 4] = blocks.form.gram[:, :, 3]
    blocks.form.gram[:, 4, :] = blocks.form.gram[:, 3, :]
    blocks.form.gram[1, 0, :] = blocks.form.gram[1, :, 0] = 0.0
    engine, rows = TaskBlocks(blocks, blocks.form), nonzero_rows(blocks, Q)
    rows = rows._replace(bend=np.zeros(len(rows.bend)))
    factor = by_tasks.factor_tasks(engine._rows(rows))
    assert np.all(np.isfinite(by_tasks.solve_tasks(factor, rows.unit)))
