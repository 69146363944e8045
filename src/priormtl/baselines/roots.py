"""Roots of monotone functions, of many at once or of one near a guess."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from priormtl._arrays import Array

__all__ = ["falling_root", "rising_roots"]

MOST_STEPS = 100
ROUNDING = 4.0 * np.finfo(float).eps
NEAR = 1e-3  # of a guess, where its root is looked for first

WithSlope = Callable[[Array], tuple[Array, Array]]


def rising_roots(function: WithSlope, low: Array, high: Array) -> Array:
    """Roots between low and high of rising functions: Newton, halving where it fails.

    ``function`` gives values and slopes. Starts at ``high``.
    """
    low, high = low.copy(), high.copy()
    x = high.copy()
    for _ in range(MOST_STEPS):
        value, slope = function(x)
        above = value > 0
        high, low = np.where(above, x, high), np.where(above, low, x)
        step = np.divide(value, slope, out=np.zeros_like(x), where=slope > 0)
        newton = x - step
        inside = (newton >= low) & (newton <= high)
        moved = np.where(inside, newton, 0.5 * (low + high))
        done = np.abs(moved - x) <= ROUNDING * np.abs(x)
        x = moved
        if done.all():
            break
    return x


def falling_root(function: Callable[[float], float], top: float, guess: float) -> float:
    """Root in (0, top] of a falling function, faster near a good guess."""
    low, high = guess * (1.0 - NEAR), min(guess * (1.0 + NEAR), top)
    if not 0.0 < low < high or function(low) < 0 or function(high) > 0:
        low, high = np.finfo(float).eps * top, top
        if function(low) <= 0:
            return low
        if function(high) >= 0:
            return high
    return float(brentq(function, low, high, xtol=ROUNDING * high, rtol=ROUNDING))
