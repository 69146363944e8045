"""Table: rows in the order in which they came, from which folds are taken."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array, Index, Matrix
from priormtl.data.orders import keep_tasks
from priormtl.data.tasks import TaskData, from_codes, from_columns

__all__ = ["Table"]


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of m tasks, not yet sorted: (n,) targets with codes, or (n, m) targets."""

    X: Matrix  # (n, d)
    y: Array  # (n,), or (n, m) with NaN where not measured
    codes: Index | None  # (n,) position of each row's task; None for (n, m) targets
    tasks: tuple[Hashable, ...]
    weight: Array | None  # (n,), or (n, m) with such targets
    features: tuple[str, ...] | None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def to_tasks(self) -> TaskData:
        """Rows sorted by task; those of weight zero are dropped."""
        if self.codes is None:
            return from_columns(self.X, self.y, self.weight, self.tasks, self.features)
        data = from_codes(self.X, self.y, self.codes, self.tasks, self.weight)
        return data.with_names(self.features)

    def measured(self) -> NDArray[np.bool_]:
        """Whether each target counts, with positive weight: (n, 1) or (n, m)."""
        known = ~np.isnan(_as_columns(self.y))
        return known if self.weight is None else known & (_as_columns(self.weight) > 0)

    def take(self, rows: Index) -> Self:
        """Only these rows, and of the tasks only those that they measure."""
        part = replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            codes=None if self.codes is None else self.codes[rows],
            weight=None if self.weight is None else self.weight[rows],
        )
        return part._drop_absent_tasks()

    def _drop_absent_tasks(self) -> Self:
        present = self._counts() > 0
        if present.all():
            return self
        tasks = keep_tasks(
            self.tasks,
            (task for task, kept in zip(self.tasks, present, strict=True) if kept),
        )
        if self.codes is None:
            by_cell = self.weight is not None and self.weight.ndim == 2
            weight = self.weight[:, present] if by_cell else self.weight  # type: ignore[index]
            return replace(self, y=self.y[:, present], weight=weight, tasks=tasks)
        # Rows of weight zero may belong to a task that is gone: they go with it.
        rows = np.flatnonzero(present[self.codes])
        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            codes=(np.cumsum(present) - 1)[self.codes[rows]],
            weight=None if self.weight is None else self.weight[rows],
            tasks=tasks,
        )

    def _counts(self) -> Index:
        """Measured targets of each task (m,)."""
        measured = self.measured()
        if self.codes is None:
            return np.count_nonzero(measured, axis=0)
        return np.bincount(self.codes[measured[:, 0]], minlength=len(self.tasks))


def _as_columns(values: Array) -> Array:
    return values if values.ndim == 2 else values[:, np.newaxis]
