"""Nuclear norm: tasks share a subspace."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.penalties.spectrum import (
    Shrunk,
    decompose_above,
    largest_singular_value,
    shrink_spectrum,
)

__all__ = ["Factors", "Nuclear"]


class Factors(NamedTuple):
    """A matrix of rank r as U diag(s) Vᵀ, with s > 0 in falling order."""

    U: Array  # (d, r)
    s: Array  # (r,)
    V: Array  # (m, r)

    @property
    def product(self) -> Array:
        """The matrix itself (d, m)."""
        return np.asarray((self.U * self.s) @ self.V.T)


@dataclass(frozen=True)
class Nuclear:
    """Sum of the singular values of P."""

    def value(self, P: Array) -> float:
        """Sum of the singular values."""
        return float(np.linalg.svd(P, compute_uv=False).sum())

    def prox(self, P: Array, step: float) -> Array:
        """Shrink the singular values by ``step``."""
        return shrink_spectrum(P, lambda s: Shrunk(np.maximum(s - step, 0.0), step))

    def shrink(self, P: Array, step: float) -> Factors:
        """Proximal point in factors, as many as its rank."""
        if P.size == 0:
            return Factors(P[:, :0], np.zeros(0), P.T[:, :0])
        left, values, right = decompose_above(P, step)
        return Factors(left, values - step, right.T)

    def dual_norm(self, G: Array) -> float:
        """Largest singular value."""
        return largest_singular_value(G)

    def restrict(self, features: Index) -> Self:
        """Same norm: it does not depend on the features."""
        return self
