"""Constant columns: what is left of them after centring is noise, not data."""

import numpy as np

from priormtl._arrays import Array

__all__ = ["ROUNDING", "silence_constants"]

ROUNDING = 8 * np.finfo(np.float64).eps


def silence_constants(centred: Array, mean: Array) -> None:
    """Set columns to zero, in place, that deviate from their mean by rounding only."""
    largest = np.abs(centred).max(axis=0)
    centred[:, largest <= ROUNDING * np.abs(mean)] = 0.0
