"""Linear components: M linear or logistic models over shared rows, fitted at once."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import diags_array, issparse

from priormtl._arrays import Array
from priormtl._lazy import cached_property
from priormtl.baselines.mixtures.cells import Cells
from priormtl.baselines.mixtures.conjugate import conjugate_gradients
from priormtl.baselines.mixtures.features import Features
from priormtl.baselines.mixtures.responses import Response

__all__ = ["Counts", "LinearFamily", "LinearParts"]

DIRECT_SIZE = 2000  # coordinates up to which normal equations are written out
MOST_PRODUCTS = 30  # of conjugate gradients per Newton step
FORCING = 0.3  # how much of the gradient a Newton step may leave
EXACT, MANY_PRODUCTS = 1e-10, 1000  # the same for normal equations
MOST_HALVINGS = 20
FIRST_STEPS = 4  # of Newton's method, before components are first compared
APART = 0.2  # how far first components lie apart, in units of the noise
VANISHING = 1e-13  # relative size below which curvature counts as none


@dataclass(frozen=True, eq=False)
class LinearParts:
    """M linear components."""

    coef: Array  # (M, p) in the coordinates of the features
    scores: Array  # (M, r) of all rows
    variance: float  # of the noise; 1 for classes


class Counts(NamedTuple):
    """What the M-step needs of the cells."""

    weight: Array  # c (M, r)
    target: Array  # t (M, r)


@dataclass(frozen=True, eq=False)
class LinearFamily:
    """Linear scores of the features, with a ridge penalty ρ/2 ‖θ‖²."""

    cells: Cells
    features: Features
    response: Response
    ridge: float

    def at(self, coef: Array, variance: float = 1.0) -> LinearParts:
        """Components with these coefficients."""
        return LinearParts(coef, self.multiply(coef), variance)

    def log_density(self, parts: LinearParts) -> Array:
        """Log p(y | x, θ_k) of every cell (M, N)."""
        return self.response.log_density(self.cells, parts.scores, parts.variance)

    def penalty(self, parts: LinearParts) -> float:
        """ρ/2 ‖θ‖², without intercepts."""
        return 0.5 * self.ridge * float(np.sum(parts.coef**2 @ self.features.penalised))

    def improve(self, parts: LinearParts, part_of: Array) -> LinearParts:
        """Coefficients at the old variance, then the variance."""
        return self.learn_variance(self.solve(parts, part_of), part_of)

    def start(self, part_of: Array, rng: np.random.Generator) -> LinearParts:
        """Components that fit these cells, moved apart."""
        M, p = len(part_of), len(self.features.penalised)
        parts = self.at(np.zeros((M, p)))
        for _ in range(1 if self.response.is_quadratic else FIRST_STEPS):
            parts = self.improve(parts, part_of)
        if M == 1:
            return parts
        push = self._push(M, rng) * np.sqrt(parts.variance)
        return self.learn_variance(self.at(parts.coef + push), part_of)

    def solve(self, parts: LinearParts, part_of: Array) -> LinearParts:
        """The M-step of θ: exact for squares; one Newton step for other losses.

        More of these would be wasted while the expectation moves.
        """
        counts = self.condense(part_of)
        if not self.response.is_quadratic:
            return _newton_step(self, parts, counts, FORCING, MOST_PRODUCTS)
        if len(self.features.penalised) > DIRECT_SIZE:
            return _newton_step(self, parts, counts, EXACT, MANY_PRODUCTS)
        return self._solve_directly(parts, counts)

    def learn_variance(self, parts: LinearParts, part_of: Array) -> LinearParts:
        """The M-step of the noise."""
        found = self.response.learn_variance(self.cells, parts.scores, part_of)
        return replace(parts, variance=found)

    def condense(self, part_of: Array) -> Counts:
        """Weight and weighted targets of each row, component by component."""
        counted = part_of * self.cells.weight
        targets = counted * self.response.targets(self.cells)
        return Counts(self.cells.per_row(counted), self.cells.per_row(targets))

    def multiply(self, coef: Array) -> Array:
        """Scores of all rows (M, r)."""
        return np.asarray(coef @ self.features.matrix.T)

    def adjoint(self, values: Array) -> Array:
        """Sums of x v over the rows: (M, r) to (M, p)."""
        return np.asarray(values @ self.features.matrix)

    def damping(self, variance: float) -> Array:
        """Ridge of each coordinate, where misfit is counted without the variance."""
        return self.ridge * variance * self.features.penalised

    def _solve_directly(self, parts: LinearParts, counts: Counts) -> LinearParts:
        """(Σ c x xᵀ + ρ s² I) θ = Σ t x."""
        ridge = np.diag(self.damping(parts.variance))
        pairs = zip(counts.weight, self.adjoint(counts.target), strict=True)
        coef = [_solve(self._gram(c) + ridge, t) for c, t in pairs]
        return self.at(np.array(coef), parts.variance)

    def _gram(self, weight: Array) -> Array:
        X = self.features.matrix
        if issparse(X):
            return np.asarray((X.T @ diags_array(weight) @ X).toarray())
        return np.asarray(X.T @ (weight[:, np.newaxis] * X))

    def _push(self, n_components: int, rng: np.random.Generator) -> Array:
        """Random coefficients whose scores have the size APART.

        They are drawn for the features as they came: axes may point either way.
        """
        slope = rng.standard_normal((n_components, len(self._unit))) * self._unit
        coef = self.features.enter(slope, rng.standard_normal(n_components))
        size = self.multiply(coef) ** 2 @ self.cells.row_weight / self.cells.total
        return coef * (APART / np.sqrt(np.maximum(size, 1e-300)))[:, np.newaxis]

    @cached_property
    def _unit(self) -> Array:
        """One over the deviation of each feature; 0 for a constant (d,)."""
        X, share = self.cells.X, self.cells.row_weight / self.cells.total
        squares = X.multiply(X) if issparse(X) else (X - self.features.shift) ** 2
        deviation = np.sqrt(np.asarray(share @ squares))
        moves = deviation > 0
        return np.divide(1.0, deviation, out=np.zeros(len(deviation)), where=moves)


def _newton_step(
    family: LinearFamily,
    parts: LinearParts,
    counts: Counts,
    forcing: float,
    products: int,
) -> LinearParts:
    """One Newton step of all components by conjugate gradients, never uphill."""
    response, damping = family.response, family.damping(parts.variance)
    pull = counts.weight * response.mean(parts.scores) - counts.target
    gradient = family.adjoint(pull) + damping * parts.coef
    curvature = counts.weight * response.curvature(parts.scores)

    def multiply(V: Array) -> Array:
        return family.adjoint(curvature * family.multiply(V)) + damping * V

    level = curvature.sum(axis=1, keepdims=True) / family.cells.total
    diagonal = level * family.features.spectrum + damping
    move = conjugate_gradients(
        multiply, -gradient, diagonal, forcing=forcing, products=products
    )
    return _search(family, parts, counts, move, np.sum(gradient * move, axis=1))


def _search(
    family: LinearFamily, parts: LinearParts, counts: Counts, move: Array, slope: Array
) -> LinearParts:
    """Halve each component's step until its cost falls enough; else stay."""
    turn = family.multiply(move)
    before = _cost(family, parts, counts)
    step = np.ones((len(slope), 1))
    for _ in range(MOST_HALVINGS):
        trial = _advance(parts, step, move, turn)
        after = _cost(family, trial, counts)
        failed = after > before + 1e-4 * step[:, 0] * slope
        if not np.any(failed):
            return trial
        step[failed] *= 0.5
    step[failed] = 0.0
    return _advance(parts, step, move, turn)


def _advance(parts: LinearParts, step: Array, move: Array, turn: Array) -> LinearParts:
    coef, scores = parts.coef + step * move, parts.scores + step * turn
    return replace(parts, coef=coef, scores=scores)


def _cost(family: LinearFamily, parts: LinearParts, counts: Counts) -> Array:
    """What the M-step minimises, component by component (M,)."""
    scores = parts.scores
    misfit = counts.weight * family.response.potential(scores) - counts.target * scores
    ridge = 0.5 * parts.coef**2 @ family.damping(parts.variance)
    return np.asarray(misfit.sum(axis=1) + ridge)


def _solve(matrix: Array, right: Array) -> Array:
    """Solution of least length of a system that may be singular."""
    try:
        factor = cho_factor(matrix, lower=True)
        pivots = np.diag(factor[0])
        if pivots.min() ** 2 > VANISHING * pivots.max() ** 2:
            return np.asarray(cho_solve(factor, right))
    except LinAlgError:
        pass
    values, vectors = np.linalg.eigh(matrix)
    kept = values > VANISHING * max(values[-1], 0.0)
    basis = vectors[:, kept]
    return np.asarray(basis @ ((basis.T @ right) / values[kept]))
