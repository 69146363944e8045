"""Compiled loop that whitens many small tasks."""

from math import log, sqrt

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.solvers.kernels import compiled


@compiled
def whiten(rows: Array, varying: Index, theta: Array, out: Array) -> float:
    """Write V_i^(-1/2) [F_i, f_i] to ``out``, and return Σ log |V_i|.

    ``rows`` (b, r, k + 1) are [F_i, f_i], V_i = I + Σ θ_j F_ij F_ijᵀ over the columns
    ``varying``, and V_i^(1/2) is its triangular factor.
    """
    b, r, width = rows.shape
    n = len(varying)
    root, scaled = np.empty((r, r)), np.empty((r, n))
    total = 0.0
    for i in range(b):
        product = 1.0
        for p in range(r):
            for j in range(n):
                scaled[p, j] = rows[i, p, varying[j]] * sqrt(theta[j])
            for q in range(p + 1):
                entry = 1.0 if p == q else 0.0
                for j in range(n):
                    entry += scaled[p, j] * scaled[q, j]
                for j in range(q):
                    entry -= root[p, j] * root[q, j]
                root[p, q] = sqrt(entry) if p == q else entry * root[q, q]
            product *= root[p, p]
            if product > 1e100:
                total += 2.0 * log(product)
                product = 1.0
            root[p, p] = 1.0 / root[p, p]  # only the reciprocal is needed
            for j in range(width):
                out[i, p, j] = rows[i, p, j]
            for q in range(p):
                share = root[p, q]
                for j in range(width):
                    out[i, p, j] -= share * out[i, q, j]
            for j in range(width):
                out[i, p, j] *= root[p, p]
        total += 2.0 * log(product)
    return total
