"""Dirty norm: rows that tasks share, and single entries of their own."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from priormtl._arrays import Array, Index

__all__ = ["Dirty", "Split", "project_on_l1_ball", "prox_of_largest"]

MOST_STEPS = 200
ROUNDING = 1e-15


class Split(NamedTuple):
    """A matrix as the sum of two."""

    shared: Array  # (d, m) rows of few sizes
    own: Array  # (d, m) single entries


@dataclass(frozen=True)
class Dirty:
    """Sum over rows of the ``ratio`` largest sizes of entries.

    Equal to the least Σ|S| + ratio · Σ_j max_i |B_ji| over S + B = P. A ratio that is
    no whole number counts the next entry in part; up to 1 it multiplies the largest
    entries, from m on all entries count in full.
    """

    ratio: float

    def value(self, P: Array) -> float:
        """Σ_j |p^j|_(1) + … + |p^j|_(⌊r⌋) + (r − ⌊r⌋) |p^j|_(⌊r⌋+1)."""
        falling = -np.sort(-np.abs(P), axis=1)
        share = np.clip(self.ratio - np.arange(P.shape[1]), 0.0, 1.0)
        return float(np.sum(falling @ share))

    def prox(self, P: Array, step: float) -> Array:
        """What the projection on the dual ball of radius ``step`` leaves."""
        return P - project_on_dual_ball(P, step, step * self.ratio)

    def dual_norm(self, G: Array) -> float:
        """Largest entry, or largest sum of sizes in a row over ``ratio``."""
        sizes = np.abs(G)
        sums = sizes.sum(axis=1) / self.ratio
        return float(max(sizes.max(initial=0.0), sums.max(initial=0.0)))

    def restrict(self, features: Index) -> Self:
        """Same norm: all features count alike."""
        return self

    def split(self, P: Array) -> Split:
        """Best parts B and S of P: entries are shared up to the (⌊r⌋+1)-th largest."""
        sizes, place = np.abs(P), int(self.ratio)
        level = np.zeros((len(P), 1))
        if self.ratio <= 1:
            level = sizes.max(axis=1, keepdims=True, initial=0.0)
        elif place < P.shape[1]:
            level = -np.sort(-sizes, axis=1)[:, [place]]
        shared = np.sign(P) * np.minimum(sizes, level)
        return Split(shared, P - shared)


def project_on_dual_ball(P: Array, most: float, total: float) -> Array:
    """Nearest rows with entries up to ``most`` in size, and sizes up to ``total``."""
    sizes = np.abs(P)
    shift = _find_shifts(sizes, most, total)[:, np.newaxis]
    return np.copysign(np.clip(sizes - shift, 0.0, most), P)


def project_on_l1_ball(P: Array, radius: float) -> Array:
    """Nearest rows whose sizes sum to at most ``radius``."""
    return project_on_dual_ball(P, np.inf, radius)


def prox_of_largest(P: Array, step: float) -> Array:
    """Minimiser of step · max|u| + ½ ‖u − p‖² for each row p."""
    return P - project_on_l1_ball(P, step)


def _find_shifts(sizes: Array, most: float, total: float) -> Array:
    """Least μ ≥ 0 of each row at which Σ min((size − μ)₊, most) ≤ total (d,).

    The sum is piecewise linear: Newton's steps end on the right piece, and halvings
    of the bracket stand in where they leave it.
    """
    low, high = np.zeros(len(sizes)), sizes.max(axis=1, initial=0.0)
    shift = np.zeros(len(sizes))
    open_rows = np.arange(len(sizes))
    for _ in range(MOST_STEPS):
        above, slope = _measure(sizes[open_rows], shift[open_rows], most, total)
        low[open_rows[above > 0]] = shift[open_rows[above > 0]]
        high[open_rows[above < 0]] = shift[open_rows[above < 0]]
        done = np.abs(above) <= ROUNDING * total
        done |= (above < 0) & (shift[open_rows] == 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            trial = shift[open_rows] + above / slope
        done |= trial == shift[open_rows]
        inside = (trial > low[open_rows]) & (trial < high[open_rows])
        middle = 0.5 * (low[open_rows] + high[open_rows])
        following = np.where(inside, trial, middle)
        open_rows, following = open_rows[~done], following[~done]
        if not len(open_rows):
            break
        shift[open_rows] = following
    return shift


def _measure(
    sizes: Array, shift: Array, most: float, total: float
) -> tuple[Array, Array]:
    """How much too large the sum of each row is, and by what slope it falls."""
    rest = sizes - shift[:, np.newaxis]
    above = np.clip(rest, 0.0, most).sum(axis=1) - total
    slope = np.count_nonzero((rest > 0.0) & (rest < most), axis=1)
    return above, slope
