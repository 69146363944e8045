"""Features of kernels: exact on all rows, or after Nyström on a few landmarks.

C. K. I. Williams, M. Seeger: Using the Nyström Method to Speed Up Kernel Machines.
NIPS 2000.
"""

import numpy as np

from priormtl._arrays import Array, Index

__all__ = ["choose_landmarks", "inverse_roots"]

SMALLEST_SHARE = 1e-10  # of the largest eigenvalue, below which one is noise


def choose_landmarks(u: int, count: int, random_state: int) -> Index:
    """Some of u distinct rows, all of them alike likely."""
    rng = np.random.default_rng(random_state)
    return np.sort(rng.permutation(u)[:count]).astype(np.intp)


def inverse_roots(grams: Array) -> Array:
    """T with K T Tᵀ K = K for each Gram matrix K (..., n, n), so Φ = K T (..., n, r).

    Columns are padded with zeros to the largest rank r.
    """
    values, vectors = np.linalg.eigh(grams)
    values, vectors = values[..., ::-1], vectors[..., ::-1]
    noise = SMALLEST_SHARE * np.maximum(values[..., :1], np.finfo(float).tiny)
    kept = values > noise
    rank = max(1, int(kept.sum(axis=-1).max(initial=1)))
    kept, values = kept[..., :rank], values[..., :rank]
    roots = np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    return np.asarray(vectors[..., :rank] * roots[..., np.newaxis, :])
