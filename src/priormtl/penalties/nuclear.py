"""Nuclear norm: tasks share a subspace."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import LinAlgError, svd

from priormtl._arrays import Array, Index

__all__ = ["Factors", "Nuclear"]

CLEAR_OF_ROUNDING = 1e-3  # step over the length of P, beyond which squares do


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
        if step > CLEAR_OF_ROUNDING * float(np.linalg.norm(P)):
            return _shrink_shorter_side(P, step)
        return self.shrink(P, step).product

    def shrink(self, P: Array, step: float) -> Factors:
        """Proximal point in factors, as many as its rank."""
        if P.size == 0:
            return Factors(P[:, :0], np.zeros(0), P.T[:, :0])
        left, values, right = _decompose(P)
        kept = values > step
        return Factors(left[:, kept], values[kept] - step, right[kept].T)

    def dual_norm(self, G: Array) -> float:
        """Largest singular value."""
        return float(np.linalg.norm(G, 2)) if G.size else 0.0

    def restrict(self, features: Index) -> Self:
        """Same norm: it does not depend on the features."""
        return self


def _shrink_shorter_side(P: Array, step: float) -> Array:
    """Proximal point by eigenvectors of PPᵀ or PᵀP, in a third of the time.

    Squares lose the digits of small singular values, none of which is kept here.
    """
    if P.shape[0] > P.shape[1]:
        return _shrink_shorter_side(P.T, step).T
    squares, vectors = np.linalg.eigh(P @ P.T)
    kept = squares > step**2
    U = vectors[:, kept]
    return np.asarray((U * (1.0 - step / np.sqrt(squares[kept]))) @ (U.T @ P))


def _decompose(P: Array) -> tuple[Array, Array, Array]:
    """Thin singular value decomposition; the slower driver where the fast one fails."""
    if not np.all(np.isfinite(P)):
        raise FloatingPointError(
            "the iterate is no longer finite: the solver diverged."
        )
    try:
        return svd(P, full_matrices=False, check_finite=False)
    except LinAlgError:
        return svd(P, full_matrices=False, check_finite=False, lapack_driver="gesvd")
