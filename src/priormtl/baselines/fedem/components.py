"""Components of a mixture: linear models or neural networks, and their M-steps.

A family knows the samples and says how M components are started, scored and improved.
``LinearFamily`` has M linear or logistic models with a ridge penalty ρ/2 ‖θ_k‖². Its
M-step is exact for Gaussian responses, (Σ c x xᵀ + ρ s² I) θ = Σ t x with weights c and
weighted targets t of the distinct rows, and one damped Newton step otherwise.
``NetworkFamily`` has networks of scikit-learn; its M-step is some epochs of Adam.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import diags_array, issparse
from scipy.special import logit
from sklearn.neural_network import MLPClassifier, MLPRegressor

from priormtl._arrays import Array, Matrix
from priormtl._lazy import cached_property
from priormtl.baselines.fedem.samples import Features, Response, Samples

# Linear components
DIRECT_SIZE = 2000  # coordinates up to which normal equations are written out
MOST_PRODUCTS = 30  # Hessian products per Newton step
FORCING = 0.3  # relative residual of a Newton step
EXACT, MANY_PRODUCTS = 1e-10, 1000  # the same for normal equations
MOST_HALVINGS = 20
SUFFICIENT = 1e-4  # share of the predicted decrease that a step must reach
FIRST_STEPS = 4  # Newton steps of a start
APART = 0.2  # distance of the scores of first components, in units of the noise
VANISHING = 1e-13  # relative size below which curvature counts as zero
SMALLEST = 1e-300

# Networks
BATCH = 200  # rows per step of Adam
UNSEEN = 1e-3  # of the mean weight, below which a network does not see a row
EPSILON = float(np.finfo(float).eps)  # probabilities are clipped here


@dataclass(frozen=True, eq=False)
class LinearComponents:
    """M linear components."""

    coef: Array  # (M, p) in the coordinates of the features
    scores: Array  # (M, r) of all distinct rows
    variance: float  # of the noise; 1 for classes


class WeightedTargets(NamedTuple):
    """What the M-step needs of the samples of each distinct row."""

    weight: Array  # c (M, r)
    target: Array  # t (M, r)


@dataclass(frozen=True, eq=False)
class LinearFamily:
    """Linear scores of the features, with a ridge penalty ρ/2 ‖θ‖²."""

    samples: Samples
    features: Features
    response: Response
    ridge: float

    def at(self, coef: Array, variance: float = 1.0) -> LinearComponents:
        return LinearComponents(coef, self._multiply(coef), variance)

    def log_density(self, components: LinearComponents) -> Array:
        scores, variance = components.scores, components.variance
        return self.response.log_density(self.samples, scores, variance)

    def penalty(self, components: LinearComponents) -> float:
        """ρ/2 ‖θ‖², without intercepts."""
        squares = components.coef**2 @ self.features.penalised
        return 0.5 * self.ridge * float(np.sum(squares))

    def start(
        self, responsibility: Array, rng: np.random.Generator
    ) -> LinearComponents:
        """Components fitted to these samples, with random perturbations."""
        M, p = len(responsibility), len(self.features.penalised)
        components = self.at(np.zeros((M, p)))
        for _ in range(1 if self.response.is_quadratic else FIRST_STEPS):
            components = self.improve(components, responsibility)
        if M == 1:
            return components
        # Drawn for the original features: the signs of principal axes are arbitrary.
        slope = rng.standard_normal((M, len(self._unit))) * self._unit
        move = self.features.from_features(slope, rng.standard_normal(M))
        row_weight, total = self.samples.row_weight, self.samples.total
        size = self._multiply(move) ** 2 @ row_weight / total
        move = move * (APART / np.sqrt(np.maximum(size, SMALLEST)))[:, np.newaxis]
        moved = self.at(components.coef + move * np.sqrt(components.variance))
        return self.learn_variance(moved, responsibility)

    def improve(
        self, components: LinearComponents, responsibility: Array
    ) -> LinearComponents:
        """M-step: coefficients at the old variance, then the variance."""
        found = self.solve(components, responsibility)
        return self.learn_variance(found, responsibility)

    def solve(
        self, components: LinearComponents, responsibility: Array
    ) -> LinearComponents:
        """M-step of θ: exact for squares, one Newton step for other losses.

        More Newton steps would be wasted while the responsibilities still change.
        """
        weight = responsibility * self.samples.weight
        rows = WeightedTargets(
            self.samples.sum_by_row(weight),
            self.samples.sum_by_row(weight * self.response.targets(self.samples)),
        )
        if not self.response.is_quadratic:
            return self._newton_step(components, rows, FORCING, MOST_PRODUCTS)
        if len(self.features.penalised) > DIRECT_SIZE:
            return self._newton_step(components, rows, EXACT, MANY_PRODUCTS)
        ridge = np.diag(self.ridge_diagonal(components.variance))
        pairs = zip(rows.weight, self._adjoint(rows.target), strict=True)
        coef = [_least_norm_solution(self._gram(c) + ridge, t) for c, t in pairs]
        return self.at(np.array(coef), components.variance)

    def learn_variance(
        self, components: LinearComponents, responsibility: Array
    ) -> LinearComponents:
        scores = components.scores
        found = self.response.learn_variance(self.samples, scores, responsibility)
        return replace(components, variance=found)

    def ridge_diagonal(self, variance: float) -> Array:
        """Ridge of each coordinate, where the loss is not divided by the variance."""
        return self.ridge * variance * self.features.penalised

    def _multiply(self, coef: Array) -> Array:
        """Scores of all rows (M, r)."""
        return np.asarray(coef @ self.features.matrix.T)

    def _adjoint(self, values: Array) -> Array:
        """Sums of x v over the rows: (M, r) to (M, p)."""
        return np.asarray(values @ self.features.matrix)

    def _gram(self, weight: Array) -> Array:
        X = self.features.matrix
        if issparse(X):
            return np.asarray((X.T @ diags_array(weight) @ X).toarray())
        return np.asarray(X.T @ (weight[:, np.newaxis] * X))

    @cached_property
    def _unit(self) -> Array:
        """One over the standard deviation of each feature; 0 for a constant (d,)."""
        X, share = self.samples.X, self.samples.row_weight / self.samples.total
        squares = X.multiply(X) if issparse(X) else (X - self.features.shift) ** 2
        deviation = np.sqrt(np.asarray(share @ squares))
        varies = deviation > 0
        return np.divide(1.0, deviation, out=np.zeros(len(deviation)), where=varies)

    def _newton_step(
        self,
        components: LinearComponents,
        rows: WeightedTargets,
        forcing: float,
        products: int,
    ) -> LinearComponents:
        """One Newton step of all components, with a backtracking line search each."""
        response, scores = self.response, components.scores
        ridge = self.ridge_diagonal(components.variance)
        # Gradient Σ x (c A'(s) − t) + ρ θ and Hessian Σ x xᵀ c A''(s) + ρ I, by rows.
        slope = rows.weight * response.mean(scores) - rows.target
        gradient = self._adjoint(slope) + ridge * components.coef
        curvature = rows.weight * response.curvature(scores)

        def hessian(V: Array) -> Array:
            return self._adjoint(curvature * self._multiply(V)) + ridge * V

        # In principal axes the Hessian is close to diagonal: a good preconditioner.
        level = curvature.sum(axis=1, keepdims=True) / self.samples.total
        diagonal = level * self.features.spectrum + ridge
        move = conjugate_gradients(
            hessian, -gradient, diagonal, forcing=forcing, products=products
        )
        score_move, decrease = self._multiply(move), np.sum(gradient * move, axis=1)
        before = self._m_step_cost(components, rows)

        def moved(step: Array) -> LinearComponents:
            coef, found = components.coef + step * move, scores + step * score_move
            return replace(components, coef=coef, scores=found)

        # Armijo rule; each component halves its own step.
        step = np.ones((len(move), 1))
        for _ in range(MOST_HALVINGS):
            trial = moved(step)
            after = self._m_step_cost(trial, rows)
            failed = after > before + SUFFICIENT * step[:, 0] * decrease
            if not np.any(failed):
                return trial
            step[failed] *= 0.5
        step[failed] = 0.0  # these components stay where they are
        return moved(step)

    def _m_step_cost(
        self, components: LinearComponents, rows: WeightedTargets
    ) -> Array:
        """What the M-step minimises, for each component (M,)."""
        scores, coef = components.scores, components.coef
        loss = rows.weight * self.response.log_partition(scores) - rows.target * scores
        ridge = 0.5 * coef**2 @ self.ridge_diagonal(components.variance)
        return np.asarray(loss.sum(axis=1) + ridge)


def conjugate_gradients(
    multiply: Callable[[Array], Array],
    right: Array,
    diagonal: Array,
    *,
    forcing: float,
    products: int,
) -> Array:
    """Rows V_k with H_k V_k = right_k, until residuals have fallen to ``forcing``.

    ``multiply`` gives all rows H_k V_k in one pass over the data. ``diagonal`` is close
    to that of each H_k and preconditions; coordinates where it is zero stay zero.
    """

    def dot(a: Array, b: Array) -> Array:
        return np.sum(a * b, axis=1, keepdims=True)

    def ratio(part: Array, whole: Array) -> Array:
        return np.divide(part, whole, out=np.zeros_like(part), where=whole > SMALLEST)

    curved = diagonal > SMALLEST
    inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=curved)
    solution, residual = np.zeros_like(right), right
    direction = inverse * residual
    energy = dot(residual, direction)
    target = forcing**2 * energy
    for _ in range(products):
        if np.all(energy <= target):
            break
        product = multiply(direction)
        # Rows that have converged do not move any more.
        step = ratio(np.where(energy > target, energy, 0.0), dot(direction, product))
        solution = solution + step * direction
        residual = residual - step * product
        preconditioned = inverse * residual
        before, energy = energy, dot(residual, preconditioned)
        direction = preconditioned + ratio(energy, before) * direction
    return solution


def _least_norm_solution(matrix: Array, right: Array) -> Array:
    """Solution of a positive semidefinite system that may be singular."""
    try:
        factor = cho_factor(matrix, lower=True)
        # Small pivots mean a nearly singular matrix, whose solution would be noise.
        pivots = np.diag(factor[0])
        if pivots.min() ** 2 > VANISHING * pivots.max() ** 2:
            return np.asarray(cho_solve(factor, right))
    except LinAlgError:
        pass
    values, vectors = np.linalg.eigh(matrix)
    kept = values > VANISHING * max(values[-1], 0.0)
    basis = vectors[:, kept]
    return np.asarray(basis @ ((basis.T @ right) / values[kept]))


# Neural networks


@dataclass(frozen=True, eq=False)
class NetworkComponents:
    """M networks."""

    networks: tuple[Any, ...]
    scores: Array  # (M, r) of all distinct rows
    variance: float  # of the noise; 1 for classes


@dataclass(frozen=True, eq=False)
class NetworkFamily:
    """Networks with the same hidden layers; the M-step is some epochs of Adam."""

    samples: Samples
    response: Response
    ridge: float
    hidden: tuple[int, ...]
    epochs: int

    def log_density(self, components: NetworkComponents) -> Array:
        scores, variance = components.scores, components.variance
        return self.response.log_density(self.samples, scores, variance)

    def penalty(self, components: NetworkComponents) -> float:
        """ρ/2 times the squares of all weights, without biases."""
        squares = (np.sum(W**2) for net in components.networks for W in net.coefs_)
        return 0.5 * self.ridge * float(sum(squares))

    def start(
        self, responsibility: Array, rng: np.random.Generator
    ) -> NetworkComponents:
        """Networks of different seeds, after one M-step on these samples."""
        M = len(responsibility)
        kind = MLPRegressor if self.response.is_quadratic else MLPClassifier
        networks = tuple(
            kind(hidden_layer_sizes=self.hidden, random_state=int(seed))
            for seed in rng.integers(2**31, size=M)
        )
        scores = np.zeros((M, self.samples.X.shape[0]))
        # A share of every sample for all, so that no network is left unfitted.
        return self.improve(
            NetworkComponents(networks, scores, 1.0), 0.5 + 0.5 * responsibility
        )

    def improve(
        self, components: NetworkComponents, responsibility: Array
    ) -> NetworkComponents:
        """M-step: some epochs from where the networks are, then the variance."""
        pairs = zip(components.networks, responsibility, strict=True)
        networks = tuple(self._train(deepcopy(net), q) for net, q in pairs)
        scores = np.array([network_scores(net, self.samples.X) for net in networks])
        found = self.response.learn_variance(self.samples, scores, responsibility)
        return NetworkComponents(networks, scores, found)

    def _train(self, network: Any, responsibility: Array) -> Any:
        X, y, weight = self._table(responsibility * self.samples.weight)
        seen = weight > UNSEEN * weight.mean()
        if not np.any(seen):
            return network
        X, y, weight = X[seen], y[seen], weight[seen]
        # Each batch adds the whole penalty to its own mean loss.
        network.set_params(alpha=self.ridge * min(BATCH / len(y), 1.0))
        extra = {} if self.response.is_quadratic else {"classes": [0.0, 1.0]}
        for _ in range(self.epochs):
            network.partial_fit(X, y, sample_weight=weight, **extra)
        return network

    def _table(self, weight: Array) -> tuple[Matrix, Array, Array]:
        """Distinct rows with their mean target, or once with each class."""
        targets = self.response.targets(self.samples)
        total, hits = self.samples.sum_by_row(np.array([weight, weight * targets]))
        if self.response.is_quadratic:
            means = np.divide(hits, total, out=np.zeros_like(hits), where=total > 0)
            return self.samples.X, means, total
        n = len(total)
        labels = np.repeat([1.0, 0.0], n)
        X = self.samples.X[np.tile(np.arange(n), 2)]
        return X, labels, np.append(hits, np.maximum(total - hits, 0))


def network_scores(network: Any, X: Matrix) -> Array:
    """Predicted targets, or log-odds of the positive class (n,)."""
    if not hasattr(network, "predict_proba"):
        return np.asarray(network.predict(X))
    positive = network.predict_proba(X)[:, 1]
    return np.asarray(logit(np.clip(positive, EPSILON, 1.0 - EPSILON)))


def check_networks() -> None:
    """Refuse a scikit-learn whose networks do not take sample weights."""
    if "sample_weight" not in signature(MLPRegressor.partial_fit).parameters:
        raise ImportError(
            'component="mlp" needs scikit-learn 1.7 or later, whose networks take '
            'sample weights. Update scikit-learn or use component="linear".'
        )
