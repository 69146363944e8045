"""summarize_tasks: rows are read once, in chunks, into statistics."""

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse import issparse

from priormtl.data.products import (
    CHUNK_CELLS,
    Products,
    centred_products,
    one_task,
    task_products,
)
from priormtl.data.statistics import TaskStatistics
from priormtl.data.tasks import SharedRows, StackedRows, TaskData

__all__ = ["summarize_tasks"]


def summarize_tasks(data: TaskData) -> TaskStatistics:
    """Read the samples once, in chunks, into statistics."""
    if isinstance(data, SharedRows) and data.has_one_gram:
        return _summarize_shared(data)
    if isinstance(data, StackedRows) and not issparse(data.X):
        parts = list(_stacked_parts(data))
    else:
        m = len(data.tasks)
        parts = [one_task(centred_products(*data.rows_of(i))) for i in range(m)]
    return TaskStatistics(*_join_tasks(parts), data.tasks, data.features)


def _join_tasks(parts: Sequence[Products]) -> Products:
    """Products of all tasks."""
    if len(parts) == 1:
        return parts[0]
    return Products(*map(np.concatenate, zip(*parts, strict=True)))


def _stacked_parts(data: StackedRows) -> Iterator[Products]:
    """Products of batches of tasks that fit into a chunk, larger tasks by chunks."""
    most = max(1, CHUNK_CELLS // (data.shape[0] + 1))
    starts, first = data.starts, 0
    while first < len(data.tasks):
        end = int(np.searchsorted(starts, starts[first] + most, side="right")) - 1
        if end <= first:
            yield one_task(centred_products(*data.rows_of(first)))
            end = first + 1
        else:
            rows = slice(starts[first], starts[end])
            inside = starts[first : end + 1] - starts[first]
            yield task_products(data.X[rows], data.y[rows], data.weight[rows], inside)
        first = end


def _summarize_shared(data: SharedRows) -> TaskStatistics:
    kept = data.weight[:, 0] > 0
    X, Y = (data.X, data.y) if kept.all() else (data.X[kept], data.y[kept])
    one = centred_products(X, Y, data.weight[kept, 0])
    m = len(data.tasks)
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
