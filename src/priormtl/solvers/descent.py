"""Sweeps with jumps ahead, for many rows."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from priormtl._arrays import Array

if TYPE_CHECKING:
    from priormtl.solvers.engines import Descent

__all__ = ["MOST_SWEEPS", "descend_jumping", "extrapolate"]

MOST_SWEEPS = 10
PERIOD = 5  # sweeps from one jump to the next
RIDGE = 1e-10


def descend_jumping(descent: "Descent") -> float:
    """Sweep, and jump ahead every few sweeps; by what factor moves shrink, about."""
    first = last = 0.0
    kept = [_copy(descent)]
    for _ in range(MOST_SWEEPS):
        last = np.sqrt(descent.sweep())
        first = first or last
        if last == 0.0:
            return 1.0
        kept.append(_copy(descent))
        if len(kept) > PERIOD:
            _jump(descent, kept)
            kept = [_copy(descent)]
    return float((last / first) ** (1 / (MOST_SWEEPS - 1)))


def extrapolate(places: Sequence[Array]) -> Array:
    """Weights of the later places whose combination moves least (Anderson)."""
    steps = np.array([(b - a).ravel() for a, b in pairwise(places)])
    products = steps @ steps.T
    products.flat[:: len(products) + 1] += RIDGE * np.trace(products)
    weights = np.linalg.solve(products, np.ones(len(products)))
    return weights / weights.sum()


def _jump(descent: "Descent", kept: Sequence[tuple[Array, ...]]) -> None:
    """Go to the extrapolated place if it is better."""
    weights = extrapolate([trail[0] for trail in kept])
    before, here = descent.value(), kept[-1]
    for k, array in enumerate(descent.trail):
        array[:] = np.tensordot(weights, [trail[k] for trail in kept[1:]], axes=1)
    if not descent.value() < before:
        for array, old in zip(descent.trail, here, strict=True):
            array[:] = old


def _copy(descent: "Descent") -> tuple[Array, ...]:
    return tuple(array.copy() for array in descent.trail)
