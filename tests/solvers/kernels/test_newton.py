"""Newton steps in compiled loops, against NumPy."""

import numpy as np
import pytest

from instances import dense_hessian, nonzero_rows, random_blocks
from priormtl.solvers.engines import TaskBlocks
from priormtl.solvers.kernels import newton


@pytest.mark.parametrize("tie", [0.0, 0.3])
def test_curvature_of_the_quadratic_part(tie):
    blocks, Q = random_blocks(4, 6, tie=tie)
    engine, rows = TaskBlocks(blocks, blocks.form), nonzero_rows(blocks, Q)
    x = np.random.default_rng(2).standard_normal(rows.unit.shape)
    found = newton.curve(engine._rows(rows), x)
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
    downhill, force = newton.look_downhill(blocks.lam, rows.place, rows.unit, gradient)
    assert force > 0.0
    for step in (downhill, -downhill):
        moved = Q.copy()
        product = engine.multiply(rows, step)
        newton.move_rows(blocks.lam, rows.place, moved, gradient, step, product)
        after = engine.descend(moved, engine.gradient(moved), np.full(len(Q), -1.0))
        assert after.value() <= before
        assert np.array_equal(moved, Q) == (step is not downhill)
