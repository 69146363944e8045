"""ℓ2,1 norm (group lasso on rows): features are selected for all tasks together."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.penalties.base import RowSeparable


@dataclass(frozen=True, eq=False)
class L21(RowSeparable):
    """Weighted sum of the Euclidean norms of the rows of P."""

    weights: Array | None = None  # (d,) > 0; None: all one

    def value(self, P: Array) -> float:
        """Σ_j weight_j ‖p^j‖."""
        norms = np.sqrt(np.einsum("ij,ij->i", P, P))
        return float(norms.sum() if self.weights is None else norms @ self.weights)

    def prox(self, P: Array, step: float) -> Array:
        """Shrink the norm of each row by ``step`` times its weight."""
        norms = np.sqrt(np.einsum("ij,ij->i", P, P))
        threshold = step if self.weights is None else step * self.weights
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(norms > threshold, 1.0 - threshold / norms, 0.0)
        return factor[:, np.newaxis] * P

    def dual_norm(self, G: Array) -> float:
        """Largest weighted row norm."""
        return float(self.row_dual_norms(G).max(initial=0.0))

    def row_dual_norms(self, G: Array) -> Array:
        """‖g^j‖ / weight_j."""
        norms = np.sqrt(np.einsum("ij,ij->i", G, G))
        return norms if self.weights is None else norms / self.weights

    def row_weights(self, d: int) -> Array:
        """Weight of each row's norm."""
        return np.ones(d) if self.weights is None else self.weights

    def restrict(self, features: Index) -> Self:
        """Same norm for these features only."""
        weights = None if self.weights is None else self.weights[features]
        return type(self)(weights)
