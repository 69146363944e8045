"""Products of centred rows: weights, means, XᵀX, XᵀY and sums of Y² about means."""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from priormtl._arrays import Array, Index, Matrix
from priormtl.data.constants import ROUNDING

__all__ = [
    "CHUNK_CELLS",
    "Products",
    "centred_products",
    "one_task",
    "task_products",
]

CHUNK_CELLS = 2**20  # numbers centred at a time: 8 MB
FAR = 1e-9  # spread against the mean, below which means need a second look


class Products(NamedTuple):
    """Of one set of rows; or, each with one more leading axis, of several tasks."""

    weight: Any
    x_mean: Array  # (d,)
    y_mean: Array  # (q,)
    xx: Array  # (d, d)
    xy: Array  # (d, q)
    yy: Array  # (q,)


def centred_products(X: Matrix, Y: Array, weight: Array) -> Products:
    """Products of rows with one target or several (n, q), by chunks."""
    Y = Y.reshape(len(Y), -1)
    rows = max(1, CHUNK_CELLS // max(1, X.shape[1]))
    pieces = (
        _chunk_products(X[a : a + rows], Y[a : a + rows], weight[a : a + rows])
        for a in range(0, X.shape[0], rows)
    )
    total = next(pieces)
    for piece in pieces:
        total = _join(total, piece)
    return total


def one_task(products: Products) -> Products:
    """Products of one target as those of several tasks."""
    weight, x_mean, y_mean, xx, xy, yy = products
    return Products(np.array([weight]), x_mean[None], y_mean, xx[None], xy.T, yy)


def task_products(X: Array, y: Array, weight: Array, starts: Index) -> Products:
    """Products of several tasks, whose rows follow each other."""
    d, m = X.shape[1], len(starts) - 1
    counts = np.diff(starts)
    total = np.add.reduceat(weight, starts[:-1])
    share = weight / np.repeat(total, counts)
    root = np.sqrt(weight) if np.any(weight != 1.0) else None
    mean, products = np.empty((m, d + 1)), np.empty((m, d + 1, d + 1))
    mean[:, d] = np.add.reduceat(share * y, starts[:-1])
    y_centred = y - np.repeat(mean[:, d], counts)
    # One small table for all tasks stays in cache.
    table, ends = _empty_like(X, counts.max(initial=0), d + 1), starts.tolist()
    for i in range(m):
        rows = slice(ends[i], ends[i + 1])
        x, z, x_mean = X[rows], table[: counts[i]], mean[i, :d]
        np.matmul(x.T, share[rows], out=x_mean)  # np.dot would copy x
        np.subtract(x, x_mean, out=z[:, :d])
        z[:, d] = y_centred[rows]
        if root is not None:
            z *= root[rows, np.newaxis]
        np.matmul(z.T, z, out=products[i])
    doubtful = _silence_constants(products, mean, total)
    found = Products(
        total,
        mean[:, :d],
        mean[:, d],
        np.ascontiguousarray(products[:, :d, :d]),
        np.ascontiguousarray(products[:, :d, d]),
        products[:, d, d].copy(),
    )
    for i in doubtful.tolist():
        rows = slice(ends[i], ends[i + 1])
        exact = one_task(_chunk_products(X[rows], y[rows, np.newaxis], weight[rows]))
        for field, value in zip(found, exact, strict=True):
            field[i] = value[0]
    return found


def _empty_like(X: Matrix, rows: int, columns: int) -> Array:
    """Table by rows or by columns, as X is: copying across is slow."""
    by_columns = not issparse(X) and X.strides[0] < X.strides[1]
    return np.empty((rows, columns), order="F" if by_columns else "C")


def _silence_constants(products: Array, mean: Array, total: Array) -> Index:
    """What rounding leaves of a constant is noise, not data.

    Returns the tasks whose means must be known better to tell.
    """
    squares = np.einsum("ijj->ij", products)
    unit = total[:, np.newaxis] * mean**2
    constant = squares <= ROUNDING**2 * unit
    task, column = np.nonzero(constant)
    products[task, column, :] = 0.0
    products[task, :, column] = 0.0
    return np.flatnonzero(np.any(~constant & (squares <= FAR**2 * unit), axis=1))


def _chunk_products(X: Matrix, Y: Array, weight: Array) -> Products:
    d = X.shape[1]
    Z = _empty_like(X, X.shape[0], d + Y.shape[1])
    Z[:, :d] = X.toarray() if issparse(X) else X
    Z[:, d:] = Y
    total = weight.sum()
    share = weight / total
    mean = share @ Z
    Z -= mean
    left = share @ Z  # of the mean, where offsets are large
    if np.any(weight != 1.0):
        Z *= np.sqrt(weight)[:, np.newaxis]
    xx, xy = Z[:, :d].T @ Z[:, :d], Z[:, :d].T @ Z[:, d:]
    xx -= np.multiply.outer(total * left[:d], left[:d])
    xy -= np.multiply.outer(total * left[:d], left[d:])
    yy = np.einsum("ij,ij->j", Z[:, d:], Z[:, d:]) - total * left[d:] ** 2
    mean += left
    # What rounding leaves of a constant is noise, not data.
    noise = total * (ROUNDING * mean) ** 2
    for j in np.flatnonzero(xx.diagonal() <= noise[:d]):
        xx[j], xx[:, j], xy[j] = 0.0, 0.0, 0.0
    constant = yy <= noise[d:]
    xy[:, constant], yy[constant] = 0.0, 0.0
    return Products(total, mean[:d], mean[d:], xx, xy, yy)


def _join(a: Products, b: Products) -> Products:
    """Chan's formula for the centred moments of two disjoint sets of rows."""
    weight = a.weight + b.weight
    x_gap, y_gap = b.x_mean - a.x_mean, b.y_mean - a.y_mean
    between = a.weight * (b.weight / weight)
    return Products(
        weight,
        (a.weight * a.x_mean + b.weight * b.x_mean) / weight,
        (a.weight * a.y_mean + b.weight * b.y_mean) / weight,
        a.xx + b.xx + between * np.multiply.outer(x_gap, x_gap),
        a.xy + b.xy + between * np.multiply.outer(x_gap, y_gap),
        a.yy + b.yy + between * y_gap**2,
    )
