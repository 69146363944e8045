"""Heaps: rows on their way to disk, those of a task to one, and a look at them."""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from priormtl._arrays import Index
from priormtl.engines.batches import Rows, read_batch
from priormtl.engines.columns import read_tasks
from priormtl.engines.recipe import Recipe
from priormtl.engines.spill import Spill
from priormtl.engines.survey import Survey

__all__ = ["Heaps"]


class Heaps:
    """Rows by task: tasks come to the heaps in turn, as they appear."""

    def __init__(self, recipe: Recipe, spill: Spill) -> None:
        self.survey: Survey | None = None  # of all rows so far
        self._recipe, self._spill = recipe, spill
        self._tasks: list[list[Hashable]] = [[] for _ in range(spill.heaps)]
        self._heap: dict[Hashable, int] = {}  # of each task

    def add(self, table: pa.Table) -> None:
        """Check rows, and lay those that count aside."""
        reading = read_batch(self._recipe, table)
        found = Survey.of(reading, table.num_rows, self._recipe.folds or 1)
        self.survey = found if self.survey is None else self.survey + found
        heaps = self._place(reading.rows)
        # Rows of a task stay together, whatever their folds.
        order = np.lexsort((reading.rows.codes, heaps))
        ordered = table.take(reading.rows.order[order])
        ends = np.searchsorted(heaps[order], np.arange(self._spill.heaps + 1))
        for heap in np.unique(heaps).tolist():
            begin, end = ends[heap : heap + 2].tolist()
            self._spill.write(heap, ordered.slice(begin, end - begin))

    def tasks(self) -> Iterator[tuple[int, list[Hashable]]]:
        """Heaps that hold rows, and their tasks in order."""
        for heap, tasks in enumerate(self._tasks):
            if tasks:
                yield heap, sorted(tasks)  # type: ignore[type-var]

    def rows(self, heap: int, tasks: Sequence[Hashable]) -> Iterator[pa.Table]:
        """Rows of some tasks of a heap, that follow each other in order."""
        some = len(tasks) < len(self._tasks[heap])
        for table in self._spill.read(heap):
            yield self._only(table, set(tasks)) if some else table

    def drop(self, heap: int) -> None:
        """Forget the rows of a heap."""
        self._spill.drop(heap)

    def _place(self, rows: Rows) -> Index:
        """Heap of each row."""
        for task in rows.tasks:
            if task not in self._heap:
                heap = self._heap[task] = len(self._heap) % self._spill.heaps
                self._tasks[heap].append(task)
        heaps = np.array([self._heap[task] for task in rows.tasks], dtype=np.intp)
        return heaps[rows.codes]

    def _only(self, table: pa.Table, tasks: set[Any]) -> pa.Table:
        """Rows of some tasks that follow each other, as rows in a piece do too."""
        codes, _, labels = read_tasks(self._recipe.task, table[self._recipe.task])
        kept = np.array([label in tasks for label in labels or ()])
        rows = np.flatnonzero(kept[codes])
        # A slice is cheap; to filter many columns of few rows is not.
        return table.slice(rows[0], len(rows)) if len(rows) else table.slice(0, 0)
