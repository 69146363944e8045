"""Negative binomial loss with log link: f(η) = (y + r) log(r + e^η) − y η.

The variance of a count of mean μ is μ + α μ², and r = 1/α. With p = (v + y)/(y + r)
from 0 to 1, f*(v) = (y + r) (p log p + (1 − p) log(1 − p) − (1 − p) log r), which is
Poisson's conjugate plus r times that of the share v / r.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from priormtl._arrays import Array
from priormtl._numerics import TINY
from priormtl.losses.counts import (
    Counts,
    entropy_of_mean,
    excess,
    log_or_zero,
    most_likely_dispersion,
)
from priormtl.losses.gamma import entropy_of_share


@dataclass(frozen=True)
class NegativeBinomial(Counts):
    """Negative log-likelihood of a count with mean e^η and dispersion ``alpha``."""

    alpha: float = 1.0

    name: ClassVar[str] = "negative_binomial"
    has_dispersion: ClassVar[bool] = True

    @property
    def r(self) -> float:
        return 1.0 / self.alpha

    def loss(self, eta: Array, y: Array) -> Array:
        r = self.r
        # log((r + μ)/(r + y)); beyond, counts do not matter, and μ would overflow.
        far = eta > 300.0
        near = np.where(far, 0.0, eta)
        part = np.log1p(excess(near, y) / (y + r))
        part = np.where(far, eta - np.log(y + r), part)
        poisson = part - (eta - log_or_zero(y))
        # The same for counts above r, where it is small: log(1 + r/μ) − log(1 + r/y).
        inverse = np.log1p(r / np.where(y > 0, y, 1.0))
        above = np.logaddexp(0.0, np.log(r) - eta) - inverse
        return r * part + y * np.where(y > r, above, poisson)

    def constant(self, y: Array) -> Array:
        r, base = self.r, np.where(y > 0, y, 1.0)
        return np.asarray(y * np.log1p(r / base) + r * np.log(y + r))

    def slope(self, eta: Array, y: Array) -> Array:
        # r (μ − y) / (r + μ), by whichever of μ and 1 / μ is small.
        inverse = np.exp(-np.abs(eta))
        low = excess(np.minimum(eta, 0.0), y) / (self.r + inverse)
        high = (1.0 - y * inverse) / (1.0 + self.r * inverse)
        return self.r * np.where(eta > 0, high, low)

    def bend(self, eta: Array, y: Array) -> Array:
        inverse = np.exp(-np.abs(eta))
        share = (
            inverse / np.where(eta > 0, 1.0 + self.r * inverse, self.r + inverse) ** 2
        )
        return (y + self.r) * self.r * share

    def conjugate(self, v: Array, y: Array) -> Array:
        shares = self.r * entropy_of_share(v / self.r)
        return entropy_of_mean(v, y) + v * log_or_zero(y) + shares

    def domain(self, y: Array) -> tuple[Array, float]:
        return -y, self.r

    def score(self, v: Array, y: Array) -> Array:
        rest = np.maximum(1.0 - v / self.r, TINY)
        return np.log(np.maximum(y + v, TINY)) - np.log(rest)

    def refit(self, eta: Array, y: Array, weight: Array) -> "NegativeBinomial":
        """The most likely dispersion."""
        return NegativeBinomial(most_likely_dispersion(eta, y, weight))

    def upper_bend(self, eta: Array, y: Array) -> Array:
        """y + r times that of logistic loss at η − log r."""
        half = np.maximum(0.5 * np.abs(eta - np.log(self.r)), 1e-8)
        return np.asarray((y + self.r) * np.tanh(half) / (4.0 * half))
