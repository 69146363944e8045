"""Steps on singular values, which the spectral penalties share."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, eigh, svd

from priormtl._arrays import Array

__all__ = ["Shrunk", "decompose", "shrink_spectrum", "singular_values"]

# Squares lose the digits of singular values below 1e-8 of the largest. Shrinking that
# sets in far above leaves nothing of those: the prox is then as exact as by the SVD,
# to the rounding unit over this share.
LEAST_EDGE = 1e-4


class Shrunk(NamedTuple):
    """Singular values after a step."""

    values: Array
    edge: float  # size below which little is left of them


def decompose(P: Array) -> tuple[Array, Array, Array]:
    """Thin singular value decomposition; the slower driver where the fast one fails."""
    _refuse_not_finite(P)
    try:
        return svd(P, full_matrices=False, check_finite=False)
    except LinAlgError:
        return svd(P, full_matrices=False, check_finite=False, lapack_driver="gesvd")


def singular_values(P: Array) -> Array:
    """Singular values in falling order; none of an empty matrix."""
    return np.asarray(np.linalg.svd(P, compute_uv=False)) if P.size else np.zeros(0)


def shrink_spectrum(P: Array, shrink: Callable[[Array], Shrunk]) -> Array:
    """P with its singular values, given in falling order, replaced.

    By the eigenvectors of the smaller of P Pᵀ and Pᵀ P where these have the digits.
    """
    if P.size == 0:
        return P.copy()
    _refuse_not_finite(P)
    wide = P.shape[0] <= P.shape[1]
    squares, vectors = _eigenvectors(P @ P.T if wide else P.T @ P)
    values = np.sqrt(squares)
    after = shrink(values)
    if not _keeps_digits(values[0], after.edge):
        left, values, right = decompose(P)
        return np.asarray((left * shrink(values).values) @ right)
    share = np.divide(after.values, values, out=np.zeros_like(values), where=values > 0)
    mixing = (vectors * share) @ vectors.T
    return np.asarray(mixing @ P if wide else P @ mixing)


def _eigenvectors(gram: Array) -> tuple[Array, Array]:
    """Eigenvalues in falling order, none below zero, and their vectors."""
    squares, vectors = eigh(gram, check_finite=False, overwrite_a=True, driver="evd")
    return np.maximum(squares[::-1], 0.0), vectors[:, ::-1]


def _keeps_digits(largest: float, edge: float) -> bool:
    """Whether squares are in the range of doubles, and the edge is far above zero."""
    return bool(1e-100 < largest < 1e100 and edge >= LEAST_EDGE * largest)


def _refuse_not_finite(P: Array) -> None:
    if not np.all(np.isfinite(P)):
        raise FloatingPointError(
            "the iterate is no longer finite: the solver diverged."
        )
