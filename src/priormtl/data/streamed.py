"""StreamedMoments: Gram matrices that stay on disk, read some tasks at a time.

Features are chosen and divided by their scales as they are read, so that no step needs
a second copy of what does not fit into memory. A restriction to few features does fit,
and comes into memory.
"""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.data.grams import EVERY, MappedGrams
from priormtl.data.moments import CentredRows, Moments
from priormtl.data.statistics import TaskStatistics

__all__ = ["MOST_HELD", "StreamedMoments"]

MOST_HELD = 2**26  # numbers of all Gram matrices in memory: 512 MB


@dataclass(frozen=True, eq=False)
class StreamedMoments:
    """Moments of statistics, over chosen features, each divided by its scale."""

    statistics: TaskStatistics
    chosen: Index  # (k,)
    scale: Array  # (k,)
    most_held: int = MOST_HELD
    centre: Array | None = None  # (k,) what is taken off features after scaling

    @classmethod
    def of(cls, statistics: TaskStatistics, most_held: int = MOST_HELD) -> Self:
        """All features as they are."""
        d = statistics.shape[0]
        return cls(statistics, np.arange(d), np.ones(d), most_held)

    @property
    def tasks(self) -> tuple[Hashable, ...]:
        """Names of the m tasks."""
        return self.statistics.tasks

    @property
    def features(self) -> tuple[str, ...] | None:
        """Names of the chosen features, where known."""
        names = self.statistics.features
        return None if names is None else tuple(names[j] for j in self.chosen)

    @property
    def weight(self) -> Array:
        """Total weight of each task (m,)."""
        return self.statistics.weight

    @cached_property
    def x_mean(self) -> Array:
        """Feature means of each task (m, k)."""
        means = self.statistics.x_mean[:, self.chosen] / self.scale
        return means if self.centre is None else means - self.centre

    @property
    def y_mean(self) -> Array:
        """Target mean of each task (m,)."""
        return self.statistics.y_mean

    @cached_property
    def xy(self) -> Array:
        """Centred Xᵀy of each task (m, k)."""
        return self.statistics.xy[:, self.chosen] / self.scale

    @property
    def yy(self) -> Array:
        """Centred yᵀy of each task (m,)."""
        return self.statistics.yy

    @property
    def shape(self) -> tuple[int, int]:
        """(k, m)."""
        return len(self.chosen), len(self.tasks)

    @property
    def size(self) -> int:
        """Numbers that a product looks at."""
        return self.gram_size

    @property
    def gram_size(self) -> int:
        """Numbers in ``gram``."""
        k, m = self.shape
        return m * k * k

    def gram(self) -> Array:
        """Centred XᵀX of each task, where all of them fit into memory."""
        self._refuse_large()
        k, m = self.shape
        xx = np.empty((m, k, k))
        for tasks in self._grams.blocks(k * self.statistics.shape[0]):
            xx[tasks] = self._matrices(tasks)
        return xx

    def raw_gram(self) -> Array:
        """XᵀX about zero, where those of all tasks fit into memory."""
        return self._hold().raw_gram()

    @property
    def rows_per_task(self) -> None:
        """None: samples are gone."""

    def rows(self) -> CentredRows:
        """Not at hand."""
        raise TypeError("statistics do not hold samples.")

    def gram_product(self, P: Array) -> Array:
        """Column i is XᵀX of task i times column i of P.

        Gram matrices are symmetric: where few rows of P are not zero, as few of theirs
        are read.
        """
        used = np.flatnonzero(P.any(axis=1))
        rows, factors = self._choose_rows(used, P[used] / self.scale[used, np.newaxis])
        product = self._grams.products(factors[:, np.newaxis, :], rows)
        return (product[:, 0, self.chosen] / self.scale).T

    def squared_deviations(self) -> Array:
        """Diagonals of the centred XᵀX (m, k)."""
        return self._squared_deviations

    def within_task_products(self, features: Index) -> Array:
        """Rows ``features`` of the sum of the centred XᵀX over tasks (j, k)."""
        rows, d = self.chosen[features], self.statistics.shape[0]
        total = np.zeros((len(rows), d))
        for tasks in self._grams.blocks(len(rows) * d):
            total += self._grams.read(tasks, rows).sum(axis=0)
        return total[:, self.chosen] / self.scale / self.scale[features, np.newaxis]

    def task_spectra(self) -> tuple[Array, Array]:
        """Smallest and largest eigenvalue of each task's centred XᵀX."""
        k, m = self.shape
        lowest, highest = np.empty(m), np.empty(m)
        for tasks in self._grams.blocks(k * self.statistics.shape[0]):
            values = np.linalg.eigvalsh(self._matrices(tasks))
            lowest[tasks], highest[tasks] = values[:, 0], values[:, -1]
        return np.maximum(lowest, 0.0), highest

    def restrict(self, features: Index) -> Moments:
        """Only these features; in memory, where they fit."""
        centre = None if self.centre is None else self.centre[features]
        chosen, scale = self.chosen[features], self.scale[features]
        part = replace(self, chosen=chosen, scale=scale, centre=centre)
        return part._hold() if part.gram_size <= self.most_held else part

    def rescale(self, scale: Array) -> Self:
        """Features divided by ``scale``, as they are read."""
        centre = None if self.centre is None else self.centre / scale
        return replace(self, scale=self.scale * scale, centre=centre)

    def shift(self, centre: Array) -> Self:
        """Features less ``centre`` (d,)."""
        before = 0.0 if self.centre is None else self.centre
        return replace(self, centre=before + centre)

    @cached_property
    def _grams(self) -> MappedGrams:
        """Matrices of all tasks over all features, as they lie on disk."""
        return self.statistics.mapped_gram()

    @cached_property
    def _squared_deviations(self) -> Array:
        return np.asarray(self._grams.diagonals()[:, self.chosen] / self.scale**2)

    def _choose_rows(self, used: Index, factors: Array) -> tuple[Index | slice, Array]:
        """Rows to be read, and what multiplies each of them (m, r)."""
        d, m = self.statistics.shape
        rows = self.chosen[used]
        if 2 * len(rows) <= d:
            return rows, np.ascontiguousarray(factors.T)
        every = np.zeros((m, d))
        every[:, rows] = factors.T
        return EVERY, every

    def _matrices(self, tasks: slice) -> Array:
        """Gram matrices of some tasks."""
        part = self._grams.read(tasks, self.chosen)[:, :, self.chosen]
        return part / self.scale / self.scale[:, np.newaxis]

    def _hold(self) -> TaskStatistics:
        """Statistics in memory."""
        return replace(
            self.statistics,
            x_mean=self.x_mean,
            xx=self.gram(),
            xy=self.xy,
            features=self.features,
        )

    def _refuse_large(self) -> None:
        k, m = self.shape
        if self.gram_size > self.most_held:
            raise MemoryError(
                f"statistics on disk must not be needed all at once: {m} tasks x {k}² "
                f"x 8 bytes are {_in_gb(self.gram_size)}, and at most "
                f"{_in_gb(self.most_held)} come into memory; use fewer features, or "
                'neither tie_weights="adaptive" nor outlier_tasks=True.'
            )


def _in_gb(numbers: int) -> str:
    return f"{8e-9 * numbers:.3g} GB"
