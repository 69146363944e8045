"""Sweeps with jumps ahead, for many rows."""

from typing import Protocol

import numpy as np

from priormtl._arrays import Array

__all__ = ["MOST_SWEEPS", "Sweeps", "descend_jumping", "extrapolate"]

MOST_SWEEPS = 10  # in a step with few rows
STEP = 8  # sweeps from one look to the next, with many
WINDOW = 5  # sweeps that a jump looks back to
FIRST_JUMP, PERIOD = 4, 2  # in sweeps: the first ones only find the rows
RIDGE = 1e-10


class Sweeps(Protocol):
    """What jumps need of sweeps under way."""

    @property
    def trail(self) -> tuple[Array, ...]:
        """Rows, and all that is kept for them and affine in them."""

    def sweep(self) -> float:
        """Minimise over one row after the other; how far rows moved, squared."""

    def value(self) -> float:
        """Objective, but for a constant."""


class Trace:
    """The last few sweeps: how each moved the rows, and where it led."""

    def __init__(self, descent: Sweeps) -> None:
        self._descent = descent
        self._moves = np.empty((WINDOW, descent.trail[0].size))
        self._places = [np.empty((WINDOW, array.size)) for array in descent.trail]
        self._count = 0

    def sweep(self) -> float:
        """Sweep once more; how far rows moved, squared."""
        last, rows = self._count % WINDOW, self._descent.trail[0]
        self._moves[last] = rows.ravel()
        moved = self._descent.sweep()
        np.subtract(rows.ravel(), self._moves[last], out=self._moves[last])
        for place, array in zip(self._places, self._descent.trail, strict=True):
            place[last] = array.ravel()
        self._count += 1
        return moved

    def jump(self) -> None:
        """Go to the extrapolated place; if it is not better, stay and forget."""
        before, known = self._descent.value(), min(self._count, WINDOW)
        self._move_to(extrapolate(self._moves[:known]))
        if not self._descent.value() < before:
            here = np.zeros(known)
            here[(self._count - 1) % WINDOW] = 1.0
            self._move_to(here)
            self._count = 0

    def _move_to(self, weights: Array) -> None:
        for place, array in zip(self._places, self._descent.trail, strict=True):
            array[:] = (weights @ place[: len(weights)]).reshape(array.shape)


def descend_jumping(descent: Sweeps) -> bool:
    """Sweep, and jump ahead every few sweeps; whether rows still move."""
    trace = Trace(descent)
    for count in range(1, STEP + 1):
        if trace.sweep() == 0.0:
            return False
        if count >= FIRST_JUMP and (count - FIRST_JUMP) % PERIOD == 0:
            trace.jump()
    return True


def extrapolate(moves: Array) -> Array:
    """Weights of the moves whose combination is shortest (Anderson)."""
    products = moves @ moves.T
    products.flat[:: len(products) + 1] += RIDGE * np.trace(products)
    weights = np.linalg.solve(products, np.ones(len(products)))
    return weights / weights.sum()
