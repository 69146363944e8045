"""Features that the data see: all others, constant within every task, stay at zero."""

import numpy as np

from priormtl._arrays import Index
from priormtl.penalties import Dirty, is_by_rows
from priormtl.problem import Problem

__all__ = ["visible_features"]

GOLDEN_RATIO = 0.5 * (1.0 + 5.0**0.5)
NOISE = 1e-12  # relative size up to which rounding may have made a product


def visible_features(problem: Problem) -> Index | None:
    """Those with any product with others or with targets; None: all, or not asked.

    Penalties of rows leave the others out by themselves, and relations of features
    could move them.
    """
    prior, fit = problem.prior, problem.fit
    related = prior.theta > 0 and prior.D.nnz > 0
    by_rows = is_by_rows(problem.penalty) or isinstance(problem.penalty, Dirty)
    if related or by_rows or not fit.is_quadratic:
        return None
    d, m = problem.shape
    # Fixed numbers of no pattern, so that products do not cancel.
    probe = (np.arange(1.0, d * m + 1.0) * GOLDEN_RATIO).reshape(d, m) % 1.0
    curved = np.abs(fit.majorant(probe)).max(axis=1, initial=0.0)
    pulled = np.abs(problem.null_point.fit.gradient).max(axis=1, initial=0.0)
    is_visible = _stands_out(curved) | _stands_out(pulled)
    if is_visible.all() or not is_visible.any():
        return None
    return np.flatnonzero(is_visible)


def _stands_out(sizes: np.ndarray) -> np.ndarray:
    """Whether a size is more than noise of the largest."""
    return np.asarray(sizes > NOISE * sizes.max(initial=0.0))
