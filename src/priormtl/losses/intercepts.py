"""Intercepts of tasks: free, absent, or tied to those of related tasks.

All three answer one question: which b minimises
½ Σ h_i (b_i − r_i)² + the cost of b itself?
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np

from priormtl._arrays import Array
from priormtl.graphs import Laplacian

__all__ = ["FreeIntercepts", "Intercepts", "NoIntercepts", "TiedIntercepts"]

Solver = Callable[[Array], Array]


class Intercepts(Protocol):
    """How the intercepts of m tasks are chosen."""

    @property
    def are_fixed(self) -> bool:
        """Whether they cannot move at all."""

    @property
    def graph(self) -> Laplacian | None:
        """L of the cost, if there is one."""

    @property
    def tie_strength(self) -> float:
        """Strength of ½ bᵀ L b in the cost."""

    def value(self, b: Array) -> float:
        """Cost of b itself."""

    def slope(self, b: Array) -> Array:
        """Gradient of that cost (m,)."""

    def solver(self, curvature: Array) -> Solver:
        """Map r to the best b, for curvatures h > 0 (m,)."""

    def scaled(self, factor: float) -> Self:
        """Same, at ``factor`` times the cost."""


class Costless:
    """Intercepts that cost nothing themselves."""

    graph = None
    tie_strength = 0.0

    def value(self, b: Array) -> float:
        """Nothing."""
        return 0.0

    def slope(self, b: Array) -> Array:
        """Nothing."""
        return np.zeros_like(b)

    def scaled(self, factor: float) -> Self:
        """Nothing to scale."""
        return self


@dataclass(frozen=True)
class FreeIntercepts(Costless):
    """Every task has its own."""

    are_fixed = False

    def solver(self, curvature: Array) -> Solver:
        """Take r itself."""
        return lambda r: r


@dataclass(frozen=True)
class NoIntercepts(Costless):
    """All are zero."""

    are_fixed = True

    def solver(self, curvature: Array) -> Solver:
        """Stay at zero."""
        return np.zeros_like


@dataclass(frozen=True, eq=False)
class TiedIntercepts:
    """Related tasks have similar ones: strength/2 bᵀ L b."""

    laplacian: Laplacian
    strength: float
    are_fixed = False

    @property
    def graph(self) -> Laplacian:
        """L itself."""
        return self.laplacian

    @property
    def tie_strength(self) -> float:
        """Strength of the tie."""
        return self.strength

    def value(self, b: Array) -> float:
        """strength/2 bᵀ L b."""
        return 0.5 * float(b @ self.slope(b))

    def slope(self, b: Array) -> Array:
        """Strength · L b."""
        return self.strength * self.laplacian.times(b)

    def solver(self, curvature: Array) -> Solver:
        """Solve (diag(h) + strength L) b = h r."""
        solve = self.laplacian.shifted_solver(curvature, self.strength)
        return lambda r: solve(curvature * r)

    def scaled(self, factor: float) -> Self:
        """Same ties, ``factor`` times as strong."""
        return replace(self, strength=factor * self.strength)
