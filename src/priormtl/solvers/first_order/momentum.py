"""Extrapolation sequences of accelerated methods."""

from dataclasses import dataclass
from math import sqrt
from typing import Protocol, Self

__all__ = ["ConstantMomentum", "Momentum", "NesterovMomentum"]


class Momentum(Protocol):
    """How far to look ahead along the last move."""

    @property
    def amount(self) -> float:
        """Share of the last move to add."""

    def advance(self, *, wrong_way: bool) -> Self:
        """Momentum of the next step; ``wrong_way``: the last move went uphill."""


@dataclass(frozen=True)
class ConstantMomentum:
    """Same share always: (√c − 1)/(√c + 1) for condition number c."""

    amount: float

    @classmethod
    def for_condition(cls, strong_convexity: float, smoothness: float) -> Self:
        """Share that gives the rate 1 − 1/√c."""
        root = sqrt(smoothness / strong_convexity)
        return cls((root - 1.0) / (root + 1.0))

    def advance(self, *, wrong_way: bool) -> Self:
        """Stay."""
        return self


@dataclass(frozen=True)
class NesterovMomentum:
    """Growing share (t_k − 1)/t_{k+1}, t_{k+1} = (1 + √(1 + 4 t_k²))/2."""

    restart: bool = False  # begin anew when a move goes uphill
    t: float = 1.0
    amount: float = 0.0

    def advance(self, *, wrong_way: bool) -> Self:
        """Next term of the sequence, or its first one after a restart."""
        if self.restart and wrong_way:
            return type(self)(self.restart)
        t = (1.0 + sqrt(1.0 + 4.0 * self.t**2)) / 2.0
        return type(self)(self.restart, t, (self.t - 1.0) / t)
