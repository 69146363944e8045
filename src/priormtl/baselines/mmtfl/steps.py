"""Steps of MMTFL: better coefficients W for a given shared part v.

With v fixed, the tasks separate. Each step lowers fit(W) + lam Σ_ji |w_ji|^p / v_j^p in
the fit's quadratic model, which is the fit itself for squared loss:

- p = 2 is a ridge regression with one weight per feature. In b = w / v all weights are
  2 lam, and task i solves (V H_i V + 2 lam I) b = −gradient, with the Hessian H_i of
  its fit: from Gram matrices, from samples (n_i × n_i), or, where both would take long,
  by a few conjugate gradient steps.
- p = 1 is a lasso with one weight per feature, solved by coordinate descent.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import issparse

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.data import SharedRows, StackedRows, TaskData, TaskStatistics
from priormtl.losses import DataFit, Evaluation, SampleForm, SquaredFit

# Ridge steps
MOST_WORK = 1e9  # multiplications of one step by factorisation
MOST_GRAM_NUMBERS = 2**24
MOST_PRODUCTS = 100  # Hessian products of one step by conjugate gradients
LAST_GAIN = 0.2  # stop when a product gains less than this share of the mean gain
VANISHING = 1e-13  # of the largest curvature: keeps systems regular where lam is tiny

# Lasso steps
FEW_GRAM_NUMBERS = 2**22  # 32 MB
MOST_PASSES = 1000


class Subproblem(NamedTuple):
    """Minimise fit(W) + lam Σ_j ‖w_j / v_j‖_p^p over W, from a starting point."""

    coef: Array  # (d, m)
    point: Evaluation  # the fit at ``coef``
    shared: Array  # v (d,), non-negative; rows of ``coef`` are zero where it is zero
    lam: float
    accuracy: float  # decrease of the objective below which a step may stop


# Ridge regression


@dataclass(frozen=True, eq=False)
class RidgeStep:
    """Ridge regression with one weight per feature, by ``method``."""

    fit: DataFit[Any]
    method: str  # "gram", "samples" or "cg"

    def improve(self, problem: Subproblem) -> Array:
        """Minimise the quadratic model, or lower it by conjugate gradients."""
        v = problem.shared[:, np.newaxis]
        # Minus the gradient in b = w / v.
        slope = 2.0 * problem.lam * _divide(problem.coef, v)
        right = -(v * problem.point.gradient + slope)
        if self.method == "gram":
            change = self._solve_by_grams(problem, right)
        elif self.method == "samples":
            change = self._solve_by_samples(problem, right)
        else:
            change = self._conjugate_gradients(problem, right)
        return problem.coef + v * change

    def restrict(self, features: Index) -> "RidgeStep":
        part = self.fit.restrict(features)
        if isinstance(part, SquaredFit) and isinstance(part.moments, TaskStatistics):
            # Products read each task's moments faster in one piece.
            moments = replace(part.moments, xx=np.ascontiguousarray(part.moments.xx))
            part = replace(part, moments=moments)
        return ridge_step(part)

    def _solve_by_grams(self, problem: Subproblem, right: Array) -> Array:
        """One system of d equations per task."""
        if self.fit.is_quadratic:
            gram = self._gram
        else:
            gram = self.fit.quadratic_model(problem.point).normal_form().gram
        v = problem.shared
        system = gram * v[:, np.newaxis] * v
        diagonal = np.einsum("ijj->ij", system)
        diagonal += _ridge(problem.lam, diagonal.max(axis=1))[:, np.newaxis]
        if len(gram) == 1:  # one matrix for all tasks, whose right sides are columns
            return np.asarray(np.linalg.solve(system, right[np.newaxis])[0])
        return np.asarray(np.linalg.solve(system, right.T[:, :, np.newaxis])[:, :, 0].T)

    def _solve_by_samples(self, problem: Subproblem, right: Array) -> Array:
        """One system per task with an equation for each of its samples."""
        v, form = problem.shared[:, np.newaxis], self._form
        if not len(form.starts):
            return _invert_by_samples(form.rows * v, right, problem.lam)
        change = np.empty_like(right)
        for i, (a, b) in enumerate(pairwise(form.starts.tolist())):
            rows = form.rows[:, a:b] * v
            change[:, i] = _invert_by_samples(rows, right[:, i], problem.lam)
        return change

    def _conjugate_gradients(self, problem: Subproblem, right: Array) -> Array:
        """Conjugate gradients for all tasks at once, until products gain little."""
        v = problem.shared[:, np.newaxis]
        residual = right
        change, direction = np.zeros_like(right), right.copy()
        size, total = np.einsum("ij,ij->j", residual, residual), 0.0
        for count in range(1, MOST_PRODUCTS + 1):
            product = v * self.fit.hessian(problem.point, v * direction)
            product += 2.0 * problem.lam * direction
            length = _divide(size, np.sum(direction * product, axis=0))
            change += length * direction
            residual -= length * product
            gain = 0.5 * float(length @ size)
            total += gain
            if count * gain <= LAST_GAIN * total or gain <= problem.accuracy:
                break
            last, size = size, np.einsum("ij,ij->j", residual, residual)
            direction = residual + _divide(size, last) * direction
        return change

    @cached_property
    def _gram(self) -> Array:
        return np.ascontiguousarray(self.fit.normal_form().gram)

    @cached_property
    def _form(self) -> SampleForm:
        return self.fit.sample_form()


def ridge_step(fit: DataFit[Any]) -> RidgeStep:
    """The cheapest of the three methods."""
    d, m = fit.shape
    grams = m if fit.normal_size is None else fit.normal_size / d**2
    by_gram = grams * d**3 if grams * d**2 <= MOST_GRAM_NUMBERS else np.inf
    by_samples = np.inf
    if fit.rows_per_task is not None:
        n = fit.rows_per_task
        by_samples = grams * n**2 * (n + d)
    if min(by_gram, by_samples) > MOST_WORK:
        return RidgeStep(fit, "cg")
    return RidgeStep(fit, "gram" if by_gram <= by_samples else "samples")


def _ridge(lam: float, curvature: Any) -> Any:
    return 2.0 * lam + VANISHING * curvature


def _invert_by_samples(rows: Array, right: Array, lam: float) -> Array:
    """(ZᵀZ + ridge)⁻¹ right by the matrix inversion lemma; ``rows`` is Zᵀ (d, n)."""
    small = rows.T @ rows
    diagonal = np.einsum("jj->j", small)
    ridge = _ridge(lam, diagonal.max())
    diagonal += ridge
    return (right - rows @ np.linalg.solve(small, rows.T @ right)) / ridge


def _divide(a: Array, b: Array) -> Array:
    """Quotients; zero where the divisor is."""
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=b > 0)


# The lasso


class Samples(NamedTuple):
    """Samples of all tasks, and their residuals."""

    rows: Array  # (d, n), contiguous per feature
    residual: Array  # scores minus targets, task after task; updated in place
    first: Index  # (m,) first column of each task in ``rows``
    place: Index  # (m,) first entry of each task in ``residual``
    length: Index  # (m,) samples of each task
    curvature: Array  # (m, d) squared lengths of the features


@dataclass(frozen=True, eq=False)
class LassoStep:
    """One lasso per task, warm started, by coordinate descent in compiled loops."""

    fit: DataFit[Any]

    def improve(self, problem: Subproblem) -> Array:
        """Minimise the quadratic model until passes gain little."""
        from priormtl.baselines.mmtfl import lasso  # noqa: PLC0415

        with np.errstate(divide="ignore", over="ignore"):
            weight = problem.lam / problem.shared
        limits = (problem.accuracy / problem.coef.shape[1], MOST_PASSES)
        if self.fit.is_quadratic:
            form = self._form
        else:
            form = lasso_form(self.fit.quadratic_model(problem.point))
        W = np.array(problem.coef.T, order="C")
        if not isinstance(form, Samples):
            slope = np.array(problem.point.gradient.T, order="C")
            lasso.lasso_by_gram(form, slope, W, weight, limits)
            return np.ascontiguousarray(W.T)
        # At W = 0 residuals are minus the targets; scores from the features in use.
        used = W.any(axis=0)
        rows, ends = form.rows[used], form.first + form.length
        parts = zip(W[:, used], form.first.tolist(), ends.tolist(), strict=True)
        scores = np.concatenate([w @ rows[:, a:b] for w, a, b in parts])
        form = form._replace(residual=scores + form.residual)
        lasso.lasso_by_samples(form, W, weight, limits)
        return np.ascontiguousarray(W.T)

    def restrict(self, features: Index) -> Self:
        return type(self)(self.fit.restrict(features))

    @cached_property
    def _form(self) -> Array | Samples:
        return lasso_form(self.fit)


def lasso_form(fit: DataFit[Any]) -> Array | Samples:
    """Gram matrices (m or 1, d, d) where these are small or all there is; or samples.

    The residuals of the samples are those of W = 0.
    """
    n_rows, size = fit.rows_per_task, fit.normal_size or 0
    if n_rows is None or (size <= FEW_GRAM_NUMBERS and fit.shape[0] <= 2 * n_rows):
        return np.ascontiguousarray(fit.normal_form().gram)
    rows, target, starts, *_ = fit.sample_form()
    squares = rows**2
    if len(starts):
        first, count = starts[:-1], np.diff(starts)
        curvature = np.ascontiguousarray(np.add.reduceat(squares, first, axis=1).T)
        return Samples(rows, -target, first, first, count, curvature)
    m, n = target.shape
    curvature = np.tile(squares.sum(axis=1), (m, 1))
    count, place = np.full(m, n, np.intp), n * np.arange(m, dtype=np.intp)
    return Samples(rows, -target.ravel(), 0 * place, place, count, curvature)


Step = RidgeStep | LassoStep


def as_own_rows(data: TaskData) -> TaskData:
    """Same samples as dense rows, each task with its own copy."""
    if not isinstance(data, SharedRows):
        dense = data.X.toarray() if issparse(data.X) else data.X
        return data.with_matrix(dense)
    parts = [data.rows_of(i) for i in range(data.shape[1])]
    tables, targets, weights = zip(*parts, strict=True)
    X = np.concatenate([x.toarray() if issparse(x) else x for x in tables])
    y, weight = np.concatenate(targets), np.concatenate(weights)
    starts = np.cumsum([0, *map(len, targets)]).astype(np.intp)
    return StackedRows(X, y, weight, data.tasks, data.features, starts)
