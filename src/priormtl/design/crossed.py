"""Crossed: which level of each crossed factor a row has.

A crossed factor is a column, such as the teacher of pupils in many schools, whose
levels have effects of their own beside those of the tasks. Effects of all factors are
one vector v, those of the first factor first; a row has the sum of those of its levels.
"""

from typing import NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array

from priormtl._arrays import Array, Index


class Crossed(NamedTuple):
    """Levels of rows, of one or more factors."""

    names: tuple[str, ...]  # columns
    sizes: tuple[int, ...]  # number of levels of each
    codes: Index  # (n, factors) level of each row; −1: missing, or not seen in training

    def take(self, rows: Index) -> Self:
        """Only these rows."""
        return self._replace(codes=self.codes[rows])

    def only(self, names: tuple[str, ...] | None) -> Self | None:
        """Only these factors, in the order of the data; None: all, or none left."""
        if names is None:
            return self
        kept = [k for k, name in enumerate(self.names) if name in names]
        chosen = tuple(self.names[k] for k in kept)
        sizes = tuple(self.sizes[k] for k in kept)
        part = self._replace(names=chosen, sizes=sizes, codes=self.codes[:, kept])
        return part if kept else None

    @property
    def size(self) -> int:
        """Number of levels of all factors."""
        return sum(self.sizes)

    def split(self, values: Array) -> dict[str, Array]:
        """Values of all levels (size,), by factor."""
        ends = np.cumsum(self.sizes).tolist()
        starts = [0, *ends]
        return {
            name: values[start:end]
            for name, start, end in zip(self.names, starts, ends, strict=False)
        }

    def positions(self) -> Index:
        """Position (n, factors) of levels among all; ``size`` where there is none."""
        starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        return np.where(self.codes < 0, self.size, self.codes + starts).astype(np.intp)

    def forward(self, effects: Array) -> Array:
        """Sum of effects (size,) of the levels of each row (n,)."""
        return np.append(effects, 0.0)[self.positions()].sum(axis=1)

    def matrix(self) -> csr_array:
        """Indicators Z (n, size)."""
        n, present = len(self.codes), self.codes >= 0
        indptr = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
        columns = self.positions()[present]
        return csr_array((np.ones(len(columns)), columns, indptr), (n, self.size))
