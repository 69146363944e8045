"""Constant columns: what is left of them after centring is noise, not data."""

import numpy as np

from priormtl._arrays import Array

__all__ = ["ROUNDING", "silence_constants"]

ROUNDING = 8 * np.finfo(np.float64).eps


def silence_constants(centred: Array, mean: Array) -> None:
    """Set columns to zero, in place, that deviate from their mean by rounding only."""
    # The first rows show that most columns are not constant, at no cost.
    suspects = np.flatnonzero(
        np.abs(centred[:8]).max(axis=0) <= ROUNDING * np.abs(mean)
    )
    if not len(suspects):
        return
    largest = np.abs(centred[:, suspects]).max(axis=0)
    centred[:, suspects[largest <= ROUNDING * np.abs(mean[suspects])]] = 0.0
