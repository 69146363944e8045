"""Squared loss: ½ Σ w (x p_i + b_i − y)², from moments alone."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.data import (
    CentredSamples,
    Moments,
    TaskData,
    TaskStatistics,
    condense,
)
from priormtl.graphs import Laplacian
from priormtl.losses.base import NormalForm, SampleForm
from priormtl.losses.intercepts import Intercepts, NoIntercepts, Solver
from priormtl.losses.modes import Modes

__all__ = ["Squared", "SquaredFit"]

NOISE = 1e-13  # of the sum of squared targets, in values that should be zero
# Rounding errors of a sum, relative to the sizes of what is added.
ROUNDING = 16.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Squared:
    """Half the sum of squared residuals."""

    def bind(
        self,
        data: TaskData | TaskStatistics | Moments,
        intercepts: Intercepts,
        shift: Array | None = None,
    ) -> "SquaredFit":
        """Count the misfit of this data; statistics suffice.

        ``shift`` (d,) was taken off the features beforehand.
        """
        if isinstance(data, TaskData | TaskStatistics):
            data = condense(data)
        return SquaredFit(data, intercepts, shift)


@dataclass(frozen=True, eq=False)
class SquaredEvaluation:
    """Squared misfit at P."""

    coef: Array
    value: float
    gradient: Array

    @cached_property
    def slope(self) -> float:
        """⟨P, gradient⟩."""
        return float(np.vdot(self.coef, self.gradient))

    def dual_value(self, scale: float) -> float:
        """Scale · ⟨residual, y⟩ − scale² · ‖residual‖² / 2, from value and slope."""
        return scale * (2.0 * self.value - self.slope) - scale**2 * self.value

    def best_scale(self, limit: float, prior_value: float) -> float:
        """Vertex of the dual parabola, the prior's rows included."""
        height = 2.0 * (self.value + prior_value)
        vertex = (2.0 * self.value - self.slope) / height if height > 0 else 1.0
        return min(max(vertex, -limit), limit)


@dataclass(frozen=True, eq=False)
class SquaredFit:
    """Squared loss on moments, intercepts minimised out.

    With r_i = ȳ_i − x̄_i p_i the misfit of task means and b the best intercepts,
    the loss is ½ Σ (p_iᵀG_i p_i − 2 c_iᵀp_i + yy_i) + ½ Σ w_i r_i (r_i − b_i):
    free intercepts (b = r) leave the centred moments, b = 0 the raw ones, and tied
    ones lie between. Everything stays quadratic in P.
    """

    moments: Moments
    intercepts: Intercepts
    shift: Array | None = None  # (d,) what was taken off the features

    @property
    def shape(self) -> tuple[int, int]:
        """(d, m)."""
        return self.moments.shape

    @property
    def is_quadratic(self) -> bool:
        """Always."""
        return True

    def evaluate(
        self, P: Array, near: SquaredEvaluation | None = None
    ) -> SquaredEvaluation:
        """Value and gradient by one product.

        Samples are measured by their residuals. From Gram matrices the value is a
        difference of larger numbers: ``rounding`` bounds what it may be off.
        """
        moments = self.moments
        if isinstance(moments, CentredSamples):
            value, gradient = moments.misfit(P)
        else:
            linear = moments.xy.T
            gradient = moments.gram_product(P) - linear if P.any() else -linear
            doubled = np.vdot(P, gradient) - np.vdot(P, linear) + moments.yy.sum()
            value = max(0.0, 0.5 * float(doubled))
        if not self._means_are_free:
            misfit = moments.y_mean - self._mean_scores(P)
            b = self._best_intercept(misfit)
            rest = misfit - b
            pull = moments.weight * rest
            value += 0.5 * float(pull @ rest) + self.intercepts.value(b)
            gradient = gradient - moments.x_mean.T * pull
        return SquaredEvaluation(P, value, gradient)

    def _mean_scores(self, P: Array) -> Array:
        """x̄_i p_i of each task (m,); with tied intercepts but for a constant.

        These follow any constant, so that what features have in common, however
        large, is multiplied with differences between tasks only.
        """
        if self.intercepts.are_fixed:
            return np.asarray(np.sum(self.moments.x_mean.T * P, axis=0))
        centre = self.centre
        apart = (self.moments.x_mean - centre).T
        return np.asarray(np.sum(apart * P, axis=0) + centre @ (P - P[:, :1]))

    @cached_property
    def centre(self) -> Array:
        """Pooled means of the features (d,)."""
        weight = self.moments.weight
        return np.asarray(weight @ self.moments.x_mean / (weight.sum() or 1.0))

    def rounding(self, at: SquaredEvaluation) -> float:
        """Bound on what rounding errors may hide in the value at a point.

        Entries of Gram matrices are known to ROUNDING of √(G_jj G_kk); residuals of
        samples to ROUNDING of what they are made of.
        """
        moments, size = self.moments, np.abs(at.coef)
        terms = np.sum(self._deviations * size, axis=0) + np.sqrt(moments.yy)
        bound = ROUNDING * float(np.linalg.norm(terms))
        if isinstance(moments, CentredSamples):
            found = bound * (np.sqrt(2.0 * at.value) + bound)
        else:
            found = bound * bound / ROUNDING
        # Intercepts that are published are rounded, whatever the form.
        means, weight = moments.x_mean.T, moments.weight
        offsets = np.abs(moments.y_mean) + np.sum(np.abs(means) * size, axis=0)
        loose = ROUNDING * np.sqrt(weight) * offsets
        length = float(np.linalg.norm(loose))
        first = 0.0 if self._means_are_free else np.sqrt(2.0 * at.value)
        return float(found + length * (length + first))

    @cached_property
    def _deviations(self) -> Array:
        """Roots of the diagonals of the centred XᵀX (d, m)."""
        return np.sqrt(np.maximum(self.moments.squared_deviations().T, 0.0))

    def extrapolate(
        self, current: SquaredEvaluation, previous: SquaredEvaluation, amount: float
    ) -> SquaredEvaluation:
        """Gradients are affine and values quadratic in P: no product needed."""
        move = amount * (current.coef - previous.coef)
        turn = amount * (current.gradient - previous.gradient)
        value = current.value + np.vdot(move, current.gradient + 0.5 * turn)
        return SquaredEvaluation(
            current.coef + move, max(0.0, float(value)), current.gradient + turn
        )

    def hessian(self, at: SquaredEvaluation, V: Array) -> Array:
        """Same in every point."""
        return self.majorant(V)

    def majorant(self, V: Array) -> Array:
        """The Hessian itself."""
        if not V.any():
            return np.zeros_like(V)
        product = self.moments.gram_product(V)
        if self._means_are_free:
            return product
        pull = self._mean_misfit(self._mean_scores(V))
        return product + self.moments.x_mean.T * pull

    def newton_dual(self, at: SquaredEvaluation, V: Array, product: Array) -> float:
        """Dual value at P + V, which is where linearisation ends exactly."""
        value = at.value + np.vdot(V, at.gradient) + 0.5 * np.vdot(V, product)
        slope = np.vdot(at.coef + V, at.gradient + product)
        return float(value - slope)

    @property
    def size(self) -> int:
        """Numbers that a product looks at."""
        return self.moments.size

    @property
    def magnitude(self) -> float:
        """Half the raw sum of squared targets, or of the centred ones if means go."""
        means = 0.0 if self._means_are_free else self.moments.y_mean**2
        return 0.5 * float(np.sum(self.moments.yy + self.moments.weight * means))

    @property
    def noise(self) -> float:
        """Value that rounding errors of the targets alone can make."""
        moments = self.moments
        offsets = np.sum(moments.weight * (4.0 * ROUNDING * moments.y_mean) ** 2)
        return float(NOISE * self.magnitude + offsets)

    @property
    def intercept_graph(self) -> Laplacian | None:
        """Graph that ties the intercepts, if they are tied."""
        return self.intercepts.graph

    def task_spectra(self) -> tuple[Array, Array]:
        """Of the centred XᵀX, the raw one, or bounds by both where ties lie between."""
        if self._means_are_free:
            return self.moments.task_spectra()
        if not self.intercepts.are_fixed:
            raw = replace(self, intercepts=NoIntercepts())
            return self.moments.task_spectra()[0], raw.task_spectra()[1]
        values = np.asarray(np.linalg.eigvalsh(self.moments.raw_gram()))
        lowest, highest = np.maximum(values[:, 0], 0.0), values[:, -1]
        m = self.shape[1]
        return np.broadcast_to(lowest, m), np.broadcast_to(highest, m)

    def quadratic_model(self, at: SquaredEvaluation) -> Self:
        """Itself."""
        return self

    @property
    def normal_size(self) -> int:
        """Numbers in the normal form."""
        return self.moments.gram_size

    def normal_form(self) -> NormalForm:
        """Centred, raw, or raw with a row of intercepts: as intercepts are treated."""
        moments = self.moments
        linear = moments.xy.T
        if self._means_are_free:
            return NormalForm(moments.gram(), np.ascontiguousarray(linear), np.zeros(0))
        raw = moments.raw_gram()
        total = moments.weight * moments.y_mean
        linear = linear + moments.x_mean.T * total
        if self.intercepts.are_fixed:
            return NormalForm(raw, linear, np.zeros(0))
        means, weight = (
            moments.x_mean[: len(raw)],
            moments.weight[: len(raw), np.newaxis],
        )
        edge = (weight * means)[:, np.newaxis, :]
        corner = weight[:, :, np.newaxis]
        top = np.concatenate([corner, edge], axis=2)
        bottom = np.concatenate([edge.transpose(0, 2, 1), raw], axis=2)
        ties = np.array([self.intercepts.tie_strength])
        return NormalForm(
            np.concatenate([top, bottom], axis=1), np.vstack([total, linear]), ties
        )

    def centred_blocks(self) -> tuple[Array, Array]:
        """Gram matrices (m, k, k) or (1, k, k), and the centre (d,) of tied intercepts.

        Tied intercepts are a first row, that of values at the pooled means of the
        features; else k = d and the centre is zero.
        """
        moments, zero = self.moments, np.zeros(self.shape[0])
        if self._means_are_free:
            return moments.gram(), zero
        if self.intercepts.are_fixed:
            return moments.raw_gram(), zero
        weight, centre = moments.weight, self.centre
        apart = moments.x_mean - centre
        d, m = self.shape
        blocks = np.empty((m, d + 1, d + 1))
        edge = weight[:, np.newaxis] * apart
        blocks[:, 0, 0], blocks[:, 0, 1:], blocks[:, 1:, 0] = weight, edge, edge
        blocks[:, 1:, 1:] = moments.gram()
        blocks[:, 1:, 1:] += edge[:, :, np.newaxis] * apart[:, np.newaxis, :]
        return blocks, centre

    def curvatures(self) -> Array:
        """Diagonal of the Hessian (d, m), tied intercepts held at the centre."""
        moments = self.moments
        spread = moments.squared_deviations().T
        if self._means_are_free:
            return np.array(spread)
        centre = 0.0 if self.intercepts.are_fixed else self.centre
        return np.asarray(spread + moments.weight * (moments.x_mean - centre).T ** 2)

    def offsets(self) -> Array:
        """Sums of squares of task means (d, m), as features were given."""
        means = self.moments.x_mean.T
        if self.shift is not None:
            means = means + self.shift[:, np.newaxis]
        return np.asarray(self.moments.weight * means**2)

    @property
    def has_free_means(self) -> bool:
        """Whether intercepts take up all that task means could say."""
        return self._means_are_free

    def task_rows(self) -> Iterator[tuple[Array, Array]]:
        """Centred rows and targets of each task: samples, or roots of moments.

        No more than d + 1 of them: others are turned into as many.
        """
        moments, (d, m) = self.moments, self.shape
        if moments.rows_per_task is not None:
            X, y, starts = moments.rows()
            for i in range(m):
                part = slice(starts[i], starts[i + 1]) if len(starts) else slice(None)
                rows, target = X[part], y[part] if len(starts) else y[:, i]
                if len(rows) > d + 1:
                    both = np.asarray(
                        np.linalg.qr(np.column_stack([rows, target]), "r")
                    )
                    rows, target = both[:, :-1], both[:, -1]
                yield rows, target
            return
        gram = moments.gram()
        for i in range(m):
            values, vectors = np.linalg.eigh(gram[i if len(gram) > 1 else 0])
            root = np.sqrt(np.maximum(values, 0.0))
            inverse = np.where(root > 0, 1.0 / np.where(root > 0, root, 1.0), 0.0)
            noise = root <= 1e-8 * root.max(initial=0.0)
            inverse[noise] = 0.0
            yield root[:, np.newaxis] * vectors.T, inverse * (vectors.T @ moments.xy[i])

    def mean_rows(self, P: Array) -> tuple[Array, Array]:
        """Task means as rows (m, d), times roots of weights, with their residuals.

        With tied intercepts about the centre.
        """
        moments = self.moments
        root = np.sqrt(moments.weight)
        fixed = self.intercepts.are_fixed
        centre = np.zeros(self.shape[0]) if fixed else self.centre
        misfit = moments.y_mean - self._mean_scores(P)
        rest = root * (misfit - self._best_intercept(misfit))
        return root[:, np.newaxis] * (moments.x_mean - centre), rest

    def centred_intercept(self, P: Array) -> Array:
        """Best intercepts for P but for a constant (m,), if they are tied."""
        return self._best_intercept(self.moments.y_mean - self._mean_scores(P))

    @property
    def rows_per_task(self) -> float | None:
        """Mean number of samples in a task."""
        return self.moments.rows_per_task

    def sample_form(self) -> SampleForm:
        """Centred samples; where means count too, one more sample for each of them."""
        moments = self.moments
        X, y, starts = moments.rows()
        tied = not (self._means_are_free or self.intercepts.are_fixed)
        values, target = X.T, y.T
        if not self._means_are_free:
            values, target, starts = _append_means(moments, values, target, starts)
        ties = np.zeros(0)
        if tied:
            ones = _mean_samples(np.sqrt(moments.weight), X.shape[0], starts)
            ties = np.array([self.intercepts.tie_strength])
            values = np.vstack([ones, values])
        # Compiled steps read features one after the other.
        values, target = map(np.ascontiguousarray, (values, target))
        return SampleForm(values, target, starts, ties)

    @property
    def shifted_size(self) -> int | None:
        """Numbers in the modes; None where tied intercepts make tasks one system."""
        if self.intercept_graph is not None:
            return None
        d, size = self.shape[0], self.moments.gram_size
        return int(size * min(d, self.rows_per_task or d) / d) if d else 0

    def solve_shifted(self, shift: float, V: Array) -> Array:
        """By the modes, which are looked for once."""
        return self.modes.solve(shift, V)

    @cached_property
    def modes(self) -> Modes:
        """Axes of each task's Hessian, tied intercepts held where they are."""
        rows = self.rows_per_task
        if rows is not None and rows < self.shape[0]:
            samples = self.sample_form()
            kept = samples.rows[len(samples.intercept_ties) :]
            return Modes.from_samples(samples._replace(rows=kept))
        form = self.normal_form()
        n = len(form.intercept_ties)
        return Modes.from_gram(form._replace(gram=form.gram[:, n:, n:]))

    @property
    def task_curvature(self) -> Array:
        """Trace of each task's Hessian (m,), tied intercepts held where they are."""
        spread = self.moments.squared_deviations().sum(axis=1)
        if self._means_are_free:
            return spread
        return spread + self.moments.weight * np.sum(self.moments.x_mean**2, axis=1)

    @property
    def ties_means(self) -> bool:
        """Whether best intercepts of one task depend on the others."""
        return not (self._means_are_free or self.intercepts.are_fixed)

    def intercept(self, P: Array) -> Array:
        """Best intercepts for P, in closed form."""
        misfit = self.moments.y_mean - np.sum(self.moments.x_mean.T * P, axis=0)
        return self._best_intercept(misfit)

    def intercept_at_zero(self, P: Array) -> Array:
        """Best intercepts for P, where features count from zero again."""
        found = self.intercept(P)
        return found if self.shift is None else found - self.shift @ P

    def restrict(self, features: Index) -> Self:
        """Only these features."""
        shift = None if self.shift is None else self.shift[features]
        return replace(self, moments=self.moments.restrict(features), shift=shift)

    def _mean_misfit(self, r: Array) -> Array:
        """Gradient in r of what the misfit r of task means costs."""
        return self.moments.weight * (r - self._best_intercept(r))

    @cached_property
    def _best_intercept(self) -> Solver:
        return self.intercepts.solver(self.moments.weight)

    @cached_property
    def _means_are_free(self) -> bool:
        return not np.any(self._mean_misfit(np.arange(1.0, self.shape[1] + 1.0)))


def _append_means(
    moments: Moments, values: Array, target: Array, starts: Index
) -> tuple[Array, Array, Index]:
    """Each task's mean as a last sample, times the root of the task's weight."""
    root = np.sqrt(moments.weight)
    means, mean_target = (moments.x_mean * root[:, np.newaxis]).T, moments.y_mean * root
    if not len(starts):
        last = mean_target[:, np.newaxis]
        return np.hstack([values, means[:, :1]]), np.hstack([target, last]), starts
    ends = starts[1:]
    later = starts + np.arange(len(starts))
    return (
        np.insert(values, ends, means, axis=1),
        np.insert(target, ends, mean_target),
        later,
    )


def _mean_samples(root: Array, n: int, starts: Index) -> Array:
    """Values of the intercept's row: only the samples that hold means have any."""
    if not len(starts):
        return np.append(np.zeros(n), root[0])
    ones = np.zeros(int(starts[-1]))
    ones[starts[1:] - 1] = root
    return ones
