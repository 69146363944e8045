"""Logistic loss: f(η) = log(1 + exp(−y η)) with y = ±1.

With the probability q = 1 / (1 + exp(y η)) of the other class, f′ = −y q and
f″ = q (1 − q). The conjugate is minus the entropy of q = −y v, for q from 0 to 1.
Binomial counts of n trials are two rows, with the counts as weights.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit, logit

from priormtl._arrays import Array
from priormtl.losses.family import Family


@dataclass(frozen=True)
class Logistic(Family):
    """Negative log-likelihood of a class, −1 or +1."""

    name: ClassVar[str] = "logistic"
    boosting: ClassVar[str] = "log_loss"
    lipschitz: ClassVar[float | None] = 0.25
    scoring: ClassVar[tuple[str, float]] = ("neg_log_loss", 1.0)
    needs: ClassVar[str] = "two classes"

    def check(self, y: Array, *, weighted: bool) -> None:
        if not np.all(np.abs(y) == 1.0):
            raise ValueError("y must be −1 or +1 with logistic loss.")

    def loss(self, eta: Array, y: Array) -> Array:
        return np.logaddexp(0.0, -y * eta)

    def constant(self, y: Array) -> Array:
        return np.zeros_like(y)

    def slope(self, eta: Array, y: Array) -> Array:
        return np.asarray(-y * expit(-y * eta))

    def bend(self, eta: Array, y: Array) -> Array:
        q = expit(-y * eta)
        return np.asarray(q * (1.0 - q))

    def conjugate(self, v: Array, y: Array) -> Array:
        return np.asarray(-entr(-y * v) - entr(1.0 + y * v))

    def domain(self, y: Array) -> tuple[Array, Array]:
        return np.where(y > 0, -1.0, 0.0), np.where(y > 0, 0.0, 1.0)

    def score(self, v: Array, y: Array) -> Array:
        q = np.clip(-y * v, 1e-300, 1.0)
        with np.errstate(divide="ignore"):
            return np.asarray(y * (np.log1p(-q) - np.log(q)))

    def mean(self, eta: Array) -> Array:
        """Probability of the class +1."""
        return np.asarray(expit(eta))

    def link(self, mean: Array) -> Array:
        """Score of a mean of −1 and +1."""
        return np.asarray(logit(np.clip(0.5 + 0.5 * mean, 1e-10, 1.0 - 1e-10)))

    def has_finite_score(self, mean: Array) -> NDArray[np.bool_]:
        """Both classes are there."""
        return np.asarray(np.abs(mean) < 1.0)

    def upper_bend(self, eta: Array, y: Array) -> Array:
        """Curvature tanh(η/2) / (2η) of the quadratic that touches f at ±η.

        Jaakkola and Jordan, "Bayesian parameter estimation via variational methods",
        Statistics and Computing 10, 2000.
        """
        half = np.maximum(0.5 * np.abs(eta), 1e-8)
        return np.asarray(np.tanh(half) / (4.0 * half))
