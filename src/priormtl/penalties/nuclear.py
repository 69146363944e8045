"""Spectral penalties: nuclear norm, its square, Schatten powers and task kernels.

All but the last are functions of the singular values σ of P, so that their proximal
operator keeps the singular vectors and shrinks the values (Lewis 1995; for the
nuclear norm: singular value thresholding, Cai, Candès and Shen 2010). The smaller of
P Pᵀ and Pᵀ P gives them faster than a decomposition of P, wherever squares of singular
values keep enough digits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import LinAlgError, svd

from priormtl._arrays import Array
from priormtl.penalties.base import Penalty, Power

VANISHING = 1e-13  # share of the largest value below which one counts as zero


class Factors(NamedTuple):
    """A matrix of rank r as U diag(s) Vᵀ, with s > 0 in falling order."""

    U: Array  # (d, r)
    s: Array  # (r,)
    V: Array  # (m, r)

    @property
    def product(self) -> Array:
        """The matrix itself (d, m)."""
        return np.asarray((self.U * self.s) @ self.V.T)


class Spectral(Penalty):
    """A function of singular values whose dual norm, or scale, is the largest one."""

    def dual_norm(self, G: Array) -> float:
        return largest_singular_value(G)


@dataclass(frozen=True)
class Nuclear(Spectral):
    """Sum of the singular values of P: tasks share a subspace."""

    def value(self, P: Array) -> float:
        return float(np.linalg.svd(P, compute_uv=False).sum())

    def prox(self, P: Array, step: float) -> Array:
        return shrink_spectrum(P, lambda s: Shrunk(np.maximum(s - step, 0.0), step))

    def shrink(self, P: Array, step: float) -> Factors:
        """Proximal point in factors of its rank."""
        if P.size == 0:
            return Factors(P[:, :0], np.zeros(0), P.T[:, :0])
        left, values, right = decompose_above(P, step)
        return Factors(left, values - step, right.T)

    def subgradient(self, P: Array, G: Array, lam: float) -> Array:
        """Subgradient of lam · norm at P, near −G where it may vary."""
        U, s, Vt = np.linalg.svd(P, full_matrices=False)
        used = s > VANISHING * s.max(initial=0.0)
        U, Vt = U[:, used], Vt[used]
        beyond = -G + U @ (U.T @ G)
        beyond -= (beyond @ Vt.T) @ Vt
        return np.asarray(lam * (U @ Vt) + beyond - self.prox(beyond, lam))


@dataclass(frozen=True)
class SquaredNuclear(Spectral, Power):
    """½ ‖P‖_*², half the squared sum of the singular values of P."""

    def value(self, P: Array) -> float:
        total = float(singular_values(P).sum())
        return 0.5 * total * total

    def prox(self, P: Array, step: float) -> Array:
        """Shrink the singular values by ``step`` times the sum of what is left.

        With S_k = (σ_1 + … + σ_k) / (1 + k step), the last k with σ_k > step · S_k has
        the right sum.
        """

        def shrink(values: Array) -> Shrunk:
            sums = np.cumsum(values) / (1.0 + step * np.arange(1.0, len(values) + 1.0))
            kept = np.flatnonzero(values > step * sums)
            edge = step * float(sums[kept[-1]]) if len(kept) else 0.0
            return Shrunk(np.maximum(values - edge, 0.0), edge)

        return shrink_spectrum(P, shrink)

    def conjugate(self, G: Array) -> float:
        length = self.dual_norm(G)
        return 0.5 * length * length


@dataclass(frozen=True)
class Schatten(Spectral, Power):
    """Σ_k σ_k(P)^q with 1 < q < 2: all directions stay, weak ones shrink most."""

    exponent: float  # q

    def value(self, P: Array) -> float:
        return float(np.sum(singular_values(P) ** self.exponent))

    def prox(self, P: Array, step: float) -> Array:
        """Each singular value σ becomes the z with z + step q z^(q−1) = σ."""
        q = self.exponent
        slope, root = step * q, 1.0 / (q - 1.0)
        # Where both terms of z + slope z^(q−1) are equal, shrinking begins to matter.
        edge = exp(min(log(slope) / (2.0 - q), 700.0)) if slope else 0.0
        return shrink_spectrum(
            P, lambda values: Shrunk(solve_power(values, slope, root) ** root, edge)
        )

    def degree(self) -> float:
        return self.exponent

    def conjugate(self, G: Array) -> float:
        """(q − 1) Σ_k (σ_k / q)^(q/(q−1))."""
        q = self.exponent
        with np.errstate(over="ignore"):
            powers = (singular_values(G) / q) ** (q / (q - 1.0))
        return float((q - 1.0) * powers.sum())


def solve_power(values: Array, slope: float | Array, root: float) -> Array:
    """U ≥ 0 with u^root + slope u = value, by Newton's method from above.

    In u = z^(1/root) the function is convex and rising: steps never overshoot, and
    small values keep their digits, which closed forms with cube roots lose.
    """
    u = values ** (1.0 / root)
    bound = np.full(u.shape, np.inf)
    np.divide(values, slope, out=bound, where=np.asarray(slope) > 0)
    u = np.minimum(u, bound)
    for _ in range(200):
        power = u ** (root - 1.0)
        derivative = root * power + slope
        excess = u * (power + slope) - values
        step = np.divide(excess, derivative, out=np.zeros_like(u), where=derivative > 0)
        after = np.clip(u - step, 0.0, u)
        if np.all(step <= 2e-16 * u):
            return after
        u = after
    return u


@dataclass(frozen=True, eq=False)
class TaskKernel(Power):
    """tr(P A⁻¹ Pᵀ) for a known kernel A between tasks, which may be singular.

    The rows of P must lie in the range of A; those of a proximal point do.
    """

    vectors: Array  # (m, r) orthonormal, the range of A
    values: Array  # (r,) > 0, eigenvalues of A there

    @classmethod
    def of_matrix(cls, A: Array) -> Self:
        """From a symmetric, positive semidefinite matrix (m, m)."""
        values, vectors = np.linalg.eigh(A)
        kept = values > VANISHING * max(float(values[-1]), 0.0)
        return cls(vectors[:, kept], values[kept])

    def value(self, P: Array) -> float:
        """Σ_k ‖P v_k‖² / a_k."""
        return float(np.sum((P @ self.vectors) ** 2 / self.values))

    def prox(self, P: Array, step: float) -> Array:
        """Project on the range; shrink along eigenvectors by a / (a + 2 step)."""
        share = self.values / (self.values + 2.0 * step)
        return np.asarray(P @ ((self.vectors * share) @ self.vectors.T))

    def dual_norm(self, G: Array) -> float:
        """√tr(G A Gᵀ), the dual norm of √value: a scale for lam."""
        return float(np.sqrt(np.sum((G @ self.vectors) ** 2 * self.values)))

    def conjugate(self, G: Array) -> float:
        """¼ tr(G A Gᵀ)."""
        return 0.25 * float(np.sum((G @ self.vectors) ** 2 * self.values))


class Shrunk(NamedTuple):
    """Singular values after shrinking."""

    values: Array
    edge: float  # size below which little is left of them


def shrink_spectrum(P: Array, shrink: Callable[[Array], Shrunk]) -> Array:
    """P with its singular values replaced; ``shrink`` gets them in falling order."""
    if P.size == 0:
        return P.copy()
    if not _squares_have_digits(P):
        return _shrink_exactly(P, shrink)
    if P.shape[0] > P.shape[1]:
        return np.ascontiguousarray(_shrink_rows(P.T, shrink).T)
    return _shrink_rows(P, shrink)


def _shrink_rows(P: Array, shrink: Callable[[Array], Shrunk]) -> Array:
    """The same by eigenvectors of P Pᵀ, for P with at most as many rows as columns."""
    _, left = np.linalg.eigh(P @ P.T)
    turned = left.T @ P
    # Lengths of UᵀP keep more digits of singular values than roots of eigenvalues.
    lengths = np.sqrt(np.einsum("ij,ij->i", turned, turned))
    order = np.argsort(-lengths)
    values = lengths[order]
    after = shrink(values)
    if not _has_digits(values, after.edge):
        return _shrink_exactly(P, shrink)
    kept = after.values > 0
    share, places = after.values[kept] / values[kept], order[kept]
    return np.asarray((left[:, places] * share) @ turned[places])


def _shrink_exactly(P: Array, shrink: Callable[[Array], Shrunk]) -> Array:
    left, values, right = decompose(P)
    return np.asarray((left * shrink(values).values) @ right)


def _squares_have_digits(P: Array) -> bool:
    """Whether the numbers are of a size that can be squared; NaN is not."""
    return 1e-100 < float(np.abs(P).max()) < 1e100


def _has_digits(values: Array, edge: float) -> bool:
    """Whether singular values from squares are good enough for this shrinking."""
    # Squares lose the digits of singular values far below the largest. Their error is
    # the rounding unit over this share, which is enough where shrinking leaves little
    # of small values anyway, or where all smaller values vanish.
    largest = float(values[0])
    low = 1e-5 * largest
    return edge >= low or not np.any((values < low) & (values > VANISHING * largest))


def decompose(P: Array) -> tuple[Array, Array, Array]:
    """Thin singular value decomposition; the slower driver where the fast one fails."""
    if not np.all(np.isfinite(P)):
        raise FloatingPointError(
            "the iterate is no longer finite: the solver diverged."
        )
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
        # Vectors are orthogonal to the rounding unit over the square of this share.
        if least >= 1e-3 * np.sqrt(squares[-1]):
            left = vectors[:, squares > (0.5 * least) ** 2]
            turned = left.T @ P
            values = np.sqrt(np.einsum("ij,ij->i", turned, turned))
            kept = np.flatnonzero(values > least)
            kept = kept[np.argsort(-values[kept], kind="stable")]
            values = values[kept]
            return left[:, kept], values, turned[kept] / values[:, np.newaxis]
    left, values, right = decompose(P)
    above = values > least
    return left[:, above], values[above], right[above]


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
