"""training_r2: how well each task is fitted, from moments alone."""

import numpy as np

from priormtl._arrays import Array
from priormtl.data import Moments

__all__ = ["training_r2"]

ROUNDING = 1e-14  # of a mean: smaller deviations are those of a constant


def training_r2(moments: Moments, coef: Array, intercept: Array) -> Array:
    """R² of each task on the rows that it was trained on; NaN for constant targets."""
    selected = np.flatnonzero(coef.any(axis=0))
    used, P = moments.restrict(selected), coef[:, selected]
    products = used.gram_product(np.ascontiguousarray(P.T)).T
    within = moments.yy + np.einsum("ij,ij->i", P, products - 2.0 * used.xy)
    misses = moments.y_mean - np.einsum("ij,ij->i", P, used.x_mean) - intercept
    # Rounding can leave a perfect fit below zero.
    errors = np.maximum(within, 0.0) + moments.weight * misses**2
    noise = moments.weight * (ROUNDING * moments.y_mean) ** 2
    varies = moments.yy > noise
    shares = np.divide(errors, moments.yy, where=varies, out=np.full(len(P), np.nan))
    return np.asarray(1.0 - shares)
