"""ℓ2,1 norm (group lasso on rows): features are selected for all tasks together.

Rows may have a sign, or be the same in all tasks. These constraints are part of the
penalty: with the projection of a row on its feasible cone, the proximal operator is the
shrunken projection, and the dual norm of a row of gradients G is the length of the
projection of −G (Moreau's decomposition).
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array, Index
from priormtl.penalties.base import RowSeparable


@dataclass(frozen=True, eq=False)
class RowConstraints:
    """Rows of P that are nonnegative or nonpositive, or the same in all tasks."""

    signs: Array  # (d,) 1: nonnegative, −1: nonpositive, 0: any sign
    common: NDArray[np.bool_]  # (d,) whether a row is the same in all tasks
    classes: int = 1  # whose columns come one after the other; each has its own effect

    def level(self, G: Array) -> Array:
        """G with the rows of common effects replaced by their means."""
        if not self.common.any():
            return G
        level, part = np.array(G), G[self.common]
        by_class = part.reshape(len(part), self.classes, -1)
        means = by_class.mean(axis=2, keepdims=True)
        level[self.common] = np.broadcast_to(means, by_class.shape).reshape(part.shape)
        return level

    def project(self, P: Array) -> Array:
        """Nearest P that meets the constraints, exactly."""
        level = self.level(P)
        if not self.signs.any():
            return level
        inside = self.signs[:, np.newaxis] * level >= 0
        return np.where(inside, level, 0.0)

    def free_gradient(self, P: Array, G: Array) -> Array:
        """Part of a gradient along which P may move."""
        level = self.level(G)
        if not self.signs.any():
            return level
        outwards = self.signs[:, np.newaxis] * level > 0
        return np.where(outwards & (P == 0), 0.0, level)

    def restrict(self, features: Index) -> Self:
        """Same constraints for these features only."""
        return type(self)(self.signs[features], self.common[features], self.classes)


@dataclass(frozen=True, eq=False)
class L21(RowSeparable):
    """Weighted sum of the Euclidean norms of rows of P, which may be constrained."""

    weights: Array | None = None  # (d,) > 0; None: all one
    constraints: RowConstraints | None = None

    def value(self, P: Array) -> float:
        norms = np.sqrt(np.einsum("ij,ij->i", P, P))
        return float(norms.sum() if self.weights is None else norms @ self.weights)

    def prox(self, P: Array, step: float) -> Array:
        if self.constraints is not None:
            P = self.constraints.project(P)
        # Shrink each row towards zero: (1 − step w / ‖p‖)₊ p (Yuan and Lin, "Model
        # selection and estimation in regression with grouped variables", 2006).
        norms = np.sqrt(np.einsum("ij,ij->i", P, P))
        threshold = step if self.weights is None else step * self.weights
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(norms > threshold, 1.0 - threshold / norms, 0.0)
        return factor[:, np.newaxis] * P

    def subgradient(self, P: Array, G: Array, lam: float) -> Array:
        """Subgradient of lam · norm and constraints at P, near −G where it may vary."""
        # Of rows that are not zero it is lam w p/‖p‖, and what constraints take from
        # the gradient. Rows of zeros take any y with ‖y‖ ≤ lam w: that nearest to −G.
        norms = np.sqrt(np.einsum("ij,ij->i", P, P))
        weights = lam * self.row_weights(len(P))
        used = norms > 0
        Y = (weights / np.where(used, norms, 1.0))[:, np.newaxis] * P
        if self.constraints is not None:
            Y += self.constraints.free_gradient(P, G + Y) - (G + Y)
        return np.where(used[:, np.newaxis], Y, -G - self.prox(-G, lam))

    def dual_norm(self, G: Array) -> float:
        return float(self.row_dual_norms(G).max(initial=0.0))

    def row_dual_norms(self, G: Array) -> Array:
        """‖g^j‖ / weight_j, of the part that could move a row from zero."""
        if self.constraints is not None:
            G = self.constraints.project(-G)
        norms = np.sqrt(np.einsum("ij,ij->i", G, G))
        return norms if self.weights is None else norms / self.weights

    def row_weights(self, d: int) -> Array:
        return np.ones(d) if self.weights is None else self.weights

    def restrict(self, features: Index) -> Self:
        weights = None if self.weights is None else self.weights[features]
        constraints = self.constraints
        if constraints is not None:
            constraints = constraints.restrict(features)
        return type(self)(weights, constraints)
