"""Counts: what Poisson and negative binomial loss, both with log link, share.

Intervals of counts are those of a negative binomial of mean μ and variance μ + α μ²,
whose dispersion α held-out rows tell. Counts that vary as Poisson's have α near zero.
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betainc, digamma, xlogy

from priormtl._arrays import Array
from priormtl.losses.family import Family, bounded_exp


class Counts(Family):
    """Loss of counts with mean e^η."""

    boosting: ClassVar[str] = "poisson"
    needs: ClassVar[str] = "at least one count above 0"

    def check(self, y: Array, *, weighted: bool) -> None:
        if np.any(y < 0):
            raise ValueError(
                f'y must not be negative with loss="{self.name}": got {y[y < 0][0]:g}.'
            )
        fractions = y[y != np.round(y)]
        if len(fractions) and not weighted:
            raise ValueError(
                f'y must hold whole numbers with loss="{self.name}": got '
                f"{fractions[0]:g}. Rates are allowed with sample_weight, or use "
                "exposure."
            )

    def mean(self, eta: Array) -> Array:
        return bounded_exp(eta)

    def link(self, mean: Array) -> Array:
        return np.log(np.maximum(mean, 1e-10))

    def has_finite_score(self, mean: Array) -> NDArray[np.bool_]:
        """Some count is above zero."""
        return np.asarray(mean > 0)

    def without_offset(
        self, y: Array, weight: Array, offset: Array
    ) -> tuple[Array, Array]:
        """Rates, with exposures as weights, have the same loss (of Poisson trees)."""
        return y * np.exp(-offset), weight * np.exp(offset)

    def boosting_derivatives(self, eta: Array, y: Array) -> tuple[Array, Array]:
        """Those of Poisson loss, whatever the dispersion."""
        mean = bounded_exp(eta)
        return mean - y, mean

    def estimate_noise(self, eta: Array, y: Array, weight: Array) -> float:
        return most_likely_dispersion(eta, y, weight)

    def chances(self, eta: Array, y: Array, noise: float) -> tuple[Array, Array]:
        r = 1.0 / noise
        share = r / (r + self.mean(eta))
        above = np.ceil(y)  # P(Y < y) = P(Y ≤ ⌈y⌉ − 1)
        below = np.where(above > 0, betainc(r, np.maximum(above, 1.0), share), 0.0)
        return below, np.asarray(betainc(r, np.floor(y) + 1.0, share))

    def quantile(self, eta: Array, level: Array, noise: float) -> Array:
        from scipy.stats import nbinom  # noqa: PLC0415  (slow to import)

        r = 1.0 / noise
        return np.asarray(nbinom.ppf(level, r, r / (r + self.mean(eta))))


def most_likely_dispersion(eta: Array, y: Array, weight: Array) -> float:
    """α that maximises the likelihood, from 1e-6 (next to Poisson) to 1e6.

    It is the maximum that the slope leads to from the dispersion of squares.
    """
    used = weight > 0
    eta, y, weight = eta[used], y[used], weight[used]
    mean = bounded_exp(eta)

    def slope(log_alpha: float) -> float:
        """Derivative in r: values alone tell the dispersion to three digits."""
        r = float(np.exp(-log_alpha))
        rise = digamma(y + r) - digamma(r) - np.log1p(mean / r)
        return float(weight @ (rise + (mean - y) / (r + mean)))

    limit, way = np.log(1e6), 0.5
    squares = float(weight @ ((y - mean) ** 2 - mean)) / float(weight @ mean**2)
    end = float(np.log(np.clip(squares, 1e-6, 1e6)))
    if slope(end) > 0.0:  # of r, which falls as α rises
        way = -way
    for _ in range(10):  # ways double, and limits are 28 apart
        begin, end = end, float(np.clip(end + way, -limit, limit))
        if slope(end) * way >= 0.0 and begin != end:
            low, high = sorted((begin, end))
            return float(np.exp(brentq(slope, low, high, xtol=1e-10)))
        way *= 2.0
    return float(np.exp(end))


def log_or_zero(y: Array) -> Array:
    """log y, and 0 for y = 0."""
    return np.log(np.where(y > 0, y, 1.0))


def excess(eta: Array, y: Array) -> Array:
    """e^η − y, to the last digits where they are close."""
    return np.where(
        y > 0, y * np.expm1(np.minimum(eta - log_or_zero(y), 500.0)), bounded_exp(eta)
    )


def entropy_of_mean(v: Array, y: Array) -> Array:
    """u log(u / y) − v for u = y + v; for y = 0, u log u − u."""
    u = np.maximum(y + v, 0.0)
    base = np.where(y > 0, y, 1.0)
    close = np.abs(v) < 0.5 * y
    ratio = np.where(close, np.log1p(np.where(close, v, 0.0) / base), 0.0)
    return np.where(close, u * ratio, xlogy(u, u / base)) - v
