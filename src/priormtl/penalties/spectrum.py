"""Steps on singular values, which the spectral penalties share."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, svd

from priormtl._arrays import Array

__all__ = [
    "Shrunk",
    "decompose",
    "decompose_above",
    "largest_singular_value",
    "shrink_spectrum",
    "singular_values",
]

# Squares lose the digits of singular values far below the largest. They suffice, to
# the rounding unit over this share, where shrinking leaves little of those anyway, or
# where there are none but such that vanish.
LEAST_SHARE = 1e-5
VANISHING = 1e-13
# Vectors are orthogonal to the rounding unit over the square of this share.
LEAST_SHARE_OF_VECTORS = 1e-3
SMALLEST, LARGEST = 1e-100, 1e100  # numbers whose squares have all digits


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


def decompose_above(P: Array, least: float) -> tuple[Array, Array, Array]:
    """Singular values above ``least``, in falling order, with their vectors."""
    if P.shape[0] > P.shape[1]:
        left, values, right = decompose_above(P.T, least)
        return right.T, values, left.T
    if P.size and least > 0 and _squares_have_digits(P):
        squares, vectors = np.linalg.eigh(P @ P.T)
        if least >= LEAST_SHARE_OF_VECTORS * np.sqrt(squares[-1]):
            return _extend(P, vectors[:, squares > (0.5 * least) ** 2], least)
    left, values, right = decompose(P)
    kept = values > least
    return left[:, kept], values[kept], right[kept]


def _extend(P: Array, left: Array, least: float) -> tuple[Array, Array, Array]:
    """Left singular vectors in rising order, with their values and right ones."""
    turned = left.T @ P
    values = np.sqrt(np.einsum("ij,ij->i", turned, turned))
    kept = np.flatnonzero(values > least)
    kept = kept[np.argsort(-values[kept], kind="stable")]
    return left[:, kept], values[kept], turned[kept] / values[kept, np.newaxis]


def singular_values(P: Array) -> Array:
    """Singular values in falling order; none of an empty matrix."""
    return np.asarray(np.linalg.svd(P, compute_uv=False)) if P.size else np.zeros(0)


def largest_singular_value(P: Array) -> float:
    """By the smaller of P Pᵀ and Pᵀ P, which keeps all digits of the largest."""
    if P.size == 0:
        return 0.0
    if not _squares_have_digits(P):
        return float(np.linalg.norm(P, 2))
    short = P @ P.T if P.shape[0] <= P.shape[1] else P.T @ P
    return float(np.sqrt(max(0.0, np.linalg.eigvalsh(short)[-1])))


def shrink_spectrum(P: Array, shrink: Callable[[Array], Shrunk]) -> Array:
    """P with its singular values, given in falling order, replaced.

    By the eigenvectors of the smaller of P Pᵀ and Pᵀ P where these have the digits.
    """
    if P.size == 0:
        return P.copy()
    if not _squares_have_digits(P):
        return _shrink_exactly(P, shrink)
    if P.shape[0] <= P.shape[1]:
        return _shrink_rows(P, shrink)
    return np.ascontiguousarray(_shrink_rows(P.T, shrink).T)


def _shrink_exactly(P: Array, shrink: Callable[[Array], Shrunk]) -> Array:
    left, values, right = decompose(P)
    return np.asarray((left * shrink(values).values) @ right)


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
        return _shrink_exactly(P, shrink)
    kept = after.values > 0
    share, places = after.values[kept] / values[kept], order[kept]
    return np.asarray((left[:, places] * share) @ turned[places])


def _squares_have_digits(P: Array) -> bool:
    """Whether the numbers are of a size that can be squared; NaN is not."""
    return SMALLEST < float(np.abs(P).max()) < LARGEST


def _has_digits(values: Array, edge: float) -> bool:
    largest = float(values[0])
    low = LEAST_SHARE * largest
    return edge >= low or not np.any((values < low) & (values > VANISHING * largest))


def _refuse_not_finite(P: Array) -> None:
    if not np.all(np.isfinite(P)):
        raise FloatingPointError(
            "the iterate is no longer finite: the solver diverged."
        )
