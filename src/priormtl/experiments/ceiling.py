"""What linear models reach on School in sample: a bound on any claim out of sample."""

from typing import NamedTuple

import numpy as np

from priormtl._arrays import Array
from priormtl.experiments.protocol import load_rows

__all__ = ["Ceiling", "school_ceiling"]


class Ceiling(NamedTuple):
    """Variance explained by least squares on all pupils, in sample."""

    pooled: float
    with_effects: float  # one intercept per school


def school_ceiling() -> Ceiling:
    """Fit all pupils at once, without and with an effect of the school."""
    X, y, task = load_rows("school")
    schools = (task[:, np.newaxis] == np.unique(task)).astype(np.float64)
    constant = np.ones((len(y), 1))
    return Ceiling(
        _explained(np.hstack([constant, X]), y), _explained(np.hstack([schools, X]), y)
    )


def _explained(design: Array, y: Array) -> float:
    coef, *_ = np.linalg.lstsq(design, y, rcond=None)
    return 1.0 - float(np.sum((y - design @ coef) ** 2) / np.sum((y - y.mean()) ** 2))
