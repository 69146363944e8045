"""Compiled loops over many tasks: Gram matrices, whitening, levels that drift."""

from math import exp, expm1, log, sqrt

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.solvers.kernels import compiled


@compiled
def factor(gram: Array, linear: Array, least: float, out: Array, ranks: Index) -> None:
    """Write F_i and f_i with G_i = F_iᵀ F_i and linear_i = F_iᵀ f_i, and their ranks.

    By Cholesky's method with pivots, which ends at ``least`` times the largest entry of
    the diagonal. ``gram`` is (b, k, k), ``linear`` (b, k), ``out`` (b, k, k + 1), zero.
    """
    b, k = linear.shape
    rest = np.empty(k)
    for i in range(b):
        top = 0.0
        for j in range(k):
            rest[j] = gram[i, j, j]
            top = max(top, rest[j])
        rank = 0
        while rank < k:
            pivot = 0
            for j in range(1, k):
                if rest[j] > rest[pivot]:
                    pivot = j
            if not rest[pivot] > least * top:
                break
            root = sqrt(rest[pivot])
            for j in range(k):
                if rest[j] >= 0.0:  # else it has been a pivot
                    entry = gram[i, pivot, j]
                    for p in range(rank):
                        entry -= out[i, p, pivot] * out[i, p, j]
                    out[i, rank, j] = entry / root
                    rest[j] = max(rest[j] - out[i, rank, j] ** 2, 0.0)
            out[i, rank, pivot] = root
            rest[pivot] = -1.0
            entry = linear[i, pivot]
            for p in range(rank):
                entry -= out[i, p, pivot] * out[i, p, k]
            out[i, rank, k] = entry / root
            rank += 1
        ranks[i] = rank


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


@compiled
def subtract_gram(indptr: Index, indices: Index, data: Array, out: Array) -> None:
    """Subtract BᵀB from the lower triangle of ``out``, for a sparse B by rows."""
    for i in range(len(indptr) - 1):
        for a in range(indptr[i], indptr[i + 1]):
            for b in range(indptr[i], indptr[i + 1]):
                if indices[b] >= indices[a]:
                    out[indices[b], indices[a]] -= data[a] * data[b]


@compiled
def subtract_blocks(indptr: Index, indices: Index, data: Array, out: Array) -> None:
    """Subtract the diagonal blocks of BᵀB from ``out`` (L, k, k), B by sorted rows."""
    k = out.shape[1]
    for i in range(len(indptr) - 1):
        for a in range(indptr[i], indptr[i + 1]):
            level = indices[a] // k
            for b in range(a, indptr[i + 1]):
                if indices[b] // k != level:
                    break
                product = data[a] * data[b]
                out[level, indices[a] % k, indices[b] % k] -= product
                if a != b:
                    out[level, indices[b] % k, indices[a] % k] -= product


@compiled
def add_quadratic(
    indptr: Index, indices: Index, data: Array, inner: Array, out: Array
) -> None:
    """Add the diagonal blocks of B · inner · Bᵀ to ``out`` (L, k, k), B by rows."""
    n, k, _ = out.shape
    place = np.full(len(inner), -1)  # of a column among those of a level
    columns = np.empty(len(inner), np.int64)
    for i in range(n):
        start, end = indptr[i * k], indptr[(i + 1) * k]
        count = 0
        for e in range(start, end):
            if place[indices[e]] < 0:
                place[indices[e]] = count
                columns[count] = indices[e]
                count += 1
        rows, half = np.zeros((k, count)), np.zeros((k, count))
        for c in range(k):
            for e in range(indptr[i * k + c], indptr[i * k + c + 1]):
                rows[c, place[indices[e]]] = data[e]
        for a in range(count):
            for b in range(count):
                entry = inner[columns[a], columns[b]]
                for c in range(k):
                    half[c, b] += rows[c, a] * entry
        for r in range(k):
            for c in range(k):
                total = 0.0
                for b in range(count):
                    total += half[r, b] * rows[c, b]
                out[i, r, c] += total
        for a in range(count):
            place[columns[a]] = -1


@compiled
def innovate(
    starts: Index,
    order: Index,
    gap: Array,
    weight: Array,
    ratio: float,
    rows: Array,
    out: Array,
    ones: Array,
) -> float:
    """Write V^(-1/2) rows to ``out`` and V^(-1/2) 1 to ``ones``; return log |V|.

    V = diag(1 / weight) + ratio · exp(−|t − s|) within each task, whose rows are
    ``order[starts[i]:starts[i + 1]]`` in order of time, ``gap`` after the one before.
    One-step predictions by Kalman's filter are the rows of its triangular factor.
    """
    k = rows.shape[1]
    state = np.empty(k)
    total = 0.0
    for i in range(len(starts) - 1):
        state[:] = 0.0
        rest = 1.0  # 1 less the predicted 1, without cancellation
        variance = ratio
        for place in range(starts[i], starts[i + 1]):
            r = order[place]
            if place > starts[i]:
                decay = exp(-gap[place])
                variance = decay * decay * variance - ratio * expm1(-2.0 * gap[place])
                rest = decay * rest - expm1(-gap[place])
                for c in range(k):
                    state[c] *= decay
            noise = 1.0 / weight[r]
            spread = variance + noise
            gain, root = variance / spread, 1.0 / sqrt(spread)
            for c in range(k):
                miss = rows[r, c] - state[c]
                out[r, c] = root * miss
                state[c] += gain * miss
            ones[r] = root * rest
            rest *= noise / spread
            variance *= noise / spread
            total += log(spread)
    return total


@compiled
def smooth(
    starts: Index,
    order: Index,
    gap: Array,
    weight: Array,
    ratio: float,
    rows: Array,
    out: Array,
) -> None:
    """Write levels given rows (n,): means, variances, covariances with the next one.

    Kalman's filter, and back (Rauch, Tung, Striebel 1965). ``out`` is (3, n), zero.
    """
    mean, variance, link = out
    for i in range(len(starts) - 1):
        first, end = starts[i], starts[i + 1]
        state, spread = 0.0, ratio
        for place in range(first, end):
            r = order[place]
            if place > first:
                decay = exp(-gap[place])
                state *= decay
                spread = decay * decay * spread - ratio * expm1(-2.0 * gap[place])
            share = 1.0 / (1.0 + spread * weight[r])
            state += (1.0 - share) * (rows[r] - state)
            spread *= share
            mean[r], variance[r] = state, spread
        for place in range(end - 2, first - 1, -1):
            r, after = order[place], order[place + 1]
            decay = exp(-gap[place + 1])
            spread = decay * decay * variance[r] - ratio * expm1(-2.0 * gap[place + 1])
            gain = decay * variance[r] / spread
            mean[r] += gain * (mean[after] - decay * mean[r])
            variance[r] += gain * gain * (variance[after] - spread)
            link[r] = gain * variance[after]


@compiled
def add_traces(Y: Array, half: Array, out: Array) -> None:
    """Add diag(G − G K G) to ``out`` (k,), G = Yᵀ Y of each task.

    ``Y`` is (b, r, k), ``half`` is Y Hᵀ with K = Hᵀ H.
    """
    b, r, k = Y.shape
    column = np.empty(k)
    for i in range(b):
        for p in range(r):
            for j in range(k):
                out[j] += Y[i, p, j] * Y[i, p, j]
        for a in range(k):
            for j in range(k):
                column[j] = 0.0
            for p in range(r):
                share = half[i, p, a]
                for j in range(k):
                    column[j] += share * Y[i, p, j]
            for j in range(k):
                out[j] -= column[j] * column[j]


@compiled
def dual_steps(
    inner: Array,
    running: Index,
    root: Array,
    target: Array,
    alpha: Array,
    step: Array,
    moved: Array,
) -> None:
    """Write W^(1/2) (I + W^(1/2) K W^(1/2))⁻¹ target − α, and K times it.

    K_i = F_i Θ F_iᵀ are ``inner`` (b, r, r), ``root`` (n, r) is the diagonal of
    W^(1/2) of the tasks ``running``, and ``alpha`` is (b, r).
    """
    n, r = target.shape
    factor, x = np.empty((r, r)), np.empty(r)
    for t in range(n):
        i = running[t]
        for p in range(r):
            for q in range(p + 1):
                entry = root[t, p] * inner[i, p, q] * root[t, q]
                if p == q:
                    entry += 1.0
                for j in range(q):
                    entry -= factor[p, j] * factor[q, j]
                # Of the diagonal, only the reciprocal is needed.
                factor[p, q] = 1.0 / sqrt(entry) if p == q else entry * factor[q, q]
            entry = target[t, p]
            for q in range(p):
                entry -= factor[p, q] * x[q]
            x[p] = entry * factor[p, p]
        for p in range(r - 1, -1, -1):
            entry = x[p]
            for q in range(p + 1, r):
                entry -= factor[q, p] * x[q]
            x[p] = entry * factor[p, p]
        for p in range(r):
            step[t, p] = root[t, p] * x[p] - alpha[i, p]
        for p in range(r):
            entry = 0.0
            for q in range(r):
                entry += inner[i, p, q] * step[t, q]
            moved[t, p] = entry
