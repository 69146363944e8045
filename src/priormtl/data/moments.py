"""Moments: what squared loss needs to know of the samples, however they are kept.

Squared loss depends on the rows of task i only through the weight w, the means x̄ and
ȳ, and the centred products XᵀX, Xᵀy and yᵀy. There are two forms: a Gram matrix XᵀX
per task or one for all, in memory, on disk or on a device
(:class:`~priormtl.data.TaskStatistics`), and the samples themselves, where XᵀX would be
larger than X (:class:`CentredSamples`, below). :func:`~priormtl.data.condense` chooses.
"""

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from scipy.sparse import diags_array, issparse
from scipy.sparse.linalg import LinearOperator, svds

from priormtl._arrays import Array, Index, tasks_last
from priormtl._lazy import cached_property
from priormtl._numerics import ROUNDING
from priormtl.data.tasks import SharedRows, StackedRows, TaskData
from priormtl.design import Design

if TYPE_CHECKING:
    from priormtl.data.statistics import Moments

SMALLEST = 1e-150  # squares of smaller numbers leave the range of doubles
MOST_DENSE_ROWS = 1000  # beyond, a sparse task's spectrum is found without a dense copy


class CentredRows(NamedTuple):
    """Samples about their task's mean, times the root of their weight."""

    X: Array  # (n, d)
    y: Array  # (n,) task after task, or (n, m) where tasks share rows
    starts: Index  # (m + 1,) where each task begins; empty where tasks share rows


def pooled_means(moments: "Moments") -> Array:
    """Mean of each feature over all rows of all tasks (d,)."""
    total = float(moments.weight.sum())
    return np.asarray(moments.weight @ moments.x_mean / (total or 1.0))


def pooled_variance(moments: "Moments") -> Array:
    """Variance of each feature over all rows of all tasks (d,)."""
    # That within tasks, and that of their means.
    weight = moments.weight / moments.weight.sum()
    centre = weight @ moments.x_mean
    between = weight @ (moments.x_mean - centre) ** 2
    return moments.squared_deviations().sum(axis=0) / moments.weight.sum() + between


def pooled_scale(moments: "Moments") -> Array:
    """Pooled standard deviation of each feature; 1 where a feature is constant."""
    deviation = np.sqrt(pooled_variance(moments))
    # A constant column keeps rounding noise of the size of its mean.
    noise = 1e-14 * np.abs(moments.x_mean).max(axis=0)
    return np.where(deviation > noise, deviation, 1.0)


def task_errors(moments: "Moments", coef: Array, intercept: Array) -> Array:
    """Sum of squared errors of each task (m,), from moments; coef is (m, d)."""
    products = moments.gram_product(np.ascontiguousarray(coef.T)).T
    within = moments.yy + np.einsum("ij,ij->i", coef, products - 2.0 * moments.xy)
    misses = moments.y_mean - np.einsum("ij,ij->i", coef, moments.x_mean) - intercept
    # Rounding can leave a perfect fit below zero.
    return np.asarray(np.maximum(within, 0.0) + moments.weight * misses**2)


# Samples about their mean.


@dataclass(frozen=True, eq=False)
class CentredSamples:
    """Samples about their task's mean; methods are those of `TaskStatistics`.

    Dense rows are stored centred, which keeps digits when features have large
    offsets. Sparse rows stay as they are and are centred inside each product. Rows and
    offsets are in the units of the table, means in those of ``scale``.
    """

    data: TaskData  # rows, and targets about their mean
    x_mean: Array  # (m, d)
    y_mean: Array  # (m,)
    offset: Array | None  # (m, d) what each product subtracts from rows; None: nothing
    # (d,) by which products divide features, since copies of rows would take memory.
    scale: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.data.shape

    @cached_property
    def unit(self) -> Array:
        """Factors (d,) of features: 1 / scale."""
        return np.ones(self.shape[0]) if self.scale is None else 1.0 / self.scale

    @property
    def tasks(self) -> tuple[Hashable, ...]:
        return self.data.tasks

    @property
    def features(self) -> Design | None:
        return self.data.features

    @property
    def weight(self) -> Array:
        return self.data.task_weight

    @cached_property
    def xy(self) -> Array:
        return self._adjoint(self.data.weight * self.data.y).T

    @cached_property
    def yy(self) -> Array:
        return self.data.task_sums(self.data.weight * self.data.y**2)

    @property
    def size(self) -> int:
        return int(self.data.X.nnz if self._sparse else self.data.X.size)

    @property
    def gram_size(self) -> int:
        return self._n_grams * self.shape[0] ** 2

    def gram(self) -> Array:
        return tasks_last(self._n_grams, self.shape[0], self._fill_gram)

    def raw_gram(self) -> Array:
        def fill(i: int, out: Array) -> None:
            mean = np.sqrt(self.weight[i]) * self.x_mean[i]
            if self.offset is None:
                rows = np.vstack([self._weighted_rows(i) * self.unit, mean])
                np.matmul(rows.T, rows, out=out)
            else:
                self._fill_gram(i, out)
                out += np.outer(mean, mean)

        return tasks_last(self._n_grams, self.shape[0], fill)

    @property
    def rows_per_task(self) -> float | None:
        """Mean number of samples in a task; None if sparse, or shared with gaps."""
        n = self.data.X.shape[0]
        if self._sparse:
            return None
        if not isinstance(self.data, SharedRows):
            return n / len(self.tasks)
        return float(n) if self.data.has_one_gram else None

    def rows(self) -> CentredRows:
        if self.scale is not None:
            return self._scaled().rows()
        data = self.data
        if isinstance(data, StackedRows):
            weight, starts, X = data.weight, data.starts, data.X
        else:
            weight, starts = data.weight[:, 0], np.zeros(0, np.intp)
            X = data.X if self.offset is None else data.X - self.offset[0]
        if self._is_plain:
            return CentredRows(X, data.y, starts)
        root = np.sqrt(weight)
        return CentredRows((X.T * root).T, (data.y.T * root).T, starts)

    def gram_product(self, P: Array) -> Array:
        return self._adjoint(self.data.weight * self._forward(P))

    def misfit(self, P: Array) -> tuple[float, Array]:
        """Half the sum of squared residuals about means, and its gradient (d, m)."""
        if not P.any():
            return 0.5 * float(self.yy.sum()), -self.xy.T
        rest = self._forward(P) - self.data.y
        weighted = self.data.weight * rest
        return 0.5 * float(np.vdot(weighted, rest)), self._adjoint(weighted)

    def squared_deviations(self) -> Array:
        if self._sparse:
            found = [self._sparse_deviations(i) for i in range(self.shape[1])]
            return np.array(found) * self.unit**2
        data, n_tasks = self.data, self.shape[1]
        if isinstance(data, StackedRows):  # task by task: no copy of all rows
            parts = map(data.rows_of, range(n_tasks))
            sums = np.array([weight @ X**2 for X, _, weight in parts])
        else:
            sums = data.with_matrix(data.X**2).adjoint(data.weight).T
        if self.offset is not None:
            sums = np.maximum(sums - self.weight[:, np.newaxis] * self.offset**2, 0.0)
        return np.asarray(sums * self.unit**2)

    def within_task_products(self, features: Index) -> Array:
        weight = self.data.weight
        per_row = weight.sum(axis=1) if weight.ndim == 2 else weight
        X = self.data.X
        if self._sparse:
            weighted = diags_array(per_row) @ X
            products = (X[:, features].T @ weighted).toarray()
        else:
            products = (X.T @ (X[:, features] * per_row[:, np.newaxis])).T
        if self.offset is not None:
            centres = self.offset[:, features] * self.weight[:, np.newaxis]
            products = products - centres.T @ self.offset
        return np.asarray(products * np.outer(self.unit[features], self.unit))

    def task_spectra(self) -> tuple[Array, Array]:
        if self.scale is not None:
            return self._scaled().task_spectra()
        lowest, highest = zip(*map(self._spectrum, range(len(self.tasks))), strict=True)
        return np.array(lowest), np.array(highest)

    def restrict(self, features: Index) -> Self:
        return replace(
            self,
            data=self.data.restrict(features),
            x_mean=self.x_mean[:, features],
            offset=None if self.offset is None else self.offset[:, features],
            scale=None if self.scale is None else self.scale[features],
        )

    def rescale(self, scale: Array) -> Self:
        known = 1.0 if self.scale is None else self.scale
        return replace(self, x_mean=self.x_mean / scale, scale=known * scale)

    def _scaled(self) -> Self:
        """Same samples, with rows that are divided by the scale."""
        assert self.scale is not None
        offset = None if self.offset is None else self.offset / self.scale
        return replace(
            self, data=self.data.rescale(self.scale), offset=offset, scale=None
        )

    def shift(self, centre: Array) -> Self:
        return replace(self, x_mean=self.x_mean - centre)

    def lower(self, level: Array) -> Self:
        return replace(self, y_mean=self.y_mean - level)

    @property
    def _n_grams(self) -> int:
        one = isinstance(self.data, SharedRows) and self.data.has_one_gram
        return 1 if one else len(self.tasks)

    def _fill_gram(self, i: int, out: Array) -> None:
        if self._sparse:
            X, _, weight = self.data.rows_of(i)
            out[:] = (X.T @ (diags_array(weight) @ X)).toarray()
        else:
            rows = self._weighted_rows(i)
            np.matmul(rows.T, rows, out=out)
        if self.offset is not None:
            out -= self.weight[i] * np.outer(self.offset[i], self.offset[i])
        if self.scale is not None:
            out *= np.outer(self.unit, self.unit)

    def _weighted_rows(self, i: int) -> Array:
        X, _, weight = self.data.rows_of(i)
        return X if self._is_plain else X * np.sqrt(weight)[:, np.newaxis]

    @cached_property
    def _is_plain(self) -> bool:
        return bool(np.all(self.data.weight == 1.0))

    @property
    def _sparse(self) -> bool:
        return issparse(self.data.X)

    def _forward(self, P: Array) -> Array:
        if self.scale is not None:
            P = P * self.unit[:, np.newaxis]
        scores = self.data.forward(P)
        if self.offset is None:
            return scores
        return scores - self.data.spread(np.sum(self.offset.T * P, axis=0))

    def _adjoint(self, R: Array) -> Array:
        sums = self.data.adjoint(R)
        if self.offset is not None:
            sums = sums - self.offset.T * self.data.task_sums(R)
        return sums if self.scale is None else sums * self.unit[:, np.newaxis]

    def _sparse_deviations(self, i: int) -> Array:
        """Σ w (x − c)² over stored entries, and w c² where nothing is stored."""
        X, _, weight = self.data.rows_of(i)
        assert self.offset is not None  # sparse rows are centred in products
        centre = self.offset[i]
        entries = X.tocoo()
        d, w = len(centre), weight[entries.row]
        gaps = entries.data - centre[entries.col]
        full = np.bincount(entries.col, minlength=d) == X.shape[0]
        rest = np.where(full, 0.0, weight.sum() - np.bincount(entries.col, w, d))
        squares = np.bincount(entries.col, w * gaps**2, d) + rest * centre**2
        # The centre is known up to rounding: subtract what is left of the mean.
        left = np.bincount(entries.col, w * gaps, d) - rest * centre
        return np.maximum(squares - left**2 / weight.sum(), 0.0)

    def _spectrum(self, i: int) -> tuple[float, float]:
        X, _, weight = self.data.rows_of(i)
        root = np.sqrt(weight)
        n, d = X.shape
        centre = np.zeros(d) if self.offset is None else self.offset[i]
        if self._sparse and min(n, d) > MOST_DENSE_ROWS:
            operator = LinearOperator(
                (n, d),
                matvec=lambda v: root * (X @ v.ravel() - centre @ v.ravel()),
                rmatvec=lambda r: (
                    X.T @ (root * r.ravel()) - centre * (root @ r.ravel())
                ),
                dtype=np.float64,
            )
            start = np.cos(np.arange(min(n, d)) * 2.5)
            found = svds(operator, k=1, return_singular_vectors=False, v0=start)
            return 0.0, float(found[0] ** 2)
        if self._sparse:
            # Gram matrix of the centred, weighted rows over the shorter side.
            Z = diags_array(root) @ X
            if d <= n:
                gram = (Z.T @ Z).toarray() - root @ root * np.outer(centre, centre)
            else:
                scores = np.outer(root * (X @ centre), root)
                both = scores + scores.T - centre @ centre * np.outer(root, root)
                gram = (Z @ Z.T).toarray() - both
            values = np.linalg.eigvalsh(gram)
            lowest = max(0.0, float(values[0])) if n >= d else 0.0
            return lowest, max(0.0, float(values[-1]))
        rows = X - centre
        values = np.linalg.svd(rows * root[:, np.newaxis], compute_uv=False) ** 2
        return float(values[-1]) if n >= d else 0.0, float(values[0])


def centre_samples(data: TaskData) -> CentredSamples:
    """Samples about their task's mean, targets less the offset."""
    if data.offset is not None:
        data = data.without_offset()
    y_mean = data.task_sums(data.weight * data.y) / data.task_weight
    y = np.where(data.weight > 0, data.y - data.spread(y_mean), 0.0)
    means = data.feature_means
    if issparse(data.X):
        return CentredSamples(replace(data, y=y), means, y_mean, means)
    if isinstance(data, StackedRows):
        X, corrections = np.array(data.X), np.zeros_like(means)
        share = data.weight / data.spread(data.task_weight)
        ends = data.starts.tolist()
        for i, (a, b) in enumerate(pairwise(ends)):
            rows = X[a:b]
            rows -= means[i]
            corrections[i] = share[a:b] @ rows  # the mean is inexact at large offsets
            rows -= corrections[i]
        # Deviations of a constant column are rounding errors, not data. The first rows
        # show that most columns are not constant, at no cost.
        still = np.abs(X[data.starts[:-1]]) <= ROUNDING * np.abs(means)
        for i in np.flatnonzero(still.any(axis=1)).tolist():
            rows = X[ends[i] : ends[i + 1]]
            largest = np.abs(rows).max(axis=0)
            rows[:, largest <= ROUNDING * np.abs(means[i])] = 0.0
        x_mean = means + corrections
        return CentredSamples(replace(data, X=X, y=y), x_mean, y_mean, None)
    # Shared rows may count in some tasks only: centre them about one common point,
    # and let products subtract the small rest.
    common = means.mean(axis=0)
    near = replace(data, X=data.X - common, y=y)
    offset = near.feature_means
    return CentredSamples(near, common + offset, y_mean, offset)


def shift_samples(data: TaskData) -> tuple[TaskData, Array]:
    """Same samples about points near their means, and these points (m, d).

    Free intercepts absorb any such shift, and scores keep their digits when features
    have large offsets. Sparse rows are not shifted.
    """
    if issparse(data.X):
        return data, np.zeros((data.shape[1], data.shape[0]))
    centred = centre_samples(data)
    rest = 0.0 if centred.offset is None else centred.offset
    return data.with_matrix(centred.data.X), centred.x_mean - rest


# Numbers that are too small.


def refuse_tiny(*parts: "Moments") -> None:
    """Fail where a feature or the target is tiny in all parts together.

    Their sums of squares would be zero, as if they were constant. Deviations are only
    computed where a mean is suspicious.
    """
    sizes, size = np.zeros(1), 0.0
    for part in parts:
        sizes = np.maximum(sizes, np.abs(part.x_mean).max(axis=0, initial=0.0))
        size = max(size, float(np.abs(part.y_mean).max(initial=0.0)))
    suspects = np.flatnonzero((sizes > 0) & (sizes < SMALLEST))
    if len(suspects):
        squares = (part.squared_deviations()[:, suspects] for part in parts)
        for k in suspects[_largest_deviations(squares, parts) < SMALLEST]:
            names = parts[0].features
            name = int(k) if names is None else names[k]
            raise too_small(f"feature {name!r}", sizes[k])
    if 0 < size < SMALLEST:
        squares = (part.yy[:, np.newaxis] for part in parts)
        if _largest_deviations(squares, parts)[0] < SMALLEST:
            raise too_small("the target", size)


def _largest_deviations(squares: Iterable[Array], parts: Iterable["Moments"]) -> Array:
    """Largest standard deviation over tasks and parts; zero where there are no rows."""
    found = np.zeros(1)
    for square, part in zip(squares, parts, strict=True):
        weight = part.weight[:, np.newaxis]
        shares = np.divide(square, weight, np.zeros_like(square), where=weight > 0)
        found = np.maximum(found, np.sqrt(shares).max(axis=0, initial=0.0))
    return found


def too_small(what: str, size: float) -> ValueError:
    digits = min(300, -math.floor(math.log10(size)))
    return ValueError(
        f"{what} must reach {SMALLEST:g}, or sums of squares vanish: it is about "
        f"{size:.0e}. Multiply it, for example by 1e{digits}."
    )
