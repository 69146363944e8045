"""QuadraticPrior: both priors as the smooth part of an objective."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

import numpy as np
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import svds

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.priors.graphs import Laplacian

DENSE_SIZE = 1000


@lru_cache(maxsize=32)
def no_relations(d: int, rows: int = 0) -> csr_array:
    """Zero matrix, shared: building a sparse one takes longer than a small product."""
    return csr_array((rows, d))


@dataclass(frozen=True, eq=False)
class QuadraticPrior:
    """θ/2 ‖D P − C‖² + ε/2 Σ_j t_j p^j L p^jᵀ + ½ Σ_j r_j ‖p^j‖².

    t are the tie weights of the rows, r ridges that were estimated from the data.
    """

    D: csr_array  # (s, d)
    laplacian: Laplacian  # over the m tasks
    theta: float
    epsilon: float
    tie_weights: Array | None = None  # (d,); None: all one
    target: Array | None = None  # C (s, m); None: zero
    ridge: Array | None = None  # r (d,); None: zero

    @classmethod
    def none(cls, d: int, m: int) -> Self:
        return cls(no_relations(d), Laplacian.empty(m), 0.0, 0.0)

    @cached_property
    def stiffness(self) -> float:
        """Bound on the largest curvature of both terms, about."""
        # Twice the largest diagonal entry bounds the eigenvalues of a Laplacian
        # (Gershgorin), and about those of DᵀD where relations join few features.
        found = 0.0
        if self.theta > 0 and self.D.nnz:
            squares = np.bincount(self.D.indices, self.D.data**2)
            found += 2.0 * self.theta * float(squares.max())
        if self.epsilon > 0 and not self.laplacian.is_zero:
            weights = self.tie_weights
            weight = 1.0 if weights is None else float(weights.max())
            degree = float(self.laplacian.diagonal.max())
            found += 2.0 * self.epsilon * weight * degree
        return found if self.ridge is None else found + float(self.ridge.max())

    def value(self, P: Array) -> float:
        """Size of both terms at P, as sums of squares: nothing cancels."""
        total = 0.0
        if self.theta > 0 and (self.D.nnz or self.target is not None):
            related = self._related(P)
            total += self.theta * float(np.vdot(related, related))
        if self.epsilon > 0 and not self.laplacian.is_zero:
            energies = self.laplacian.energies(P)
            weights = self.tie_weights
            tied = energies.sum() if weights is None else weights @ energies
            total += self.epsilon * float(tied)
        if self.ridge is not None:
            total += float(self.ridge @ np.einsum("ij,ij->i", P, P))
        return 0.5 * total

    def slack(self, P: Array) -> float:
        """2 value − ⟨P, gradient⟩ = −θ ⟨C, D P − C⟩, which is zero without targets."""
        if self.target is None or self.theta == 0:
            return 0.0
        return -self.theta * float(np.vdot(self.target, self._related(P)))

    def _related(self, P: Array) -> Array:
        related = np.asarray(self.D @ P)
        return related if self.target is None else related - self.target

    def gradient(self, P: Array) -> Array:
        """θ Dᵀ(D P − C) + ε t ∘ (P L) + r ∘ P."""
        return self.curve(P, self.target)

    @property
    def pull(self) -> Array | None:
        """θ DᵀC (d, m), minus the gradient at zero; None without targets."""
        if self.target is None or self.theta == 0:
            return None
        return np.asarray(self.theta * (self.D.T @ self.target))

    def curve(self, P: Array, target: Array | None = None) -> Array:
        """Hessian times P, less θ DᵀC for targets C of D P."""
        gradient = np.zeros_like(P)
        if self.ridge is not None:
            gradient += self.ridge[:, np.newaxis] * P
        if self.epsilon > 0 and not self.laplacian.is_zero:
            tied = self.laplacian.times(P)
            if self.tie_weights is not None:
                tied = self.tie_weights[:, np.newaxis] * tied
            gradient += self.epsilon * tied
        if self.theta == 0 or not (self.D.nnz or target is not None):
            return gradient
        if target is not None:
            # By the differences that ``slack`` has: of large targets θ DᵀD P − θ DᵀC
            # would be rounded otherwise, and both make one dual point.
            related = self.D.T @ (self.D @ P - target)
        else:
            related = self.D.T @ (self.D @ P) if self._gram is None else self._gram @ P
        gradient += self.theta * np.asarray(related)
        return gradient

    @cached_property
    def relation(self) -> csr_array:
        """θ DᵀD + diag(r) (d, d)."""
        d = self.D.shape[1]
        found = no_relations(d, d)
        if self.theta > 0 and self.D.nnz:
            gram = csr_array(self.D.T @ self.D) if self._gram is None else self._gram
            found = self.theta * gram
        if self.ridge is None:
            return found
        return csr_array(found + diags_array(self.ridge))

    def with_strengths(self, theta: float, epsilon: float) -> Self:
        """Same relations and ties at other strengths; what is known stays known."""
        other = replace(self, theta=theta, epsilon=epsilon)
        if "_gram" in self.__dict__:
            other.__dict__["_gram"] = self._gram
        return other

    def relation_spectrum(self) -> tuple[float, float]:
        s, d = self.D.shape
        if self.D.nnz == 0:
            return 0.0, 0.0
        if d <= DENSE_SIZE:
            values = np.linalg.eigvalsh((self.D.T @ self.D).toarray())
            return max(0.0, float(values[0])), float(values[-1])
        if s == 1:
            return 0.0, float(self.D.multiply(self.D).sum())
        # Not constant: relations of like features send constants to zero.
        start = np.cos(np.arange(min(s, d)) * 2.5)
        largest = svds(self.D, k=1, return_singular_vectors=False, v0=start)
        return 0.0, float(largest[0] ** 2)

    def largest_tie(self) -> float:
        """Largest eigenvalue of the tie term per unit of ε."""
        weight = 1.0 if self.tie_weights is None else float(self.tie_weights.max())
        return weight * self.laplacian.largest_eigenvalue

    def restrict(self, features: Index) -> Self:
        weights = None if self.tie_weights is None else self.tie_weights[features]
        ridge = None if self.ridge is None else self.ridge[features]
        D = no_relations(len(features))
        if self.D.shape[0]:
            D = csr_array(self.D[:, features])
        return replace(self, D=D, tie_weights=weights, ridge=ridge)

    @cached_property
    def _gram(self) -> csr_array | None:
        """DᵀD where it stays sparse: relations of few features each."""
        per_row = np.diff(self.D.indptr)
        if np.sum(per_row**2) > 4 * self.D.nnz:
            return None
        return csr_array(self.D.T @ self.D)
