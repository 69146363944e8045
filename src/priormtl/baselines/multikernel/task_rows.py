"""TaskRows: the samples of a task over distinct rows."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.data import SharedRows, StackedRows, TaskData

__all__ = ["TaskRows", "merge_rows"]


class TaskRows(NamedTuple):
    """Samples of one task, equal rows made one."""

    kind: Index  # (n,) which distinct row
    y: Array  # (n,) mean target of equal rows
    weight: Array  # (n,) their total weight
    scatter: float  # weighted squares of targets about the means of equal rows


def merge_rows(data: TaskData, kind: Index) -> tuple[TaskRows, ...]:
    """Samples of each task; equal rows become one, weighing as much as all."""
    return tuple(_merge(*sample) for sample in _samples(data, kind))


def _samples(data: TaskData, kind: Index) -> Iterator[tuple[Index, Array, Array]]:
    """Kinds, targets and weights of each task's samples."""
    m = data.shape[1]
    if isinstance(data, StackedRows):
        parts = zip(data.starts[:-1], data.starts[1:], strict=True)
        return ((kind[a:b], data.y[a:b], data.weight[a:b]) for a, b in parts)
    if not isinstance(data, SharedRows):
        raise TypeError(f"data must be stacked or shared rows: got {type(data)}.")
    used = [np.flatnonzero(data.weight[:, i]) for i in range(m)]
    return ((kind[r], data.y[r, i], data.weight[r, i]) for i, r in enumerate(used))


def _merge(kind: Index, y: Array, weight: Array) -> TaskRows:
    kinds, place = np.unique(kind, return_inverse=True)
    total = np.asarray(np.bincount(place, weight), dtype=np.float64)
    # Means about the first target: exact where all are equal.
    start = np.zeros(len(kinds))
    start[place] = y
    mean = start + np.bincount(place, weight * (y - start[place])) / total
    scatter = float(weight @ (y - mean[place]) ** 2)
    return TaskRows(kinds.astype(np.intp), mean, total, scatter)
