"""Half the squared nuclear norm: tasks share a subspace, none is ever left out."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.penalties.spectrum import (
    Shrunk,
    largest_singular_value,
    shrink_spectrum,
    singular_values,
)

__all__ = ["SquaredNuclear"]


@dataclass(frozen=True)
class SquaredNuclear:
    """½ ‖P‖_*², half the squared sum of the singular values of P."""

    def value(self, P: Array) -> float:
        """½ (Σ_k σ_k)²."""
        total = float(singular_values(P).sum())
        return 0.5 * total * total

    def prox(self, P: Array, step: float) -> Array:
        """Shrink the singular values by ``step`` times the sum of what is left."""
        return shrink_spectrum(P, lambda values: _shrink(values, step))

    def dual_norm(self, G: Array) -> float:
        """Largest singular value: a scale for strengths, none of which gives zero."""
        return largest_singular_value(G)

    def degree(self) -> float:
        """2."""
        return 2.0

    def conjugate(self, G: Array) -> float:
        """½ ‖G‖₂²."""
        length = self.dual_norm(G)
        return 0.5 * length * length

    def restrict(self, features: Index) -> Self:
        """Same function: it does not depend on the features."""
        return self


def _shrink(values: Array, step: float) -> Shrunk:
    """Largest k with σ_k > step · S_k, S_k = (σ_1 + … + σ_k) / (1 + k step)."""
    sums = np.cumsum(values) / (1.0 + step * np.arange(1.0, len(values) + 1.0))
    kept = np.flatnonzero(values > step * sums)
    edge = step * float(sums[kept[-1]]) if len(kept) else 0.0
    return Shrunk(np.maximum(values - edge, 0.0), edge)
