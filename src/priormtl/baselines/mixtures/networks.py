"""Neural components: scikit-learn's networks as the models that tasks mix."""

from copy import deepcopy
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.neural_network import MLPClassifier, MLPRegressor

from priormtl._arrays import Array, Matrix
from priormtl.baselines.mixtures.cells import Cells
from priormtl.baselines.mixtures.responses import Response

__all__ = ["NetworkFamily", "NetworkParts", "check_networks", "network_scores"]

BATCH = 200  # rows per step of descent
UNHEARD = 1e-3  # of the mean weight, below which a component does not see a row
EPSILON = float(np.finfo(float).eps)  # probabilities end here, as in the networks' loss


@dataclass(frozen=True, eq=False)
class NetworkParts:
    """M networks."""

    networks: tuple[Any, ...]
    scores: Array  # (M, r) of all rows
    variance: float  # of the noise; 1 for classes


@dataclass(frozen=True, eq=False)
class NetworkFamily:
    """Networks with the same hidden layers; the M-step is some passes of Adam."""

    cells: Cells
    response: Response
    ridge: float
    hidden: tuple[int, ...]
    epochs: int

    def log_density(self, parts: NetworkParts) -> Array:
        """Log p(y | x, network k) of every cell (M, N)."""
        return self.response.log_density(self.cells, parts.scores, parts.variance)

    def penalty(self, parts: NetworkParts) -> float:
        """ρ/2 times the squares of all weights, without biases."""
        squares = (np.sum(W**2) for net in parts.networks for W in net.coefs_)
        return 0.5 * self.ridge * float(sum(squares))

    def start(self, part_of: Array, rng: np.random.Generator) -> NetworkParts:
        """Networks of different seeds, after one step on these cells."""
        seeds = rng.integers(2**31, size=len(part_of))
        fresh = tuple(self._make(int(seed)) for seed in seeds)
        nothing = np.zeros((len(part_of), self.cells.X.shape[0]))
        # A share of every cell for all, so that no network is left unfitted.
        return self.improve(NetworkParts(fresh, nothing, 1.0), 0.5 + 0.5 * part_of)

    def improve(self, parts: NetworkParts, part_of: Array) -> NetworkParts:
        """Some passes over the rows from where the networks are."""
        pairs = zip(parts.networks, part_of, strict=True)
        networks = tuple(self._train(deepcopy(net), q) for net, q in pairs)
        scores = np.array([network_scores(net, self.cells.X) for net in networks])
        found = self.response.learn_variance(self.cells, scores, part_of)
        return NetworkParts(networks, scores, found)

    def _make(self, seed: int) -> Any:
        kind = MLPRegressor if self.response.is_quadratic else MLPClassifier
        return kind(hidden_layer_sizes=self.hidden, random_state=seed)

    def _train(self, network: Any, share: Array) -> Any:
        X, y, weight = self._table(share * self.cells.weight)
        heard = weight > UNHEARD * weight.mean()
        if not np.any(heard):
            return network
        X, y, weight = X[heard], y[heard], weight[heard]
        # Each batch takes the whole penalty off its own mean.
        network.set_params(alpha=self.ridge * min(BATCH / len(y), 1.0))
        extra = {} if self.response.is_quadratic else {"classes": [0.0, 1.0]}
        for _ in range(self.epochs):
            network.partial_fit(X, y, sample_weight=weight, **extra)
        return network

    def _table(self, weight: Array) -> tuple[Matrix, Array, Array]:
        """Rows with their mean target, or once with either class."""
        targets = self.response.targets(self.cells)
        total, hits = self.cells.per_row(np.array([weight, weight * targets]))
        if self.response.is_quadratic:
            means = np.divide(hits, total, out=np.zeros_like(hits), where=total > 0)
            return self.cells.X, means, total
        n = len(total)
        rows = np.tile(np.arange(n), 2)
        labels = np.repeat([1.0, 0.0], n)
        return self.cells.X[rows], labels, np.append(hits, np.maximum(total - hits, 0))


def network_scores(network: Any, X: Matrix) -> Array:
    """Predicted numbers, or log-odds of the positive class (n,)."""
    if not hasattr(network, "predict_proba"):
        return np.asarray(network.predict(X))
    positive = network.predict_proba(X)[:, 1]
    return np.asarray(logit(np.clip(positive, EPSILON, 1.0 - EPSILON)))


def check_networks() -> None:
    """Refuse a scikit-learn whose networks do not weigh samples."""
    if "sample_weight" not in signature(MLPRegressor.partial_fit).parameters:
        raise ImportError(
            'component="mlp" needs scikit-learn 1.7, whose networks weigh samples; '
            'update it or use component="linear".'
        )
