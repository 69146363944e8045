"""Cells: measured targets of all tasks over distinct rows.

An image that stands in twenty tasks is one row and twenty cells, so that products
with the features are made once for it and not twenty times.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse

from priormtl._arrays import Array, Index, Matrix
from priormtl._lazy import cached_property
from priormtl.baselines.equal_rows import find_distinct
from priormtl.data import StackedRows, TaskData

__all__ = ["Cells", "gather_cells"]

WRITTEN_OUT = 10**7  # numbers up to which sparse features are made dense, for accuracy


@dataclass(frozen=True, eq=False)
class Cells:
    """N measured targets, each with its row of X and its task."""

    X: Matrix  # (r, d)
    row: Index  # (N,)
    task: Index  # (N,)
    y: Array  # (N,)
    weight: Array  # (N,), positive
    n_tasks: int

    @cached_property
    def total(self) -> float:
        """Weight of all cells."""
        return float(self.weight.sum())

    @cached_property
    def row_weight(self) -> Array:
        """Weight of each row, over all tasks (r,)."""
        return self.per_row(self.weight[np.newaxis])[0]

    @cached_property
    def task_weight(self) -> Array:
        """Weight of each task (m,)."""
        return _sums(self.weight[np.newaxis], self.task, self.n_tasks)[0]

    def per_row(self, values: Array) -> Array:
        """Sums over the cells of each row: (k, N) to (k, r)."""
        return _sums(values, self.row, int(self.X.shape[0]))

    def per_task(self, values: Array) -> Array:
        """Sums over the cells of each task: (k, N) to (k, m)."""
        return _sums(values, self.task, self.n_tasks)

    def mean(self, values: Array) -> float:
        """Weighted mean over the cells."""
        return float(self.weight @ values) / self.total


def gather_cells(data: TaskData) -> Cells:
    """Cells of either layout; stacked rows that are equal become one."""
    m = data.shape[1]
    if issparse(data.X) and data.X.shape[0] * data.X.shape[1] <= WRITTEN_OUT:
        data = data.with_matrix(data.X.toarray())
    if isinstance(data, StackedRows):
        X, row = _distinct_rows(data.X)
        task = np.repeat(np.arange(m), np.diff(data.starts))
        return Cells(X, row, task, data.y, data.weight, m)
    weight = np.broadcast_to(data.weight, data.y.shape)
    row, task = np.nonzero(weight)
    return Cells(data.X, row, task, data.y[row, task], weight[row, task], m)


def _distinct_rows(X: Matrix) -> tuple[Matrix, Index]:
    """Each row once, and where each row is among them; as they are if all differ."""
    first, row = find_distinct(X)
    return (X, np.arange(len(row))) if len(first) == len(row) else (X[first], row)


def _sums(values: Array, place: Index, size: int) -> Array:
    return np.array([np.bincount(place, row, size) for row in values])
