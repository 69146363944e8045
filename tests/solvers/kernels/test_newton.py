"""Newton steps in compiled loops, against NumPy."""

from dataclasses import replace

import numpy as np
import pytest

from instances import dense_hessian, nonzero_rows, random_blocks
from priormtl.priors import TaskPrior, laplacian
from priormtl.solvers.block_newton import find_rows, move_rows
from priormtl.solvers.kernels import newton
from priormtl.solvers.layouts import TaskBlocks


def factor_of(engine, rows):
    layout = newton.Rows(engine.system.gram, *rows, engine.graph)
    a, m = rows.unit.shape
    factor = np.empty((a, a, m))
    newton.factor_tasks(layout, factor, np.empty(m))
    return factor


def solve_tasks(factor, rhs):
    out = np.empty(rhs.shape)
    newton.solve_tasks(factor, rhs, out)
    return out


@pytest.mark.parametrize("tie", [0.0, 0.3])
def test_curvature_of_the_quadratic_part(tie):
    blocks, Q = random_blocks(4, 6, tie=tie)
    engine, rows = TaskBlocks(blocks, blocks.form), nonzero_rows(blocks, Q)
    x = np.random.default_rng(2).standard_normal(rows.unit.shape)
    found = engine.multiply(rows, x)
    smooth = dense_hessian(blocks, rows._replace(bend=np.zeros(len(rows.bend))))
    assert found.ravel() == pytest.approx(smooth @ x.ravel(), rel=1e-10)


def test_rows_that_are_not_zero_or_not_penalised_are_found():
    blocks, Q = random_blocks(4, 6, tie=0.0)
    expected = nonzero_rows(blocks, Q)
    place, bend, unit = find_rows(blocks.lam, Q)
    assert place.tolist() == expected.place.tolist()
    assert bend == pytest.approx(expected.bend)
    assert unit == pytest.approx(expected.unit)
    lam = np.where(np.arange(6) == 1, 0.0, blocks.lam)
    place, bend, unit = find_rows(lam, Q)
    assert place.tolist() == list(range(6))
    assert bend[1] == 0.0
    assert not unit[1].any()


def test_steps_never_climb():
    blocks, Q = random_blocks(4, 6, tie=0.3)
    engine, rows = TaskBlocks(blocks, blocks.form), nonzero_rows(blocks, Q)
    gradient = engine.gradient(Q)
    before = engine.descend(Q.copy(), gradient, np.full(len(Q), -1.0)).value()
    downhill = -(gradient[rows.place] + blocks.lam[rows.place, None] * rows.unit)
    for step in (downhill, -downhill):
        moved = Q.copy()
        product = engine.multiply(rows, step)
        move_rows(blocks.lam, rows.place, moved, gradient, step, product)
        after = engine.descend(moved, engine.gradient(moved), np.full(len(Q), -1.0))
        assert after.value() <= before
        assert np.array_equal(moved, Q) == (step is not downhill)


@pytest.mark.parametrize("tie", [0.0, 0.3, 1e4])
def test_newton_systems_are_solved_by_tasks(tie, monkeypatch):
    blocks, Q = random_blocks(4, 6, tie=tie)
    engine, rows = TaskBlocks(blocks, blocks.form), nonzero_rows(blocks, Q)
    monkeypatch.setattr(engine, "_modes", lambda rows: None)
    rhs = np.random.default_rng(2).standard_normal(rows.unit.shape)
    found = engine.direction(rows, rhs, 1e-12)
    expected = np.linalg.solve(dense_hessian(blocks, rows), rhs.ravel())
    assert found.ravel() == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_factors_solve_each_tasks_block():
    blocks, Q = random_blocks(3, 5, tie=0.0)
    engine, rows = TaskBlocks(blocks, blocks.form), nonzero_rows(blocks, Q)
    factor = factor_of(engine, rows)
    rhs = np.random.default_rng(3).standard_normal(rows.unit.shape)
    x = solve_tasks(factor, rhs)
    for i in range(rhs.shape[1]):
        block = blocks.form.gram[i][np.ix_(rows.place, rows.place)] + np.diag(rows.bend)
        assert block @ x[:, i] == pytest.approx(rhs[:, i], abs=1e-9)


def test_products_of_any_number_are_subtracted():
    rng = np.random.default_rng(4)
    for n in range(7):
        left, right, out = rng.random((n, 5)), rng.random((n, 5)), rng.random(5)
        expected = out - np.sum(left * right, axis=0)
        newton.subtract_products(left, right, n, out)
        assert out == pytest.approx(expected, abs=1e-14)


def test_a_block_that_does_not_curve_has_finite_answers():
    blocks, Q = random_blocks(3, 5, tie=0.0)
    blocks.form.gram[:, :, 4] = blocks.form.gram[:, :, 3]
    blocks.form.gram[:, 4, :] = blocks.form.gram[:, 3, :]
    blocks.form.gram[1, 0, :] = blocks.form.gram[1, :, 0] = 0.0
    engine, rows = TaskBlocks(blocks, blocks.form), nonzero_rows(blocks, Q)
    rows = rows._replace(bend=np.zeros(len(rows.bend)))
    factor = factor_of(engine, rows)
    assert np.all(np.isfinite(solve_tasks(factor, rows.unit)))


GRAPHS = {
    "chain": TaskPrior.chain(),
    "mean": TaskPrior.mean(),
    "ring": TaskPrior.from_graph([(0, 1), (1, 2), (2, 3), (3, 0)]),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_newton_systems_are_solved_by_modes(name):
    blocks, Q = random_blocks(4, 6, tie=1e4)
    blocks = replace(blocks, laplacian=laplacian(GRAPHS[name], range(4)))
    engine, rows = TaskBlocks(blocks, blocks.form), nonzero_rows(blocks, Q)
    rhs = np.random.default_rng(2).standard_normal(rows.unit.shape)
    assert engine._modes(rows) is not None
    found = engine.direction(rows, rhs, 1e-12)
    expected = np.linalg.solve(dense_hessian(blocks, rows), rhs.ravel())
    assert found.ravel() == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_sums_and_products():
    x, y = np.random.default_rng(0).random((2, 2, 5))
    expected = x + 2.0 * y
    assert newton.inner(x, y) == pytest.approx(np.vdot(x, y))
    newton.advance(x, 2.0, y)
    assert x == pytest.approx(expected)
