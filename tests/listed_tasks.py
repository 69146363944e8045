"""from_lists: stacked rows of one X and y per task, as tests write them down."""

import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from priormtl.data import from_codes

__all__ = ["from_lists"]


def from_lists(X, y, weight=None, tasks=None):
    """Own X and y for each task, in the order given."""
    codes = np.repeat(np.arange(len(X)), [len(target) for target in y])
    sparse = any(issparse(rows) for rows in X)
    stacked = csr_array(vstack(X)) if sparse else np.concatenate(X)
    weights = None if weight is None else np.concatenate(weight)
    names = tuple(range(len(X)) if tasks is None else tasks)
    targets = np.concatenate(y).astype(np.float64)
    return from_codes(stacked.astype(np.float64), targets, codes, names, weights)
