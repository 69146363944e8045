"""Steps on singular values, which the spectral penalties share."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, svd

from priormtl._arrays import Array

__all__ = ["Shrunk", "decompose", "shrink_spectrum", "singular_values"]

# Squares lose the digits of singular values far below the largest. They suffice, to
# the rounding unit over this share, where shrinking leaves little of those anyway, or
# where there are none but such that vanish.
LEAST_SHARE = 1e-5
VANISHING = 1e-13


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
    if P.shape[0] <= P.shape[1]:
        return _shrink_rows(P, shrink)
    return np.ascontiguousarray(_shrink_rows(P.T, shrink).T)


def _shrink_rows(P: Array, shrink: Callable[[Array], Shrunk]) -> Array:
    """The same for P with at most as many rows as columns."""
    _, left = np.linalg.eigh(P @ P.T)
    turned = left.T @ P
    # Lengths know more digits of singular values than roots of eigenvalues do.
    lengths = np.sqrt(np.einsum("ij,ij->i", turned, turned))
    order = np.argsort(-lengths)
    values = lengths[order]
    after = shrink(values)
    if not _has_digits(values, after.edge):
        left, values, right = decompose(P)
        return np.asarray((left * shrink(values).values) @ right)
    share = np.divide(after.values, values, out=np.zeros_like(values), where=values > 0)
    return np.asarray((left[:, order] * share) @ turned[order])


def _has_digits(values: Array, edge: float) -> bool:
    largest = float(values[0])
    if not 1e-100 < largest < 1e100:
        return False
    low = LEAST_SHARE * largest
    return edge >= low or not np.any((values < low) & (values > VANISHING * largest))


def _refuse_not_finite(P: Array) -> None:
    if not np.all(np.isfinite(P)):
        raise FloatingPointError(
            "the iterate is no longer finite: the solver diverged."
        )
