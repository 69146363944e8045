"""Products of centred rows: weights, means, XᵀX, XᵀY and sums of Y² about means."""

from collections.abc import Iterator
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
CACHED_CELLS = 2**16  # numbers that stay in a processor's cache: 512 kB
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
    total = np.add.reduceat(weight, starts[:-1])
    mean, products = np.empty((m, d + 1)), np.empty((m, d + 1, d + 1))
    for batch in _batches(starts, max(1, CACHED_CELLS // (d + 1))):
        rows = slice(starts[batch.start], starts[batch.stop])
        inside = starts[batch.start : batch.stop + 1] - rows.start
        table = _beside(X[rows], y[rows])
        mean[batch] = _centre_tasks(table, weight[rows], inside, total[batch])
        _multiply_tasks(table, inside, products[batch])
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
        rows = slice(starts[i], starts[i + 1])
        exact = one_task(_chunk_products(X[rows], y[rows, np.newaxis], weight[rows]))
        for field, value in zip(found, exact, strict=True):
            field[i] = value[0]
    return found


def _batches(starts: Index, most: int) -> Iterator[slice]:
    """Tasks of at most so many rows together, or one at a time."""
    first, m = 0, len(starts) - 1
    while first < m:
        last = int(np.searchsorted(starts, starts[first] + most, side="right")) - 1
        yield slice(first, max(last, first + 1))
        first = max(last, first + 1)


def _beside(X: Array, y: Array) -> Array:
    """Rows of both (n, d + 1)."""
    table = _empty_like(X, len(X), X.shape[1] + 1)
    table[:, :-1], table[:, -1] = X, y
    return table


def _centre_tasks(table: Array, weight: Array, starts: Index, total: Array) -> Array:
    """Subtract the means of each task, times roots of weights; returns the means."""
    counts = np.diff(starts)
    share = weight / np.repeat(total, counts)
    mean = np.add.reduceat(table * share[:, np.newaxis], starts[:-1], axis=0)
    table -= np.repeat(mean, counts, axis=0)
    if np.any(weight != 1.0):
        table *= np.sqrt(weight)[:, np.newaxis]
    return np.asarray(mean)


def _multiply_tasks(table: Array, starts: Index, out: Array) -> None:
    """Products of the columns of each task (m, d + 1, d + 1)."""
    counts = np.diff(starts)
    if table.flags.c_contiguous and np.all(counts == counts[0]):
        parts = table.reshape(len(counts), counts[0], -1)
        np.matmul(parts.transpose(0, 2, 1), parts, out=out)
        return
    ends = starts.tolist()
    for i, product in enumerate(out):
        part = table[ends[i] : ends[i + 1]]
        np.matmul(part.T, part, out=product)


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
