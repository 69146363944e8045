"""Interface of penalties.

A penalty g enters the objective as lam · g(P). First-order methods need its proximal
operator, certificates its dual norm (or its conjugate), working sets a sum over rows.
"""

from abc import ABC, abstractmethod
from typing import Self

from priormtl._arrays import Array, Index


class Penalty(ABC):
    """A norm of P; its strength lam belongs to the problem."""

    @abstractmethod
    def value(self, P: Array) -> float:
        """Norm of P."""

    @abstractmethod
    def prox(self, P: Array, step: float) -> Array:
        """Minimiser of step · norm(U) + ½ ‖U − P‖² over U."""

    @abstractmethod
    def dual_norm(self, G: Array) -> float:
        """Largest ⟨G, U⟩ over norm(U) ≤ 1."""

    def restrict(self, features: Index) -> Self:
        """Same norm for these features only; most norms treat all features alike."""
        return self


class RowSeparable(Penalty):
    """A sum over features, as a working set needs it."""

    @abstractmethod
    def row_dual_norms(self, G: Array) -> Array:
        """Dual norm of each row of G (d,)."""

    @abstractmethod
    def row_weights(self, d: int) -> Array:
        """Weight of each row's Euclidean norm (d,)."""


class Power(Penalty):
    """A convex, homogeneous function of degree above one, which is not a norm.

    The conjugate certifies it. Zero is hardly ever optimal, so that ``dual_norm`` only
    gives a scale for grids of lam.
    """

    def degree(self) -> float:
        """q > 1 with value(t P) = t^q value(P) for t > 0."""
        return 2.0

    @abstractmethod
    def conjugate(self, G: Array) -> float:
        """Largest ⟨G, U⟩ − value(U) over U."""
