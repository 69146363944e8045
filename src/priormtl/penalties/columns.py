"""Columns: whole tasks enter or leave."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from priormtl._arrays import Array, Index

__all__ = ["Columns"]


@dataclass(frozen=True)
class Columns:
    """Sum of the Euclidean norms of the columns of P."""

    def value(self, P: Array) -> float:
        """Σ_i ‖p_i‖."""
        return float(_column_norms(P).sum())

    def prox(self, P: Array, step: float) -> Array:
        """Shrink the length of each column by ``step``."""
        norms = _column_norms(P)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(norms > step, 1.0 - step / norms, 0.0)
        return factor * P

    def dual_norm(self, G: Array) -> float:
        """Largest column norm."""
        return float(_column_norms(G).max(initial=0.0))

    def restrict(self, features: Index) -> Self:
        """Same norm: all features count alike."""
        return self


def _column_norms(P: Array) -> Array:
    return np.sqrt(np.einsum("ij,ij->j", P, P))
