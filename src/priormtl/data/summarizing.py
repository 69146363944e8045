"""Samples into moments: which form is smallest, and rows read once into statistics.

Rows are read in chunks that stay in the processor's cache, into memory that is used
again: each chunk is centred about its own mean before products are formed, which keeps
digits when features have large offsets, and chunks of a task are joined by Chan's
formula. So rows are read from memory once, and Gram matrices written once.
"""

from bisect import bisect_right
from collections.abc import Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from numbers import Integral
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.linalg.blas import dger, dsyrk
from scipy.sparse import issparse
from threadpoolctl import ThreadpoolController

from priormtl._arrays import Array, Index, Matrix
from priormtl._numerics import ROUNDING
from priormtl.data.device import (
    DeviceGrams,
    DeviceProducts,
    DeviceRows,
    Tensor,
    as_index,
    as_tensor,
    find_device,
    host_array,
    lives_on_device,
    tensor_device,
)
from priormtl.data.labels import keep_tasks
from priormtl.data.moments import (
    SMALLEST,
    centre_samples,
    refuse_tiny,
    too_small,
)
from priormtl.data.statistics import Moments, TaskStatistics, align_tasks
from priormtl.data.tasks import SharedRows, StackedRows, TaskData, to_tasks

CHUNK_CELLS = 2**21  # numbers centred at a time, at most: 16 MB
CACHED_CELLS = 2**16  # numbers that stay in a processor's cache: 512 kB
TILE = 32
UPPER = np.triu(np.ones((TILE, TILE), dtype=bool), 1)
Order = Literal["C", "F"]
MUCH = 2**31  # multiplications that keep two threads busy


def condense(data: TaskData | TaskStatistics) -> Moments:
    """Moments of the data in the smallest form; statistics on disk stay there."""
    moments: Moments
    if isinstance(data, TaskStatistics):
        moments = data.streamed() if data.is_mapped else data
    elif isinstance(data, DeviceRows):
        moments = summarize_rows(data.tensor, data, data.device)
    else:
        if "moments" not in data.condensed:
            make = summarize_tasks if statistics_pay(data) else centre_samples
            data.condensed["moments"] = make(data)
        moments = data.condensed["moments"]
    refuse_tiny(moments)
    # Statistics with tiny weights are correct, and can be added. But norms of
    # gradients would be zero in a fit.
    heaviest = moments.weight.max(initial=0.0)
    if 0 < heaviest < SMALLEST:
        raise too_small("the weight", heaviest)
    return moments


def to_device(
    data: TaskData | TaskStatistics, name: object, *, rows: bool = False
) -> Any:
    """Statistics on a device, or ``rows`` whose products are computed there."""
    device = find_device(name)
    if isinstance(data, TaskStatistics):
        if isinstance(data.xx, DeviceGrams) and data.xx.device == device:
            return data
        return data.derive(xx=DeviceGrams.of(data.xx, device))
    if isinstance(data, DeviceRows) and rows:
        return data
    stacked = None
    if isinstance(data, StackedRows) and not issparse(data.X):
        stacked = data
    if rows:
        if stacked is None:
            raise ValueError(
                f"device={name!r} needs dense rows with one task label each where the "
                "loss is logistic. Use device=None."
            )
        return DeviceRows.of(stacked, device)
    if stacked is not None:
        return summarize_rows(as_tensor(stacked.X, device), stacked, device)
    return to_device(summarize_tasks(data), name)


def summarize_rows(
    X: Tensor, data: StackedRows | DeviceRows, device: object
) -> TaskStatistics:
    """Statistics of stacked rows, computed where the tensor X is."""
    if data.offset is not None:
        data = data.without_offset()
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
        check=False,
    )


def statistics_pay(data: TaskData) -> bool:
    """Whether Gram matrices are no larger than the samples."""
    n, d = data.X.shape
    least = d if isinstance(data, SharedRows) else len(data.tasks) * d
    return n >= least and not issparse(data.X)


def summarize(
    X: object,
    y: object,
    task: object = None,
    sample_weight: object = None,
    *,
    min_rows: int = 1,
    device: object = None,
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
    X: Any, y: Any, task: object, sample_weight: object
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


def check_min_rows(value: object) -> int:
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
    """Statistics of the samples, targets less the offset."""
    if data.offset is not None:
        data = data.without_offset()
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
            check=False,
        )
    if isinstance(data, StackedRows) and not issparse(data.X):
        joined = task_products(data.X, data.y, data.weight, data.starts)
    else:
        parts = [_one_task(centred_products(*data.rows_of(i))) for i in range(m)]
        joined = Products(*map(np.concatenate, zip(*parts, strict=True)))
    return TaskStatistics(*joined, data.tasks, data.features, check=False)


class Products(NamedTuple):
    """Products of one set of rows; with one more leading axis, of several tasks."""

    weight: Any
    x_mean: Array  # (d,)
    y_mean: Array  # (q,)
    xx: Array  # (d, d)
    xy: Array  # (d, q)
    yy: Array  # (q,)


def centred_products(
    X: Matrix, Y: Array, weight: Array, memory: Array | None = None
) -> Products:
    """Products of rows with one target or several (n, q).

    Chunks are centred about the mean of the first, and what is left of the mean is
    taken out in the end. Rows whose first chunk is far from the others are halved, and
    the halves joined. ``memory`` has room for a chunk.
    """
    n, d = X.shape
    Y, size = Y.reshape(n, -1), _chunk_rows(d)
    memory = np.empty(d * _chunk_rows(d)) if memory is None else memory
    xx, xy = np.zeros((d, d)), np.zeros((d, Y.shape[1]))
    yy, sums = np.zeros(Y.shape[1]), np.zeros(d + Y.shape[1])
    total, even = weight.sum(), bool(np.all(weight == 1.0))
    for a in range(0, n, size):
        part, w = slice(a, a + size), weight[a : a + size]
        rows, order = _chunk(X[part], memory)
        if a == 0:
            x_mean, y_mean = (w @ rows) / w.sum(), (w @ Y[part]) / w.sum()
        _subtract(rows, x_mean)
        targets = Y[part] - y_mean
        root = w if even else np.sqrt(w)
        if not even:
            rows *= root[:, np.newaxis]
            targets *= root[:, np.newaxis]
        # One triangle of the product, added up.
        trans = order == "F"
        dsyrk(1.0, rows if trans else rows.T, 1.0, xx.T, trans, overwrite_c=1)
        xy += rows.T @ targets
        yy += np.einsum("ij,ij->j", targets, targets)
        sums[:d] += root @ rows
        sums[d:] += root @ targets
    _mirror(xx)
    x_left, y_left = sums[:d] / total, sums[d:] / total
    x_mean, y_mean = x_mean + x_left, y_mean + y_left
    xx -= np.multiply.outer(total * x_left, x_left)
    xy -= np.multiply.outer(total * x_left, y_left)
    yy -= total * y_left**2
    x_noise, y_noise = (total * (ROUNDING * mean) ** 2 for mean in (x_mean, y_mean))
    squares = np.append(xx.diagonal(), yy)
    # A squared mean of 16 variances costs one digit.
    limit = np.maximum(16.0 * squares, np.append(x_noise, y_noise))
    if n > size and np.any(sums**2 > total * limit):
        half = n // (2 * size) * size or size
        halves = slice(half), slice(half, None)
        return _join(*(centred_products(X[h], Y[h], weight[h], memory) for h in halves))
    # Deviations of a constant column are rounding errors, not data.
    for j in np.flatnonzero(xx.diagonal() <= x_noise):
        xx[j], xx[:, j], xy[j] = 0.0, 0.0, 0.0
    constant = yy <= y_noise
    xy[:, constant], yy[constant] = 0.0, 0.0
    return Products(total, x_mean, y_mean, xx, xy, yy)


def _chunk_rows(d: int) -> int:
    """Rows of a chunk: as the cache holds, or enough that products are most work."""
    # Chunks of a large task are four times as long.
    rows = max(4 * CACHED_CELLS // max(1, d), 4 * d)
    return max(1, min(rows, CHUNK_CELLS // max(1, d)))


def _chunk(X: Matrix, memory: Array) -> tuple[Array, Order]:
    """Copy of rows in order "C" or "F", as they are: copying between these is slow."""
    dense = X.toarray() if issparse(X) else X
    order: Order = "F" if dense.strides[0] < dense.strides[1] else "C"
    rows = memory[: dense.size].reshape(dense.shape, order=order)
    rows[:] = dense
    return rows, order


def _one_task(products: Products) -> Products:
    weight, x_mean, y_mean, xx, xy, yy = products
    return Products(np.array([weight]), x_mean[None], y_mean, xx[None], xy.T, yy)


def _subtract(rows: Array, mean: Array) -> None:
    """Rows less their mean, in place; BLAS needs half the time of broadcasting."""
    if rows.flags.c_contiguous:
        dger(-1.0, mean, np.ones(len(rows)), a=rows.T, overwrite_a=1)
    else:
        rows -= mean


def _mirror(gram: Array) -> None:
    """Copy the lower triangle of a matrix to the upper one, tile by tile."""
    d = len(gram)
    for a in range(0, d, TILE):
        b = min(a + TILE, d)
        gram[a:b, b:] = gram[b:, a:b].T
        tile = gram[a:b, a:b]
        np.copyto(tile, tile.T, where=UPPER[: b - a, : b - a])


def _join(a: Products, b: Products) -> Products:
    """Chan's formula for the centred moments of two disjoint sets; ``a`` is used up."""
    weight = a.weight + b.weight
    x_gap, y_gap = b.x_mean - a.x_mean, b.y_mean - a.y_mean
    between = a.weight * (b.weight / weight)
    share_a, share_b = a.weight / weight, b.weight / weight
    np.add(a.xx, b.xx, out=a.xx)
    np.add(a.xx, np.multiply.outer(between * x_gap, x_gap), out=a.xx)
    return Products(
        weight,
        share_a * a.x_mean + share_b * b.x_mean,
        share_a * a.y_mean + share_b * b.y_mean,
        a.xx,
        a.xy + b.xy + np.multiply.outer(between * x_gap, y_gap),
        a.yy + b.yy + between * y_gap**2,
    )


def task_products(X: Array, y: Array, weight: Array, starts: Index) -> Products:
    """Products of several tasks, whose rows follow each other.

    Work is cut into batches of small tasks and segments of large ones, whatever the
    number of threads: it changes no bit.
    """
    d, m, ends = X.shape[1], len(starts) - 1, starts.tolist()
    total = np.add.reduceat(weight, starts[:-1])
    x_mean, xx, xy = np.empty((m, d)), np.empty((m, d, d)), np.empty((m, d))
    found = Products(total, x_mean, np.empty(m), xx, xy, np.empty(m))
    most = _chunk_rows(d)
    few = min(most, max(1, CACHED_CELLS // max(1, d)))
    items: list[tuple[int, int, int, int]] = []  # tasks and rows, from and to
    last = 0
    while last < m:
        first, a = last, ends[last]
        last = max(bisect_right(ends, a + few) - 1, first + 1)
        # One thread reads 16 chunks of a large task.
        step = 16 * most if ends[last] - a > most else ends[last] - a
        segments = range(a, ends[last], step)
        items += [(first, last, s, min(s + step, ends[last])) for s in segments]

    free: list[Array] = []  # memory that no thread uses

    def work(item: tuple[int, int, int, int]) -> Products | None:
        first, last, a, b = item
        try:
            memory = free.pop()
        except IndexError:  # asking before could be too early: there are other threads
            memory = np.empty(d * most)
        part = None
        if ends[last] - ends[first] > most:
            part = centred_products(X[a:b], y[a:b], weight[a:b], memory)
        else:
            inside = starts[first : last + 1] - a
            batch = slice(first, last)
            _fill_batch(X[a:b], y[a:b], weight[a:b], inside, found, batch, memory)
        free.append(memory)
        return part

    def put(i: int, products: Products) -> None:
        for field, value in zip(found, _one_task(products), strict=True):
            field[i] = value[0]

    with ExitStack() as threaded:
        parts: Iterable[Products | None] = map(work, items)
        if d * X.size > MUCH:
            blas = ThreadpoolController().select(user_api="blas")
            known = (library["num_threads"] for library in blas.info())
            # One thread of BLAS for each of ours.
            threaded.enter_context(blas.limit(limits=1))
            pool = ThreadPoolExecutor(max(known, default=1))
            parts = threaded.enter_context(pool).map(work, items)
        # Join the segments of large tasks, in order.
        whole = None
        for (i, _, _, end), part in zip(items, parts, strict=True):
            if part is not None:
                whole = part if whole is None else _join(whole, part)
                if end == ends[i + 1]:
                    put(i, whole)
                    whole = None
    for i in _clean(found):
        rows = slice(ends[i], ends[i + 1])
        put(i, centred_products(X[rows], y[rows], weight[rows]))
    return found


def _fill_batch(
    X: Array,
    y: Array,
    weight: Array,
    starts: Index,
    found: Products,
    tasks: slice,
    memory: Array,
) -> None:
    """Products of a few tasks into ``found``, each about its mean."""
    total, x_mean, y_mean = (
        found.weight[tasks],
        found.x_mean[tasks],
        found.y_mean[tasks],
    )
    xx, xy, yy = found.xx[tasks], found.xy[tasks], found.yy[tasks]
    begin, counts = starts[:-1], starts[1:] - starts[:-1]
    rows, order = _chunk(X, memory)
    share = weight / np.repeat(total, counts)
    y_mean[:] = np.add.reduceat(share * y, begin)
    targets = y - np.repeat(y_mean, counts)
    root = None if (weight == 1.0).all() else np.sqrt(weight)[:, np.newaxis]
    if root is not None:
        targets *= root[:, 0]
    yy[:] = np.add.reduceat(targets * targets, begin)
    # NumPy copies larger triangles slowly.
    few = len(x_mean.T) < 128
    if few and order == "C" and (counts == counts[0]).all():
        # Tasks of one size, all by one call.
        parts = rows.reshape(len(counts), counts[0], -1)
        np.matmul(share.reshape(len(counts), 1, -1), parts, out=x_mean[:, np.newaxis])
        parts -= x_mean[:, np.newaxis]
        if root is not None:
            rows *= root
        np.matmul(parts.transpose(0, 2, 1), parts, out=xx)
        np.matmul(targets.reshape(len(counts), 1, -1), parts, out=xy[:, np.newaxis])
        return
    for i, (a, b) in enumerate(pairwise(starts.tolist())):
        part = rows[a:b]
        _subtract(part, np.dot(share[a:b], part, out=x_mean[i]))
        if root is not None:
            part *= root[a:b]
        if few or order == "F":
            np.matmul(part.T, part, out=xx[i])
        else:  # NumPy copies large triangles slowly
            dsyrk(1.0, part.T, 0.0, xx[i].T, overwrite_c=1)
            _mirror(xx[i])
        np.dot(targets[a:b], part, out=xy[i])


def _clean(found: Products) -> list[int]:
    """Clear what is left of constant columns; tasks whose means are not exact enough.

    It is rounding. Where it is not clear whether a column is constant, its mean must be
    computed more exactly.
    """
    squares = np.column_stack([np.einsum("ijj->ij", found.xx), found.yy])
    mean = np.column_stack([found.x_mean, found.y_mean])
    unit = found.weight[:, np.newaxis] * mean**2
    # Deviations so far below the mean need a more exact mean.
    small = (squares <= 1e-9**2 * unit) & (squares > 0)
    if not small.any():
        return []
    constant = small & (squares <= ROUNDING**2 * unit)
    for i, j in np.argwhere(constant).tolist():
        if j == len(found.xy.T):
            found.xy[i], found.yy[i] = 0.0, 0.0
        else:
            found.xx[i, j], found.xx[i, :, j], found.xy[i, j] = 0.0, 0.0, 0.0
    return np.flatnonzero(np.any(small & ~constant, axis=1)).tolist()
