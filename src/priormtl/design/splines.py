"""Curves: smooth effects of a number, in a basis that suits a ridge.

A smooth effect is f(x) = β x + Σ_r γ_r f_r(x). The curves f_r ("wiggles") span cubic
splines with knots at quantiles, are orthogonal to 1 and x over the training rows, and
diagonalise both the mean of squares and the roughness ∫ f″² (the basis of Demmler and
Reinsch, 1975; Wood, *Generalized Additive Models*, 2017, section 5.4). They are sorted
from smooth to rough and scaled by the root of their roughness, so that a ridge on γ is
the roughness penalty: with an infinite ridge the effect is a straight line.
"""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.interpolate import BSpline

from priormtl._arrays import Array

# Conventions; no measurement is recorded that chose the sizes.
DEGREE = 3
MOST_WIGGLES = 8
N_HARMONICS = 5
LEAST_VALUES = 4  # fewer distinct values leave no curve beside the straight line
SINGULAR = 1e-8  # share of the largest eigenvalue below which a basis has no direction
CELLS = 400  # of the grid on which roughness is integrated


def check_period(argument: str, name: Hashable, period: Any) -> None:
    """Fail if a period is no number above zero."""
    number = isinstance(period, int | float | np.number)
    if not (number and np.isfinite(period) and period > 0):
        raise ValueError(
            f"{argument} must give a period above 0: got {period!r} for {name!r}."
        )


def check_values(argument: str, name: Hashable, count: int) -> None:
    """Fail if a column has too few distinct values for a curve."""
    if count < LEAST_VALUES:
        raise ValueError(
            f"{argument} must have at least {LEAST_VALUES} distinct values for a "
            f"curve: {name!r} has {count}. Leave it out of {argument}."
        )


class Curves(NamedTuple):
    """Wiggles of one column."""

    low: float
    width: float
    knots: Array | None  # None: periodic
    rotation: Array  # (basis, wiggles)

    @classmethod
    def fit(cls, x: Array, n_knots: int, period: float | None) -> Self:
        if period is not None:
            basis = _harmonics(x / period)
            order = np.append(0, np.repeat(np.arange(1, N_HARMONICS + 1), 2))
            # Sines count as a little rougher: else rounding turns them into cosines.
            rough = order**4.0 * (1.0 + 1e-4 * (np.arange(len(order)) % 2 == 0))
            rotation = _rotate(basis, np.diag(rough), np.ones((len(x), 1)))
            return cls(0.0, period, None, rotation)
        low, high = float(x.min()), float(x.max())
        z = (x - low) / (high - low)
        inner = np.unique(np.quantile(z, np.linspace(0.0, 1.0, n_knots)))
        inner[0], inner[-1] = 0.0, 1.0
        knots = np.concatenate([np.zeros(DEGREE), inner, np.ones(DEGREE)])
        centres = (np.arange(CELLS) + 0.5) / CELLS
        bends = _splines(knots).derivative(2)(centres)
        lines = np.column_stack([np.ones_like(z), z])
        rotation = _rotate(_splines(knots)(z), bends.T @ bends / CELLS, lines)
        return cls(low, high - low, knots, rotation)

    @classmethod
    def of(cls, low: Any, width: Any, knots: object, rotation: object) -> Self:
        """Curves from plain values, which must fit together."""
        basis = np.array(rotation, dtype=np.float64)
        points = None if knots is None else np.array(knots, dtype=np.float64)
        rows = 1 + 2 * N_HARMONICS if points is None else len(points) - DEGREE - 1
        if basis.ndim != 2 or basis.shape[0] != rows or not 0 < basis.shape[1] <= rows:
            raise ValueError("wrong shape of curves")
        sizes = [float(low), float(width), *basis.ravel().tolist()]
        if points is not None:
            sizes += points.tolist()
            if points.ndim != 1 or np.any(np.diff(points) < 0):
                raise ValueError("wrong knots of curves")
        if not np.all(np.isfinite(sizes)) or not float(width) > 0:
            raise ValueError("wrong sizes of curves")
        return cls(float(low), float(width), points, basis)

    def __call__(self, x: Array) -> Array:
        """Values (n, wiggles); beyond the training range curves go straight on."""
        z = (x - self.low) / self.width
        if self.knots is None:
            return _harmonics(z) @ self.rotation
        inside = np.clip(z, 0.0, 1.0)
        splines = _splines(self.knots)
        values = splines(inside)
        beyond = np.flatnonzero(z != inside)
        if len(beyond):
            slopes = splines.derivative()(inside[beyond])
            values[beyond] += slopes * (z - inside)[beyond, np.newaxis]
        return np.asarray(values @ self.rotation)


def _splines(knots: Array) -> BSpline:
    # Knots were checked when they were made.
    size = len(knots) - DEGREE - 1
    return BSpline.construct_fast(knots, np.eye(size), DEGREE)


def _harmonics(turns: Array) -> Array:
    """One, so that the mean can be taken away, and cosines and sines."""
    angles = 2.0 * np.pi * turns[:, np.newaxis] * np.arange(1, N_HARMONICS + 1)
    waves = np.stack([np.cos(angles), np.sin(angles)], axis=2)
    ones = np.ones((len(turns), 1))
    return np.hstack([ones, waves.reshape(len(turns), 2 * N_HARMONICS)])


def _rotate(basis: Array, roughness: Array, lines: Array) -> Array:
    """Directions that are orthogonal to lines, white, and sorted from smooth to rough.

    Each is divided by the root of its roughness, in units of the smoothest. Its last
    large entry is positive: else rounding, and so the order of rows, chooses the sign.
    """
    _, seen, turns = np.linalg.svd(lines.T @ basis / len(basis))
    away = turns[np.count_nonzero(seen > SINGULAR) :].T
    squares = away.T @ (basis.T @ basis) @ away / len(basis)
    sizes, turns = np.linalg.eigh(squares)
    known = sizes > SINGULAR * sizes[-1]
    white = away @ (turns[:, known] / np.sqrt(sizes[known]))
    bends, turns = np.linalg.eigh(white.T @ roughness @ white)
    bends, turns = bends[:MOST_WIGGLES], turns[:, :MOST_WIGGLES]
    floor = np.finfo(float).eps * bends[-1]
    shares = np.sqrt(np.maximum(bends[0], floor) / np.maximum(bends, floor))
    rotation = white @ turns * shares
    large = np.abs(rotation) >= 0.5 * np.abs(rotation).max(axis=0)
    last = len(rotation) - 1 - np.argmax(large[::-1], axis=0)
    return np.asarray(rotation * np.sign(rotation[last, np.arange(len(last))]))


class Expansion(NamedTuple):
    """How values of one column become features, for plots of its effect."""

    expand: Callable[[Any], dict[str, Array]]
    ticks: Any  # quantiles of the training values (k,), or a tuple of all categories
    ends: tuple[float, float] = (0.0, 1.0)  # range of numbers
    is_date: bool = False  # numbers are days since 1970
