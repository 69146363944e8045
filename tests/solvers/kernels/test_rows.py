"""Sweeps over rows in compiled loops."""

import numpy as np
import pytest

from instances import random_blocks
from priormtl.solvers.engines import TaskBlocks
from priormtl.solvers.kernels.graph import LOOSE


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
