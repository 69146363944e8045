"""Sweeps one after the other, and jumps ahead."""

import numpy as np
import pytest

from instances import random_blocks
from priormtl.solvers import descent as sweeps
from priormtl.solvers.engines import TaskBlocks


class Shrinking:
    """A descent whose moves shrink by a constant factor; Q goes to zero."""

    def __init__(self, factor):
        self.trail = (np.ones((1, 2)),)
        self.factor, self.count = factor, 0

    def sweep(self):
        self.count += 1
        before = self.trail[0].copy()
        self.trail[0][:] *= self.factor
        return float(np.sum((self.trail[0] - before) ** 2))

    def value(self):
        return float(np.sum(self.trail[0] ** 2))


def test_nothing_moves_at_the_optimum():
    descent = Shrinking(1.0)
    assert not sweeps.descend_jumping(descent)
    assert descent.count == 1


def test_weights_of_a_linear_sequence_hit_its_limit():
    places = [np.array([1.0 + 0.9**k, 2.0 - 3.0 * 0.9**k]) for k in range(6)]
    weights = sweeps.extrapolate(np.diff(places, axis=0))
    assert weights.sum() == pytest.approx(1.0)
    assert weights @ np.array(places[1:]) == pytest.approx([1.0, 2.0], abs=1e-3)


def test_jumps_never_climb():
    blocks, Q = random_blocks(3, 8, tie=0.5)
    engine = TaskBlocks(blocks, blocks.form)
    descent = engine.descend(Q, engine.gradient(Q), np.full(len(Q), -1.0))
    before = descent.value()
    assert sweeps.descend_jumping(descent)
    assert descent.value() < before
    assert descent.gradient() == pytest.approx(engine.gradient(Q), abs=1e-9)


def test_jumps_end_nearer_than_sweeps():
    jumping, sweeping = Shrinking(0.9), Shrinking(0.9)
    sweeps.descend_jumping(jumping)
    for _ in range(sweeps.STEP):
        sweeping.sweep()
    assert jumping.value() < 1e-6 * sweeping.value()


def test_a_jump_that_climbs_is_taken_back(monkeypatch):
    monkeypatch.setattr(sweeps, "extrapolate", lambda moves: np.full(len(moves), 9.0))
    descent = Shrinking(0.9)
    sweeps.descend_jumping(descent)
    assert descent.trail[0] == pytest.approx(0.9**sweeps.STEP)
