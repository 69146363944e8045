"""MappedGrams: Gram matrices of parts that lie on disk, added up as they are read.

Where parts of the rows have matrices G_f about means x_f, that of all rows about their
mean x is Σ G_f + Σ w_f (x_f − x)(x_f − x)ᵀ. It is formed for some tasks at a time, so
that nothing as large as the sum is ever held. Nothing is subtracted from the sum of all
rows, either: what is left without one part keeps its digits.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array, Index

__all__ = ["GramPart", "MappedGrams"]

BLOCK_NUMBERS = 2**20  # read at a time: 8 MB
EVERY = slice(None)


class GramPart(NamedTuple):
    """Matrices of some of the rows."""

    matrices: Array  # (m, d, d)
    weight: Array  # (m,), zero: this task's matrix does not count
    x_mean: Array  # (m, d)

    def read(self, tasks: slice, rows: Index | slice) -> Array:
        """Rows of the matrices of some tasks (t, r, d), zero where none counts."""
        found, counts = self.matrices[tasks, rows], self.counts(tasks)
        return found if counts.all() else found * counts[:, np.newaxis, np.newaxis]

    def counts(self, tasks: slice) -> NDArray[np.bool_]:
        """Which of some tasks have rows here (t,)."""
        return np.asarray(self.weight[tasks] > 0)

    def only(self, tasks: NDArray[np.bool_]) -> "GramPart":
        """Matrices of other tasks do not count."""
        return self._replace(weight=np.where(tasks, self.weight, 0.0))


@dataclass(frozen=True, eq=False)
class MappedGrams:
    """Gram matrices (m, d, d) of all parts together."""

    shape: tuple[int, int, int]
    parts: tuple[GramPart, ...]

    @classmethod
    def of(cls, matrices: Array, weight: Array, x_mean: Array) -> Self:
        """One part; where all tasks share a matrix, each has it."""
        m, d = x_mean.shape
        plain = np.broadcast_to(np.asarray(matrices), (m, d, d))
        return cls((m, d, d), (GramPart(plain, weight, x_mean),))

    @property
    def size(self) -> int:
        """Numbers of all matrices."""
        m, d, _ = self.shape
        return m * d * d

    @property
    def nbytes(self) -> int:
        """Bytes that all matrices would take in memory."""
        return 8 * self.size

    @property
    def dtype(self) -> np.dtype[np.float64]:
        """Doubles."""
        return np.dtype(np.float64)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All matrices, in memory."""
        if copy is False:
            raise ValueError("matrices on disk cannot be had without a copy.")
        found = np.empty(self.shape, dtype or self.dtype)
        for tasks in self.blocks(self.shape[1] ** 2):
            found[tasks] = self.read(tasks)
        return found

    def __add__(self, other: "MappedGrams") -> "MappedGrams":
        """Of the rows of both."""
        if not isinstance(other, MappedGrams):
            return NotImplemented
        return replace(self, parts=self.parts + other.parts)

    def only(self, tasks: NDArray[np.bool_]) -> Self:
        """Zero in all other tasks; parts without any of these are not read at all."""
        kept = (part.only(tasks) for part in self.parts)
        return replace(self, parts=tuple(part for part in kept if part.weight.any()))

    def blocks(self, numbers: int) -> Iterator[slice]:
        """Tasks to be read together, of so many numbers each."""
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
        """Diagonals of the matrices (m, d)."""
        found = np.empty(self.shape[:2])
        for tasks in self.blocks(self.shape[1] * max(1, len(self.parts))):
            found[tasks] = np.sum(self._steps(tasks) ** 2, axis=1)
            for part in self.parts:
                own = np.diagonal(part.matrices[tasks], axis1=1, axis2=2)
                found[tasks] += own * part.counts(tasks)[:, np.newaxis]
        return found

    def _steps(self, tasks: slice) -> Array:
        """From the mean of all rows to those of parts, times root weights (t, f, d).

        One part has none.
        """
        means = [part.x_mean[tasks] for part in self.parts]
        if len(means) < 2:
            return np.zeros((len(range(len(self))[tasks]), 0, self.shape[1]))
        apart = np.stack(means, axis=1)
        weight = np.stack([part.weight[tasks] for part in self.parts], axis=1)
        total = weight.sum(axis=1, keepdims=True)
        shares = weight / np.where(total > 0, total, 1.0)
        centre = np.matmul(shares[:, np.newaxis], apart)
        return np.asarray(np.sqrt(weight)[:, :, np.newaxis] * (apart - centre))
