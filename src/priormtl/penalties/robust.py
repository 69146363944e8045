"""Column norm, and the robust norm: a low-rank part plus outlier tasks.

Robust multi-task learning (Chen, Zhou and Ye, KDD 2011) fits P = L + S, where L has low
rank and S has a nonzero column for each outlier task.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.penalties.nuclear import Nuclear


@dataclass(frozen=True)
class Columns:
    """Sum of the Euclidean norms of the columns of P: whole tasks become zero."""

    def value(self, P: Array) -> float:
        """Σ_i ‖p_i‖."""
        return float(_column_norms(P).sum())

    def prox(self, P: Array, step: float) -> Array:
        """Shrink the norm of each column by ``step``."""
        norms = _column_norms(P)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(norms > step, 1.0 - step / norms, 0.0)
        return factor * P

    def dual_norm(self, G: Array) -> float:
        """Largest column norm."""
        return float(_column_norms(G).max(initial=0.0))

    def restrict(self, features: Index) -> Self:
        """Same norm: all features have the same weight."""
        return self


@dataclass(frozen=True)
class Robust:
    """Norm of two blocks [L, S] side by side: ratio · ‖L‖_* + Σ_i ‖s_i‖."""

    ratio: float

    def value(self, P: Array) -> float:
        """``ratio`` times the nuclear norm of L, plus the column norms of S."""
        L, S = halve(P)
        return self.ratio * Nuclear().value(L) + Columns().value(S)

    def prox(self, P: Array, step: float) -> Array:
        """Shrink singular values of L and columns of S."""
        L, S = halve(P)
        return np.hstack(
            [Nuclear().prox(L, step * self.ratio), Columns().prox(S, step)]
        )

    def dual_norm(self, G: Array) -> float:
        """Largest singular value over ``ratio``, or largest column norm."""
        L, S = halve(G)
        return max(Nuclear().dual_norm(L) / self.ratio, Columns().dual_norm(S))

    def restrict(self, features: Index) -> Self:
        """Same norm: it does not depend on the features."""
        return self


def halve(P: Array) -> tuple[Array, Array]:
    """Left and right half of the columns."""
    m = P.shape[1] // 2
    return P[:, :m], P[:, m:]


def _column_norms(P: Array) -> Array:
    return np.sqrt(np.einsum("ij,ij->j", P, P))
