"""falling_root: the norm that a proximal point of a squared norm reaches."""

from collections.abc import Callable
from math import exp

__all__ = ["falling_root"]

MOST_STEPS = 100
CLOSE = 1e-12  # relative; the last secant makes it as exact as rounding allows


def falling_root(function: Callable[[float], float], top: float, guess: float) -> float:
    """Root in (0, top] of a falling function, by secants kept between bounds.

    ``function`` is best the logarithm of a ratio that falls about as 1/x.
    """
    low, high = 0.0, top
    x = guess if 0.0 < guess <= top else top
    value, moved = function(x), 0.0
    for _ in range(MOST_STEPS):
        if value == 0.0:
            break
        low, high = (x, high) if value > 0 else (low, x)
        ahead = x + moved if moved else x * exp(min(max(0.5 * value, -2.0), 2.0))
        if not low < ahead < high:
            ahead = 0.5 * (low + high) if value < 0 or high < top else high
        if abs(ahead - x) <= CLOSE * x:
            return ahead
        there = function(ahead)
        change = there - value
        moved = -there * (ahead - x) / change if change else 0.0
        x, value = ahead, there
    return x
