"""Modes: Hessians of tasks in their own axes, to be inverted with any shift."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.losses.base import NormalForm, SampleForm

__all__ = ["Modes"]


@dataclass(frozen=True, eq=False)
class Modes:
    """Hessian of task i as vectors_iᵀ diag(values_i) vectors_i; none beyond."""

    values: Array  # (t, r) ≥ 0, with t = m, or 1 where all tasks have the same
    vectors: Array  # (t, r, d) orthonormal where values are not zero

    @classmethod
    def from_gram(cls, form: NormalForm) -> Self:
        """Axes of Gram matrices."""
        values, vectors = np.linalg.eigh(form.gram)
        turned = np.ascontiguousarray(vectors.transpose(0, 2, 1))
        return cls(np.maximum(values, 0.0), turned)

    @classmethod
    def from_samples(cls, form: SampleForm) -> Self:
        """Axes of samples, fewer than features."""
        _, sizes, vectors = np.linalg.svd(_stack(form), full_matrices=False)
        return cls(sizes**2, np.ascontiguousarray(vectors))

    def solve(self, shift: float, V: Array) -> Array:
        """X that solves (Hessian + shift · I) X = V (d, m)."""
        if self.values.shape[1] == len(V):  # axes of the whole space
            return self.turn_back(self.turn(V) / (self.values + shift))
        share = self.values / (self.values + shift)
        return (V - self.turn_back(share * self.turn(V))) / shift

    def turn(self, V: Array) -> Array:
        """Columns of V (d, m) in the axes of their tasks (m, r)."""
        if len(self.values) == 1:
            return np.asarray((self.vectors[0] @ V).T)
        return np.matmul(self.vectors, V.T[:, :, np.newaxis])[:, :, 0]

    def turn_back(self, parts: Array) -> Array:
        """Columns (d, m) of which these are the parts (m, r)."""
        if len(self.values) == 1:
            return np.asarray(self.vectors[0].T @ parts.T)
        return np.matmul(parts[:, np.newaxis, :], self.vectors)[:, 0, :].T

    def take(self, tasks: Index) -> Self:
        """Only these tasks."""
        if len(self.values) == 1:
            return self
        return type(self)(self.values[tasks], self.vectors[tasks])


def _stack(form: SampleForm) -> Array:
    """Samples (t, n, d), those of short tasks filled up with zeros."""
    if not len(form.starts):
        return form.rows.T[np.newaxis]
    counts = np.diff(form.starts)
    stacked = np.zeros((len(counts), int(counts.max()), len(form.rows)))
    task = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(form.rows.shape[1]) - np.repeat(form.starts[:-1], counts)
    stacked[task, place] = form.rows.T
    return stacked
