"""Poisson loss with log link: f(η) = e^η − y η, for counts.

With u = y + v ≥ 0, f*(v) = u log u − u. From its least value y − y log y on, the loss
is y (e^h − 1 − h) with h = η − log y, which keeps its digits where the fit is close.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import xlogy

from priormtl._arrays import Array
from priormtl._numerics import TINY
from priormtl.losses.counts import Counts, entropy_of_mean, excess, log_or_zero
from priormtl.losses.family import bounded_exp


@dataclass(frozen=True)
class Poisson(Counts):
    """Negative log-likelihood of a count with mean e^η."""

    may_scatter: bool = False

    name: ClassVar[str] = "poisson"
    scoring: ClassVar[tuple[str, float]] = ("neg_mean_poisson_deviance", 2.0)

    def loss(self, eta: Array, y: Array) -> Array:
        return excess(eta, y) - y * (eta - log_or_zero(y))

    def constant(self, y: Array) -> Array:
        return np.asarray(y - xlogy(y, y))

    def slope(self, eta: Array, y: Array) -> Array:
        return bounded_exp(eta) - y

    def bend(self, eta: Array, y: Array) -> Array:
        return bounded_exp(eta)

    def scattered(self) -> "Poisson":
        return Poisson(may_scatter=True)

    def level(
        self, eta: Array, y: Array, weight: Array, sums: Callable[[Array], Array]
    ) -> Array:
        return np.log(sums(weight * y) / sums(weight * bounded_exp(eta)))

    def conjugate(self, v: Array, y: Array) -> Array:
        return entropy_of_mean(v, y) + v * log_or_zero(y)

    def domain(self, y: Array) -> tuple[Array, float]:
        return -y, np.inf

    def score(self, v: Array, y: Array) -> Array:
        return np.log(np.maximum(y + v, TINY))
