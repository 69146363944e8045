"""Equal rows: tasks that share images share rows, and repeated rows are one."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse

from priormtl._arrays import Array, Index, Matrix
from priormtl.data import SharedRows, StackedRows, TaskData

__all__ = ["Distinct", "TaskRows", "find_distinct", "merge_rows"]

DIGEST_BYTES = 16


class Distinct(NamedTuple):
    """Which rows are equal; kinds are in an order that depends on contents alone."""

    first: Index  # (u,) position of one row of each kind
    kind: Index  # (n,) kind of each row


class TaskRows(NamedTuple):
    """Samples of one task, equal rows made one."""

    kind: Index  # (n,) which distinct row
    y: Array  # (n,) mean target of equal rows
    weight: Array  # (n,) their total weight
    scatter: float  # weighted squares of targets about the means of equal rows


def find_distinct(X: Matrix) -> Distinct:
    """Find equal rows by digests of their contents."""
    digests = np.array([_digest(content) for content in _contents(X)])
    _, first, kind = np.unique(digests, return_index=True, return_inverse=True)
    return Distinct(first.astype(np.intp), kind.astype(np.intp))


def merge_rows(data: TaskData, kind: Index) -> tuple[TaskRows, ...]:
    """Samples of each task; equal rows become one, weighing as much as all."""
    return tuple(_merge(*sample) for sample in _samples(data, kind))


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def _contents(X: Matrix) -> Iterator[bytes]:
    """Bytes of each row, the same for equal rows."""
    if not issparse(X):
        # Adding zero makes −0 and 0 the same bytes.
        return ((row + 0.0).tobytes() for row in X)
    tidy = X.copy()
    tidy.sum_duplicates()
    tidy.eliminate_zeros()
    ends = zip(tidy.indptr[:-1], tidy.indptr[1:], strict=True)
    return (tidy.indices[a:b].tobytes() + tidy.data[a:b].tobytes() for a, b in ends)


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
