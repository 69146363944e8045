"""refuse_tiny: numbers so small that their squares cannot be told from zero."""

import math

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.data.moments import Moments

__all__ = ["refuse_tiny", "refuse_tiny_weights"]

SMALLEST = 1e-150  # squares of smaller numbers leave the range of doubles


def refuse_tiny(*parts: Moments) -> None:
    """Fail where a feature or the target is tiny in all parts together.

    Their sums of squares would be zero, as if they were constant. Means tell, so that
    deviations are only looked at where a mean is suspicious.

    Examples
    --------
    >>> from priormtl.data import summarize
    >>> summarize([[1e-200], [3e-200]], [1.0, 2.0])
    Traceback (most recent call last):
    ...
    ValueError: feature 0 must reach 1e-150, or sums of squares vanish: it is about
    2e-200; multiply it by 1e200, say.
    """
    _refuse_tiny_features(parts)
    _refuse_tiny_target(parts)


def refuse_tiny_weights(moments: Moments) -> None:
    """Fail where weights are too small to fit: norms of gradients would be zero.

    Statistics with such weights are right, and add up.
    """
    heaviest = moments.weight.max(initial=0.0)
    if 0 < heaviest < SMALLEST:
        raise _too_small("the weight", heaviest)


def _refuse_tiny_features(parts: tuple[Moments, ...]) -> None:
    sizes = _largest(*(np.abs(part.x_mean) for part in parts))
    suspects = _suspicious(sizes)
    if not len(suspects):
        return
    spreads = (_deviations(p.squared_deviations()[:, suspects], p) for p in parts)
    for k in suspects[_largest(*spreads) < SMALLEST]:
        names = parts[0].features
        name = int(k) if names is None else names[k]
        raise _too_small(f"feature {name!r}", sizes[k])


def _refuse_tiny_target(parts: tuple[Moments, ...]) -> None:
    sizes = _largest(*(np.abs(part.y_mean[:, np.newaxis]) for part in parts))
    spreads = (_deviations(part.yy[:, np.newaxis], part) for part in parts)
    if len(_suspicious(sizes)) and _largest(*spreads)[0] < SMALLEST:
        raise _too_small("the target", sizes[0])


def _suspicious(sizes: Array) -> Index:
    return np.flatnonzero((sizes > 0) & (sizes < SMALLEST))


def _largest(*columns: Array) -> Array:
    """Largest value of each column, over tasks and parts."""
    return np.max([part.max(axis=0, initial=0.0) for part in columns], axis=0)


def _deviations(squares: Array, part: Moments) -> Array:
    """Standard deviation in each task; zero where it has no rows."""
    weight = part.weight[:, np.newaxis]
    return np.sqrt(np.divide(squares, weight, np.zeros_like(squares), where=weight > 0))


def _too_small(what: str, size: float) -> ValueError:
    digits = min(300, -math.floor(math.log10(size)))
    return ValueError(
        f"{what} must reach {SMALLEST:g}, or sums of squares vanish: it is about "
        f"{size:.0e}; multiply it by 1e{digits}, say."
    )
