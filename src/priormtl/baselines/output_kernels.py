"""Kernels between tasks that are given, or that a penalty of eigenvalues leaves.

The least lam tr(W A⁻¹ Wᵀ) + gamma Σ a_k^p over A ⪰ 0 is κ Σ σ_k^q of the singular
values of W, q = 2p/(p + 1).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from priormtl._arrays import Array

__all__ = ["EigenvaluePenalty", "check_output_kernel"]


@dataclass(frozen=True)
class EigenvaluePenalty:
    """gamma Σ a_k^p of the eigenvalues of A."""

    power: float  # p
    gamma: float | None  # None: as lam

    @property
    def exponent(self) -> float:
        """Power q of singular values of W."""
        return 2.0 * self.power / (self.power + 1.0)

    def strength(self, lam: float) -> float:
        """κ = (1 + 1/p) lam^(p/(p+1)) (p gamma)^(1/(p+1))."""
        p = self.power
        gamma = lam if self.gamma is None else self.gamma
        kappa = (1.0 + 1.0 / p) * lam ** (p / (p + 1.0))
        return float(kappa * (p * gamma) ** (1.0 / (p + 1.0)))

    def lam_of(self, strength: float) -> float:
        """What ``strength`` makes this strength of."""
        share = strength / self.strength(1.0)
        if self.gamma is None:
            return share
        return float(share ** (1.0 + 1.0 / self.power))

    def eigenvalues(self, squares: Array, lam: float) -> Array:
        """Best eigenvalues of A, given those of WᵀW."""
        p = self.power
        ratio = 1.0 if self.gamma is None else lam / self.gamma
        return np.asarray((ratio * squares / p) ** (1.0 / (p + 1.0)))


def check_output_kernel(value: Any, m: int) -> Array:
    """Symmetric, positive semidefinite matrix over the tasks."""
    if value is None:
        raise ValueError(
            'output_kernel must be an (m, m) matrix with penalty="fixed": got None.'
        )
    A = np.array(value, dtype=np.float64)
    if A.shape != (m, m) or not np.all(np.isfinite(A)):
        raise ValueError(
            f"output_kernel must be a finite matrix of {m} x {m} tasks: got shape "
            f"{A.shape}."
        )
    size = float(np.abs(A).max())
    if np.abs(A - A.T).max() > 1e-8 * size:
        raise ValueError("output_kernel must be symmetric: pass (A + A.T) / 2.")
    A = 0.5 * (A + A.T)
    least = float(np.linalg.eigvalsh(A)[0])
    if least < -1e-8 * size:
        raise ValueError(
            "output_kernel must be positive semidefinite: its smallest eigenvalue is "
            f"{least:.3g}."
        )
    return A
