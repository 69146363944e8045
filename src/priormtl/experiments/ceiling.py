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
    data = load_rows("school")
    X, y, _ = data
    assert data.code is not None
    schools = np.eye(len(data.task_names))[data.code]
    constant = np.ones((len(y), 1))
    return Ceiling(
        _explained(np.hstack([constant, X]), y), _explained(np.hstack([schools, X]), y)
    )


def _explained(design: Array, y: Array) -> float:
    coef, *_ = np.linalg.lstsq(design, y, rcond=None)
    return 1.0 - float(np.sum((y - design @ coef) ** 2) / np.sum((y - y.mean()) ** 2))
