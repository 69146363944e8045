"""½ Ω² + C/2 ‖residuals‖² by reweighting: ridge regressions between new weights.

At given weights the norm is a quadratic, and the coefficients are those of a ridge
regression with kernels between tasks; at given coefficients the best weights have a
closed form. Both lower the objective. A few steps show where the weights are heading:
guesses are tried, and taken back where the objective rises.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from priormtl._arrays import Array
from priormtl.baselines.lattice.anderson import Anderson
from priormtl.baselines.lattice.lattice_norm import LatticeNorm
from priormtl.baselines.lattice.task_curvature import TaskCurvature
from priormtl.baselines.lattice.task_ridge import RidgePoint, solve_ridge

__all__ = ["LatticePoint", "LatticeProblem", "reweight"]

ROUNDING = 1e-13  # relative to the objective at zero, below which gaps mean nothing
LOOSEST = 1e-2  # relative gap above which ridge regressions are not solved more loosely
INNER_SHARE = 1e-2  # of the squared relative gap that a ridge regression may be off
FINEST = 1e-26  # of the objective at zero: squares of residuals at rounding
MOST_INNER = 1000
SMOOTHING = 0.1  # of the relative gap, that unused groups may cost together
LEAST, MOST = 1e-14, 1e-6  # bounds of what one of them may
FRESH = 0.1  # share of starting weights in those from another strength
MOST_RISE, MOST_FALL = 1.0, 10.0  # logarithms of a guessed weight to the next one's


@dataclass(frozen=True, eq=False)
class LatticePoint:
    """Coefficients at given weights, and how good they are."""

    weights: Array  # κ (k, g)
    ridge: RidgePoint
    squares: Array  # D (k, g)
    lengths: Array  # Θ (k, g)
    objective: float
    dual: float  # best lower bound so far

    @property
    def gap(self) -> float:
        """How far the optimum can be below, at most."""
        return max(0.0, self.objective - self.dual)


@dataclass(frozen=True, eq=False)
class LatticeProblem:
    """Minimise ½ Ω² + C/2 Σ ‖X_i w_i − y_i‖²."""

    curvature: TaskCurvature
    norm: LatticeNorm
    C: float

    @property
    def unit(self) -> float:
        """Objective at zero."""
        return 0.5 * self.C * self.curvature.constant

    def start(self, last: LatticePoint | None) -> LatticePoint:
        """Starting weights, mixed with those of another problem's solution."""
        shape = len(self.curvature.blocks), len(self.norm.groups)
        weights, inner = self.norm.weights(np.zeros(shape)), None
        if last is not None:
            weights = (1.0 - FRESH) * last.weights + FRESH * weights
            inner = last.ridge.inner
        return self.at(weights, inner, self._accuracy(1.0))

    def at(self, weights: Array, inner: Array | None, accuracy: float) -> LatticePoint:
        """Solve the ridge regression of these weights, and look at its solution."""
        curvature, norm = self.curvature, self.norm
        start = np.zeros_like(curvature.linear) if inner is None else inner
        ridge = solve_ridge(
            curvature,
            self.C,
            norm.kernels(weights),
            start,
            accuracy=accuracy,
            max_iter=MOST_INNER,
        )
        squares = norm.dual_squares(ridge.inner, curvature.blocks)
        lengths = weights * np.sqrt(squares)
        objective = ridge.misfit + 0.5 * norm.value(lengths) ** 2
        return LatticePoint(
            weights, ridge, squares, lengths, objective, self._dual(ridge, lengths)
        )

    def follow(self, point: LatticePoint, weights: Array) -> LatticePoint:
        """Move to other weights, as exactly as the gap is worth."""
        accuracy = self._accuracy(_relative_gap(point))
        accuracy *= point.objective / (self.unit or 1.0)
        moved = self.at(weights, point.ridge.inner, max(accuracy, FINEST * self.unit))
        return replace(moved, dual=max(moved.dual, point.dual))

    def next_weights(self, point: LatticePoint) -> Array:
        """Best weights, but none so small that its group could not return."""
        share = SMOOTHING * _relative_gap(point) / len(self.norm.groups)
        least = float(np.clip(share, LEAST, MOST))
        return self.norm.weights(point.lengths, least)

    def is_solved(self, point: LatticePoint, tol: float) -> bool:
        """Whether the gap is at most ``tol`` times the objective, or rounding."""
        return point.gap <= max(tol * point.objective, ROUNDING * self.unit)

    def _accuracy(self, relative: float) -> float:
        return INNER_SHARE * min(relative, LOOSEST) ** 2 * self.unit

    def _dual(self, ridge: RidgePoint, lengths: Array) -> float:
        """Dual value at the best multiple of the residuals."""
        squares = self.norm.dual_squares(ridge.pull, self.curvature.blocks)
        bound = self.norm.dual_bound(np.sqrt(squares), lengths)
        height = 2.0 * ridge.misfit + bound**2
        return 0.5 * ridge.agreement**2 / height if height > 0 else 0.0


def _relative_gap(point: LatticePoint) -> float:
    return point.gap / point.objective if point.objective > 0 else 0.0


def reweight(
    problem: LatticeProblem, last: LatticePoint | None = None
) -> Iterator[LatticePoint]:
    """Better and better points, beginning near another problem's solution."""
    point = problem.start(last)
    memory = Anderson()
    while True:
        yield point
        plain = problem.next_weights(point)
        logs = np.log(point.weights).ravel()
        memory = memory.remember(logs, np.log(plain).ravel() - logs)
        guess = memory.guess(np.sqrt(point.weights * point.squares).ravel())
        if guess is not None:
            tried = problem.follow(point, _near(guess, plain))
            if tried.objective <= (1.0 + ROUNDING) * point.objective:
                point = tried
                continue
            memory = Anderson()
            point = replace(point, dual=tried.dual)
        point = problem.follow(point, plain)


def _near(guess: Array, plain: Array) -> Array:
    """Guessed weights, kept from leaving what is known too far."""
    change = guess.reshape(plain.shape) - np.log(plain)
    return plain * np.exp(np.clip(change, -MOST_FALL, MOST_RISE))
