"""Newton steps: downhill, and home in one step where nothing bends."""

from dataclasses import replace

import numpy as np
import pytest

from instances import random_blocks
from priormtl.solvers.engines import TaskBlocks, newton_step


def test_without_a_penalty_one_step_is_enough():
    blocks, Q = random_blocks(3, 4, tie=0.5)
    blocks = replace(blocks, lam=np.zeros(4))
    engine = TaskBlocks(blocks, blocks.form)
    for _ in range(9):  # directions are only as exact as a step pays for
        newton_step(engine, Q, engine.gradient(Q))
    assert engine.gradient(Q) == pytest.approx(0.0, abs=1e-5)


def test_steps_descend_and_leave_zero_rows_alone():
    blocks, Q = random_blocks(3, 4, tie=0.5)
    engine = TaskBlocks(blocks, blocks.form)
    values = []
    for _ in range(4):
        gradient = engine.gradient(Q)
        values.append(engine.descend(Q, gradient, np.full(4, -1.0)).value())
        newton_step(engine, Q, gradient)
    assert np.all(np.diff(values) <= 0.0)
    assert not Q[1].any()


def test_nothing_to_do_where_all_rows_are_zero():
    blocks, Q = random_blocks(3, 4, tie=0.5)
    engine, Q = TaskBlocks(blocks, blocks.form), np.zeros_like(Q)
    newton_step(engine, Q, engine.gradient(Q))
    assert not Q.any()
