"""LowRankKernels: in each kernel's space, the functions of all tasks span little.

The norm (Σ_j ‖F_j‖_*^q)^{1/q}, F_j (r, m) holding the functions of m tasks in the space
of kernel j. Arrays are (m, k, r): task, kernel, coordinate.
"""

from dataclasses import dataclass
from functools import partial
from math import log
from typing import NamedTuple, Self

import numpy as np

from priormtl._arrays import Array
from priormtl.baselines.multikernel.roots import falling_root

__all__ = ["LowRankKernels"]

TINY = np.finfo(float).tiny


class Spectra(NamedTuple):
    """Singular values of k matrices (k, m, r), and vectors on their smaller side."""

    blocks: Array  # (k, m, r)
    values: Array  # (k, s)
    vectors: Array  # (k, s, s)

    @classmethod
    def of(cls, F: Array) -> Self:
        """Decompose the blocks of F (m, k, r) through the smaller Gram matrices."""
        blocks = np.ascontiguousarray(F.transpose(1, 0, 2))
        squares, vectors = np.linalg.eigh(_small_grams(blocks))
        return cls(blocks, np.sqrt(np.maximum(squares, 0.0)), vectors)

    def with_values(self, values: Array) -> Array:
        """Same singular vectors with other values, as (m, k, r)."""
        old = self.values
        ratio = np.divide(values, old, out=np.zeros_like(old), where=old > 0)
        change = (self.vectors * ratio[:, np.newaxis, :]) @ self.vectors.swapaxes(1, 2)
        tasks_first = self.blocks.shape[1] <= self.blocks.shape[2]
        changed = change @ self.blocks if tasks_first else self.blocks @ change
        return np.ascontiguousarray(changed.transpose(1, 0, 2))


@dataclass(frozen=True)
class LowRankKernels:
    """(Σ_j ‖F_j‖_*^q)^{1/q}, 1 < q < 2: the smaller q, the fewer kernels."""

    q: float

    def value(self, F: Array) -> float:
        """The norm."""
        return _power_mean(_sums(F), self.q)

    def dual_norm(self, Z: Array) -> float:
        """(Σ_j ‖Z_j‖₂^q')^{1/q'} with 1/q + 1/q' = 1."""
        blocks = Z.transpose(1, 0, 2)
        largest = np.linalg.eigvalsh(_small_grams(blocks))[:, -1]
        return _power_mean(np.sqrt(np.maximum(largest, 0.0)), self.q / (self.q - 1.0))

    def kernel_weights(self, F: Array) -> Array:
        """Share of each kernel (k,), as t_j^{2−q} for t_j = ‖F_j‖_*."""
        sums = _sums(F)
        if not sums.any():
            return np.full(len(sums), 1.0 / len(sums))
        weights = (sums / sums.max()) ** (2.0 - self.q)
        return np.asarray(weights / weights.sum())

    def prox(self, F: Array, step: float, guess: float) -> tuple[Array, float]:
        """Minimise step/2 · norm² + half the squared distance; the point and its norm.

        Singular values of block j shrink by step · T v_j with T the norm reached,
        t_j = T v_j^{1/(q−1)} and Σ_j v_j^q' = 1: two nested monotone equations.
        """
        spectra = Spectra.of(F)
        values = spectra.values
        top = _power_mean(values.sum(axis=1), self.q)
        if top == 0.0:
            return F, 0.0
        scaled = values / top
        level = falling_root(partial(self._excess, scaled, step), 1.0, guess / top)
        slopes = self._slopes(scaled, step, level)
        shrunk = step * level * slopes
        kept = top * np.maximum(scaled - shrunk[:, np.newaxis], 0.0)
        return spectra.with_values(kept), top * level

    def _excess(self, values: Array, step: float, T: float) -> float:
        """log Σ_j v_j^q': positive where the norm reached is above T."""
        dual = self.q / (self.q - 1.0)
        return dual * log(_power_mean(self._slopes(values, step, T), dual) or TINY)

    def _slopes(self, values: Array, step: float, T: float) -> Array:
        from priormtl.baselines.multikernel.shrinkage import block_slopes  # noqa: PLC0415

        return np.asarray(block_slopes(values, step, T, 1.0 / (self.q - 1.0)))


def _small_grams(blocks: Array) -> Array:
    """Products (k, s, s) on the smaller side of blocks (k, m, r)."""
    if blocks.shape[1] <= blocks.shape[2]:
        return np.asarray(blocks @ blocks.swapaxes(1, 2))
    return np.asarray(blocks.swapaxes(1, 2) @ blocks)


def _sums(F: Array) -> Array:
    """Nuclear norm of each block (k,); exact for small singular values too."""
    values = np.linalg.svd(F.transpose(1, 0, 2), compute_uv=False)
    return np.asarray(values.sum(axis=1))


def _power_mean(values: Array, power: float) -> float:
    """(Σ t^power)^{1/power} of non-negative numbers, for high powers too."""
    largest = float(values.max(initial=0.0))
    if largest == 0.0:
        return 0.0
    return largest * float(np.sum((values / largest) ** power)) ** (1.0 / power)
