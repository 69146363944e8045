"""Interface of penalties.

A penalty g enters the objective as lam · g(P). First-order methods need its proximal
operator, certificates its dual norm (or its conjugate), working sets a sum over rows.
"""

from functools import lru_cache
from typing import Any, Protocol, Self, TypeGuard, runtime_checkable

from priormtl._arrays import Array, Index

__all__ = ["Penalty", "Power", "RowSeparable", "is_by_rows", "is_power"]


class Penalty(Protocol):
    """A norm of P; its strength lam belongs to the problem."""

    def value(self, P: Array) -> float:
        """Norm of P."""

    def prox(self, P: Array, step: float) -> Array:
        """Minimiser of step · norm(U) + ½ ‖U − P‖² over U."""

    def dual_norm(self, G: Array) -> float:
        """Largest ⟨G, U⟩ over norm(U) ≤ 1."""

    def restrict(self, features: Index) -> Self:
        """Same norm for these features only."""


@runtime_checkable
class RowSeparable(Penalty, Protocol):
    """A sum over features, as a working set needs it."""

    def row_dual_norms(self, G: Array) -> Array:
        """Dual norm of each row of G (d,)."""

    def row_weights(self, d: int) -> Array:
        """Weight of each row's Euclidean norm (d,)."""


@runtime_checkable
class Power(Penalty, Protocol):
    """A convex, homogeneous function of degree above one, which is not a norm.

    The conjugate certifies it. Zero is hardly ever optimal, so that ``dual_norm`` only
    gives a scale for grids of lam.
    """

    def degree(self) -> float:
        """q > 1 with value(t P) = t^q value(P) for t > 0."""

    def conjugate(self, G: Array) -> float:
        """Largest ⟨G, U⟩ − value(U) over U."""


def is_by_rows(penalty: Penalty) -> TypeGuard[RowSeparable]:
    """Whether a penalty is a sum over features."""
    return _implements(type(penalty), RowSeparable)


def is_power(penalty: Penalty) -> TypeGuard[Power]:
    """Whether a penalty is certified by its conjugate."""
    return _implements(type(penalty), Power)


# Runtime checks of protocols are slow, and solvers ask at every certificate.
@lru_cache
def _implements(kind: type[Any], protocol: type[Any]) -> bool:
    return issubclass(kind, protocol)
