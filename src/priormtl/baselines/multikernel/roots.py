"""falling_root: the norm that a proximal point of a squared norm reaches."""

from collections.abc import Callable
from math import exp, log

__all__ = ["falling_root"]

MOST_STEPS = 200
LONGEST_STEP = 3.0  # in logarithms, while the root has been seen from one side only
CLOSE = 1e-13


def falling_root(function: Callable[[float], float], top: float, guess: float) -> float:
    """Root in (0, top] of a function that falls at least as −log x, fast near a guess.

    So its value is at least the distance to the root, in logarithms. First steps go
    by that, then by false position with halved weights (Illinois).
    """
    z = log(min(guess, top)) if guess > 0.0 else log(top)
    value, far, far_value = function(exp(z)), z, 0.0
    for _ in range(MOST_STEPS):
        if abs(value) <= CLOSE or (far_value and abs(far - z) <= CLOSE):
            break
        if far_value == 0.0:
            ahead = z + min(max(1.01 * value, -LONGEST_STEP), LONGEST_STEP)
        else:
            ahead = z + (far - z) * (value / (value - far_value))
        there = function(exp(ahead))
        if there * value < 0:
            far, far_value = z, value
        else:
            far_value *= 0.5
        z, value = ahead, there
    return min(exp(z), top)
