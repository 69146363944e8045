"""What a penalty owes the solvers."""

from functools import lru_cache
from typing import Any, Protocol, Self, TypeGuard, runtime_checkable

from priormtl._arrays import Array, Index

__all__ = ["Penalty", "Power", "RowSeparable", "is_by_rows", "is_power"]


class Penalty(Protocol):
    """A norm of P; its strength belongs to the problem."""

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
    """A convex function that grows as a power above one, certified by its conjugate.

    No norm: zero is hardly ever optimal, and its dual norm is but a scale for grids.
    """

    def degree(self) -> float:
        """q > 1 with value(t P) = t^q value(P) for t > 0."""

    def conjugate(self, G: Array) -> float:
        """Largest ⟨G, U⟩ − value(U) over U."""


def is_by_rows(penalty: Penalty) -> TypeGuard[RowSeparable]:
    """Whether a penalty is a sum over features; looked up once per class."""
    return _has_rows(type(penalty))


def is_power(penalty: Penalty) -> TypeGuard[Power]:
    """Whether a penalty is certified by its conjugate; looked up once per class."""
    return _has_conjugate(type(penalty))


@lru_cache
def _has_conjugate(kind: type[Any]) -> bool:
    return issubclass(kind, Power)


@lru_cache
def _has_rows(kind: type[Any]) -> bool:
    return issubclass(kind, RowSeparable)
