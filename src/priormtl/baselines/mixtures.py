"""Mixtures of shared components, for FedEM: samples, the E-step and the M-step.

A sample with features x and target y of task i has the density Σ_k π_ik p(y | s_k),
s_k the score of component k: logistic for classes, else Gaussian with one variance.
``LinearFamily`` improves the components for given responsibilities (the M-step), by
least squares or L-BFGS.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import issparse
from scipy.special import expit, log_expit, logsumexp

from priormtl._arrays import Array, Index, Matrix
from priormtl._lazy import cached_property
from priormtl._numerics import EPS
from priormtl.baselines.base import LinearModel, find_distinct, principal_axes
from priormtl.data import StackedRows, TaskData


class Mixture(NamedTuple):
    """Components, their scores and each task's mixing weights."""

    components: Array  # coefficients (M, p)
    scores: Array  # (M, r) of the distinct rows
    variance: float  # of the noise; 1 for classes
    weights: Array  # π (m, M), rows sum to one


class Run(NamedTuple):
    """A mixture, and its E-step."""

    mixture: Mixture
    responsibility: Array  # (M, N), columns sum to one
    log_likelihood: float
    objective: float  # negative penalised log-likelihood per weight
    gain: float = np.inf  # of the last step
    n_iter: int = 0


@dataclass(frozen=True, eq=False)
class Samples:
    """N samples over r distinct rows: one product serves all tasks of a row."""

    X: Array  # (r, d)
    row: Index  # (N,)
    task: Index  # (N,)
    y: Array  # (N,) numbers, or 1 and 0 for classes
    weight: Array  # (N,), positive
    n_tasks: int
    classify: bool

    @classmethod
    def of(cls, data: TaskData, *, classify: bool) -> "Samples":
        """Samples of either layout; equal stacked rows become one."""
        X, m = data.X.toarray() if issparse(data.X) else data.X, data.shape[1]
        if isinstance(data, StackedRows):
            first, row = find_distinct(X)
            task = np.repeat(np.arange(m), np.diff(data.starts))
            X, y, weight = X[first], data.y, data.weight
        else:
            row, task = np.nonzero(data.weight)
            y, weight = data.y[row, task], data.weight[row, task]
        y = (y > 0).astype(np.float64) if classify else y
        return cls(X, row, task, y, weight, m, classify)

    @cached_property
    def row_weight(self) -> Array:
        """Total weight of each distinct row (r,)."""
        return self.by_row(self.weight[np.newaxis])[0]

    def by_row(self, values: Array) -> Array:
        """Sums over the samples of each distinct row: (k, N) to (k, r)."""
        return np.array([np.bincount(self.row, v, self.X.shape[0]) for v in values])

    def log_density(self, scores: Array, variance: float) -> Array:
        """log p(y | s_k) of every sample (M, N)."""
        s = scores[:, self.row]
        if self.classify:
            return np.asarray(log_expit(np.where(self.y > 0, s, -s)))
        constant = 0.5 * np.log(2.0 * np.pi * variance)
        return np.asarray(-0.5 / variance * (self.y - s) ** 2 - constant)

    def learn_variance(self, scores: Array, responsibility: Array) -> float:
        """Mean squared residual, at least a millionth of the targets' variance."""
        if self.classify:
            return 1.0
        weight = responsibility * self.weight
        squares = float(np.vdot(weight, (self.y - scores[:, self.row]) ** 2))
        mean = float(np.average(self.y, weights=self.weight))
        spread = float(np.average((self.y - mean) ** 2, weights=self.weight))
        if spread <= EPS * mean**2:  # constant targets
            spread = mean**2 or 1.0
        return max(squares / float(weight.sum()), 1e-6 * spread)

    def mixing_weights(self, responsibility: Array) -> Array:
        """M-step of π: mean responsibilities of each task (m, M)."""
        weighted = responsibility * self.weight
        sums = np.array([np.bincount(self.task, w, self.n_tasks) for w in weighted])
        return (sums / np.bincount(self.task, self.weight, self.n_tasks)).T

    def e_step(self, mixture: Mixture, penalty: float, last: Run | None) -> Run:
        """Responsibilities, and with them the likelihood (log-sum-exp)."""
        joint = self.log_density(mixture.scores, mixture.variance)
        joint = joint + log_weights(mixture.weights).T[:, self.task]
        total = logsumexp(joint, axis=0)
        likelihood = float(self.weight @ total)
        objective = (penalty - likelihood) / float(self.weight.sum())
        run = Run(mixture, np.exp(joint - total), likelihood, objective)
        if last is None:
            return run
        return run._replace(gain=last.objective - objective, n_iter=last.n_iter + 1)


def log_weights(weights: Array) -> Array:
    """Logarithms; minus infinity for a weight of zero."""
    with np.errstate(divide="ignore"):
        return np.log(weights)


# Linear components


@dataclass(frozen=True, eq=False)
class LinearFamily:
    """M linear or logistic models in coordinates of the rows, the last one constant."""

    samples: Samples
    ridge: float
    matrix: Array  # (r, p)
    basis: Array | None  # (d, q) orthonormal; None: the coordinates are the features
    shift: Array  # (d,) subtracted from the features
    penalised: Array  # (p,) 1, and 0 for the constant

    @classmethod
    def of(cls, samples: Samples, *, intercept: bool, rotate: bool) -> "LinearFamily":
        """Principal axes, in which Hessians are nearly diagonal, or plain features."""
        X, basis, weight = samples.X, None, samples.row_weight
        shift = np.zeros(X.shape[1])
        if rotate:
            shift = shift + intercept * np.average(X, axis=0, weights=weight)
            X = X - shift
            basis = principal_axes(X * np.sqrt(weight / weight.sum())[:, np.newaxis])
            X = X @ basis
        penalised = np.ones(X.shape[1])
        if intercept:
            X = np.hstack([X, np.ones((len(X), 1))])
            penalised = np.append(penalised, 0.0)
        return cls(samples, 0.0, X, basis, shift, penalised)

    def to_features(self, coef: Array) -> tuple[Array, Array]:
        """Coefficients (M, d) of the original features, and intercepts (M,)."""
        n = int(self.penalised.sum())
        slope = coef[:, :n] if self.basis is None else coef[:, :n] @ self.basis.T
        return np.ascontiguousarray(slope), coef[:, n:].sum(axis=1) - slope @ self.shift

    @cached_property
    def spectrum(self) -> Array:
        """Weighted sums of squares of the coordinates (p,)."""
        return self.samples.row_weight @ self.matrix**2

    @property
    def curvature(self) -> float:
        """Mean second derivative of the negative log-likelihood in a coefficient."""
        samples = self.samples
        noise = samples.learn_variance(
            np.zeros((1, samples.X.shape[0])), np.ones((1, len(samples.y)))
        )
        second = 0.25 if samples.classify else 1.0
        total = float(self.spectrum @ self.penalised)
        return (second * total / noise / samples.X.shape[1]) or 1.0

    def at(self, coef: Array, weights: Array, variance: float = 1.0) -> Mixture:
        return Mixture(coef, coef @ self.matrix.T, variance, weights)

    def penalty(self, coef: Array) -> float:
        return 0.5 * self.ridge * float(np.sum(coef**2 @ self.penalised))

    def start(self, q: Array, weights: Array, rng: np.random.Generator) -> Mixture:
        """Components fitted to these samples, then moved apart at random."""
        samples, M = self.samples, len(q)
        mixture = self.improve(self.at(np.zeros((M, len(self.penalised))), weights), q)
        if M == 1:
            return mixture
        # Drawn for the original features: the signs of principal axes are arbitrary.
        weight = samples.row_weight
        size = np.sqrt(weight @ (samples.X - self.shift) ** 2 / weight.sum())
        unit = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
        move = rng.standard_normal((M, len(unit))) * unit
        level = (rng.standard_normal(M) + move @ self.shift)[:, np.newaxis]
        move = move if self.basis is None else move @ self.basis
        move = np.hstack([move, level]) if self.penalised[-1] == 0 else move
        sizes = (move @ self.matrix.T) ** 2 @ weight / weight.sum()
        # A fifth of the noise between the scores.
        length = 0.2 * np.sqrt(mixture.variance / np.maximum(sizes, 1e-300))
        moved = self.at(mixture.components + move * length[:, np.newaxis], weights)
        return moved._replace(variance=samples.learn_variance(moved.scores, q))

    def improve(self, mixture: Mixture, q: Array) -> Mixture:
        """M-step at responsibilities q (M, N): coefficients, then the variance.

        For squares the minimum is exact. For classes ten steps of L-BFGS lower it: more
        would be wasted while responsibilities still change.
        """
        samples, X, shape = self.samples, self.matrix, mixture.components.shape
        weight = samples.by_row(q * samples.weight)
        target = samples.by_row(q * samples.weight * samples.y)
        ridge = self.ridge * mixture.variance * self.penalised
        if samples.classify:
            # Scaled by the diagonal of the Hessian.
            level = 0.25 * weight.sum(axis=1, keepdims=True) / samples.weight.sum()
            unit = 1.0 / np.sqrt(np.maximum(level * self.spectrum + ridge, 1e-300))

            def cost(flat: Array) -> tuple[float, Array]:
                # A row of weight c and weighted targets t costs c log(1 + e^s) − t s.
                coef = unit * flat.reshape(shape)
                s = coef @ X.T
                value = -np.vdot(weight, log_expit(-s)) - np.vdot(target, s)
                value += 0.5 * np.sum(coef**2 @ ridge)
                gradient = (weight * expit(s) - target) @ X + ridge * coef
                return float(value), (unit * gradient).ravel()

            flat = (mixture.components / unit).ravel()
            options = {"maxiter": 10, "ftol": 0.0, "gtol": 1e-12}
            flat = minimize(cost, flat, jac=True, method="L-BFGS-B", options=options).x
            coef = unit * flat.reshape(shape)
        else:
            systems = X.T @ (weight[:, :, np.newaxis] * X) + np.diag(ridge)
            pairs = zip(systems, target @ X, strict=True)
            # The shortest solution where components have too few samples.
            coef = np.array([np.linalg.lstsq(A, b, rcond=1e-13)[0] for A, b in pairs])
        moved = self.at(coef, mixture.weights)
        return moved._replace(variance=samples.learn_variance(moved.scores, q))


@dataclass(frozen=True, eq=False)
class MixtureModel:
    """Means of probabilities of a class, by each task's mixing weights."""

    components: LinearModel
    weights: Array  # π (m, M)

    def in_user_units(self, scale: Array) -> Self:
        return replace(self, components=self.components.in_user_units(scale))

    def scores(self, X: Matrix, i: int) -> Array:
        """Log-odds of Σ π_k expit(s_k)."""
        s = np.asarray((X @ self.components.coef.T + self.components.intercept).T)
        log = log_weights(self.weights[i])[:, np.newaxis]
        positive = logsumexp(log + log_expit(s), axis=0)
        return np.asarray(positive - logsumexp(log + log_expit(-s), axis=0))
