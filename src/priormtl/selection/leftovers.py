"""Leftover: what common coefficients leave of tasks, and how far beyond chance it is.

In the axes of a task's curvature, of values λ, its pull has squares of about
σ²λ + τ²λ² where rows have noise σ and the task's coefficients differ by τ.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from priormtl._arrays import Array, Index
from priormtl.losses import SquaredFit

__all__ = ["Leftover"]

LOST_AXES = 6.0  # variation may live in a sixth of the axes, noise is in all
FEWEST_FREE = 10.0  # rows beyond coefficients from which noise can be told
WIDEST = 30.0  # of log τ²λ/σ², to both sides
FLAT = 1e-9  # relative, below which an axis has no curvature

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Leftover:
    """Squared pulls of tasks in the axes of their curvature."""

    values: Array  # λ (m, r), 1 where an axis is flat
    squares: Array  # (m, r), 0 there
    axes: Index  # (m,) that are not flat; none: the task cannot be judged
    noise: float | None  # σ²; None where rows are too few to tell

    @classmethod
    def at(
        cls, fit: SquaredFit, coef: Array, share: Array, noise: float | None
    ) -> Self:
        """Look at common coefficients.

        ``share`` is the variance of each task's pull, relative: below 1 where the task
        had a say in them, infinite where nothing can be said. ``noise`` is σ², if the
        loss knows it.
        """
        modes, m = fit.modes, fit.shape[1]
        values = np.broadcast_to(modes.values, (m, modes.values.shape[1]))
        seen = values > FLAT * values.max(axis=1, initial=0.0, keepdims=True)
        seen &= np.isfinite(share)[:, np.newaxis]
        values = np.where(seen, values, 1.0)
        squares = np.where(seen, modes.turn(fit.evaluate(coef).gradient) ** 2, 0.0)
        axes = seen.sum(axis=1)
        if noise is None:
            rest = _misfits(fit, coef) - np.sum(squares / values, axis=1)
            noise = _noise_variance(rest, fit.moments.weight - axes - 1.0, axes > 0)
        usual = np.where(np.isfinite(share), share, 1.0)
        return cls(values, squares / usual[:, np.newaxis], axes, noise)

    def scores(self, judging: Mask) -> Array:
        """About standard normal where tasks differ as those do that judge (m,).

        −∞ for tasks that cannot be judged.
        """
        if not np.any(judging & (self.axes > 0)):
            return np.full(len(self.axes), -np.inf)
        noise, spread = self.noise_variance(judging), self._spread(judging)
        width = 1.0 + (LOST_AXES - 1.0) * self._share_varied(noise, spread)
        return self._normal(noise, spread) / np.sqrt(width)

    def noise_variance(self, judging: Mask) -> float:
        """σ², or where rows are too few for it, what explains the median task."""
        if self.noise is not None:
            return self.noise
        judges = judging & (self.axes > 0)
        axes = self.axes[judges]
        if not len(axes):
            return 1.0
        usual = axes * (1.0 - 2.0 / (9.0 * axes)) ** 3  # median of χ²
        found = float(np.median(self._sums(1.0, 0.0)[judges] / usual))
        return found if found > 0 else 1.0

    def _share_varied(self, noise: float, spread: float) -> Array:
        """Share of squares that are variation; all where noise cannot be told."""
        if self.noise is None:
            return np.ones(len(self.axes))
        varied = spread * self.values / (noise + spread * self.values)
        inside = np.where(self.squares > 0, varied, 0.0).sum(axis=1)
        return np.asarray(inside / np.maximum(self.axes, 1))

    def _spread(self, judging: Mask) -> float:
        """τ² at which the median task is where it should be."""
        if self.noise is None:
            return 0.0
        noise, judges = self.noise, judging & (self.axes > 0)

        def middle(log: float) -> float:
            return float(np.median(self._normal(noise, float(np.exp(log)))[judges]))

        usual = float(np.log(noise / np.median(self.values[judges])))
        low, high = usual - WIDEST, usual + WIDEST
        if middle(low) <= 0:
            return 0.0
        return float(np.exp(high if middle(high) > 0 else brentq(middle, low, high)))

    def _normal(self, noise: float, spread: float) -> Array:
        """Sums of squares as normal numbers, by cube roots (Wilson and Hilferty)."""
        axes = np.maximum(self.axes, 1)
        width = 2.0 / (9.0 * axes)
        roots = np.cbrt(self._sums(noise, spread) / axes)
        return np.where(self.axes > 0, (roots - (1 - width)) / np.sqrt(width), -np.inf)

    def _sums(self, noise: float, spread: float) -> Array:
        usual = noise * self.values + spread * self.values**2
        return np.asarray(np.sum(self.squares / usual, axis=1))


def _noise_variance(rest: Array, free: Array, seen: Mask) -> float | None:
    """σ² of what no coefficients explain; None where rows are too few."""
    usable = (free > 0) & seen
    if free[usable].sum() < FEWEST_FREE:
        return None
    variance = float(rest[usable].sum() / free[usable].sum())
    return variance if variance > 0 else None


def _misfits(fit: SquaredFit, coef: Array) -> Array:
    """Sums of squared residuals (m,)."""
    data = fit.moments
    curved = np.sum(coef * (data.gram_product(coef) - 2.0 * data.xy.T), axis=0)
    mean = data.y_mean - np.sum(data.x_mean.T * coef, axis=0) - fit.intercept(coef)
    return np.asarray(data.yy + curved + data.weight * mean**2)
