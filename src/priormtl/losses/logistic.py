"""Logistic loss: Σ w log(1 + exp(−y s)) with s = x p_i + b_i and y = ±1.

Its conjugate is the entropy of the residuals, here the probabilities of the wrong class
(``surprise``): dual values are Σ w H(scale · surprise). Every evaluation finds the best
intercepts by Newton's method, safeguarded by steps on a quadratic upper bound.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.special import entr, expit

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl._numerics import EPS, ROUNDING, SUFFICIENT
from priormtl.data import (
    TaskData,
    TaskStatistics,
    centre_samples,
    condense,
    shift_samples,
)
from priormtl.graphs import Laplacian
from priormtl.losses.base import WithoutForms
from priormtl.losses.intercepts import FreeIntercepts, Intercepts
from priormtl.losses.squared import SquaredFit


@dataclass(frozen=True)
class Logistic:
    """Negative log-likelihood of a logistic model."""

    def bind(
        self,
        data: TaskData | TaskStatistics,
        intercepts: Intercepts,
        shift: Array | None = None,
    ) -> "LogisticFit":
        """Loss on this data, with targets −1 and +1."""
        if not isinstance(data, TaskData):
            raise TypeError(
                f"Logistic needs raw samples, got {type(data).__name__}: statistics "
                "suffice for squared loss only."
            )
        if isinstance(intercepts, FreeIntercepts):
            shifted, shift = shift_samples(data)
            return LogisticFit(shifted, intercepts, shift)
        zero = np.zeros(data.shape[::-1])
        return LogisticFit(data, intercepts, zero if shift is None else zero + shift)


@dataclass(frozen=True, eq=False)
class LogisticEvaluation:
    """Logistic misfit at scores x p_i."""

    fit: "LogisticFit"
    coef: Array  # P (d, m)
    scores: Array  # x p_i, per sample, without intercepts
    b: Array  # (m,) best intercepts

    @cached_property
    def margins(self) -> Array:
        """y (x p_i + b_i)."""
        data = self.fit.data
        return data.y * (self.scores + data.spread(self.b))

    @cached_property
    def surprise(self) -> Array:
        """Probability given to the wrong class."""
        return expit(-self.margins)

    @cached_property
    def value(self) -> float:
        return self.fit.misfit(self.margins) + self.fit.intercepts.value(self.b)

    @cached_property
    def gradient(self) -> Array:
        data = self.fit.data
        return data.adjoint(-data.weight * data.y * self.surprise)

    @cached_property
    def curvature(self) -> Array:
        """Second derivative of each sample's loss."""
        return self.fit.data.weight * self.surprise * (1.0 - self.surprise)

    @cached_property
    def left_at_intercepts(self) -> float:
        """Slope in the intercepts times these, zero but for rounding.

        A dual point needs residuals whose sums the intercepts' cost explains. Large
        intercepts magnify what rounding leaves of that; the bound holds with it.
        """
        if self.fit.intercepts.are_fixed:
            return 0.0
        return float(self.fit.intercept_slope(self) @ self.b)

    def dual_value(self, scale: float) -> float:
        """Entropy of the scaled surprises, less the scaled cost of intercepts."""
        cost = self.fit.intercepts.value(self.b)
        value = self.fit.entropy(scale * self.surprise) - scale**2 * cost
        return value + scale * self.left_at_intercepts

    def best_scale(self, limit: float, prior_value: float, slack: float = 0.0) -> float:
        """Largest feasible scale, or less where the dual value falls before it."""
        used: Any = np.broadcast_to(self.fit.data.weight > 0, self.surprise.shape)
        largest = float(np.max(self.surprise, initial=0.0, where=used))
        low, high = 0.0, min(limit, 1.0 / largest if largest > 0 else 1.0)
        if self._dual_slope(high, prior_value) + slack >= 0:
            return high
        for _ in range(30):
            middle = 0.5 * (low + high)
            rising = self._dual_slope(middle, prior_value) + slack >= 0
            low, high = (middle, high) if rising else (low, middle)
        return low

    def _dual_slope(self, scale: float, prior_value: float) -> float:
        """Derivative of the dual value in the scale; minus infinity at its end."""
        part = np.clip(scale * self.surprise, 1e-300, 1.0)
        with np.errstate(divide="ignore"):
            odds = np.log1p(-part) - np.log(part)
        cost = prior_value + self.fit.intercepts.value(self.b)
        rise = float(np.sum(self.fit.data.weight * self.surprise * odds))
        return rise - 2.0 * scale * cost


@dataclass(frozen=True, eq=False)
class LogisticFit(WithoutForms):
    """Logistic loss on samples, intercepts minimised out."""

    data: TaskData
    intercepts: Intercepts
    shift: Array  # (m, d) what was subtracted from the features

    is_quadratic: ClassVar[bool] = False
    shifted_size: ClassVar[None] = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.data.shape

    def evaluate(
        self, P: Array, near: LogisticEvaluation | None = None
    ) -> LogisticEvaluation:
        """One pass over the samples for the scores; the gradient costs a second."""
        start = np.zeros(self.shape[1]) if near is None else near.b
        return self._at_scores(P, self.data.forward(P), start)

    def rounding(self, at: LogisticEvaluation) -> float:
        """Bound on what rounding errors of scores and sums may hide in the value."""
        data = self.data
        surprise = np.sqrt(data.task_sums(data.weight * at.surprise**2))
        scores = np.sum(self._sizes * np.abs(at.coef), axis=0)
        scores = scores + np.sqrt(data.task_weight) * np.abs(at.b)
        return float(2.0 * ROUNDING * (at.value + surprise @ scores))

    @cached_property
    def _sizes(self) -> Array:
        """Roots of the sums of squares of features over each task (d, m)."""
        squares = self.data.X.multiply(self.data.X) if issparse(self.data.X) else None
        X = self.data.X**2 if squares is None else csr_array(squares)
        return np.sqrt(self.data.with_matrix(X).adjoint(self.data.weight))

    def extrapolate(
        self, current: LogisticEvaluation, previous: LogisticEvaluation, amount: float
    ) -> LogisticEvaluation:
        """Scores are linear in P: no pass over the samples needed."""
        coef = current.coef + amount * (current.coef - previous.coef)
        scores = current.scores + amount * (current.scores - previous.scores)
        return self._at_scores(coef, scores, current.b)

    def hessian(self, at: LogisticEvaluation, V: Array) -> Array:
        """Hessian in a point times V, intercepts following."""
        return self.data.adjoint(at.curvature * self._score_change(at, V))

    def majorant(self, V: Array) -> Array:
        """A quarter of the squared loss with four times the intercepts' cost.

        Logistic curvature is at most 1/4.
        """
        return 0.25 * self._quarter_of.majorant(V)

    def newton_dual(self, at: LogisticEvaluation, V: Array, product: Array) -> float:
        turn = at.surprise * (1.0 - at.surprise) * self.data.y
        surprise = at.surprise - turn * self._score_change(at, V)
        used = self.data.weight > 0
        if np.any(surprise[used] < 0) or np.any(surprise[used] > 1):
            return -np.inf
        surprise = np.clip(surprise, 0.0, 1.0)
        change = self._intercept_change(at, self.data.forward(V))
        b, left = at.b + change, 0.0
        if not self.intercepts.are_fixed:
            sums = self.data.task_sums(-self.data.weight * self.data.y * surprise)
            slope = sums + self.intercepts.slope(b)
            # Where curvatures are next to nothing, intercepts follow only roughly.
            left = float(slope @ b - 2.0 * np.abs(slope) @ np.abs(change))
        return self.entropy(surprise) - self.intercepts.value(b) + left

    @property
    def size(self) -> int:
        return int(self.data.X.nnz if issparse(self.data.X) else self.data.X.size)

    @property
    def magnitude(self) -> float:
        """Loss of an even guess."""
        return float(np.log(2.0) * self.data.task_weight.sum())

    @property
    def noise(self) -> float:
        """Value that is rounding only: targets are exact."""
        return 1e-13 * self.magnitude

    @property
    def intercept_graph(self) -> Laplacian | None:
        return self.intercepts.graph

    def task_spectra(self) -> tuple[Array, Array]:
        """A quarter of those of XᵀX; curvature can vanish, so the smallest is zero."""
        _, largest = self._quarter_of.task_spectra()
        return np.zeros_like(largest), 0.25 * largest

    @property
    def task_curvature(self) -> Array:
        """Trace of each task's largest possible Hessian (m,)."""
        return 0.25 * self._quarter_of.task_curvature

    def quadratic_model(self, at: LogisticEvaluation) -> SquaredFit:
        """Least squares with other weights and targets: iterative reweighting."""
        return SquaredFit(condense(self._reweighted(at)), self.intercepts)

    def least_squares(self, at: LogisticEvaluation) -> SquaredFit:
        model = self._reweighted(at)
        if issparse(model.X):
            model = model.with_matrix(model.X.toarray())
        return SquaredFit(centre_samples(model), self.intercepts)

    def _reweighted(self, at: LogisticEvaluation) -> TaskData:
        data = self.data
        # Samples that are all but decided have hardly any curvature: rightly, where
        # Newton's step is one unit of the score, or wrongly, where it would have no
        # end.
        least = np.where(at.margins > 0, 1e-10, 1e-5)
        weight = np.maximum(at.curvature, least * data.weight)
        residual = data.weight * data.y * at.surprise
        with np.errstate(invalid="ignore"):
            step = np.where(weight > 0, residual / weight, 0.0)
        target = at.scores + data.spread(at.b) + step
        return replace(data, y=np.where(weight > 0, target, 0.0), weight=weight)

    def solve_shifted(self, shift: float, V: Array) -> Array:
        raise TypeError("logistic loss has no fixed Hessian: use its quadratic model.")

    def intercept(self, P: Array) -> Array:
        return self.evaluate(P).b

    def intercept_at_zero(self, at: LogisticEvaluation) -> Array:
        return at.b - np.sum(self.shift.T * at.coef, axis=0)

    def restrict(self, features: Index) -> Self:
        return replace(
            self, data=self.data.restrict(features), shift=self.shift[:, features]
        )

    def misfit(self, margins: Array) -> float:
        return float(np.sum(self.data.weight * np.logaddexp(0.0, -margins)))

    def entropy(self, surprise: Array) -> float:
        """Σ w H(surprise), H the entropy of a coin."""
        return float(np.sum(self.data.weight * (entr(surprise) + entr(1.0 - surprise))))

    @cached_property
    def _quarter_of(self) -> SquaredFit:
        return SquaredFit(centre_samples(self.data), self.intercepts.scaled(4.0))

    def _intercept_change(self, at: LogisticEvaluation, change: Array) -> Array:
        """How best intercepts follow a change of the scores, to first order."""
        total = self._floored(self.data.task_sums(at.curvature))
        solve = self.intercepts.solver(total)
        return solve(-self.data.task_sums(at.curvature * change) / total)

    def _score_change(self, at: LogisticEvaluation, V: Array) -> Array:
        change = self.data.forward(V)
        return change + self.data.spread(self._intercept_change(at, change))

    def _floored(self, curvature: Array) -> Array:
        """Keep curvatures of saturated tasks away from zero."""
        return np.maximum(curvature, 1e-14 * self.data.task_weight)

    def _at_scores(
        self, coef: Array, scores: Array, start: Array
    ) -> LogisticEvaluation:
        """Minimise over the intercepts by Newton's method."""
        if self.intercepts.are_fixed:
            return LogisticEvaluation(self, coef, scores, np.zeros_like(start))
        point = LogisticEvaluation(self, coef, scores, start)
        for _ in range(100):
            slope = self.intercept_slope(point)
            if np.all(np.abs(slope) <= 1e-14 * self.data.task_weight):
                break
            closer = self._newton_step(point, slope)
            if closer is None:
                break
            point = closer
        return point

    def intercept_slope(self, point: LogisticEvaluation) -> Array:
        """Gradient in b (m,), zero at the best intercepts."""
        return self._misfit_slope(point) + self.intercepts.slope(point.b)

    def gradient_noise(self, at: LogisticEvaluation) -> Array:
        """How far the gradient is off (d, m), as intercepts are at their best roughly.

        Features far from zero magnify what is left of the slope in the intercepts, and
        what rounding hides of it.
        """
        if self.intercepts.are_fixed:
            return np.zeros(self.shape)
        weight = self.data.task_weight
        sums = np.abs(self.data.adjoint(self.data.weight))
        with np.errstate(divide="ignore", invalid="ignore"):
            means = np.where(weight > 0, sums / weight, 0.0)
        hidden, graph = EPS * weight, self.intercepts.graph
        if graph is not None:
            stiff = 2.0 * self.intercepts.tie_strength * graph.degree
            hidden = hidden + EPS * stiff * np.abs(at.b)
        return np.asarray(means * (np.abs(self.intercept_slope(at)) + hidden))

    def _misfit_slope(self, point: LogisticEvaluation) -> Array:
        """Gradient of the misfit in b (m,), without the intercepts' own cost."""
        return self.data.task_sums(-self.data.weight * self.data.y * point.surprise)

    def _newton_step(
        self, point: LogisticEvaluation, gradient: Array
    ) -> LogisticEvaluation | None:
        """Newton step in b if the value falls, else a majorant's; None at rounding.

        Where samples are all but decided, Newton's curvature is next to nothing, and
        its steps go anywhere. The quadratic that touches log(1 + exp(−z)) at ±z from
        above has the curvature tanh(z/2) / (2z) (Jaakkola and Jordan, "Bayesian
        parameter estimation via variational methods", 2000): its steps never rise.
        """
        trial = self._intercept_step(point, point.curvature)
        slope = float((trial.b - point.b) @ gradient)
        if trial.value <= point.value + SUFFICIENT * slope:
            return trial
        # Near the minimum the value has no digits left, but the slope has.
        end = float((trial.b - point.b) @ self.intercept_slope(trial))
        noise = 1e-13 * abs(point.value)
        if trial.value <= point.value + noise and abs(end) < 0.5 * abs(slope):
            return trial
        half = np.maximum(0.5 * np.abs(point.margins), 1e-8)
        trial = self._intercept_step(
            point, self.data.weight * np.tanh(half) / (4.0 * half)
        )
        return trial if trial.value < point.value else None

    def _intercept_step(
        self, point: LogisticEvaluation, curvature: Array
    ) -> LogisticEvaluation:
        """Minimise the quadratic in b with these curvatures of the samples."""
        total = self._floored(self.data.task_sums(curvature))
        b = self.intercepts.solver(total)(point.b - self._misfit_slope(point) / total)
        return replace(point, b=b)
