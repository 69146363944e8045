"""Gamma loss with log link: f(η) = η + y e^(−η), for positive amounts.

With u = 1 − v ≥ 0, f*(v) = u log(u / y) − u. The least value of f is 1 + log y.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, gammainc, gammaincinv, xlogy

from priormtl._arrays import Array
from priormtl._numerics import TINY
from priormtl.losses.family import Family, bounded_exp


@dataclass(frozen=True)
class Gamma(Family):
    """Negative log-likelihood of an amount with mean e^η, times its dispersion."""

    name: ClassVar[str] = "gamma"
    boosting: ClassVar[str] = "gamma"
    scoring: ClassVar[tuple[str, float]] = ("neg_mean_gamma_deviance", 2.0)
    noise_is_known: ClassVar[bool] = False

    def check(self, y: Array, *, weighted: bool) -> None:
        if not np.all(y > 0):
            raise ValueError(
                f'y must be above 0 with loss="gamma": got {y[~(y > 0)][0]:g}. Drop '
                "these rows, or model whether an amount is zero by a classifier."
            )

    def loss(self, eta: Array, y: Array) -> Array:
        h = eta - np.log(y)
        return np.expm1(np.minimum(-h, 500.0)) + h

    def constant(self, y: Array) -> Array:
        return 1.0 + np.log(y)

    def slope(self, eta: Array, y: Array) -> Array:
        return -np.expm1(np.minimum(np.log(y) - eta, 500.0))

    def bend(self, eta: Array, y: Array) -> Array:
        return bounded_exp(np.log(y) - eta)

    def working_bend(self, eta: Array, y: Array) -> Array:
        """Mean of y e^(−η): residuals of small amounts over f″ have no variance."""
        return np.ones_like(eta)

    def level(
        self, eta: Array, y: Array, weight: Array, sums: Callable[[Array], Array]
    ) -> Array:
        return np.log(sums(weight * self.bend(eta, y)) / sums(weight))

    def conjugate(self, v: Array, y: Array) -> Array:
        return entropy_of_share(v) + v * np.log(y)

    def domain(self, y: Array) -> tuple[float, float]:
        return -np.inf, 1.0

    def score(self, v: Array, y: Array) -> Array:
        return np.log(y) - np.log(np.maximum(1.0 - v, TINY))

    def mean(self, eta: Array) -> Array:
        return bounded_exp(eta)

    def link(self, mean: Array) -> Array:
        return np.log(mean)

    def estimate_noise(self, eta: Array, y: Array, weight: Array) -> float:
        """1 / k, with the shape k for which log k − ψ(k) is the mean loss."""
        mean = float(np.average(self.loss(eta, y), weights=weight))

        def gap(log_k: float) -> float:
            return log_k - float(digamma(np.exp(log_k))) - mean

        low, high = np.log(1e-3), np.log(1e9)
        if gap(high) >= 0.0:
            return 1e-9
        return float(np.exp(-brentq(gap, low, high))) if gap(low) > 0.0 else 1e3

    def chances(self, eta: Array, y: Array, noise: float) -> tuple[Array, Array]:
        share = np.asarray(gammainc(1.0 / noise, y / (noise * self.mean(eta))))
        return share, share

    def quantile(self, eta: Array, level: Array, noise: float) -> Array:
        return noise * self.mean(eta) * gammaincinv(1.0 / noise, level)

    def without_offset(
        self, y: Array, weight: Array, offset: Array
    ) -> tuple[Array, Array]:
        """Amounts per exposure have the same loss."""
        return y * np.exp(-offset), weight


def entropy_of_share(t: Array) -> Array:
    """u log u + t for u = 1 − t."""
    u = np.maximum(1.0 - t, 0.0)
    close = np.abs(t) < 0.5
    return np.where(close, u * np.log1p(-np.where(close, t, 0.0)), xlogy(u, u)) + t
