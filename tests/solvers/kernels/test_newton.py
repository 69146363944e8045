"""Newton steps in compiled loops, against NumPy."""

from dataclasses import replace

import numpy as np
import pytest

from instances import dense_hessian, nonzero_rows, random_blocks
from priormtl.priors import TaskPrior, laplacian
from priormtl.solvers.kernels import newton
from priormtl.solvers.layouts import TaskBlocks


def layout_of(engine, rows):
    return newton.Rows(engine.system.gram, *rows, engine.graph)


@pytest.mark.parametrize("tie", [0.0, 0.3])
def test_curvature_of_the_quadratic_part(tie):
    blocks, Q = random_blocks(4, 6, tie=tie)
    engine, rows = TaskBlocks(blocks, blocks.form), nonzero_rows(blocks, Q)
    x = np.random.default_rng(2).standard_normal(rows.unit.shape)
    found = newton.curve(layout_of(engine, rows), x)
    smooth = dense_hessian(blocks, rows._replace(bend=np.zeros(len(rows.bend))))
    assert found.ravel() == pytest.approx(smooth @ x.ravel(), rel=1e-10)


def test_rows_that_are_not_zero_or_not_penalised_are_found():
    blocks, Q = random_blocks(4, 6, tie=0.0)
    expected = nonzero_rows(blocks, Q)
    place, bend, unit = newton.find_rows(blocks.lam, Q)
    assert place.tolist() == expected.place.tolist()
    assert bend == pytest.approx(expected.bend)
    assert unit == pytest.approx(expected.unit)
    lam = np.where(np.arange(6) == 1, 0.0, blocks.lam)
    place, bend, unit = newton.find_rows(lam, Q)
    assert place.tolist() == list(range(6))
    assert bend[1] == 0.0
    assert not unit[1].any()


def test_steps_never_climb():
    blocks, Q = random_blocks(4, 6, tie=0.3)
    engine, rows = TaskBlocks(blocks, blocks.form), nonzero_rows(blocks, Q)
    gradient = engine.gradient(Q)
    before = engine.descend(Q.copy(), gradient, np.full(len(Q), -1.0)).value()
    downhill, force = newton.descent_direction(
        blocks.lam, rows.place, rows.unit, gradient
    )
    assert force > 0.0
    for step in (downhill, -downhill):
        moved = Q.copy()
        product = engine.multiply(rows, step)
        newton.move_rows(blocks.lam, rows.place, moved, gradient, step, product)
        after = engine.descend(moved, engine.gradient(moved), np.full(len(Q), -1.0))
        assert after.value() <= before
        assert np.array_equal(moved, Q) == (step is not downhill)


@pytest.mark.parametrize("tie", [0.0, 0.3, 1e4])
def test_newton_systems_are_solved_by_tasks(tie):
    blocks, Q = random_blocks(4, 6, tie=tie)
    engine, rows = TaskBlocks(blocks, blocks.form), nonzero_rows(blocks, Q)
    rhs = np.random.default_rng(2).standard_normal(rows.unit.shape)
    found = newton.solve_by_tasks(layout_of(engine, rows), rhs, 1e-12, 500)
    expected = np.linalg.solve(dense_hessian(blocks, rows), rhs.ravel())
    assert found.ravel() == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_factors_solve_each_tasks_block():
    blocks, Q = random_blocks(3, 5, tie=0.0)
    engine, rows = TaskBlocks(blocks, blocks.form), nonzero_rows(blocks, Q)
    layout = layout_of(engine, rows)
    factor = newton.factor_tasks(layout)
    rhs = np.random.default_rng(3).standard_normal(rows.unit.shape)
    x = newton.solve_tasks(factor, rhs)
    for i in range(rhs.shape[1]):
        block = blocks.form.gram[i][np.ix_(rows.place, rows.place)] + np.diag(rows.bend)
        assert block @ x[:, i] == pytest.approx(rhs[:, i], abs=1e-9)


def test_products_of_any_number_are_subtracted():
    rng = np.random.default_rng(4)
    for n in range(7):
        left, right, out = rng.random((n, 5)), rng.random((n, 5)), rng.random(5)
        expected = out - np.sum(left * right, axis=0)
        newton.subtract_products(left, right, out)
        assert out == pytest.approx(expected, abs=1e-14)


def test_a_block_that_does_not_curve_has_finite_answers():
    blocks, Q = random_blocks(3, 5, tie=0.0)
    blocks.form.gram[:, :, 4] = blocks.form.gram[:, :, 3]
    blocks.form.gram[:, 4, :] = blocks.form.gram[:, 3, :]
    blocks.form.gram[1, 0, :] = blocks.form.gram[1, :, 0] = 0.0
    engine, rows = TaskBlocks(blocks, blocks.form), nonzero_rows(blocks, Q)
    rows = rows._replace(bend=np.zeros(len(rows.bend)))
    factor = newton.factor_tasks(layout_of(engine, rows))
    assert np.all(np.isfinite(newton.solve_tasks(factor, rows.unit)))


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
    modes = engine._modes(rows)
    assert modes is not None
    found = newton.solve_by_modes(layout_of(engine, rows), modes, rhs, 1e-12, 500)
    expected = np.linalg.solve(dense_hessian(blocks, rows), rhs.ravel())
    assert found.ravel() == pytest.approx(expected, rel=1e-6, abs=1e-9)


X, Y = np.random.default_rng(0).random((2, 2, 5))


def test_sums_and_products():
    x, y = X.copy(), X.copy()
    newton.advance(x, 2.0, Y)
    newton.blend(y, 2.0, Y)
    assert x == pytest.approx(X + 2.0 * Y)
    assert y == pytest.approx(2.0 * X + Y)
    assert newton.inner(X, Y) == pytest.approx(np.vdot(X, Y))


def test_a_step_leaves_nothing_along_its_direction():
    x, rest = np.zeros(X.shape), X.copy()
    product = 3.0 * Y
    assert newton.step_along(x, rest, Y, product, float(np.vdot(X, Y)))
    assert np.vdot(rest, Y) == pytest.approx(0.0, abs=1e-12)
    assert rest == pytest.approx(X - 3.0 * x)


def test_no_step_where_nothing_curves():
    x, rest = np.zeros(X.shape), X.copy()
    assert not newton.step_along(x, rest, Y, -Y, 1.0)
    assert np.array_equal(rest, X)
    assert not x.any()
