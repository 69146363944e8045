"""Evidence: what the rows say about coefficients when nothing else may speak.

A relation is judged by estimates that neither the prior nor the row penalty has
bent: the first would hide what is asked about, the second shrinks coefficients that
are equal by unequal amounts. So P is estimated anew from the rows and the ties between
tasks alone, with just as much ridge as the size of the coefficients themselves
suggests (the one under which the rows are most likely); then their spread under
repetition tells disagreement from chance.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, cg

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.graphs import Laplacian
from priormtl.problem import Point, Problem

__all__ = ["Curvature", "Evidence", "gather_evidence", "task_grams"]

GRID = 10.0 ** np.arange(-4.0, 2.5)  # ridges and ties, in units of the rows' curvature
FEWEST_LEFT = 0.1  # share of rows that must be left over to tell the noise
MOST_MODES = 16  # distinct strengths of ties for which systems are solved
LARGEST_GRAPH = 2000  # tasks up to which any graph's modes are computed


@dataclass(frozen=True, eq=False)
class Curvature:
    """How sharply rows, ties and ridge determine coefficients, task mode by task mode.

    The tasks' Gram matrices are taken as equal to their mean; modes of the task graph
    then decide on their own.
    """

    gram: Array  # (d, d) mean over tasks
    ties: Array  # (d,) epsilon times tie weights
    values: Array  # (m,) eigenvalues of the task graph, few of them distinct
    vectors: Array  # (m, m)
    ridge: Array  # (d,)

    @cached_property
    def modes(self) -> list[tuple[np.ndarray, Array, Any]]:
        """Which modes are alike, their ties (d,), and the factors of their matrix."""
        found = []
        for value in np.unique(self.values):
            ties = value * self.ties
            factor = cho_factor(self.gram + np.diag(self.ridge + ties))
            found.append((self.values == value, ties, factor))
        return found

    def solve(self, R: Array) -> Array:
        """H⁻¹ R for R (d, m) over tasks."""
        turned = R @ self.vectors
        for same, _, factor in self.modes:
            turned[:, same] = cho_solve(factor, turned[:, same])
        return np.asarray(turned @ self.vectors.T)

    def degrees(self) -> float:
        """Number of rows that the estimates use up."""
        return sum(
            same.sum() * float(np.trace(cho_solve(factor, self.gram)))
            for same, _, factor in self.modes
        )

    def shrinkage(self) -> float:
        """Half the log of how much smaller the rows make the coefficients' spread."""
        return sum(
            same.sum()
            * float(
                np.sum(np.log(np.diag(factor[0])) - 0.5 * np.log(self.ridge + ties))
            )
            for same, ties, factor in self.modes
        )


@dataclass(frozen=True, eq=False)
class Evidence:
    """Estimates that are free of the prior, and what they may vary by."""

    features: Index  # which rows of P these are
    coef: Array  # (d, m)
    noise: float  # variance of targets about their mean; 1 for logistic loss
    curvature: Curvature  # with the ridge: noise over the variance of coefficients


def gather_evidence(
    problem: Problem,
    coef: Array,
    features: Index,
    scale: Array,
    *,
    n_rows: float,
    n_intercepts: int,
) -> Evidence:
    """Estimate coefficients anew; ``coef`` is where the loss is linearised.

    ``features`` must hold all that are not zero there; ``scale`` are the features'
    standard deviations, in whose units coefficients are of one size.
    """
    part = problem.restrict(features).with_strengths(lam=0.0, theta=0.0)
    start = part.at(np.ascontiguousarray(coef[features]))
    curvature = _curvature(part, _mean_gram(part, start))
    unit = np.where(scale[features] > 0, scale[features], 1.0)
    size = float(np.mean(np.diag(curvature.gram) / unit**2)) or 1.0
    degrees = max(1.0, n_rows - n_intercepts)
    rows = _Rows(part, start, curvature, degrees)
    best = max((rows.weigh(share * size * unit**2, 1.0) for share in GRID), key=_likely)
    if part.prior.epsilon > 0 and not part.prior.laplacian.is_zero:
        # Ties that are far too strong or too weak would blame the wrong relations.
        unit_tie = float(np.mean(np.diag(curvature.gram))) / part.prior.epsilon
        tries = [rows.weigh(best.ridge, share * unit_tie) for share in GRID]
        best = max([best, *tries], key=_likely)
        factor = best.tie_factor
        tries = [rows.weigh(share * size * unit**2, factor) for share in GRID]
        best = max([best, *tries], key=_likely)
    return rows.conclude(best, features)


class _Trial(NamedTuple):
    """Estimates under one ridge and one strength of ties."""

    likelihood: float  # log, of the rows, P averaged out
    ridge: Array
    tie_factor: float  # times epsilon
    coef: Array
    noise: float


def _likely(trial: _Trial) -> float:
    return trial.likelihood


class _Rows(NamedTuple):
    """The loss near one point, whose ridge and ties are yet to be found."""

    problem: Problem
    start: Point
    curvature: Curvature
    degrees: float  # rows less intercepts

    def weigh(self, ridge: Array, tie_factor: float) -> _Trial:
        """Estimate P, and find how likely that makes the rows."""
        tied = self._tied(tie_factor, ridge)
        coef = _estimate(tied.problem, tied.start, tied.curvature)
        point = tied.problem.at(coef)
        lowest = point.value + 0.5 * float(np.sum(ridge[:, np.newaxis] * coef**2))
        shrinkage = tied.curvature.shrinkage()
        if not tied.problem.fit.is_quadratic:
            return _Trial(-lowest - shrinkage, ridge, tie_factor, coef, 1.0)
        noise = 2.0 * lowest / self.degrees or 1.0  # all targets are equal
        likelihood = -0.5 * self.degrees * float(np.log(noise)) - shrinkage
        return _Trial(likelihood, ridge, tie_factor, coef, noise)

    def conclude(self, trial: _Trial, features: Index) -> Evidence:
        """Evidence of the best trial; of two estimates of the noise the larger."""
        tied = self._tied(trial.tie_factor, trial.ridge)
        noise = trial.noise
        left = self.degrees - tied.curvature.degrees()
        if tied.problem.fit.is_quadratic and left > FEWEST_LEFT * self.degrees:
            misfit = 2.0 * tied.problem.at(trial.coef).fit.value
            noise = max(noise, misfit / left)
        return Evidence(features, trial.coef, noise, tied.curvature)

    def _tied(self, factor: float, ridge: Array) -> "_Rows":
        epsilon = factor * self.problem.prior.epsilon
        problem = self.problem.with_strengths(lam=0.0, epsilon=epsilon)
        start = problem.at(self.start.coef)
        ties = factor * self.curvature.ties
        curvature = replace(self.curvature, ties=ties, ridge=ridge)
        return _Rows(problem, start, curvature, self.degrees)


def _estimate(problem: Problem, start: Point, curvature: Curvature) -> Array:
    """One Newton step with ridge; exact for squared loss."""
    shape = problem.shape
    column = curvature.ridge[:, np.newaxis]

    def multiply(v: Array) -> Array:
        V = v.reshape(shape)
        return np.asarray(problem.hessian(start, V) + column * V).ravel()

    def precondition(v: Array) -> Array:
        return curvature.solve(v.reshape(shape)).ravel()

    size = shape[0] * shape[1]
    right = -(start.gradient + column * start.coef).ravel()
    system = LinearOperator((size, size), matvec=multiply, dtype=np.float64)
    guess = LinearOperator((size, size), matvec=precondition, dtype=np.float64)
    step, _ = cg(system, right, rtol=1e-8, maxiter=500, M=guess)
    return start.coef + np.asarray(step).reshape(shape)


def task_grams(problem: Problem, point: Point) -> Iterator[Array]:
    """Hessians of the tasks' fits, feature by feature: (d, m) each."""
    d, m = problem.shape
    for j in range(d):
        V = np.zeros((d, m))
        V[j] = 1.0
        yield problem.fit.hessian(point.fit, V)


def _mean_gram(problem: Problem, point: Point) -> Array:
    columns = [column.mean(axis=1) for column in task_grams(problem, point)]
    gram = np.array(columns)
    return 0.5 * (gram + gram.T)


def _curvature(problem: Problem, gram: Array) -> Curvature:
    prior = problem.prior
    d = problem.shape[0]
    weights = np.ones(d) if prior.tie_weights is None else prior.tie_weights
    values, vectors = _modes(prior.laplacian)
    ties = prior.epsilon * weights
    return Curvature(gram, ties, _few(values), vectors, np.zeros(d))


def _modes(ties: Laplacian) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of the task graph; of its mean for huge graphs."""
    if ties.is_zero:
        return np.zeros(ties.m), np.eye(ties.m)
    known = ties.modes
    if known is not None:
        return known
    if ties.m <= LARGEST_GRAPH:
        values, vectors = np.linalg.eigh(ties.dense())
        return np.maximum(values, 0.0), vectors
    return np.full(ties.m, ties.degree.mean()), np.eye(ties.m)


def _few(values: Array) -> Array:
    """Eigenvalues rounded to a few that are distinct, zero kept."""
    if len(np.unique(values)) <= MOST_MODES:
        return values
    largest = float(values.max())
    positive = values > 1e-12 * largest
    low = float(np.log(values[positive].min()))
    step = (np.log(largest) - low) / (MOST_MODES - 2)
    with np.errstate(divide="ignore"):
        places = np.round((np.log(values) - low) / step)
    return np.where(positive, np.exp(low + step * np.where(positive, places, 0.0)), 0.0)
