"""Intercepts of tasks: free, absent, or tied to those of related tasks.

Each kind finds the b that minimises ½ Σ h_i (b_i − r_i)² plus the cost of b itself,
which is strength/2 bᵀ L b for tied intercepts and zero for the others.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, Self

import numpy as np

from priormtl._arrays import Array
from priormtl.priors.graphs import Laplacian

Solver = Callable[[Array], Array]


class Intercepts(Protocol):
    """How the intercepts of m tasks are chosen."""

    @property
    def are_free(self) -> bool:
        """Whether every task has its own at no cost."""

    @property
    def are_fixed(self) -> bool:
        """Whether all are zero."""

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
    """Intercepts without a cost of their own."""

    graph = None
    tie_strength = 0.0

    def value(self, b: Array) -> float:
        return 0.0

    def slope(self, b: Array) -> Array:
        return np.zeros_like(b)

    def scaled(self, factor: float) -> Self:
        return self


@dataclass(frozen=True)
class FreeIntercepts(Costless):
    """Every task has its own."""

    are_free: ClassVar[bool] = True
    are_fixed: ClassVar[bool] = False

    def solver(self, curvature: Array) -> Solver:
        return lambda r: r


@dataclass(frozen=True)
class NoIntercepts(Costless):
    """All are zero."""

    are_free: ClassVar[bool] = False
    are_fixed: ClassVar[bool] = True

    def solver(self, curvature: Array) -> Solver:
        return np.zeros_like


@dataclass(frozen=True, eq=False)
class TiedIntercepts:
    """Related tasks have similar ones: strength/2 bᵀ L b."""

    laplacian: Laplacian
    strength: float

    are_free: ClassVar[bool] = False
    are_fixed: ClassVar[bool] = False

    @property
    def graph(self) -> Laplacian:
        return self.laplacian

    @property
    def tie_strength(self) -> float:
        return self.strength

    def value(self, b: Array) -> float:
        return 0.5 * float(b @ self.slope(b))

    def slope(self, b: Array) -> Array:
        return self.strength * self.laplacian.times(b)

    def solver(self, curvature: Array) -> Solver:
        """Solve (diag(h) + strength L) b = h r."""
        solve = self.laplacian.shifted_solver(curvature, self.strength)
        return lambda r: solve(curvature * r)

    def scaled(self, factor: float) -> Self:
        return replace(self, strength=factor * self.strength)
