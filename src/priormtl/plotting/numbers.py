"""Plain arrays that figures are given, checked before anything is drawn."""

from typing import Any

import numpy as np

from priormtl._arrays import Array

__all__ = ["read_numbers"]


def read_numbers(name: str, values: Any, *axes: str) -> Array:
    """Numbers with one axis for each letter.

    Examples
    --------
    >>> read_numbers("sizes", [10, 100], "k")
    array([ 10., 100.])
    """
    form = f"({', '.join(axes)}{',' if len(axes) == 1 else ''})"
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        found = type(values).__name__
        raise TypeError(f"{name} must be numbers {form}: got {found}.") from None
    if array.ndim != len(axes):
        raise ValueError(f"{name} must have shape {form}: got {array.shape}.")
    return array
