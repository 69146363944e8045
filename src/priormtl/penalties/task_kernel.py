"""A known kernel between tasks: tr(P A⁻¹ Pᵀ)."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from priormtl._arrays import Array, Index

__all__ = ["TaskKernel"]

VANISHING = 1e-13  # share of the largest eigenvalue below which one counts as zero


@dataclass(frozen=True, eq=False)
class TaskKernel:
    """tr(P A⁻¹ Pᵀ) for P whose rows lie in the range of A, which may be singular.

    Values are taken for granted to be of such P: what a prox returns is.
    """

    vectors: Array  # (m, r) orthonormal, the range of A
    values: Array  # (r,) > 0, eigenvalues of A there

    @classmethod
    def of_matrix(cls, A: Array) -> Self:
        """From a symmetric, positive semidefinite matrix (m, m)."""
        values, vectors = np.linalg.eigh(A)
        kept = values > VANISHING * max(float(values[-1]), 0.0)
        return cls(vectors[:, kept], values[kept])

    def value(self, P: Array) -> float:
        """Σ_k ‖P v_k‖² / a_k."""
        return float(np.sum((P @ self.vectors) ** 2 / self.values))

    def prox(self, P: Array, step: float) -> Array:
        """Shrink along each eigenvector by a / (a + 2 step); leave the range only."""
        share = self.values / (self.values + 2.0 * step)
        return np.asarray(P @ ((self.vectors * share) @ self.vectors.T))

    def dual_norm(self, G: Array) -> float:
        """√tr(G A Gᵀ), the dual norm of √value; a scale for strengths."""
        return float(np.sqrt(np.sum((G @ self.vectors) ** 2 * self.values)))

    def degree(self) -> float:
        """2."""
        return 2.0

    def conjugate(self, G: Array) -> float:
        """¼ tr(G A Gᵀ)."""
        return 0.25 * float(np.sum((G @ self.vectors) ** 2 * self.values))

    def restrict(self, features: Index) -> Self:
        """Same function: it does not depend on the features."""
        return self
