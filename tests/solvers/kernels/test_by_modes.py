"""Newton systems by modes of the mean block, against NumPy."""

from dataclasses import replace

import numpy as np
import pytest

from instances import dense_hessian, nonzero_rows, random_blocks
from priormtl.priors import TaskPrior, laplacian
from priormtl.solvers.engines import TaskBlocks
from priormtl.solvers.kernels import by_modes

GRAPHS = {
    "chain": TaskPrior.chain(),
    "mean": TaskPrior.mean(),
    "ring": TaskPrior.from_graph([(0, 1), (1, 2), (2, 3), (3, 0)]),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_newton_systems_are_solved(name):
    blocks, Q = random_blocks(4, 6, tie=1e4)
    blocks = replace(blocks, laplacian=laplacian(GRAPHS[name], range(4)))
    engine, rows = TaskBlocks(blocks, blocks.form), nonzero_rows(blocks, Q)
    rhs = np.random.default_rng(2).standard_normal(rows.unit.shape)
    modes = engine._modes(rows)
    assert modes is not None
    found = by_modes.solve_by_modes(engine._rows(rows), modes, rhs, 1e-12, 500)
    expected = np.linalg.solve(dense_hessian(blocks, rows), rhs.ravel())
    assert found.ravel() == pytest.approx(expected, rel=1e-6, abs=1e-9)
