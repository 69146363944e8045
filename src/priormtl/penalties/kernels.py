"""Norms of functions in several kernel spaces, for multiple-kernel learning.

P (k r, m) has blocks F_j (r, m): column i holds the coordinates of the function of task
i in the space of kernel j. Both penalties are ½ Ω², with the norms Ω of Liu, Cao, Yang
and Zhao, "Linearized and Kernelized Sparse Multitask Learning for Predicting Cognitive
Outcomes in Alzheimer's Disease", 2018. Their proximal operators reduce to a scalar
equation for the Ω of the result.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.optimize import brentq

from priormtl._arrays import Array, Index
from priormtl.penalties.base import Power
from priormtl.penalties.nuclear import solve_power

CLOSE = 1e-13  # relative error of roots


@dataclass(frozen=True)
class KernelNorm(Power):
    """½ Ω²; subclasses say what Ω is and how the norms of its blocks shrink."""

    n_kernels: int
    power: float

    @abstractmethod
    def norms(self, P: Array) -> Array:
        """Norm of each block (k,)."""

    def weights(self, P: Array) -> Array:
        """Share of each kernel (k,) in the reweighted problems of the publication."""
        norms = self.norms(P)
        if not norms.any():
            return np.full(len(norms), 1.0 / len(norms))
        shares = (norms / norms.max()) ** self.weight_power()
        return np.asarray(shares / shares.sum())

    def weight_power(self) -> float:
        """Power of the norms to which weights are proportional."""
        return 1.0

    def blocks(self, P: Array) -> Array:
        """F_j of each kernel (k, r, m)."""
        return P.reshape(self.n_kernels, -1, P.shape[1])

    def conjugate(self, G: Array) -> float:
        return 0.5 * self.dual_norm(G) ** 2

    def restrict(self, features: Index) -> Self:
        """Not available: solvers that leave features out would break blocks."""
        raise NotImplementedError("the features of a kernel belong together")


class SharedKernels(KernelNorm):
    """Ω = Σ_j (Σ_i ‖f_ij‖^p)^{1/p}, p ≥ 2: a larger p makes tasks less alike."""

    def norms(self, P: Array) -> Array:
        """(Σ_i ‖f_ij‖^p)^{1/p} (k,)."""
        return _power_norms(self._lengths(P), self.power)

    def value(self, P: Array) -> float:
        return 0.5 * float(self.norms(P).sum()) ** 2

    def dual_norm(self, G: Array) -> float:
        """max_j (Σ_i ‖g_ij‖^p')^{1/p'} with 1/p + 1/p' = 1."""
        conjugate = self.power / (self.power - 1.0)
        return float(_power_norms(self._lengths(G), conjugate).max())

    def prox(self, P: Array, step: float) -> Array:
        """With Ω that of the result, kernel j has the prox of step Ω · p-norm."""
        p, lengths = self.power, self._lengths(P)
        unit = float(lengths.max())
        if unit == 0.0 or step == 0.0:
            return P
        lengths = lengths / unit
        total = float(_power_norms(lengths, p).sum())
        # A norm falls by at most τ, and the last one vanishes at the dual norm.
        low = total / (1.0 + step * len(lengths))
        high = min(total, self.dual_norm(P) / unit / step)
        level = _root(lambda S: shrunk_norms(lengths, step * S, p).sum() - S, low, high)
        norms = shrunk_norms(lengths, step * level, p)
        # The length u of a norm n has u + τ (u / n)^{p−1} = length.
        slope = norms[:, np.newaxis] / (step * level)
        kept = norms[:, np.newaxis] * solve_power(
            lengths / (step * level), slope, p - 1
        )
        ratio = np.divide(kept, lengths, out=np.zeros_like(kept), where=lengths > 0)
        return (self.blocks(P) * ratio[:, np.newaxis]).reshape(P.shape)

    def _lengths(self, P: Array) -> Array:
        """‖f_ij‖ (k, m)."""
        return np.asarray(np.linalg.norm(self.blocks(P), axis=1))


def shrunk_norms(lengths: Array, tau: float, p: float) -> Array:
    """p-norm of the proximal point of τ · p-norm, for each row of lengths (k,)."""
    high = _power_norms(lengths, p)
    low = np.maximum(high - tau, 0.0)
    if p == 2.0 or tau == 0.0:
        return low
    alive = _power_norms(lengths, p / (p - 1.0)) > tau
    lengths, low, high = lengths[alive], low[alive], high[alive]
    n = 0.5 * (low + high)
    for _ in range(100):
        # Shares v of the norm have n v + τ v^{p−1} = length and p-norm one.
        v = solve_power(lengths / tau, n[:, np.newaxis] / tau, p - 1.0)
        powers = v**p
        total = powers.sum(axis=1)
        low, high = np.where(total > 1.0, n, low), np.where(total > 1.0, high, n)
        slope = n[:, np.newaxis] + tau * (p - 1.0) * v ** (p - 2.0)
        # Newton on the logarithm, which is close to linear; else bisection.
        move = np.log(total) * total / (p * np.sum(powers / slope, axis=1))
        if np.all(np.abs(move) <= CLOSE * n):
            break
        inside = (n + move > low) & (n + move < high)
        n = np.where(inside, n + move, 0.5 * (low + high))
    found = np.zeros(len(alive))
    found[alive] = n
    return found


class LowRankKernels(KernelNorm):
    """Ω = (Σ_j ‖F_j‖_*^q)^{1/q}, 1 < q < 2: a smaller q selects fewer kernels."""

    def norms(self, P: Array) -> Array:
        """‖F_j‖_* (k,)."""
        return np.linalg.svd(self.blocks(P), compute_uv=False).sum(axis=1)

    def weight_power(self) -> float:
        return 2.0 - self.power

    def value(self, P: Array) -> float:
        return 0.5 * _power_norm(self.norms(P), self.power) ** 2

    def dual_norm(self, G: Array) -> float:
        """(Σ_j ‖G_j‖₂^q')^{1/q'} with 1/q + 1/q' = 1."""
        largest = np.linalg.eigvalsh(_small_grams(self.blocks(G)))[:, -1]
        conjugate = self.power / (self.power - 1.0)
        return _power_norm(np.sqrt(np.maximum(largest, 0.0)), conjugate)

    def prox(self, P: Array, step: float) -> Array:
        """Singular values of block j shrink by step Ω v_j, Ω that of the result.

        Ω v_j^{1/(q−1)} is their sum then, and the v_j have norm one in q'.
        """
        blocks, q = self.blocks(P), self.power
        squares, vectors = np.linalg.eigh(_small_grams(blocks))
        values = np.sqrt(np.maximum(squares[:, ::-1], 0.0))
        unit = float(values.max())
        if unit == 0.0 or step == 0.0:
            return P
        values, conjugate = values / unit, q / (q - 1.0)
        total = _power_norm(values.sum(axis=1), q)
        high = min(total, _power_norm(values[:, 0], conjugate) / step)

        def excess(T: float) -> float:
            return _power_norm(shrinkages(values, step, T, q), conjugate) - 1.0

        level = _root(excess, total / (1.0 + step * values.size), high)
        shrinkage = step * level * shrinkages(values, step, level, q)
        kept = np.maximum(values - shrinkage[:, np.newaxis], 0.0)
        ratio = np.divide(kept, values, out=np.zeros_like(kept), where=values > 0)
        change = (vectors * ratio[:, np.newaxis, ::-1]) @ vectors.swapaxes(1, 2)
        left = blocks.shape[1] <= blocks.shape[2]
        return (change @ blocks if left else blocks @ change).reshape(P.shape)


def shrinkages(values: Array, step: float, T: float, q: float) -> Array:
    """v_j with Σ_l (σ_jl − step T v_j)₊ = T v_j^{1/(q−1)}, for falling σ_j (k, s)."""
    power, sums = 1.0 / (q - 1.0), np.cumsum(values, axis=1)
    counts = np.arange(1.0, values.shape[1] + 1.0)
    # σ_l stays if the left side is the smaller one where σ_l vanishes.
    with np.errstate(over="ignore"):
        right = T * (values / (step * T)) ** power
    used = np.count_nonzero(right > sums - counts * values, axis=1)
    last = np.maximum(used - 1, 0)[:, np.newaxis]
    sums = np.take_along_axis(sums, last, axis=1)[:, 0]
    return solve_power(sums / T, step * np.maximum(used, 1.0), power)


def _small_grams(blocks: Array) -> Array:
    """Products (k, s, s) on the smaller side of blocks (k, r, m)."""
    turned = blocks.swapaxes(1, 2)
    wide = blocks.shape[1] <= blocks.shape[2]
    return np.asarray(blocks @ turned if wide else turned @ blocks)


def _power_norms(values: Array, power: float) -> Array:
    """(Σ t^power)^{1/power} of each row (k,), for high powers too."""
    largest = values.max(axis=1)
    scaled = values / np.where(largest > 0, largest, 1.0)[:, np.newaxis]
    return np.asarray(largest * np.sum(scaled**power, axis=1) ** (1.0 / power))


def _power_norm(values: Array, power: float) -> float:
    return float(_power_norms(values[np.newaxis], power)[0])


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Root of a falling function, between bounds that rounding may have moved."""
    low = min(low * (1.0 - 1e-9), high)
    if high <= 0.0 or function(high) >= 0.0:
        return high
    return float(brentq(function, low, high, xtol=CLOSE * high, rtol=1e-14))
