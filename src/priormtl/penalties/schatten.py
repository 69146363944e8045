"""Powers of singular values: all directions stay, weak ones shrink most."""

from dataclasses import dataclass
from math import exp, log
from typing import Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.penalties.spectrum import (
    Shrunk,
    largest_singular_value,
    shrink_spectrum,
    singular_values,
)

__all__ = ["Schatten"]

MOST_NEWTON_STEPS = 200


@dataclass(frozen=True)
class Schatten:
    """Σ_k σ_k(P)^q with 1 < q < 2."""

    exponent: float  # q

    def value(self, P: Array) -> float:
        """Σ_k σ_k^q."""
        return float(np.sum(singular_values(P) ** self.exponent))

    def prox(self, P: Array, step: float) -> Array:
        """Each singular value σ becomes the z with z + step q z^(q−1) = σ."""
        return shrink_spectrum(P, lambda values: self._shrink(values, step))

    def dual_norm(self, G: Array) -> float:
        """Largest singular value: a scale for strengths, none of which gives zero."""
        return largest_singular_value(G)

    def degree(self) -> float:
        """The exponent itself."""
        return self.exponent

    def conjugate(self, G: Array) -> float:
        """(q − 1) Σ_k (σ_k / q)^(q/(q−1))."""
        q = self.exponent
        with np.errstate(over="ignore"):
            powers = (singular_values(G) / q) ** (q / (q - 1.0))
        return float((q - 1.0) * powers.sum())

    def restrict(self, features: Index) -> Self:
        """Same function: it does not depend on the features."""
        return self

    def _shrink(self, values: Array, step: float) -> Shrunk:
        root = 1.0 / (self.exponent - 1.0)
        slope = step * self.exponent
        return Shrunk(_solve(values, slope, root) ** root, self._edge(slope))

    def _edge(self, slope: float) -> float:
        """z at which both terms of z + slope z^(q−1) are alike."""
        if slope == 0:
            return 0.0
        return exp(min(log(slope) / (2.0 - self.exponent), 700.0))


def _solve(values: Array, slope: float, root: float) -> Array:
    """U ≥ 0 with u^root + slope u = value, by Newton's method from above.

    In u = z^(1/root) the function is convex and rising: steps never overshoot, and
    small values keep their digits, which closed forms with cube roots lose.
    """
    u = values ** (1.0 / root)
    if slope > 0:
        u = np.minimum(u, values / slope)
    for _ in range(MOST_NEWTON_STEPS):
        power = u ** (root - 1.0)
        bend = root * power + slope
        excess = u * (power + slope) - values
        step = np.divide(excess, bend, out=np.zeros_like(u), where=bend > 0)
        after = np.clip(u - step, 0.0, u)
        if np.all(step <= 2e-16 * u):
            return after
        u = after
    return u
