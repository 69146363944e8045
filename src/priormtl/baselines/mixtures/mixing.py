"""MixtureModel: predictions of a task from what the components predict."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import log_expit, logsumexp

from priormtl._arrays import Array, Matrix
from priormtl.baselines.mixtures.mixture import log_shares
from priormtl.baselines.mixtures.networks import network_scores

__all__ = ["LinearScorer", "MixtureModel", "NetworkScorer", "Scorer"]


class Scorer(Protocol):
    """Scores of M components."""

    def __call__(self, X: Matrix) -> Array:
        """Scores of rows (M, n)."""


@dataclass(frozen=True, eq=False)
class LinearScorer:
    """Linear components."""

    coef: Array  # (M, d)
    intercept: Array  # (M,)

    def __call__(self, X: Matrix) -> Array:
        """X θ_k + b_k."""
        return np.asarray((X @ self.coef.T + self.intercept).T)


@dataclass(frozen=True, eq=False)
class NetworkScorer:
    """Neural components."""

    networks: tuple[Any, ...]

    def __call__(self, X: Matrix) -> Array:
        """What each network predicts."""
        return np.array([network_scores(network, X) for network in self.networks])


@dataclass(frozen=True, eq=False)
class MixtureModel:
    """Means of numbers or of probabilities, in each task's shares."""

    scorer: Scorer
    shares: Array  # π (m, M)
    has_classes: bool

    def scores(self, X: Matrix, i: int) -> Array:
        """Σ π_k s_k, or for classes the log-odds of Σ π_k expit(s_k)."""
        parts = self.scorer(X)
        if not self.has_classes:
            return np.asarray(self.shares[i] @ parts)
        weights = log_shares(self.shares[i])[:, np.newaxis]
        positive = logsumexp(weights + log_expit(parts), axis=0)
        return np.asarray(positive - logsumexp(weights + log_expit(-parts), axis=0))
