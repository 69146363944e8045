"""measure_violations: how far coefficients are from what relations say."""

import numpy as np
from scipy.sparse import csr_array

from priormtl._arrays import Array

__all__ = ["measure_violations"]


def measure_violations(D: csr_array, P: Array) -> Array:
    """‖d P‖ of each row d over the largest that it can be for such coefficients.

    0: the relation holds; √½: of two features one is zero; 1: exactly contrary. 0 where
    all coefficients in it are zero.
    """
    sizes = (D != 0).astype(np.float64) @ np.sum(P**2, axis=1)
    most = np.sqrt(np.asarray(D.multiply(D).sum(axis=1)).ravel() * sizes)
    found = np.linalg.norm(D @ P, axis=1)
    return np.divide(found, most, out=np.zeros_like(most), where=most > 0)
