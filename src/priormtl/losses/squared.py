"""Squared loss: ½ Σ w (x p_i + b_i − y)², from moments or samples.

With means x̄_i, ȳ_i and weight w_i of a task, centred moments G_i, c_i, yy_i, the misfit
r_i = ȳ_i − x̄_i p_i of its means and the best intercepts b, the loss is

    ½ Σ (p_iᵀ G_i p_i − 2 c_iᵀ p_i + yy_i) + ½ Σ w_i r_i (r_i − b_i).

Free intercepts (b = r) leave the centred moments, b = 0 the raw ones, and tied ones lie
between. A constant that tied tasks share costs nothing; targets are therefore lowered
by the pooled mean of tied tasks, so that a large mean costs no digits. Everything stays
quadratic in P, so that the loss can be written out as Gram matrices (`NormalForm`), as
least squares (`SampleForm`), or in the eigenbasis of each task's Hessian (`Modes`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl._numerics import EPS, ROUNDING
from priormtl.data import (
    CentredSamples,
    DeviceGrams,
    Moments,
    StreamedGrams,
    TaskData,
    TaskStatistics,
    condense,
)
from priormtl.losses.base import (
    DeviceForm,
    Intercepts,
    NoIntercepts,
    NormalForm,
    SampleForm,
    Solver,
)
from priormtl.priors.graphs import Laplacian


@dataclass(frozen=True)
class Squared:
    """Half the sum of squared residuals."""

    boosting: ClassVar[str] = "squared_error"

    def loss(self, eta: Array, y: Array) -> Array:
        """Loss of one row, as that of a `Family`."""
        return np.asarray(0.5 * (eta - y) ** 2)

    def boosting_derivatives(self, eta: Array, y: Array) -> tuple[Array, Array]:
        """f′ and f″, as of a `Family`."""
        return eta - y, np.ones_like(eta)

    has_additive_noise: ClassVar[bool] = True

    def estimate_noise(self, eta: Array, y: Array, weight: Array) -> float:
        """Residuals are in the units of targets."""
        return 1.0

    def residual(self, eta: Array, y: Array, noise: float) -> Array:
        return y - eta

    def ends(self, eta: Array, half: Array, noise: float) -> Array:
        return eta[:, np.newaxis] + half * [-1.0, 1.0]

    def mean(self, eta: Array) -> Array:
        return eta

    def link(self, mean: Array) -> Array:
        return mean

    def has_finite_score(self, mean: Array) -> NDArray[np.bool_]:
        return np.ones(np.shape(mean), dtype=bool)

    def without_offset(
        self, y: Array, weight: Array, offset: Array
    ) -> tuple[Array, Array]:
        """Targets and weights of the same loss in η less a known part."""
        return y - offset, weight

    def bind(
        self,
        data: TaskData | TaskStatistics | Moments,
        intercepts: Intercepts,
        shift: Array | None = None,
    ) -> "SquaredFit":
        if isinstance(data, TaskData | TaskStatistics):
            data = condense(data)
        return SquaredFit(data, intercepts, shift)


@dataclass(frozen=True, eq=False)
class SquaredEvaluation:
    """Squared misfit at P."""

    coef: Array
    value: float
    gradient: Array

    def dual_value(self, scale: float) -> float:
        """Scale · ⟨residual, y⟩ − scale² · ‖residual‖² / 2, from value and slope."""
        # With residuals ρ = y − X P: value = ½ ‖ρ‖², slope = ⟨P, −Xᵀρ⟩, hence
        # ⟨ρ, y⟩ = ‖ρ‖² + ⟨ρ, X P⟩ = 2 value − slope. No product with y is needed.
        slope = float(np.vdot(self.coef, self.gradient))
        return scale * (2.0 * self.value - slope) - scale**2 * self.value

    def best_scale(self, limit: float, prior_value: float, slack: float = 0.0) -> float:
        """Vertex of the dual parabola, the prior's rows included."""
        height = 2.0 * (self.value + prior_value)
        slope = float(np.vdot(self.coef, self.gradient))
        rise = 2.0 * self.value - slope + slack
        vertex = rise / height if height > 0 else 1.0
        return min(max(vertex, -limit), limit)


@dataclass(frozen=True, eq=False)
class SquaredFit:
    """Squared loss on moments, intercepts minimised out."""

    moments: Moments
    intercepts: Intercepts
    shift: Array | None = None  # (d,) what was subtracted from the features
    level: Array | None = None  # (m,) what was subtracted from the targets
    shape: tuple[int, int] = field(init=False, repr=False)
    size: int = field(init=False, repr=False)
    normal_size: int = field(init=False, repr=False)
    rows_per_task: float | None = field(init=False, repr=False)
    most_held: int | None = field(init=False, repr=False)
    is_on_device: bool = field(init=False, repr=False)
    intercept_graph: Laplacian | None = field(init=False, repr=False)
    # Whether intercepts make up for any misfit of task means.
    means_are_free: bool = field(init=False, repr=False)
    magnitude: float = field(init=False, repr=False)
    noise: float = field(init=False, repr=False)

    is_quadratic: ClassVar[bool] = True
    has_lipschitz_gradient: ClassVar[bool] = True
    has_exact_models: ClassVar[bool] = True
    constant: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        known, graph = self.__dict__, self.intercepts.graph
        if self.level is None and graph is not None:
            weight, means = self.moments.weight, self.moments.y_mean
            known["level"] = graph.component_means(weight, means)
            known["moments"] = self.moments.lower(known["level"])
        moments = self.moments
        known["shape"], known["size"] = moments.shape, moments.size
        known["normal_size"] = moments.gram_size
        known["rows_per_task"] = moments.rows_per_task
        grams = moments.xx if isinstance(moments, TaskStatistics) else None
        most_held = grams.most_held if isinstance(grams, StreamedGrams) else None
        known["most_held"] = most_held
        known["is_on_device"] = isinstance(grams, DeviceGrams)
        known["intercept_graph"] = graph
        free = self.intercepts.are_free
        if not free:
            probe = np.arange(1.0, moments.shape[1] + 1.0)
            free = not np.any(self._best_fit(probe)[1])
        known["means_are_free"] = free
        # Half the raw sum of squared targets, or of the centred ones if means go.
        squares = (
            moments.yy if free else moments.yy + moments.weight * moments.y_mean**2
        )
        known["magnitude"] = 0.5 * float(np.sum(squares))
        means = moments.y_mean if self.level is None else moments.y_mean + self.level
        offsets = np.sum(moments.weight * (8.0 * ROUNDING * means) ** 2)
        # Values that should be zero are so much of the sum of squared targets: squares
        # of rounded residuals, or differences of sums.
        share = 1e-13 if self.rows_per_task is None else (8.0 * ROUNDING) ** 2
        known["noise"] = float(share * self.magnitude + offsets)

    def evaluate(
        self, P: Array, near: SquaredEvaluation | None = None
    ) -> SquaredEvaluation:
        """Value and gradient by one product, G P.

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
        # Rows split into their task's mean and deviations from it, which intercepts do
        # not see. What is left of the means at the best intercepts b(r) costs
        # ½ Σ w (r − b)² + τ/2 bᵀ L b, and its gradient in P is −x̄ᵢ wᵢ (rᵢ − bᵢ): b is
        # at its best, so that its own change counts for nothing (envelope theorem).
        if not self.means_are_free:
            misfit = moments.y_mean - self._mean_scores(P)
            b, weighted = self._best_fit(misfit)
            rest = np.divide(
                weighted, moments.weight, np.zeros_like(b), where=moments.weight > 0
            )
            value += 0.5 * float(weighted @ rest) + self.intercepts.value(b)
            gradient = gradient - moments.x_mean.T * weighted
        return SquaredEvaluation(P, value, gradient)

    def _mean_scores(self, P: Array) -> Array:
        """x̄_i p_i of each task (m,); with tied intercepts but for a constant.

        Connected tasks follow any constant, so that what features have in common,
        however large, is multiplied with differences between these tasks only.
        """
        if self.intercept_graph is None:
            return np.asarray(np.sum(self.moments.x_mean.T * P, axis=0))
        centre = self.centre
        apart = (self.moments.x_mean - centre).T
        common = centre @ self.intercept_graph.apart(P)
        return np.asarray(np.sum(apart * P, axis=0) + common)

    @cached_property
    def centre(self) -> Array:
        weight = self.moments.weight
        return np.asarray(weight @ self.moments.x_mean / (weight.sum() or 1.0))

    def rounding(self, at: SquaredEvaluation) -> float:
        """Bound on what rounding errors may hide in the value at a point.

        Entries of Gram matrices are known to a few rounding errors of √(G_jj G_kk);
        residuals of samples to as many of what they are made of.
        """
        unit = 2.0 * ROUNDING
        moments, size = self.moments, np.abs(at.coef)
        terms = np.sum(self._deviations * size, axis=0) + np.sqrt(moments.yy)
        if isinstance(moments, CentredSamples) and moments.offset is not None:
            # Scores are centred after the product.
            offset = np.abs(moments.offset).T * size
            terms = terms + np.sqrt(moments.weight) * np.sum(offset, axis=0)
        bound = unit * float(np.linalg.norm(terms))
        if isinstance(moments, CentredSamples):
            found = bound * (np.sqrt(2.0 * at.value) + bound)
        else:
            found = bound * bound / unit
        if not self.means_are_free:
            graph = self.intercept_graph
            centre = np.zeros(self.shape[0]) if graph is None else self.centre
            terms = np.abs(moments.y_mean)
            terms = terms + np.sum(np.abs(moments.x_mean - centre).T * size, axis=0)
            if graph is not None:
                terms += np.abs(centre) @ np.abs(graph.apart(at.coef))
            misfit = moments.y_mean - self._mean_scores(at.coef)
            rest = np.abs(misfit - self._best_intercept(misfit))
            # Dual values have what is left of the means times the scores of these.
            scores = np.abs(np.sum(moments.x_mean.T * at.coef, axis=0))
            rest += scores + unit * terms
            found += unit * float((moments.weight * terms) @ rest)
        # Intercepts that are published are rounded. They are at their best, so that
        # an error of theirs counts by its square.
        means, graph = moments.x_mean.T, self.intercept_graph
        level = 0.0 if self.level is None else self.level
        shift = 0.0 if self.shift is None else self.shift[:, np.newaxis]
        offsets = np.abs(moments.y_mean + level)
        offsets = offsets + np.sum(np.abs(means + shift) * size, axis=0)
        stiff = moments.weight
        if graph is not None:
            stiff = stiff + 2.0 * self.intercepts.tie_strength * graph.degree
        return float(found + np.sum(stiff * (unit * offsets) ** 2))

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
        return self.majorant(V)

    def majorant(self, V: Array) -> Array:
        if not V.any():
            return np.zeros_like(V)
        product = self.moments.gram_product(V)
        if self.means_are_free:
            return product
        slope = self._best_fit(self._mean_scores(V))[1]
        return product + self.moments.x_mean.T * slope

    def newton_dual(self, at: SquaredEvaluation, V: Array, product: Array) -> float:
        """Dual value at P + V, which is where linearisation ends exactly."""
        value = at.value + np.vdot(V, at.gradient) + 0.5 * np.vdot(V, product)
        slope = np.vdot(at.coef + V, at.gradient + product)
        return float(value - slope)

    def task_spectra(self) -> tuple[Array, Array]:
        """Of the centred XᵀX, the raw one, or bounds by both where ties lie between."""
        if self.means_are_free:
            return self.moments.task_spectra()
        if not self.intercepts.are_fixed:
            raw = replace(self, intercepts=NoIntercepts())
            return self.moments.task_spectra()[0], raw.task_spectra()[1]
        values = np.asarray(np.linalg.eigvalsh(self.moments.raw_gram()))
        lowest, highest = np.maximum(values[:, 0], 0.0), values[:, -1]
        m = self.shape[1]
        return np.broadcast_to(lowest, m), np.broadcast_to(highest, m)

    def far_model(self, at: SquaredEvaluation) -> Self:
        return self

    def quadratic_model(self, at: SquaredEvaluation) -> Self:
        return self

    def least_squares(self, at: SquaredEvaluation) -> Self:
        return self

    def gradient_noise(self, at: SquaredEvaluation) -> None:
        return None

    def normal_form(self) -> NormalForm:
        """Centred, raw, or raw with a row of intercepts: as intercepts are treated."""
        moments = self.moments
        linear = moments.xy.T
        if self.means_are_free:
            return NormalForm(moments.gram(), np.ascontiguousarray(linear), np.zeros(0))
        raw = moments.raw_gram()
        total = moments.weight * moments.y_mean
        linear = linear + moments.x_mean.T * total
        if self.intercepts.are_fixed:
            return NormalForm(raw, linear, np.zeros(0))
        means = moments.x_mean[: len(raw)]
        weight = moments.weight[: len(raw), np.newaxis]
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
        zero = np.zeros(self.shape[0])
        if self.means_are_free:
            return self.moments.gram(), zero
        if self.intercepts.are_fixed:
            return self.moments.raw_gram(), zero
        return self.blocks_with_intercepts(), self.centre

    def blocks_with_intercepts(self) -> Array:
        """Gram matrices (m, d + 1, d + 1) of intercepts at the centre, and features.

        Products about zero of rows (1, x − centre): w, w (x̄ − centre), and
        G + w (x̄ − centre)(x̄ − centre)ᵀ.
        """
        moments, (d, m) = self.moments, self.shape
        weight, apart = moments.weight, moments.x_mean - self.centre
        blocks = np.empty((m, d + 1, d + 1))
        edge = weight[:, np.newaxis] * apart
        blocks[:, 0, 0], blocks[:, 0, 1:], blocks[:, 1:, 0] = weight, edge, edge
        blocks[:, 1:, 1:] = moments.gram()
        blocks[:, 1:, 1:] += edge[:, :, np.newaxis] * apart[:, np.newaxis, :]
        return blocks

    def curvatures(self) -> Array:
        """Diagonal of the Hessian (d, m), tied intercepts held at the centre."""
        moments = self.moments
        spread = moments.squared_deviations().T
        if self.means_are_free:
            return np.array(spread)
        centre = 0.0 if self.intercepts.are_fixed else self.centre
        return np.asarray(spread + moments.weight * (moments.x_mean - centre).T ** 2)

    def offsets(self) -> Array:
        """Sums of squares of task means (d, m), as features were given."""
        means = self.moments.x_mean.T
        if self.shift is not None:
            means = means + self.shift[:, np.newaxis]
        return np.asarray(self.moments.weight * means**2)

    def task_rows(self, P: Array) -> Iterator[tuple[Array, Array, Array]]:
        """Centred rows of each task, residuals at P, and rounding errors of these.

        Samples, or roots of moments; no more than d + 1 of them: others are turned into
        as many.
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
                rest, size = target - rows @ P[:, i], np.abs(rows) @ np.abs(P[:, i])
                yield rows, rest, 2.0 * EPS * (2.0 * size + np.abs(rest))
            return
        terms = np.sum(self._deviations * np.abs(P), axis=0) + np.sqrt(moments.yy)
        for gram, xy, p, term in zip(
            np.broadcast_to(moments.gram(), (m, d, d)),
            moments.xy,
            P.T,
            terms,
            strict=True,
        ):
            # In units in which no feature is so large that roots lose the others.
            size = np.sqrt(gram.diagonal())
            unit = np.exp2(np.round(np.log2(np.where(size > 0, size, 1.0))))
            values, vectors = np.linalg.eigh(gram / np.outer(unit, unit))
            # Below rounding only what has a slope all the same is more than that.
            least, noise = EPS * values.max(initial=0.0), ROUNDING * term
            slope = vectors.T @ ((xy - gram @ p) / unit)
            seen = (values > 8.0 * d * least) | (np.abs(slope) > noise) & (least > 0)
            root = np.sqrt(np.maximum(values[seen], least))
            rows = (
                root[:, np.newaxis] * vectors[:, seen].T * np.where(size > 0, unit, 0.0)
            )
            yield rows, slope[seen] / root, noise / root

    def mean_rows(self, P: Array) -> tuple[Array, Array]:
        """Task means as rows (m, d), times roots of weights, with their residuals.

        With tied intercepts about the centre.
        """
        moments = self.moments
        root = np.sqrt(moments.weight)
        fixed = self.intercepts.are_fixed
        centre = np.zeros(self.shape[0]) if fixed else self.centre
        _, weighted = self._best_fit(moments.y_mean - self._mean_scores(P))
        rest = np.divide(weighted, root, np.zeros_like(root), where=root > 0)
        return root[:, np.newaxis] * (moments.x_mean - centre), rest

    def centred_intercept(self, P: Array) -> Array:
        """Best intercepts for P but for a constant (m,), if they are tied."""
        return self._best_intercept(self.moments.y_mean - self._mean_scores(P))

    def sample_form(self) -> SampleForm:
        """Centred samples; where means count too, one more sample for each of them."""
        moments = self.moments
        X, y, starts = moments.rows()
        values, target = X.T, y.T
        root = np.sqrt(moments.weight)
        if not self.means_are_free:
            # Each task's mean is its last sample, times the root of the task's weight.
            means = (moments.x_mean * root[:, np.newaxis]).T
            mean_target = moments.y_mean * root
            if len(starts):
                values = np.insert(values, starts[1:], means, axis=1)
                target = np.insert(target, starts[1:], mean_target)
                starts = starts + np.arange(len(starts))
            else:
                values = np.hstack([values, means[:, :1]])
                target = np.hstack([target, mean_target[:, np.newaxis]])
        ties = np.zeros(0)
        if self.ties_means:
            # The intercept's row has values only in the samples that hold means.
            ones = np.zeros(values.shape[1])
            ones[starts[1:] - 1 if len(starts) else slice(-1, None)] = (
                root if len(starts) else root[0]
            )
            ties = np.array([self.intercepts.tie_strength])
            values = np.vstack([ones, values])
        # Compiled steps read features one after the other.
        values, target = map(np.ascontiguousarray, (values, target))
        return SampleForm(values, target, starts, ties)

    def device_form(self) -> DeviceForm:
        """Centred, or raw with the row of intercepts apart."""
        moments: Any = self.moments  # statistics whose Gram matrices a device holds
        grams, linear = moments.xx, moments.xy
        total = moments.weight * moments.y_mean
        edge = moments.weight[:, np.newaxis] * moments.x_mean
        if not self.means_are_free:
            # About zero: with the means as one more sample of the task's weight.
            grams = grams.moved(edge, moments.x_mean)
            linear = linear + moments.x_mean * total[:, np.newaxis]
        ties = np.array([self.intercepts.tie_strength] if self.ties_means else [])
        return DeviceForm(grams.tensor, linear, moments.weight, edge, total, ties)

    @property
    def shifted_size(self) -> int | None:
        """Numbers in the modes; None where tied intercepts couple the tasks."""
        if self.intercept_graph is not None:
            return None
        d, size = self.shape[0], self.moments.gram_size
        return int(size * min(d, self.rows_per_task or d) / d) if d else 0

    def solve_shifted(self, shift: float, V: Array) -> Array:
        return self.modes.solve(shift, V)

    @cached_property
    def modes(self) -> "Modes":
        """Eigenvectors of each task's Hessian, at fixed tied intercepts."""
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
        """Trace of each task's Hessian (m,), at fixed tied intercepts."""
        spread = self.moments.squared_deviations().sum(axis=1)
        if self.means_are_free:
            return spread
        return spread + self.moments.weight * np.sum(self.moments.x_mean**2, axis=1)

    @property
    def ties_means(self) -> bool:
        """Whether best intercepts of one task depend on the others."""
        return not (self.means_are_free or self.intercepts.are_fixed)

    def intercept(self, P: Array) -> Array:
        misfit = self.moments.y_mean - np.sum(self.moments.x_mean.T * P, axis=0)
        return misfit if self.intercepts.are_free else self._best_intercept(misfit)

    def intercept_at_zero(self, at: SquaredEvaluation) -> Array:
        found = self.intercept(at.coef)
        if self.level is not None:
            found = found + self.level
        return found if self.shift is None else found - self.shift @ at.coef

    def restrict(self, features: Index) -> Self:
        shift = None if self.shift is None else self.shift[features]
        return replace(self, moments=self.moments.restrict(features), shift=shift)

    def _best_fit(self, misfit: Array) -> tuple[Array, Array]:
        """Best intercepts b for misfits r of task means, and the gradient in r.

        Both come from the minimum over b of ½ Σ w_i (r_i − b_i)² + τ/2 bᵀ L b.
        """
        b, weight = self._best_intercept(misfit), self.moments.weight
        # By the envelope theorem the gradient is w (r − b), and b is at its best where
        # this equals τ L b: the weaker of both forces is rounded less.
        rest, graph = weight * (misfit - b), self.intercept_graph
        if graph is None:
            return b, rest
        weak = self.intercepts.tie_strength * graph.degree < weight
        return b, np.where(weak, self.intercepts.slope(b), rest) if weak.any() else rest

    @cached_property
    def _best_intercept(self) -> Solver:
        return self.intercepts.solver(self.moments.weight)


@dataclass(frozen=True, eq=False)
class Modes:
    """Eigenbasis of each task's Hessian: vectors_iᵀ diag(values_i) vectors_i.

    With it the Hessian is inverted with any shift.
    """

    values: Array  # (t, r) ≥ 0, with t = m, or 1 where all tasks have the same
    vectors: Array  # (t, r, d) orthonormal where values are not zero

    @classmethod
    def from_gram(cls, form: NormalForm) -> Self:
        values, vectors = np.linalg.eigh(form.gram)
        turned = np.ascontiguousarray(vectors.transpose(0, 2, 1))
        return cls(np.maximum(values, 0.0), turned)

    @classmethod
    def from_samples(cls, form: SampleForm) -> Self:
        """Those of samples, which are fewer than features."""
        stacked = form.rows.T[np.newaxis]
        if len(form.starts):
            # (t, n, d), short tasks filled up with zeros.
            counts = np.diff(form.starts)
            stacked = np.zeros((len(counts), int(counts.max()), len(form.rows)))
            task = np.repeat(np.arange(len(counts)), counts)
            place = np.arange(form.rows.shape[1]) - np.repeat(form.starts[:-1], counts)
            stacked[task, place] = form.rows.T
        _, sizes, vectors = np.linalg.svd(stacked, full_matrices=False)
        return cls(sizes**2, np.ascontiguousarray(vectors))

    def solve(self, shift: float, V: Array) -> Array:
        """X that solves (Hessian + shift · I) X = V (d, m)."""
        if self.values.shape[1] == len(V):  # a basis of the whole space
            return self.turn_back(self.turn(V) / (self.values + shift))
        share = self.values / (self.values + shift)
        return (V - self.turn_back(share * self.turn(V))) / shift

    def turn(self, V: Array) -> Array:
        """Coordinates (m, r) of columns of V (d, m) in the bases of their tasks."""
        if len(self.values) == 1:
            return np.asarray((self.vectors[0] @ V).T)
        return np.matmul(self.vectors, V.T[:, :, np.newaxis])[:, :, 0]

    def turn_back(self, parts: Array) -> Array:
        """Columns (d, m) with these coordinates (m, r)."""
        if len(self.values) == 1:
            return np.asarray(self.vectors[0].T @ parts.T)
        return np.matmul(parts[:, np.newaxis, :], self.vectors)[:, 0, :].T

    def take(self, tasks: Index) -> Self:
        if len(self.values) == 1:
            return self
        return type(self)(self.values[tasks], self.vectors[tasks])
