"""Ratios of two strengths: checked, and crossed with paths of the strength itself."""

from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from priormtl._arrays import Array
from priormtl.baselines.base import Settings, crossed

__all__ = ["check_ratio", "cross_ratios"]

LOWEST = 1e-3  # end of a path, as a share of its begin
ONLY = 0.03  # the one point of a path that has no more
POINTS = 6  # of a path, before another ratio is worth trying


def check_ratio(value: Any, default: float) -> float:
    """Positive finite number; ``default`` for None."""
    if value is None:
        return default
    real = isinstance(value, Real) and not isinstance(value, bool)
    if not real or not np.isfinite(value) or not value > 0:
        raise ValueError(
            f"ratio must be a positive finite number or None: got {value!r}."
        )
    return float(value)


def cross_ratios(
    ratios: Iterable[float], largest: Callable[[float], float], n: int
) -> list[Settings]:
    """At most ``n`` settings: for the first ratios a path of lam from its own end.

    ``largest`` is the lam at which a ratio's solution becomes zero.
    """
    distinct = list(dict.fromkeys(float(ratio) for ratio in ratios))
    chosen = distinct[: max(1, n // POINTS)]
    return [
        setting
        for ratio, points in zip(chosen, _share_out(n, len(chosen)), strict=True)
        for setting in crossed([{"ratio": ratio}], "lam", _path(largest(ratio), points))
    ]


def _share_out(n: int, parts: int) -> Sequence[int]:
    """Whole numbers that sum to n, as equal as can be, the larger ones first."""
    return [n // parts + (k < n % parts) for k in range(parts)]


def _path(largest: float, n: int) -> Array:
    shares = np.geomspace(1.0, LOWEST, n) if n > 1 else np.full(n, ONLY)
    return (largest or 1.0) * shares
