"""Poisson loss with log link: f(η) = e^η − y η, for counts.

With u = y + v ≥ 0, f*(v) = u log u − u. From its least value y − y log y on, the loss
is y (e^h − 1 − h) with h = η − log y, which keeps its digits where the fit is close.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from priormtl._arrays import Array
from priormtl._numerics import TINY
from priormtl.losses.family import Family, bounded_exp


@dataclass(frozen=True)
class Poisson(Family):
    """Negative log-likelihood of a count with mean e^η."""

    name: ClassVar[str] = "poisson"
    boosting: ClassVar[str] = "poisson"
    scoring: ClassVar[tuple[str, float]] = ("neg_mean_poisson_deviance", 2.0)

    def check(self, y: Array, *, weighted: bool) -> None:
        check_counts(self.name, y, weighted=weighted)

    def loss(self, eta: Array, y: Array) -> Array:
        return excess(eta, y) - y * (eta - log_or_zero(y))

    def constant(self, y: Array) -> Array:
        return np.asarray(y - xlogy(y, y))

    def slope(self, eta: Array, y: Array) -> Array:
        return bounded_exp(eta) - y

    def bend(self, eta: Array, y: Array) -> Array:
        return bounded_exp(eta)

    def conjugate(self, v: Array, y: Array) -> Array:
        return entropy_of_mean(v, y) + v * log_or_zero(y)

    def domain(self, y: Array) -> tuple[Array, float]:
        return -y, np.inf

    def score(self, v: Array, y: Array) -> Array:
        return np.log(np.maximum(y + v, TINY))

    def mean(self, eta: Array) -> Array:
        return bounded_exp(eta)

    def link(self, mean: Array) -> Array:
        return np.log(np.maximum(mean, 1e-10))

    def without_offset(
        self, y: Array, weight: Array, offset: Array
    ) -> tuple[Array, Array]:
        """Rates, with exposures as weights, have the same loss."""
        return y * np.exp(-offset), weight * np.exp(offset)

    def has_finite_score(self, mean: Array) -> NDArray[np.bool_]:
        """Some count is above zero."""
        return np.asarray(mean > 0)


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


def check_counts(name: str, y: Array, *, weighted: bool) -> None:
    """Fail unless targets are counts, or rates with weights."""
    if np.any(y < 0):
        raise ValueError(
            f'y must not be negative with loss="{name}": got {y[y < 0][0]:g}.'
        )
    fractions = y[y != np.round(y)]
    if len(fractions) and not weighted:
        raise ValueError(
            f'y must hold whole numbers with loss="{name}": got {fractions[0]:g}. '
            "Rates are allowed with sample_weight, or use exposure."
        )
    if len(y) and not np.any(y > 0):
        raise ValueError(
            f'y must hold at least one count above 0 with loss="{name}": all are 0.'
        )
