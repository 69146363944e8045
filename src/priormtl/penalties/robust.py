"""Robust norm: a subspace for most tasks, and a way of their own for the others."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.penalties.columns import Columns
from priormtl.penalties.nuclear import Nuclear

__all__ = ["Robust", "halve"]


@dataclass(frozen=True)
class Robust:
    """Norm of two blocks [L, S] side by side: ratio · ‖L‖_* + Σ_i ‖s_i‖."""

    ratio: float

    def value(self, P: Array) -> float:
        """Singular values of L, ``ratio`` times, and lengths of columns of S."""
        L, S = halve(P)
        return self.ratio * Nuclear().value(L) + Columns().value(S)

    def prox(self, P: Array, step: float) -> Array:
        """Shrink singular values of L and columns of S."""
        L, S = halve(P)
        return np.hstack(
            [Nuclear().prox(L, step * self.ratio), Columns().prox(S, step)]
        )

    def dual_norm(self, G: Array) -> float:
        """Largest singular value over ``ratio``, or largest column."""
        L, S = halve(G)
        return max(Nuclear().dual_norm(L) / self.ratio, Columns().dual_norm(S))

    def restrict(self, features: Index) -> Self:
        """Same norm: it does not depend on the features."""
        return self


def halve(P: Array) -> tuple[Array, Array]:
    """Left and right half of the columns."""
    m = P.shape[1] // 2
    return P[:, :m], P[:, m:]
