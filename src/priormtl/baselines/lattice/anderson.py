"""Anderson: guess where a fixed-point iteration is heading from its last steps."""

from dataclasses import dataclass

import numpy as np

from priormtl._arrays import Array

__all__ = ["Anderson"]

MEMORY = 5  # differences of steps that a guess is made of
INDEPENDENT = 1e-8  # relative size below which such a difference adds nothing


@dataclass(frozen=True, eq=False)
class Anderson:
    """Last points x of an iteration x → x + step, with their steps."""

    points: tuple[Array, ...] = ()
    steps: tuple[Array, ...] = ()

    def remember(self, point: Array, step: Array) -> "Anderson":
        """One point more; the oldest is forgotten."""
        return Anderson((*self.points[-MEMORY:], point), (*self.steps[-MEMORY:], step))

    def guess(self, importance: Array) -> Array | None:
        """Point whose step would vanish if steps were affine; None if none is known."""
        if len(self.points) < 2:
            return None
        turns = np.diff(self.steps, axis=0).T
        moves = np.diff(self.points, axis=0).T
        step = self.steps[-1]
        amount = np.linalg.lstsq(
            turns * importance[:, np.newaxis], step * importance, rcond=INDEPENDENT
        )[0]
        return self.points[-1] + step - (moves + turns) @ amount
