"""SharedWeights: all tasks use the same few kernels.

The norm Σ_j (Σ_i ‖f_ij‖^p)^{1/p}, f_ij the function of task i in the space of kernel j.
Arrays are (m, k, r): task, kernel, coordinate.
"""

from dataclasses import dataclass
from functools import partial
from math import log

import numpy as np

from priormtl._arrays import Array
from priormtl.baselines.multikernel.roots import falling_root

__all__ = ["SharedWeights"]

TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class SharedWeights:
    """Σ_j (Σ_i ‖f_ij‖^p)^{1/p}, p ≥ 2: the larger p, the less tasks are alike."""

    p: float

    def value(self, F: Array) -> float:
        """The norm."""
        return float(_norms(_lengths(F), self.p).sum())

    def dual_norm(self, Z: Array) -> float:
        """max_j (Σ_i ‖z_ij‖^p')^{1/p'} with 1/p + 1/p' = 1."""
        return float(_norms(_lengths(Z), self.p / (self.p - 1.0)).max(initial=0.0))

    def kernel_weights(self, F: Array) -> Array:
        """Share of each kernel (k,) in the norm: γ of the published dual."""
        parts = _norms(_lengths(F), self.p)
        total = parts.sum()
        return parts / total if total > 0 else np.full(len(parts), 1.0 / len(parts))

    def prox(self, F: Array, step: float, guess: float) -> tuple[Array, float]:
        """Minimise step/2 · norm² + half the squared distance; the point and its norm.

        With S the norm reached, each kernel's lengths are the proximal point of
        step · S times their p-norm.
        """
        lengths = _lengths(F)
        top = float(_norms(lengths, self.p).sum())
        if top == 0.0:
            return F, 0.0
        scaled = lengths / top
        level = falling_root(partial(self._excess, scaled, step), 1.0, guess / top)
        kept = self._shrink(scaled, step * level)
        ratio = np.divide(kept, scaled, out=np.zeros_like(kept), where=scaled > 0)
        return F * ratio[:, :, np.newaxis], top * level

    def _excess(self, lengths: Array, step: float, S: float) -> float:
        """Logarithm of the norm reached over S."""
        reached = float(self._kernel_norms(lengths, step * S).sum())
        return log(max(reached, TINY) / S)

    def _kernel_norms(self, lengths: Array, shrinkage: float) -> Array:
        """p-norms (k,) of the proximal points of shrinkage · p-norm."""
        norms = _norms(lengths, self.p)
        if self.p == 2.0:
            return np.maximum(norms - shrinkage, 0.0)
        alive = _norms(lengths, self.p / (self.p - 1.0)) > shrinkage
        from priormtl.baselines.multikernel.shrinkage import power_norms  # noqa: PLC0415

        rows, high = np.ascontiguousarray(lengths.T), np.where(alive, norms, 0.0)
        return np.asarray(power_norms(rows, high, shrinkage, self.p))

    def _shrink(self, lengths: Array, shrinkage: float) -> Array:
        """Proximal points (m, k) of shrinkage · p-norm of each kernel's lengths."""
        norms = self._kernel_norms(lengths, shrinkage)
        if self.p == 2.0:
            return np.asarray(lengths * (norms / (norms + shrinkage)))
        from priormtl.baselines.multikernel.shrinkage import power_shares  # noqa: PLC0415

        rows = np.ascontiguousarray(lengths.T)
        shares = power_shares(rows, norms, shrinkage, self.p)
        return np.asarray((shares * norms[:, np.newaxis]).T)


def _lengths(F: Array) -> Array:
    """Length of each function (m, k)."""
    return np.asarray(np.sqrt(np.einsum("ijr,ijr->ij", F, F)))


def _norms(lengths: Array, power: float) -> Array:
    """Power norm of each kernel's lengths (k,)."""
    largest = lengths.max(axis=0, initial=0.0)
    scaled = lengths / np.where(largest > 0, largest, 1.0)
    return np.asarray(largest * np.sum(scaled**power, axis=0) ** (1.0 / power))
