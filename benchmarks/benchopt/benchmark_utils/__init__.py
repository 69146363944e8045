"""What data sets draw, and a design that makes one group lasso of many tasks."""

import numpy as np
from scipy.signal import lfilter
from scipy.sparse import coo_matrix, csc_matrix, eye, kron, vstack


def draw_columns(rng, n, d, correlation):
    """Standard normal columns (n, d), neighbours correlated."""
    noise = rng.standard_normal((n, d))
    if correlation == 0.0:
        return noise
    noise[:, 1:] *= np.sqrt(1.0 - correlation**2)
    return np.ascontiguousarray(lfilter([1.0], [1.0, -correlation], noise, axis=1))


def draw_coef(rng, d, m):
    """Coefficients (d, m) with thirty rows (or a quarter) that matter."""
    P = np.zeros((d, m))
    count = min(30, max(1, d // 4))
    P[rng.choice(d, count, replace=False)] = rng.standard_normal((count, m))
    return P


def block_design(X, y, task, theta, epsilon, pairs, **_):
    """Sparse design and target: group j holds row j of P, priors are further rows."""
    n, d = X.shape
    m = int(task.max()) + 1
    rows = np.repeat(np.arange(n), d)
    columns = (np.arange(d) * m + task[:, np.newaxis]).ravel()
    blocks = [coo_matrix((X.ravel(), (rows, columns)), shape=(n, d * m))]
    if theta > 0:
        s = len(pairs)
        entries = np.tile([1.0, -1.0], s), (np.repeat(np.arange(s), 2), pairs.ravel())
        D = coo_matrix(entries, shape=(s, d))
        blocks.append(kron(np.sqrt(theta) * D, eye(m)))
    if epsilon > 0:
        steps = eye(m - 1, m, k=1) - eye(m - 1, m)
        blocks.append(kron(eye(d), np.sqrt(epsilon) * steps))
    design = csc_matrix(vstack(blocks))
    design.indices = design.indices.astype(np.int32)
    design.indptr = design.indptr.astype(np.int32)
    return design, np.concatenate([y, np.zeros(design.shape[0] - n)])
