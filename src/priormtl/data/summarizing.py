"""Samples into moments: which form is smallest, and rows read once into statistics.

Rows are read in chunks. Each chunk is centred about its own mean before products are
formed, which keeps digits when features have large offsets; chunks are joined by
Chan's formula.
"""

from collections.abc import Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain, pairwise
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from threadpoolctl import ThreadpoolController

from priormtl._arrays import Array, Index, Matrix
from priormtl.data.device import (
    DeviceGrams,
    DeviceProducts,
    DeviceRows,
    as_index,
    as_tensor,
    find_device,
    host_array,
    lives_on_device,
    tensor_device,
)
from priormtl.data.labels import keep_tasks
from priormtl.data.moments import (
    ROUNDING,
    SMALLEST,
    Moments,
    centre_samples,
    refuse_tiny,
    too_small,
)
from priormtl.data.on_disk import StreamedMoments
from priormtl.data.statistics import TaskStatistics, align_tasks
from priormtl.data.tasks import SharedRows, StackedRows, TaskData, to_tasks

CHUNK_CELLS = 2**20  # numbers centred at a time: 8 MB
CACHED_CELLS = 2**16  # numbers that stay in a processor's cache: 512 kB
MANY_FEATURES = 64  # from here on products are not copied
MUCH = 2**31  # multiplications that keep two threads busy
FAR = 1e-9  # spread against the mean, below which means are computed more exactly


def condense(data: TaskData | TaskStatistics) -> Moments:
    """Moments of the data in the smallest form; statistics on disk stay there."""
    moments: Moments
    if isinstance(data, TaskStatistics):
        moments = StreamedMoments.of(data) if data.is_mapped else data
    elif isinstance(data, DeviceRows):
        moments = summarize_rows(data.tensor, data, data.device)
    else:
        moments = (
            summarize_tasks(data) if statistics_pay(data) else centre_samples(data)
        )
    refuse_tiny(moments)
    # Statistics with tiny weights are correct, and can be added. But norms of
    # gradients would be zero in a fit.
    heaviest = moments.weight.max(initial=0.0)
    if 0 < heaviest < SMALLEST:
        raise too_small("the weight", heaviest)
    return moments


def to_device(data: TaskData | TaskStatistics, name: Any, *, rows: bool = False) -> Any:
    """Statistics on a device, or ``rows`` whose products are computed there."""
    device = find_device(name)
    if isinstance(data, TaskStatistics):
        if isinstance(data.xx, DeviceGrams) and data.xx.device == device:
            return data
        return replace(data, xx=DeviceGrams.of(data.xx, device))
    if isinstance(data, DeviceRows) and rows:
        return data
    stacked = isinstance(data, StackedRows) and not issparse(data.X)
    if rows:
        if not stacked:
            raise ValueError(
                f"device={name!r} needs dense rows with one task label each where the "
                "loss is logistic. Use device=None."
            )
        return DeviceRows.of(data, device)  # type: ignore[arg-type]
    if stacked:
        return summarize_rows(as_tensor(data.X, device), data, device)
    return to_device(summarize_tasks(data), name)


def summarize_rows(X: Any, data: Any, device: Any) -> TaskStatistics:
    """Statistics of stacked rows, computed where the tensor X is."""
    y, weight = (as_tensor(values, device) for values in (data.y, data.weight))
    found = DeviceProducts(X, y, weight, data.starts, device)
    return TaskStatistics(
        found.total,
        found.x_mean,
        found.y_mean,
        DeviceGrams(found.xx),
        found.xy,
        found.yy,
        data.tasks,
        data.features,
    )


def statistics_pay(data: TaskData) -> bool:
    """Whether Gram matrices are no larger than the samples."""
    n, d = data.X.shape
    least = d if isinstance(data, SharedRows) else len(data.tasks) * d
    return n >= least and not issparse(data.X)


def summarize(
    X: Any,
    y: Any,
    task: Any = None,
    sample_weight: Any = None,
    *,
    min_rows: int = 1,
    device: Any = None,
) -> TaskStatistics:
    """Compute sufficient statistics of squared loss in one pass over the rows.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or data frame
        Features. An array that lives on a graphics card (PyTorch, CuPy or any other
        with DLPack) is read where it is.
    y : (n,) or (n, m) array
        Targets. With (n, m) targets, there is one column per task, and NaN marks
        targets that were not measured.
    task : (n,) labels, optional
        Task of each row. By default, all rows belong to one task.
    sample_weight : (n,) array, or (n, m) array with such targets, optional
        Weight of each row or target.
    min_rows : int, default=1
        Omit tasks with fewer rows of positive weight. Use it before sharing statistics
        with others, because statistics of few rows may reveal the rows. If no task is
        left, an error is raised.
    device : {None, "cpu", "cuda", "cuda:1", ...}, default=None
        Where to compute the statistics and keep their Gram matrices, by PyTorch. By
        default, where X is.

    Returns
    -------
    TaskStatistics
        Statistics for ``MultiTaskRegressor.fit_statistics``. They can be added.

    Examples
    --------
    >>> statistics = summarize([[0.0], [2.0]], [1.0, 3.0])
    >>> statistics.xx[0], statistics.y_mean
    (array([[2.]]), array([2.]))
    """
    check_min_rows(min_rows)
    if lives_on_device(X):
        statistics, counts = _summarize_tensor(X, y, task, sample_weight)
        if device is not None:
            statistics = to_device(statistics, device)
    else:
        data = to_tasks(X, y, task, sample_weight)
        counts = data.task_sums((data.weight > 0).astype(np.float64))
        if device is None:
            statistics = summarize_tasks(data)
        else:
            statistics = to_device(data, device)
    kept = large_tasks(statistics.tasks, counts, min_rows)
    statistics = align_tasks(statistics, kept)
    refuse_tiny(statistics)
    return statistics


def _summarize_tensor(
    X: Any, y: Any, task: Any, sample_weight: Any
) -> tuple[TaskStatistics, Array]:
    """Statistics of rows that a device holds, and the number of rows of each task.

    Only their order, targets and weights pass through the processor.
    """
    tensor = as_tensor(X, tensor_device(X))
    if tensor.ndim != 2 or not bool(tensor.isfinite().all()):
        raise ValueError("X must be a finite array of shape (n, d).")
    n = len(tensor)
    # The order of the rows, as those of a table that holds nothing but their numbers.
    numbers = np.arange(n, dtype=np.float64)[:, np.newaxis]
    host = [None if v is None else host_array(v) for v in (y, sample_weight)]
    data = to_tasks(numbers, host[0], task, host[1])
    if not isinstance(data, StackedRows):
        raise ValueError(
            f"y must have one dimension where X is on a device: got {np.shape(y)}."
        )
    order = as_index(data.X[:, 0].astype(np.intp), tensor.device)
    found = summarize_rows(tensor[order], data, tensor.device)
    return found, data.task_sums(np.ones(len(data.y)))


def check_min_rows(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"min_rows must be a whole number from 1 on: got {value!r}.")
    return int(value)


def large_tasks(
    tasks: tuple[Hashable, ...], counts: Iterable[float], min_rows: int
) -> tuple[Hashable, ...]:
    """Tasks with at least ``min_rows`` rows, in order; an error if none is left."""
    least = check_min_rows(min_rows)
    kept = [task for task, n in zip(tasks, counts, strict=True) if n >= least]
    if not kept:
        raise ValueError(
            f"min_rows={least} must leave some tasks: none of {len(tasks)} has that "
            "many rows."
        )
    return keep_tasks(tasks, kept)


def summarize_tasks(data: TaskData) -> TaskStatistics:
    m = len(data.tasks)
    if isinstance(data, SharedRows) and data.has_one_gram:
        kept = data.weight[:, 0] > 0
        X, Y = (data.X, data.y) if kept.all() else (data.X[kept], data.y[kept])
        one = centred_products(X, Y, data.weight[kept, 0])
        return TaskStatistics(
            np.full(m, one.weight),
            np.tile(one.x_mean, (m, 1)),
            one.y_mean,
            one.xx[np.newaxis],
            np.ascontiguousarray(one.xy.T),
            one.yy,
            data.tasks,
            data.features,
        )
    if isinstance(data, StackedRows) and not issparse(data.X):
        joined = task_products(data.X, data.y, data.weight, data.starts)
    else:
        parts = [_one_task(centred_products(*data.rows_of(i))) for i in range(m)]
        joined = Products(*map(np.concatenate, zip(*parts, strict=True)))
    return TaskStatistics(*joined, data.tasks, data.features)


class Products(NamedTuple):
    """Products of one set of rows; with one more leading axis, of several tasks."""

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


def _one_task(products: Products) -> Products:
    weight, x_mean, y_mean, xx, xy, yy = products
    return Products(np.array([weight]), x_mean[None], y_mean, xx[None], xy.T, yy)


def _chunk_products(X: Matrix, Y: Array, weight: Array) -> Products:
    d = X.shape[1]
    Z = _empty_like(X, X.shape[0], d + Y.shape[1])
    Z[:, :d] = X.toarray() if issparse(X) else X
    Z[:, d:] = Y
    total = weight.sum()
    share = weight / total
    mean = share @ Z
    Z -= mean
    left = share @ Z  # means are inexact where offsets are large
    if np.any(weight != 1.0):
        Z *= np.sqrt(weight)[:, np.newaxis]
    xx, xy = Z[:, :d].T @ Z[:, :d], Z[:, :d].T @ Z[:, d:]
    xx -= np.multiply.outer(total * left[:d], left[:d])
    xy -= np.multiply.outer(total * left[:d], left[d:])
    yy = np.einsum("ij,ij->j", Z[:, d:], Z[:, d:]) - total * left[d:] ** 2
    mean += left
    # Deviations of a constant column are rounding errors, not data.
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


def task_products(X: Array, y: Array, weight: Array, starts: Index) -> Products:
    """Products of several tasks, whose rows follow each other.

    Batches of tasks that fit into the processor's cache are centred and multiplied
    together, in threads where there is much to do; tasks larger than a chunk follow
    one by one.
    """
    d, m, ends = X.shape[1], len(starts) - 1, starts.tolist()
    total = np.add.reduceat(weight, starts[:-1])
    x_mean, xx, xy = np.empty((m, d)), np.empty((m, d, d)), np.empty((m, d))
    found = Products(total, x_mean, np.empty(m), xx, xy, np.empty(m))
    batches, again, last = [], [], 0
    while last < m:
        first = last
        most = starts[first] + max(1, min(CACHED_CELLS, CHUNK_CELLS) // (d + 1))
        last = max(int(np.searchsorted(starts, most, side="right")) - 1, first + 1)
        if ends[last] - ends[first] > max(1, CHUNK_CELLS // (d + 1)):
            again.append(first)
        else:
            batches.append((first, last))

    def work(batch: tuple[int, int]) -> list[int]:
        return _fill_batch(X, y, weight, starts, batch, found)

    # Each batch belongs to one thread: their number changes no bit.
    if d * X.size > MUCH:
        blas = ThreadpoolController().select(user_api="blas")
        threads = max((library["num_threads"] for library in blas.info()), default=1)
        with blas.limit(limits=1), ThreadPoolExecutor(threads) as pool:
            doubtful = list(pool.map(work, batches))
    else:
        doubtful = [work(batch) for batch in batches]
    for i in [*again, *chain.from_iterable(doubtful)]:
        rows = slice(ends[i], ends[i + 1])
        exact = _one_task(centred_products(X[rows], y[rows], weight[rows]))
        for field, value in zip(found, exact, strict=True):
            field[i] = value[0]
    return found


def _fill_batch(
    X: Array,
    y: Array,
    weight: Array,
    starts: Index,
    batch: tuple[int, int],
    found: Products,
) -> list[int]:
    """Products of a few tasks into ``found``; tasks whose means are not exact enough.

    With few features the target is one more column; with many, products are written
    where they belong at once.
    """
    first, last = batch
    d, a, b = X.shape[1], int(starts[first]), int(starts[last])
    tasks, inside = slice(first, last), starts[first : last + 1] - a
    counts, w, total = np.diff(inside), weight[a:b], found.weight[tasks]
    wide = d >= MANY_FEATURES
    table = _empty_like(X, b - a, d if wide else d + 1)
    table[:, :d] = X[a:b]
    target = y[a:b].astype(np.float64) if wide else table[:, d]
    if not wide:
        table[:, d] = y[a:b]
    share = w / np.repeat(total, counts)
    parts = None
    if table.flags.c_contiguous and np.all(counts == counts[0]):
        parts = table.reshape(len(counts), counts[0], -1)
        mean = np.matmul(share.reshape(len(counts), 1, -1), parts)
        parts -= mean
        mean = mean[:, 0]
    else:
        mean = np.add.reduceat(table * share[:, np.newaxis], inside[:-1], axis=0)
        table -= np.repeat(mean, counts, axis=0)
    if wide:
        y_mean = np.add.reduceat(target * share, inside[:-1])
        target -= np.repeat(y_mean, counts)
        mean = np.column_stack([mean, y_mean])
    if np.any(w != 1.0):
        root = np.sqrt(w)
        table *= root[:, np.newaxis]
        if wide:
            target *= root
    products = found.xx[tasks] if wide else np.empty((last - first, d + 1, d + 1))
    if parts is not None:
        np.matmul(parts.transpose(0, 2, 1), parts, out=products)
    else:
        for product, start, end in zip(products, inside[:-1], inside[1:], strict=True):
            part = table[start:end]
            np.matmul(part.T, part, out=product)
    squares = np.einsum("ijj->ij", products)
    xy = found.xy[tasks]
    if wide:
        for i, (start, end) in enumerate(pairwise(inside.tolist())):
            np.dot(target[start:end], table[start:end], out=xy[i])
        yy = np.add.reduceat(target * target, inside[:-1])
        squares = np.column_stack([squares, yy])
    # What is left of a constant column is rounding; where it is not clear whether
    # one is constant, its mean must be computed more exactly.
    unit = total[:, np.newaxis] * mean**2
    constant = squares <= ROUNDING**2 * unit
    doubtful = np.any(~constant & (squares <= FAR**2 * unit), axis=1)
    found.x_mean[tasks], found.y_mean[tasks] = mean[:, :d], mean[:, d]
    if not wide:
        found.xx[tasks], xy[:] = products[:, :d, :d], products[:, :d, d]
    found.yy[tasks] = np.where(constant[:, d], 0.0, squares[:, d])
    for i, j in np.argwhere(constant).tolist():
        if j == d:
            found.xy[first + i] = 0.0
        else:
            found.xx[first + i, j], found.xx[first + i, :, j] = 0.0, 0.0
            found.xy[first + i, j] = 0.0
    return (first + np.flatnonzero(doubtful)).tolist()


def _empty_like(X: Matrix, rows: int, columns: int) -> Array:
    """Array in C or Fortran order, as X is: copying between the two is slow."""
    by_columns = not issparse(X) and X.strides[0] < X.strides[1]
    return np.empty((rows, columns), order="F" if by_columns else "C")
