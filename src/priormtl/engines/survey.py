"""Survey: what must be known of all rows before those of one task can be summed up."""

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from priormtl._arrays import Array
from priormtl.data import merge_tasks
from priormtl.engines.batches import Reading
from priormtl.engines.columns import Values
from priormtl.engines.layout import Layout, Slot, join_layouts

__all__ = ["Survey"]


@dataclass(frozen=True, eq=False)
class Survey:
    """Columns, means that fill gaps, and tasks of some rows; ``a + b``: of both."""

    layout: Layout
    sums: Mapping[Slot, float]  # of weight times value, over the values observed
    observed: Array  # of each column: weight of the rows that have its value
    tasks: tuple[Hashable, ...]  # sorted
    counts: Mapping[Hashable, int]  # rows of each
    fold_weight: Array  # (k,) of the rows of each fold
    rows: int
    dropped: int

    @classmethod
    def of(cls, reading: Reading, n: int, folds: int = 1) -> Self:
        """Survey of the n rows of a batch, dealt into folds."""
        rows, columns = reading.rows, reading.layout.columns
        seen = [_observed_weight(values, rows.weight) for values in reading.features]
        sums: dict[Slot, float] = {}
        for column, values, weight in zip(columns, reading.features, seen, strict=True):
            sums |= _sum_values(column.name, values, weight)
        counts = dict(zip(rows.tasks, rows.row_counts().tolist(), strict=True))
        observed = np.array([weight.sum() for weight in seen])
        held = np.bincount(rows.folds, rows.weight, folds).astype(np.float64)
        layout, dropped = reading.layout, reading.dropped
        return cls(layout, sums, observed, rows.tasks, counts, held, n, dropped)

    def __add__(self, other: "Survey") -> "Survey":
        """Survey of both sets of rows."""
        if not isinstance(other, Survey):
            return NotImplemented
        layout = join_layouts(self.layout, other.layout)
        sums = dict(self.sums)
        for slot, value in other.sums.items():
            sums[slot] = sums.get(slot, 0.0) + value
        return Survey(
            layout,
            sums,
            self.observed + other.observed,
            merge_tasks(self.tasks, other.tasks),
            Counter(self.counts) + Counter(other.counts),
            self.fold_weight + other.fold_weight,
            self.rows + other.rows,
            self.dropped + other.dropped,
        )

    def centre(self) -> Array:
        """Of each slot: what fills its gaps, zero where there are none."""
        slots, found = self.layout.slots(), self.layout.filled()
        centre = np.zeros(len(slots))
        for place, column in zip(found.slots, found.columns, strict=True):
            total = self.observed[column]
            centre[place] = self.sums.get(slots[place], 0.0) / total if total else 0.0
        return centre


def _observed_weight(values: Values, weight: Array) -> Array:
    """Weights of the rows, zero where the value is missing."""
    return weight if values.gaps is None else np.where(values.gaps, 0.0, weight)


def _sum_values(name: str, values: Values, weight: Array) -> dict[Slot, float]:
    if values.labels is None:
        return {Slot(name): float(weight @ values.values)}
    sums = np.bincount(values.values, weight, len(values.labels)).tolist()
    # Gaps have the code 0, also where there is no label.
    pairs = zip(values.labels, sums, strict=False)
    return {Slot(name, label): total for label, total in pairs}
