"""Samples of all tasks over distinct rows, their features and their response.

A row that occurs in twenty tasks is stored once with twenty samples, so that products
with the features are computed once for it. ``Features`` holds the distinct rows in
coordinates in which the Hessians of linear components are close to diagonal.
A response is the distribution of a target given its score s, an exponential family with
log-partition A: a row of total weight c and weighted targets t costs c A(s) − t s.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, hstack, issparse
from scipy.special import expit, log_expit

from priormtl._arrays import Array, Index, Matrix
from priormtl._lazy import cached_property
from priormtl.baselines.base import find_distinct
from priormtl.data import StackedRows, TaskData

LARGEST_DENSE = 10**7  # numbers up to which sparse features are made dense
SVD_WORK = 3e8  # multiplications up to which a singular value decomposition is used
VARIANCE_FLOOR = 1e-6  # of the targets' variance: smallest variance of the noise


@dataclass(frozen=True, eq=False)
class Samples:
    """N samples, each with its distinct row of X and its task."""

    X: Matrix  # (r, d)
    row: Index  # (N,)
    task: Index  # (N,)
    y: Array  # (N,)
    weight: Array  # (N,), positive
    n_tasks: int

    @cached_property
    def total(self) -> float:
        return float(self.weight.sum())

    @cached_property
    def row_weight(self) -> Array:
        return self.sum_by_row(self.weight[np.newaxis])[0]

    @cached_property
    def task_weight(self) -> Array:
        return self.sum_by_task(self.weight[np.newaxis])[0]

    def sum_by_row(self, values: Array) -> Array:
        """Sums over the samples of each distinct row: (k, N) to (k, r)."""
        n_rows = int(self.X.shape[0])
        return np.array([np.bincount(self.row, v, n_rows) for v in values])

    def sum_by_task(self, values: Array) -> Array:
        """Sums over the samples of each task: (k, N) to (k, m)."""
        return np.array([np.bincount(self.task, v, self.n_tasks) for v in values])


def gather_samples(data: TaskData) -> Samples:
    """Samples of either layout; equal stacked rows become one."""
    m = data.shape[1]
    if issparse(data.X) and data.X.shape[0] * data.X.shape[1] <= LARGEST_DENSE:
        data = data.with_matrix(data.X.toarray())
    if isinstance(data, StackedRows):
        X, (first, row) = data.X, find_distinct(data.X)
        if len(first) == len(row):  # all differ: keep their order
            row = np.arange(len(row))
        else:
            X = X[first]
        task = np.repeat(np.arange(m), np.diff(data.starts))
        return Samples(X, row, task, data.y, data.weight, m)
    weight = np.broadcast_to(data.weight, data.y.shape)
    row, task = np.nonzero(weight)
    return Samples(data.X, row, task, data.y[row, task], weight[row, task], m)


# Features


@dataclass(frozen=True, eq=False)
class Features:
    """Distinct rows in the coordinates of the components; a constant column is last."""

    matrix: Matrix  # (r, p)
    basis: Array | None  # (d, q) orthonormal; None: the coordinates are the features
    shift: Array  # (d,) subtracted from the features
    penalised: Array  # (p,) 1, and 0 for the constant column
    spectrum: Array  # (p,) weighted sums of squares

    @property
    def has_constant(self) -> bool:
        return bool(self.penalised[-1] == 0)

    def to_features(self, coef: Array) -> tuple[Array, Array]:
        """Coefficients (M, d) of the original features, and intercepts (M,)."""
        slope, constant = coef, np.zeros(len(coef))
        if self.has_constant:
            slope, constant = coef[:, :-1], coef[:, -1]
        if self.basis is not None:
            slope = slope @ self.basis.T
        return np.ascontiguousarray(slope), constant - slope @ self.shift

    def from_features(self, coef: Array, intercept: Array) -> Array:
        """Inverse of ``to_features``, up to directions in which rows do not vary."""
        slope = coef if self.basis is None else coef @ self.basis
        if not self.has_constant:
            return slope
        return np.column_stack([slope, intercept + coef @ self.shift])


def plain_features(samples: Samples, *, fit_intercept: bool) -> Features:
    shift = np.zeros(samples.X.shape[1])
    return _with_constant(samples, samples.X, None, shift, fit_intercept)


def rotated_features(samples: Samples, *, fit_intercept: bool) -> Features:
    """Principal axes: centred and uncorrelated over all tasks.

    There are at most as many coordinates as rows, and the norm of coefficients is
    preserved. Sparse features are not rotated.
    """
    if issparse(samples.X):
        return plain_features(samples, fit_intercept=fit_intercept)
    weight = samples.row_weight
    shift = np.zeros(samples.X.shape[1])
    if fit_intercept:
        shift = weight @ samples.X / samples.total
    X = samples.X - shift
    basis = _principal_axes(X * np.sqrt(weight / samples.total)[:, np.newaxis])
    return _with_constant(samples, X @ basis, basis, shift, fit_intercept)


def _principal_axes(X: Array) -> Array:
    """Orthonormal directions (d, q) in which rows of X differ from zero."""
    r, d = X.shape
    epsilon = float(np.finfo(float).eps)
    if r < d or r * d * d <= SVD_WORK:
        _, values, vectors = np.linalg.svd(X, full_matrices=False)
        return vectors[values > max(r, d) * epsilon * values[0]].T
    squares, axes = np.linalg.eigh(X.T @ X)
    return axes[:, squares > d * epsilon * squares[-1]]


def _with_constant(
    samples: Samples, X: Matrix, basis: Array | None, shift: Array, fit_intercept: bool
) -> Features:
    penalised = np.ones(X.shape[1])
    if fit_intercept:
        ones = np.ones((X.shape[0], 1))
        X = csr_array(hstack([X, ones])) if issparse(X) else np.hstack([X, ones])
        penalised = np.append(penalised, 0.0)
    squares = X.multiply(X) if issparse(X) else X**2
    spectrum = np.asarray(samples.row_weight @ squares)
    return Features(X, basis, shift, penalised, spectrum)


# Responses


class Gaussian:
    """Real targets with noise of one variance.

    Targets t, log-partition A, mean A' and curvature A'' are functions of samples (N,)
    or scores; scores (M, r) are those of M components at the distinct rows.
    """

    is_quadratic = True

    def targets(self, samples: Samples) -> Array:
        return samples.y

    def log_partition(self, scores: Array) -> Array:
        return 0.5 * scores**2

    def mean(self, scores: Array) -> Array:
        return scores

    def curvature(self, scores: Array) -> Array:
        return np.ones_like(scores)

    def log_density(self, samples: Samples, scores: Array, variance: float) -> Array:
        """log p(y | s_k) = −(y − s)²/(2 variance) − log(2π variance)/2 (M, N)."""
        constant = 0.5 * np.log(2.0 * np.pi * variance)
        return -0.5 / variance * (samples.y - scores[:, samples.row]) ** 2 - constant

    def learn_variance(
        self, samples: Samples, scores: Array, responsibility: Array
    ) -> float:
        """Mean squared residual, at least VARIANCE_FLOOR of the targets' variance."""
        weight = responsibility * samples.weight
        squares = (samples.y - scores[:, samples.row]) ** 2
        found = float(np.vdot(weight, squares)) / float(weight.sum())
        mean = float(samples.weight @ samples.y) / samples.total
        spread = float(samples.weight @ (samples.y - mean) ** 2) / samples.total
        if spread <= np.finfo(float).eps * mean**2:  # constant targets
            spread = mean**2 or 1.0
        return max(found, VARIANCE_FLOOR * spread)


class Bernoulli:
    """Classes −1 and +1; the score is the log-odds."""

    is_quadratic = False

    def targets(self, samples: Samples) -> Array:
        return (samples.y > 0).astype(float)

    def log_partition(self, scores: Array) -> Array:
        return np.asarray(-log_expit(-scores))

    def mean(self, scores: Array) -> Array:
        return np.asarray(expit(scores))

    def curvature(self, scores: Array) -> Array:
        return np.asarray(expit(scores) * expit(-scores))

    def log_density(self, samples: Samples, scores: Array, variance: float) -> Array:
        """log p(y | s_k) = −log(1 + exp(−y s)), computed once per distinct row."""
        positive, negative = log_expit(scores), log_expit(-scores)
        row = samples.row
        return np.where(samples.y > 0, positive[:, row], negative[:, row])

    def learn_variance(
        self, samples: Samples, scores: Array, responsibility: Array
    ) -> float:
        return 1.0


Response = Gaussian | Bernoulli


@dataclass(frozen=True, eq=False)
class BoundSamples:
    """What no setting of the mixture changes."""

    samples: Samples
    response: Response
    rotate: bool
    fit_intercept: bool

    @cached_property
    def features(self) -> Features:
        """Rotated for speed, or as they are where gradient steps must be published."""
        make = rotated_features if self.rotate else plain_features
        return make(self.samples, fit_intercept=self.fit_intercept)

    @cached_property
    def curvature(self) -> float:
        """Mean second derivative of the negative log-likelihood in a coefficient."""
        penalised = self.features.penalised > 0
        spread = float(np.sum(self.features.spectrum[penalised]))
        n_rows, n_features = self.samples.X.shape
        noise = self.response.learn_variance(
            self.samples, np.zeros((1, n_rows)), np.ones((1, len(self.samples.y)))
        )
        curvature = float(self.response.curvature(np.zeros(1))[0])
        return (spread * curvature / noise / n_features) or 1.0
