"""Norms of coefficients that are a sum of two parts: the dirty and the robust norm.

The dirty norm of P is the least Σ|S| + r · Σ_j max_i |B_ji| over B + S = P: rows B that
all tasks share, plus single entries S. Jalali, Ravikumar, Sanghavi and Ruan, "A Dirty
Model for Multi-task Learning", NIPS 2010.

Robust multi-task learning fits P = L + S, where L has low rank and S has a nonzero
column for each outlier task. Its norm is one of both blocks [L, S]. Chen, Zhou and Ye,
"Integrating Low-Rank and Group-Sparse Structures for Robust Multi-Task Learning", KDD
2011.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from priormtl._arrays import Array
from priormtl._numerics import ROUNDING
from priormtl.penalties.base import Penalty
from priormtl.penalties.nuclear import Nuclear


class Split(NamedTuple):
    """A matrix as the sum of two."""

    shared: Array  # (d, m) B, entries of a row bounded by a common level
    specific: Array  # (d, m) S, what single entries exceed it by


@dataclass(frozen=True)
class Dirty(Penalty):
    """Sum over rows of the ``ratio`` largest absolute entries.

    A fractional ratio counts the next entry in part. Up to 1 it multiplies the largest
    entry of each row; from m on all entries count in full.
    """

    ratio: float  # r

    def value(self, P: Array) -> float:
        """Σ_j |p^j|_(1) + … + |p^j|_(⌊r⌋) + (r − ⌊r⌋) |p^j|_(⌊r⌋+1)."""
        falling = -np.sort(-np.abs(P), axis=1)
        share = np.clip(self.ratio - np.arange(P.shape[1]), 0.0, 1.0)
        return float(np.sum(falling @ share))

    def prox(self, P: Array, step: float) -> Array:
        """P minus its projection on the dual ball of radius ``step`` (Moreau).

        That ball has rows with |g_ji| ≤ step and Σ_i |g_ji| ≤ step · ratio.
        """
        sizes = np.abs(P)
        threshold = _find_thresholds(sizes, step, step * self.ratio)[:, np.newaxis]
        return P - np.copysign(np.clip(sizes - threshold, 0.0, step), P)

    def dual_norm(self, G: Array) -> float:
        """Largest absolute entry, or largest absolute row sum over ``ratio``."""
        sizes = np.abs(G)
        sums = sizes.sum(axis=1) / self.ratio
        return float(max(sizes.max(initial=0.0), sums.max(initial=0.0)))

    def split(self, P: Array) -> Split:
        """Best B and S of P: B cuts each row at its (⌊r⌋+1)-th largest entry."""
        sizes, place = np.abs(P), int(self.ratio)
        level = np.zeros((len(P), 1))
        if self.ratio <= 1:
            level = sizes.max(axis=1, keepdims=True, initial=0.0)
        elif place < P.shape[1]:
            level = -np.sort(-sizes, axis=1)[:, [place]]
        shared = np.sign(P) * np.minimum(sizes, level)
        return Split(shared, P - shared)


def _find_thresholds(sizes: Array, most: float, total: float) -> Array:
    """Least μ ≥ 0 of each row with Σ min((size − μ)₊, most) ≤ total (d,).

    The sum is piecewise linear in μ: Newton's method is exact on the right piece, and
    bisection replaces steps that leave the bracket.
    """
    low, high = np.zeros(len(sizes)), sizes.max(axis=1, initial=0.0)
    threshold = np.zeros(len(sizes))
    open_rows = np.arange(len(sizes))
    for _ in range(200):
        here = threshold[open_rows]
        rest = sizes[open_rows] - here[:, np.newaxis]
        above = np.clip(rest, 0.0, most).sum(axis=1) - total
        slope = np.count_nonzero((rest > 0.0) & (rest < most), axis=1)
        low[open_rows[above > 0]] = here[above > 0]
        high[open_rows[above < 0]] = here[above < 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            trial = here + above / slope
        done = np.abs(above) <= ROUNDING * total
        done |= (above < 0) & (here == 0.0)
        done |= trial == here
        inside = (trial > low[open_rows]) & (trial < high[open_rows])
        middle = 0.5 * (low[open_rows] + high[open_rows])
        following = np.where(inside, trial, middle)
        open_rows, following = open_rows[~done], following[~done]
        if not len(open_rows):
            break
        threshold[open_rows] = following
    return threshold


# Robust norm


@dataclass(frozen=True)
class Columns(Penalty):
    """Sum of the Euclidean norms of the columns of P: whole tasks become zero."""

    def value(self, P: Array) -> float:
        return float(_column_norms(P).sum())

    def prox(self, P: Array, step: float) -> Array:
        norms = _column_norms(P)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(norms > step, 1.0 - step / norms, 0.0)
        return factor * P

    def dual_norm(self, G: Array) -> float:
        return float(_column_norms(G).max(initial=0.0))


@dataclass(frozen=True)
class Robust(Penalty):
    """Norm of two blocks [L, S] side by side: ratio · ‖L‖_* + Σ_i ‖s_i‖."""

    ratio: float

    def value(self, P: Array) -> float:
        L, S = halve(P)
        return self.ratio * Nuclear().value(L) + Columns().value(S)

    def prox(self, P: Array, step: float) -> Array:
        L, S = halve(P)
        return np.hstack(
            [Nuclear().prox(L, step * self.ratio), Columns().prox(S, step)]
        )

    def dual_norm(self, G: Array) -> float:
        L, S = halve(G)
        return max(Nuclear().dual_norm(L) / self.ratio, Columns().dual_norm(S))


def halve(P: Array) -> tuple[Array, Array]:
    """Left and right half of the columns."""
    m = P.shape[1] // 2
    return P[:, :m], P[:, m:]


def _column_norms(P: Array) -> Array:
    return np.sqrt(np.einsum("ij,ij->j", P, P))
