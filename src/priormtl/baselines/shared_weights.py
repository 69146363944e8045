"""SharedWeights: all tasks use the same few kernels.

The norm Σ_j (Σ_i ‖f_ij‖^p)^{1/p}, f_ij the function of task i in the space of kernel j.
Arrays are (m, k, r): task, kernel, coordinate.
"""

from dataclasses import dataclass

import numpy as np

from priormtl._arrays import Array
from priormtl.baselines.roots import falling_root, rising_roots

__all__ = ["SharedWeights"]


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
        level = falling_root(
            lambda S: float(self._kernel_norms(scaled, step * S).sum()) - S,
            1.0,
            guess / top,
        )
        norms = self._kernel_norms(scaled, step * level)
        kept = self._shares(scaled, norms, step * level) * norms
        ratio = np.divide(kept, scaled, out=np.zeros_like(kept), where=scaled > 0)
        return F * ratio[:, :, np.newaxis], top * level

    def _kernel_norms(self, lengths: Array, shrinkage: float) -> Array:
        """p-norms (k,) of the proximal points of shrinkage · p-norm."""
        norms = _norms(lengths, self.p)
        if self.p == 2.0:
            return np.maximum(norms - shrinkage, 0.0)
        alive = _norms(lengths, self.p / (self.p - 1.0)) > shrinkage
        found = np.zeros(len(norms))
        if alive.any():
            found[alive] = self._positive_norms(lengths[:, alive], shrinkage)
        return found

    def _positive_norms(self, lengths: Array, shrinkage: float) -> Array:
        """The n_j at which shares have p-norm one; they fall in n_j."""

        def lack(n: Array) -> tuple[Array, Array]:
            shares = self._shares(lengths, n, shrinkage)
            bent = shares ** (self.p - 2.0)
            slope = n + shrinkage * (self.p - 1.0) * bent
            powers = bent * shares**2
            # Of the logarithm, which is straighter.
            total = powers.sum(axis=0)
            fall = self.p * (powers / slope).sum(axis=0) / total
            return -np.log(total), fall

        high = _norms(lengths, self.p)
        return rising_roots(lack, np.maximum(high - shrinkage, 0.0), high)

    def _shares(self, lengths: Array, norms: Array, shrinkage: float) -> Array:
        """u (m, k) with n_j u + shrinkage u^{p−1} = length."""
        if shrinkage == 0.0:
            return np.divide(lengths, norms, out=0.0 * lengths, where=norms > 0)
        if self.p == 2.0:
            return lengths / (norms + shrinkage)
        bound = (lengths / shrinkage) ** (1.0 / (self.p - 1.0))
        ratio = np.divide(lengths, norms, out=bound.copy(), where=norms > 0)

        def excess(u: Array) -> tuple[Array, Array]:
            bent = shrinkage * u ** (self.p - 2.0)
            return norms * u + bent * u - lengths, norms + (self.p - 1.0) * bent

        return rising_roots(excess, np.zeros_like(lengths), np.minimum(bound, ratio))


def _lengths(F: Array) -> Array:
    """Length of each function (m, k)."""
    return np.asarray(np.sqrt(np.einsum("ijr,ijr->ij", F, F)))


def _norms(lengths: Array, power: float) -> Array:
    """Power norm of each kernel's lengths (k,)."""
    largest = lengths.max(axis=0, initial=0.0)
    scaled = lengths / np.where(largest > 0, largest, 1.0)
    return np.asarray(largest * np.sum(scaled**power, axis=0) ** (1.0 / power))
