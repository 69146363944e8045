"""Own parts of tasks: the o that minimise ½ oᵀG o + gᵀo + γ‖o‖, exactly.

Either o = 0, where ‖g‖ ≤ γ, or o = −(G + μI)⁻¹g with μ‖o‖ = γ: one equation for one
number, in the axes of G.
"""

from typing import NamedTuple

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.losses.modes import Modes

__all__ = ["OwnParts", "column_norms", "solve_own"]

MOST_STEPS = 200
SETTLED = 1e-14  # relative change of a shift


class OwnParts(NamedTuple):
    """Own parts of those tasks that have one."""

    tasks: Index  # (k,)
    coef: Array  # (d, k)
    shift: Array  # (k,) μ = γ / ‖o‖

    def spread(self, m: int) -> Array:
        """Own parts of all tasks (d, m)."""
        whole = np.zeros((len(self.coef), m))
        whole[:, self.tasks] = self.coef
        return whole


def solve_own(modes: Modes, slope: Array, strength: Array) -> OwnParts:
    """Own parts where the fit has ``slope`` (d, m) without them."""
    called = np.flatnonzero(column_norms(slope) > strength)
    among = modes.take(called)
    parts = among.turn(slope[:, called])
    # What rounding put outside the axes of a task pulls at nothing.
    kept = np.linalg.norm(parts, axis=1) > strength[called]
    tasks, among, parts = called[kept], among.take(kept), parts[kept]
    shift = _find_shift(among.values, parts, strength[tasks])
    coef = -among.turn_back(parts / (among.values + shift[:, np.newaxis]))
    return OwnParts(tasks, coef, shift)


def column_norms(P: Array) -> Array:
    """Euclidean lengths of columns."""
    return np.sqrt(np.einsum("ij,ij->j", P, P))


def _find_shift(values: Array, parts: Array, strength: Array) -> Array:
    """μ with μ ‖parts / (values + μ)‖ = strength, by Newton's method from above.

    1/‖o‖ − μ/γ is concave in μ, so that every step stays above its root.
    """
    largest = values.max(axis=1, initial=0.0)
    shift = strength * largest / (np.linalg.norm(parts, axis=1) - strength)
    for _ in range(MOST_STEPS):
        stiff = values + shift[:, np.newaxis]
        length = np.linalg.norm(parts / stiff, axis=1)
        bend = np.sum(parts**2 / stiff**3, axis=1) / length**3
        step = (1.0 / length - shift / strength) / (bend - 1.0 / strength)
        shift, before = np.maximum(shift - step, SETTLED * shift), shift
        if np.all(shift >= (1.0 - SETTLED) * before):
            break
    return shift
