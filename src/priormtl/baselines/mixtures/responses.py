"""Responses: how targets scatter around scores, as exponential families.

A row of weight c and weighted targets t costs c A(s) − t s at the score s.
"""

from typing import Protocol

import numpy as np
from scipy.special import expit, log_expit

from priormtl._arrays import Array
from priormtl.baselines.mixtures.cells import Cells

__all__ = ["Bernoulli", "Gaussian", "Response"]

FLOOR = 1e-6  # of the targets' variance, below which noise is not believed


class Response(Protocol):
    """Distribution of a target, given its score."""

    is_quadratic: bool

    def targets(self, cells: Cells) -> Array:
        """What t sums (N,)."""

    def potential(self, scores: Array) -> Array:
        """A(s)."""

    def mean(self, scores: Array) -> Array:
        """A'(s), the expected target."""

    def curvature(self, scores: Array) -> Array:
        """A''(s)."""

    def log_density(self, cells: Cells, scores: Array, variance: float) -> Array:
        """Log p(y | s_k) of every cell (M, N), from scores of the rows (M, r)."""

    def learn_variance(self, cells: Cells, scores: Array, part_of: Array) -> float:
        """Best variance of the noise, where (M, N) says whose the cells are."""


class Gaussian:
    """Numbers with noise of one variance."""

    is_quadratic = True

    def targets(self, cells: Cells) -> Array:
        """The numbers themselves."""
        return cells.y

    def potential(self, scores: Array) -> Array:
        """s²/2."""
        return 0.5 * scores**2

    def mean(self, scores: Array) -> Array:
        """The score itself."""
        return scores

    def curvature(self, scores: Array) -> Array:
        """One."""
        return np.ones_like(scores)

    def log_density(self, cells: Cells, scores: Array, variance: float) -> Array:
        """−(y − s)²/(2 variance) − log(2π variance)/2."""
        constant = 0.5 * np.log(2.0 * np.pi * variance)
        return -0.5 / variance * _squares(cells, scores) - constant

    def learn_variance(self, cells: Cells, scores: Array, part_of: Array) -> float:
        """Mean square of what is left, not below the floor."""
        counted = part_of * cells.weight
        left = float(np.vdot(counted, _squares(cells, scores))) / float(counted.sum())
        return max(left, _floor(cells))


class Bernoulli:
    """Classes −1 and +1, whose log-odds are the score."""

    is_quadratic = False

    def targets(self, cells: Cells) -> Array:
        """One for the positive class."""
        return (cells.y > 0).astype(float)

    def potential(self, scores: Array) -> Array:
        """log(1 + exp(s))."""
        return np.asarray(-log_expit(-scores))

    def mean(self, scores: Array) -> Array:
        """Probability of the positive class."""
        return np.asarray(expit(scores))

    def curvature(self, scores: Array) -> Array:
        """Variance of the class."""
        return np.asarray(expit(scores) * expit(-scores))

    def log_density(self, cells: Cells, scores: Array, variance: float) -> Array:
        """−log(1 + exp(−y s)), made row by row before it is dealt to cells."""
        positive, negative = log_expit(scores), log_expit(-scores)
        row = cells.row
        return np.where(cells.y > 0, positive[:, row], negative[:, row])

    def learn_variance(self, cells: Cells, scores: Array, part_of: Array) -> float:
        """One: there is none to learn."""
        return 1.0


def _squares(cells: Cells, scores: Array) -> Array:
    return (cells.y - scores[:, cells.row]) ** 2


def _floor(cells: Cells) -> float:
    """Least variance: a millionth of the targets', or of their size if they agree."""
    mean = cells.mean(cells.y)
    spread = cells.mean((cells.y - mean) ** 2)
    agree = spread <= np.finfo(float).eps * mean**2
    return FLOOR * ((mean**2 or 1.0) if agree else spread)
