"""Gram matrices that stay on disk, read some tasks at a time.

Where parts of the rows have matrices G_f about means x_f, that of all rows about their
mean x is Σ G_f + Σ w_f (x_f − x)(x_f − x)ᵀ. :class:`MappedGrams` forms this sum for
some tasks at a time, so that nothing as large as the sum is ever held. Nothing is
subtracted from the sum of all rows: what is left without one part keeps its digits.

A fit sees them as :class:`StreamedGrams`: features are chosen and divided by their
scales as they are read, so that no step needs a second copy of what does not fit into
memory. A restriction to few features does fit, and is loaded.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property

BLOCK_NUMBERS = 2**20  # read at a time: 8 MB
MOST_HELD = 2**26  # numbers of all Gram matrices in memory: 512 MB
EVERY = slice(None)


class GramPart(NamedTuple):
    """Gram matrices of some of the rows."""

    matrices: Array  # (m, d, d)
    weight: Array  # (m,), zero: this task's matrix does not count
    x_mean: Array  # (m, d)

    def read(self, tasks: slice, rows: Index | slice) -> Array:
        """Rows of the matrices of some tasks (t, r, d), zero for tasks without rows."""
        found, counts = self.matrices[tasks, rows], self.counts(tasks)
        return found if counts.all() else found * counts[:, np.newaxis, np.newaxis]

    def counts(self, tasks: slice) -> NDArray[np.bool_]:
        return np.asarray(self.weight[tasks] > 0)

    def only(self, tasks: NDArray[np.bool_]) -> "GramPart":
        return self._replace(weight=np.where(tasks, self.weight, 0.0))


@dataclass(frozen=True, eq=False)
class MappedGrams:
    """Gram matrices (m, d, d) of all parts together."""

    shape: tuple[int, int, int]
    parts: tuple[GramPart, ...]

    @classmethod
    def of(cls, matrices: Array, weight: Array, x_mean: Array) -> Self:
        m, d = x_mean.shape
        plain = np.broadcast_to(np.asarray(matrices), (m, d, d))
        return cls((m, d, d), (GramPart(plain, weight, x_mean),))

    @property
    def size(self) -> int:
        m, d, _ = self.shape
        return m * d * d

    @property
    def nbytes(self) -> int:
        return 8 * self.size

    @property
    def dtype(self) -> np.dtype[np.float64]:
        return np.dtype(np.float64)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("matrices on disk cannot be read without a copy.")
        found = np.empty(self.shape, dtype or self.dtype)
        for tasks in self.blocks(self.shape[1] ** 2):
            found[tasks] = self.read(tasks)
        return found

    def __add__(self, other: "MappedGrams") -> "MappedGrams":
        if not isinstance(other, MappedGrams):
            return NotImplemented
        return replace(self, parts=self.parts + other.parts)

    def only(self, tasks: NDArray[np.bool_]) -> Self:
        """Zero for all other tasks; parts without any of these are never read."""
        kept = (part.only(tasks) for part in self.parts)
        return replace(self, parts=tuple(part for part in kept if part.weight.any()))

    def blocks(self, numbers: int) -> Iterator[slice]:
        count = max(1, BLOCK_NUMBERS // max(1, numbers))
        for start in range(0, len(self), count):
            yield slice(start, min(start + count, len(self)))

    def read(self, tasks: slice, rows: Index | slice = EVERY) -> Array:
        """Rows of the matrices of some tasks (t, r, d)."""
        steps = self._steps(tasks)
        found = np.asarray(np.matmul(steps[:, :, rows].swapaxes(1, 2), steps))
        for part in self.parts:
            found += part.read(tasks, rows)
        return found

    def products(self, factors: Array, rows: Index | slice = EVERY) -> Array:
        """Factors (m, l, r) times these rows of the matrices (m, l, d)."""
        found = np.empty((*factors.shape[:2], self.shape[1]))
        for tasks in self.blocks(factors.shape[2] * self.shape[1]):
            left, steps = factors[tasks], self._steps(tasks)
            between = np.matmul(left, steps[:, :, rows].swapaxes(1, 2))
            found[tasks] = np.matmul(between, steps)
            for part in self.parts:
                counted = left * part.counts(tasks)[:, np.newaxis, np.newaxis]
                found[tasks] += np.matmul(counted, part.matrices[tasks, rows])
        return found

    def diagonals(self) -> Array:
        found = np.empty(self.shape[:2])
        for tasks in self.blocks(self.shape[1] * max(1, len(self.parts))):
            found[tasks] = np.sum(self._steps(tasks) ** 2, axis=1)
            for part in self.parts:
                own = np.diagonal(part.matrices[tasks], axis1=1, axis2=2)
                found[tasks] += own * part.counts(tasks)[:, np.newaxis]
        return found

    def _steps(self, tasks: slice) -> Array:
        """√w_f (x_f − x) of each part (t, f, d); empty if there is one part."""
        means = [part.x_mean[tasks] for part in self.parts]
        if len(means) < 2:
            return np.zeros((len(range(len(self))[tasks]), 0, self.shape[1]))
        apart = np.stack(means, axis=1)
        weight = np.stack([part.weight[tasks] for part in self.parts], axis=1)
        total = weight.sum(axis=1, keepdims=True)
        shares = weight / np.where(total > 0, total, 1.0)
        centre = np.matmul(shares[:, np.newaxis], apart)
        return np.asarray(np.sqrt(weight)[:, :, np.newaxis] * (apart - centre))


@dataclass(frozen=True, eq=False)
class StreamedGrams:
    """Matrices on disk, over chosen features, each divided by its scale.

    The interface is that of `DeviceGrams`.
    """

    grams: MappedGrams
    chosen: Index  # (k,)
    scale: Array  # (k,)
    most_held: int  # numbers up to which they are loaded

    @classmethod
    def of(cls, grams: MappedGrams, most_held: int = MOST_HELD) -> Self:
        d = grams.shape[1]
        return cls(grams, np.arange(d), np.ones(d), most_held)

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.grams), len(self.chosen), len(self.chosen)

    @property
    def size(self) -> int:
        m, k, _ = self.shape
        return m * k * k

    @property
    def nbytes(self) -> int:
        return 8 * self.size

    @property
    def dtype(self) -> np.dtype[np.float64]:
        return np.dtype(np.float64)

    def __len__(self) -> int:
        return len(self.grams)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        m, k, _ = self.shape
        if self.size > self.most_held:
            raise MemoryError(
                f"statistics on disk must not be needed all at once: {m} tasks x {k}² "
                f"x 8 bytes are {8e-9 * self.size:.3g} GB, and at most "
                f"{8e-9 * self.most_held:.3g} GB are loaded. Use fewer features, or "
                'neither ties="adaptive" nor outlier_tasks=True.'
            )
        found = np.empty(self.shape, dtype or self.dtype)
        for tasks, matrices in self._blocks():
            found[tasks] = matrices
        return found

    def restrict(self, features: Index) -> Self | Array:
        """Only these features; in memory, if they fit."""
        part = replace(self, chosen=self.chosen[features], scale=self.scale[features])
        return np.asarray(part) if part.size <= self.most_held else part

    def rescale(self, scale: Array) -> Self:
        return replace(self, scale=self.scale * scale)

    def products(self, factors: Array) -> Array:
        """Factors (m, l, k) times the matrices (m, l, k).

        Matrices are symmetric: where few columns of the factors are not zero, as few
        rows are read.
        """
        d, used = self.grams.shape[1], np.flatnonzero(factors.any(axis=(0, 1)))
        scaled = factors[:, :, used] / self.scale[used]
        rows: Index | slice = self.chosen[used]
        if 2 * len(used) > d:
            whole = np.zeros((*factors.shape[:2], d))
            whole[:, :, rows] = scaled
            scaled, rows = whole, EVERY
        return self.grams.products(scaled, rows)[:, :, self.chosen] / self.scale

    def diagonals(self) -> Array:
        return self._diagonals

    @cached_property
    def _diagonals(self) -> Array:
        return np.asarray(self.grams.diagonals()[:, self.chosen] / self.scale**2)

    def total(self, features: Index) -> Array:
        """Rows ``features`` of the sum over tasks (l, k)."""
        rows, d = self.chosen[features], self.grams.shape[1]
        total = np.zeros((len(rows), d))
        for tasks in self.grams.blocks(len(rows) * d):
            total += self.grams.read(tasks, rows).sum(axis=0)
        return total[:, self.chosen] / self.scale / self.scale[features, np.newaxis]

    def eigenvalues(self) -> Array:
        """Of each matrix, rising (m, k)."""
        return np.concatenate([np.linalg.eigvalsh(x) for _, x in self._blocks()])

    def _blocks(self) -> Iterator[tuple[slice, Array]]:
        for tasks in self.grams.blocks(len(self.chosen) * self.grams.shape[1]):
            part = self.grams.read(tasks, self.chosen)[:, :, self.chosen]
            yield tasks, part / self.scale / self.scale[:, np.newaxis]
