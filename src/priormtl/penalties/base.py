"""What a penalty owes the solvers."""

from functools import lru_cache
from typing import Any, Protocol, Self, TypeGuard, runtime_checkable

from priormtl._arrays import Array, Index

__all__ = ["Penalty", "RowSeparable", "is_by_rows"]


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


def is_by_rows(penalty: Penalty) -> TypeGuard[RowSeparable]:
    """Whether a penalty is a sum over features; looked up once per class."""
    return _has_rows(type(penalty))


@lru_cache
def _has_rows(kind: type[Any]) -> bool:
    return issubclass(kind, RowSeparable)
