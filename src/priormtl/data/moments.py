"""Moments: what squared loss needs to know of the samples, however they are kept."""

from collections.abc import Callable, Hashable
from typing import NamedTuple, Protocol, Self

import numpy as np

from priormtl._arrays import Array, Index

__all__ = [
    "CentredRows",
    "Moments",
    "pooled_means",
    "pooled_scale",
    "pooled_variance",
    "tasks_last",
]

TILE = 16  # tasks moved at a time: two cache lines of numbers


class CentredRows(NamedTuple):
    """Samples about their task's mean, times the root of their weight."""

    X: Array  # (n, d)
    y: Array  # (n,) task after task, or (n, m) where tasks share rows
    starts: Index  # (m + 1,) where each task begins; empty where tasks share rows


class Moments(Protocol):
    """Weights, means and centred second moments of each task."""

    @property
    def tasks(self) -> tuple[Hashable, ...]:
        """Names of the m tasks."""

    @property
    def features(self) -> tuple[str, ...] | None:
        """Names of the d features, where known."""

    @property
    def weight(self) -> Array:
        """Total weight of each task (m,)."""

    @property
    def x_mean(self) -> Array:
        """Feature means of each task (m, d)."""

    @property
    def y_mean(self) -> Array:
        """Target mean of each task (m,)."""

    @property
    def xy(self) -> Array:
        """Centred Xᵀy of each task (m, d)."""

    @property
    def yy(self) -> Array:
        """Centred yᵀy of each task (m,)."""

    @property
    def shape(self) -> tuple[int, int]:
        """(d, m)."""

    @property
    def size(self) -> int:
        """Numbers that a product looks at."""

    @property
    def gram_size(self) -> int:
        """Numbers in ``gram``."""

    def gram(self) -> Array:
        """Centred XᵀX of each task (m, d, d), or (1, d, d) where all are the same.

        Only an array that is the caller's own can be written.
        """

    def raw_gram(self) -> Array:
        """XᵀX about zero instead; the caller's own."""

    @property
    def rows_per_task(self) -> float | None:
        """Mean number of ``rows`` that a task has; None where they are not at hand."""

    def rows(self) -> CentredRows:
        """The samples themselves, where they are at hand."""

    def gram_product(self, P: Array) -> Array:
        """Column i is the centred XᵀX of task i times column i of P."""

    def squared_deviations(self) -> Array:
        """Diagonals of the centred XᵀX (m, d)."""

    def within_task_products(self, features: Index) -> Array:
        """Rows ``features`` of the sum of the centred XᵀX over tasks (k, d)."""

    def task_spectra(self) -> tuple[Array, Array]:
        """Smallest and largest eigenvalue of each task's centred XᵀX (m,), (m,)."""

    def restrict(self, features: Index) -> "Moments":
        """Only these features."""

    def rescale(self, scale: Array) -> Self:
        """Features divided by ``scale``."""

    def shift(self, centre: Array) -> Self:
        """Features less ``centre`` (d,): only means change."""


def tasks_last(t: int, d: int, fill: Callable[[int, Array], None]) -> Array:
    """Matrices (t, d, d) that ``fill`` writes, with tasks side by side in memory.

    Solvers read them so. Small tiles are turned while they are in cache: memory for
    all matrices, whose first touch costs more than the products, is taken once.
    """
    out, tile = np.empty((d, d, t)), np.empty((min(t, TILE), d, d))
    for start in range(0, t, TILE):
        part = tile[: t - start]
        for k, matrix in enumerate(part):
            fill(start + k, matrix)
        out[:, :, start : start + TILE] = part.transpose(1, 2, 0)
    return out.transpose(2, 0, 1)


def pooled_means(moments: Moments) -> Array:
    """Mean of each feature over all rows of all tasks (d,)."""
    total = float(moments.weight.sum())
    return np.asarray(moments.weight @ moments.x_mean / (total or 1.0))


def pooled_variance(moments: Moments) -> Array:
    """Variance of each feature over all rows of all tasks (d,)."""
    weight = moments.weight / moments.weight.sum()
    centre = weight @ moments.x_mean
    between = weight @ (moments.x_mean - centre) ** 2
    return moments.squared_deviations().sum(axis=0) / moments.weight.sum() + between


def pooled_scale(moments: Moments) -> Array:
    """Pooled standard deviation of each feature; 1 where a feature is constant."""
    deviation = np.sqrt(pooled_variance(moments))
    # A constant column keeps rounding noise of the size of its mean.
    noise = 1e-14 * np.abs(moments.x_mean).max(axis=0)
    return np.where(deviation > noise, deviation, 1.0)
