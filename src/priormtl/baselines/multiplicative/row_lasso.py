"""Steps that lower fit(W) + lam Σ_j ‖w_j‖₁ / v_j: lasso with one weight per feature.

Coordinate descent in compiled loops, on Gram matrices or on samples.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.baselines.multiplicative.row_steps import Place
from priormtl.data import SharedRows, StackedRows, TaskData
from priormtl.losses import DataFit

__all__ = ["LassoStep", "as_own_rows"]

FEW_GRAM_NUMBERS = 2**22  # 32 MB
MOST_PASSES = 1000


@dataclass(frozen=True, eq=False)
class LassoStep:
    """One lasso per task, which begins where the last ended."""

    fit: DataFit[Any]

    def move(self, place: Place) -> Array:
        """Minimise the quadratic model until passes gain little."""
        with np.errstate(divide="ignore", over="ignore"):
            weight = place.lam / place.shared
        limits = (place.enough / place.coef.shape[1], MOST_PASSES)
        if self.fit.is_quadratic:
            problem = self._same_problem
        else:
            problem = _lay_out(self.fit.quadratic_model(place.point))
        return problem.improve(place, weight, limits)

    def restrict(self, features: Index) -> Self:
        """Same for these features only."""
        return type(self)(self.fit.restrict(features))

    @cached_property
    def _same_problem(self) -> "_Grams | _Rows":
        return _lay_out(self.fit)


def as_own_rows(data: TaskData) -> TaskData:
    """Same samples, dense and with rows of their own for each task."""
    if not isinstance(data, SharedRows):
        dense = data.X.toarray() if issparse(data.X) else data.X
        return data.with_matrix(dense)
    parts = [data.rows_of(i) for i in range(data.shape[1])]
    tables, targets, weights = zip(*parts, strict=True)
    X = np.concatenate([x.toarray() if issparse(x) else x for x in tables])
    y, weight = np.concatenate(targets), np.concatenate(weights)
    starts = np.cumsum([0, *map(len, targets)]).astype(np.intp)
    return StackedRows(X, y, weight, data.tasks, data.features, starts)


def _lay_out(fit: DataFit[Any]) -> "_Grams | _Rows":
    """Gram matrices where they are small or all there is, else samples."""
    rows, size = fit.rows_per_task, fit.normal_size or 0
    if rows is None or (size <= FEW_GRAM_NUMBERS and fit.shape[0] <= 2 * rows):
        return _Grams(np.ascontiguousarray(fit.normal_form().gram))
    return _lay_out_rows(fit)


@dataclass(frozen=True, eq=False)
class _Grams:
    gram: Array  # (m, d, d) or (1, d, d)

    def improve(self, place: Place, weight: Array, limits: tuple[float, int]) -> Array:
        from priormtl.baselines.multiplicative.lasso_kernels import lasso_by_gram  # noqa: PLC0415

        W = np.array(place.coef.T, order="C")
        slope = np.array(place.point.gradient.T, order="C")
        lasso_by_gram(self.gram, slope, W, weight, limits)
        return np.ascontiguousarray(W.T)


@dataclass(frozen=True, eq=False)
class _Rows:
    rows: Array  # (d, n)
    target: Array  # task after task
    first: Index  # (m,)
    place: Index  # (m,)
    length: Index  # (m,)
    curvature: Array  # (m, d)

    def improve(self, place: Place, weight: Array, limits: tuple[float, int]) -> Array:
        from priormtl.baselines.multiplicative.lasso_kernels import (  # noqa: PLC0415
            Samples,
            lasso_by_samples,
        )

        W = np.array(place.coef.T, order="C")
        rest = self._scores(W) - self.target
        samples = Samples(
            self.rows, rest, self.first, self.place, self.length, self.curvature
        )
        lasso_by_samples(samples, W, weight, limits)
        return np.ascontiguousarray(W.T)

    def _scores(self, W: Array) -> Array:
        ends = self.first + self.length
        used = W.any(axis=0)
        rows, W = self.rows[used], W[:, used]
        parts = zip(W, self.first.tolist(), ends.tolist(), strict=True)
        return np.concatenate([w @ rows[:, a:b] for w, a, b in parts])


def _lay_out_rows(fit: DataFit[Any]) -> _Rows:
    form = fit.sample_form()
    squares = form.rows**2
    if len(form.starts):
        first, count = form.starts[:-1], np.diff(form.starts)
        curvature = np.add.reduceat(squares, first, axis=1).T
        return _Rows(
            form.rows, form.target, first, first, count, np.ascontiguousarray(curvature)
        )
    m, n = form.target.shape
    curvature = np.tile(squares.sum(axis=1), (m, 1))
    count, place = np.full(m, n, np.intp), n * np.arange(m, dtype=np.intp)
    return _Rows(form.rows, form.target.ravel(), 0 * place, place, count, curvature)
