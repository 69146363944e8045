"""Families: one row's loss f(η; y) with η = x p_i + b_i + offset, and its fit to data.

A `Family` is a value: the loss, its first and second derivative, its conjugate f* with
its domain, the inverse link, and a check of the targets. Losses are counted from their
least value, so that f ≥ 0 is half the deviance and f*(0) = 0; `constant` is what that
leaves out. `FamilyFit` binds a family to samples. It is all that solvers, certificates
and priors see: none of them asks which family it is.

The dual point is the residual r = f′(η), scaled by s until it is feasible. It stays in
the domain of f*, at least for s ≤ 1, because f′ has convex range; so no Lipschitz
constant is needed::

    dual(s) = Σ w (s r offset − f*(s r)) − s² · cost of the intercepts

Every evaluation finds the best intercepts. All families here have |f‴| ≤ f″, so that a
Newton step Δ damped by log(1 + |Δ|)/|Δ| lowers the value (Sun and Tran-Dinh,
"Generalized self-concordant functions", Mathematical Programming 178, 2019).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.special import ndtr, ndtri

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl._numerics import EPS, ROUNDING, SUFFICIENT, TINY
from priormtl.data import (
    TaskData,
    TaskStatistics,
    centre_samples,
    condense,
    shift_samples,
)
from priormtl.losses.base import FreeIntercepts, Intercepts, WithoutForms
from priormtl.losses.squared import SquaredFit
from priormtl.priors.graphs import Laplacian


def bounded_exp(eta: Array) -> Array:
    """e^η, which does not overflow: no search goes on from so large a value."""
    return np.exp(np.minimum(eta, 500.0))


def densify_small(data: TaskData) -> TaskData:
    """Sparse features as dense ones where they are few: these can be centred."""
    # 2 MB: beyond, products with zeros cost more than sparse formats.
    if issparse(data.X) and data.X.shape[0] * data.X.shape[1] <= 2**18:
        return data.with_matrix(data.X.toarray())
    return data


class Family(ABC):
    """Loss of one row as a function of its score η; methods work on arrays."""

    name: ClassVar[str]
    # Largest f″, where there is one: fixed-step methods need it.
    lipschitz: ClassVar[float | None] = None
    # Score of held-out rows as scikit-learn names it: minus so many times the loss.
    scoring: ClassVar[tuple[str, float]] = ("neg_mean_deviance", 2.0)
    # Name of the loss in the boosting of scikit-learn and LightGBM, for comparison.
    boosting: ClassVar[str]
    # What a table must hold so that the mean target has a finite score.
    needs: ClassVar[str] = "different values"
    # Whether the variance follows from the mean; else REML estimates its factor.
    noise_is_known: ClassVar[bool] = True
    # Whether rows may scatter by more than the family says: REML then estimates the
    # factor of their variance, which is at least 1.
    may_scatter: bool = False
    # Scores of a row: one, or that of each class.
    scores_per_row: int = 1
    # Whether the family has a parameter that `refit` estimates.
    has_dispersion: ClassVar[bool] = False

    @abstractmethod
    def check(self, y: Array, *, weighted: bool) -> None:
        """Fail unless each target of positive weight is possible."""

    def check_mean(self, mean: float) -> None:
        """Fail unless the mean of all targets has a finite score."""
        if not self.has_finite_score(np.asarray(mean)):
            raise ValueError(f'y must hold {self.needs} with loss="{self.name}".')

    @abstractmethod
    def loss(self, eta: Array, y: Array) -> Array:
        """f(η) ≥ 0, half the deviance."""

    @abstractmethod
    def constant(self, y: Array) -> Array:
        """What the loss as it is written has more: its least value."""

    @abstractmethod
    def slope(self, eta: Array, y: Array) -> Array:
        """f′(η)."""

    @abstractmethod
    def bend(self, eta: Array, y: Array) -> Array:
        """f″(η)."""

    def far_bend(self, eta: Array, y: Array) -> Array:
        """Mean curvature on the way from η to where the slope is a third of f′(η).

        A first fit leaves about that much of the slopes without features. Curvature at
        η itself misses how that of counts above their mean rises on the way there.
        """
        slope = self.slope(eta, y)
        apart = eta - self.score(slope / 3.0, y)
        near = np.abs(apart) < 1e-4  # the quotient would lose digits
        mean = 2.0 / 3.0 * slope / np.where(near, 1.0, apart)
        return np.where(near, self.bend(eta, y), mean)

    def level(
        self, eta: Array, y: Array, weight: Array, sums: Callable[[Array], Array]
    ) -> Array | None:
        """What to add to all scores of each task so that its loss is least.

        None where that has no closed form; ``sums`` adds the rows of each task.
        """
        return None

    def working_bend(self, eta: Array, y: Array) -> Array:
        """f″(η), or its mean over targets where REML estimates the noise."""
        return self.bend(eta, y)

    def skew(self, eta: Array, y: Array) -> Array:
        """Derivative of the logarithm of ``working_bend``, by a central difference."""
        step = 1e-4
        above, below = (self.working_bend(eta + h, y) for h in (step, -step))
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.log(above / below) / (2.0 * step)
        return np.where(np.isfinite(found), found, 0.0)

    @abstractmethod
    def conjugate(self, v: Array, y: Array) -> Array:
        """f*(v) inside the domain."""

    @abstractmethod
    def domain(self, y: Array) -> tuple[Any, Any]:
        """Least and largest v for which f*(v) is finite."""

    @abstractmethod
    def score(self, v: Array, y: Array) -> Array:
        """η with f′(η) = v, which is the derivative of f*."""

    @abstractmethod
    def mean(self, eta: Array) -> Array:
        """Inverse link: expected target."""

    @abstractmethod
    def link(self, mean: Array) -> Array:
        """η of an expected target; finite also at the ends of the range."""

    def upper_bend(self, eta: Array, y: Array) -> Array | None:
        """Curvature of a quadratic that touches f at η from above, if there is one."""
        return None

    def curvature_root(self, eta: Array, y: Array) -> tuple[Array, Array]:
        """R (n, K, K) with R'R the Hessian of each row, and units u (n, K).

        R times a change of scores is u times the change of each from the mean change,
        and R'(f′/u) = f′.
        """
        unit = np.sqrt(self.bend(eta, y))
        return unit[:, :, np.newaxis], unit

    def has_finite_score(self, mean: Array) -> NDArray[np.bool_]:
        """Whether a mean target has a finite score: else no free intercept is best."""
        return np.ones(np.shape(mean), dtype=bool)

    # The noise about predictions, for intervals. Sizes of residuals are those of normal
    # variables whose central interval is as wide as the one that just holds y.

    has_additive_noise: ClassVar[bool] = False  # in the units of scores

    def estimate_noise(self, eta: Array, y: Array, weight: Array) -> float:
        """Dispersion of targets about held-out scores."""
        raise ValueError(f"intervals need numbers as targets: got {self.name} loss.")

    def chances(self, eta: Array, y: Array, noise: float) -> tuple[Array, Array]:
        """P(Y < y) and P(Y ≤ y)."""
        raise NotImplementedError

    def quantile(self, eta: Array, level: Array, noise: float) -> Array:
        """Least y with P(Y ≤ y) ≥ level."""
        raise NotImplementedError

    def residual(self, eta: Array, y: Array, noise: float) -> Array:
        """Normal score of y; zero for counts about the median."""
        below, up_to = self.chances(eta, y, noise)
        far = 8.0  # beyond, chances have no digits
        scores = np.clip([ndtri(below), ndtri(up_to)], -far, far)
        return np.maximum(scores[0], 0.0) + np.minimum(scores[1], 0.0)

    def ends(self, eta: Array, half: Array, noise: float) -> Array:
        """Interval (n, 2) of targets whose residual is at most ``half`` (n, 2)."""
        # The least bit more, so that rounding excludes no count at the end.
        scores = half * [-1.0 - 1e-9, 1.0 + 1e-9]
        return self.quantile(eta[:, np.newaxis], ndtr(scores), noise)

    def without_offset(
        self, y: Array, weight: Array, offset: Array
    ) -> tuple[Array, Array]:
        """Targets and weights for which boosting fits η less a known part."""
        raise ValueError(f"offset must be None with {self.name} loss.")

    def boosting_derivatives(self, eta: Array, y: Array) -> tuple[Array, Array]:
        """f′ and f″ of the loss whose trees sum to η."""
        return self.slope(eta, y), self.bend(eta, y)

    def refit(self, eta: Array, y: Array, weight: Array) -> "Family":
        """The same family at the most likely dispersion, given scores."""
        return self

    def scattered(self) -> "Family":
        """The same where rows may scatter by more than the family says."""
        return self

    def bind(
        self,
        data: TaskData | TaskStatistics,
        intercepts: Intercepts,
        shift: Array | None = None,
    ) -> "FamilyFit":
        """Fit of this family; ``shift`` (d,) was subtracted from the features."""
        if not isinstance(data, TaskData):
            raise TypeError(
                f"{self.name} loss needs raw samples, got {type(data).__name__}: "
                "statistics suffice for squared loss only."
            )
        data = densify_small(data)
        # Cells that were not measured have no weight; any valid target will do.
        data = replace(data, y=np.where(data.weight > 0, data.y, 1.0))
        if isinstance(intercepts, FreeIntercepts):
            data, points = shift_samples(data)
            return FamilyFit(self, data, intercepts, points)
        zero = np.zeros(data.shape[::-1])
        points = zero if shift is None else zero + shift
        return FamilyFit(self, data, intercepts, points)


@dataclass(frozen=True, eq=False)
class FamilyEvaluation:
    """Loss at scores x p_i, intercepts at their best."""

    fit: "FamilyFit"
    coef: Array  # P (d, m)
    scores: Array  # x p_i, per sample, without intercepts and offset
    b: Array  # (m,) best intercepts

    @cached_property
    def eta(self) -> Array:
        data = self.fit.data
        eta = self.scores + data.spread(self.b)
        return eta if data.offset is None else eta + data.offset

    @cached_property
    def slopes(self) -> Array:
        """Residuals f′(η), without weights."""
        return self.fit.family.slope(self.eta, self.fit.data.y)

    @cached_property
    def bends(self) -> Array:
        """f″(η), without weights."""
        return self.fit.family.bend(self.eta, self.fit.data.y)

    @cached_property
    def value(self) -> float:
        data = self.fit.data
        losses = data.weight * self.fit.family.loss(self.eta, data.y)
        return float(np.sum(losses)) + self.fit.intercepts.value(self.b)

    @cached_property
    def gradient(self) -> Array:
        """Gradient in P where intercepts follow, so that features' means cancel.

        At the best intercepts their slope is zero but for rounding, which features far
        from zero would magnify: it counts at the means.
        """
        found = self.fit.data.adjoint(self.fit.data.weight * self.slopes)
        if self.fit.intercepts.are_fixed:
            return found
        return np.asarray(found - self.fit.means * self.intercept_slope)

    @cached_property
    def intercept_slope(self) -> Array:
        """Gradient in b (m,), zero at the best intercepts."""
        data = self.fit.data
        own = self.fit.intercepts.slope(self.b)
        return np.asarray(data.task_sums(data.weight * self.slopes) + own)

    def dual_value(self, scale: float) -> float:
        """Dual value at the scaled residuals.

        A dual point needs residuals whose sums the intercepts' cost explains. What is
        left of these is taken off all residuals of a task alike, as in the gradient.
        """
        fit, slope = self.fit, self.intercept_slope
        cost = scale**2 * fit.intercepts.value(self.b)
        if fit.intercepts.are_fixed:
            return fit.dual_sum(scale * self.slopes)
        weight = fit.data.task_weight
        share = slope / np.where(weight > 0, weight, 1.0)
        v = self.slopes - fit.data.spread(share)
        if fit.has_conjugate(scale * v):
            return fit.dual_sum(scale * v) - cost
        # Rounding only, of residuals at the end of their domain: to first order, at
        # intercepts at the features' means, and the way from any score to any other.
        if np.any(np.abs(slope) > fit.slope_rounding(self)):
            return -np.inf
        means = self.b + np.sum(fit.means * self.coef, axis=0)
        reach = float(np.abs(slope).sum() * np.ptp(self.eta[fit.data.weight > 0]))
        value = fit.dual_sum(scale * self.slopes) + scale * float(slope @ means)
        return value - cost - 2.0 * scale * reach

    def best_scale(self, limit: float, prior_value: float, slack: float = 0.0) -> float:
        """Largest feasible scale, or less where the dual value falls before it."""
        low, high = 0.0, min(limit, self._largest_scale)
        if self._dual_slope(high, prior_value) + slack >= 0:
            return high
        for _ in range(30):
            middle = 0.5 * (low + high)
            rising = self._dual_slope(middle, prior_value) + slack >= 0
            low, high = (middle, high) if rising else (low, middle)
        return low

    @cached_property
    def _largest_scale(self) -> float:
        """Scale at which the first residual leaves the domain; 1 if none is left."""
        data, v = self.fit.data, self.slopes
        low, high = self.fit.family.domain(data.y)
        used = (v != 0) & (data.weight > 0)
        if not used.any():
            return 1.0
        # The inverse is the share of the way to the end of the domain.
        ends = np.broadcast_to(np.where(v < 0, low, high), v.shape)[used]
        share = np.divide(v[used], ends, np.full(len(ends), np.inf), where=ends != 0)
        return 1.0 / max(float(np.max(share)), 1e-300)

    def _dual_slope(self, scale: float, prior_value: float) -> float:
        """Derivative of the dual value in the scale; minus infinity at its end."""
        data = self.fit.data
        scores = self.fit.family.score(scale * self.slopes, data.y)
        if data.offset is not None:
            scores = scores - data.offset
        cost = prior_value + self.fit.intercepts.value(self.b)
        rise = -float(np.sum(data.weight * self.slopes * scores))
        return rise - 2.0 * scale * cost


@dataclass(frozen=True, eq=False)
class FamilyFit(WithoutForms):
    """A family's loss on samples, intercepts minimised out."""

    family: Family
    data: TaskData
    intercepts: Intercepts
    shift: Array  # (m, d) what was subtracted from the features

    is_quadratic: ClassVar[bool] = False
    has_exact_models: ClassVar[bool] = True
    shifted_size: ClassVar[None] = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.data.shape

    @property
    def has_lipschitz_gradient(self) -> bool:
        return self.family.lipschitz is not None

    @cached_property
    def constant(self) -> float:
        """What the objective as it is written has more than the value."""
        data = self.data
        return float(np.sum(data.weight * self.family.constant(data.y)))

    def refit(self, at: FamilyEvaluation) -> Self:
        """The same at the dispersion that is most likely at a point."""
        family = self.family.refit(at.eta, self.data.y, self.data.weight)
        return replace(self, family=family)

    # Evaluations, and the best intercepts.

    def evaluate(
        self, P: Array, near: FamilyEvaluation | None = None
    ) -> FamilyEvaluation:
        """One pass over the samples for the scores; the gradient costs a second."""
        start = None if near is None else self._follow_means(near, P)
        return self._at_scores(P, self.data.forward(P), start)

    def extrapolate(
        self, current: FamilyEvaluation, previous: FamilyEvaluation, amount: float
    ) -> FamilyEvaluation:
        """Scores are linear in P: no pass over the samples needed."""
        coef = current.coef + amount * (current.coef - previous.coef)
        scores = current.scores + amount * (current.scores - previous.scores)
        return self._at_scores(coef, scores, self._follow_means(current, coef))

    def _follow_means(self, near: FamilyEvaluation, P: Array) -> Array:
        """Intercepts that leave scores at the features' means as they are nearby."""
        if self.intercepts.are_fixed or near.coef.shape != P.shape:
            return near.b
        return np.asarray(near.b - np.sum(self.means * (P - near.coef), axis=0))

    def _at_scores(
        self, coef: Array, scores: Array, start: Array | None
    ) -> FamilyEvaluation:
        """Minimise over the intercepts by Newton's method."""
        if self.intercepts.are_fixed:
            zero = np.zeros(self.shape[1])
            return FamilyEvaluation(self, coef, scores, zero)
        if start is None:
            known = scores if self.data.offset is None else scores + self.data.offset
            means = self.data.task_sums(self.data.weight * known)
            null = self._free_scores if self.intercepts.are_free else self._null_scores
            start = null - means / self.data.task_weight
        point = FamilyEvaluation(self, coef, scores, start)
        if not np.all(np.isfinite(point.eta)):
            return point  # of a run that diverges, as its value tells
        if self.intercepts.are_free:
            point = self._to_level(point)
        last = np.inf
        for k in range(100):
            slope = point.intercept_slope
            if np.all(np.abs(slope) <= 1e-14 * self._units):
                break
            # With strong ties rounding is larger: a slope that no longer falls.
            units = np.maximum(self._units, TINY)
            size = float(np.max(np.abs(slope) / units))
            noise = 8.0 * float(np.max(self._tie_rounding(point.b) / units))
            if 0.5 * last < size < max(1e-11, noise):
                break
            last = size
            if k == 20 and self.intercepts.are_free and self.family.scores_per_row == 1:
                point = self._bisect(point)
                continue
            closer = self._newton_step(point, slope)
            if closer is None:
                break
            point = closer
        return point

    def _to_level(self, point: FamilyEvaluation) -> FamilyEvaluation:
        """Best free intercepts at once, where the family has a closed form of them."""
        data = self.data
        with np.errstate(divide="ignore", invalid="ignore"):
            add = self.family.level(point.eta, data.y, data.weight, data.task_sums)
        if add is None or not add.any():
            return point
        return replace(point, b=point.b + np.where(np.isfinite(add), add, 0.0))

    def _newton_step(
        self, point: FamilyEvaluation, gradient: Array
    ) -> FamilyEvaluation | None:
        """Newton step in b if the value falls, else a shorter one; None at rounding."""
        trial = self._intercept_step(point)
        slope = float((trial.b - point.b) @ gradient)
        if trial.value <= point.value + SUFFICIENT * slope:
            return trial
        # Near the minimum the value has no digits left, but the slope has.
        end = float((trial.b - point.b) @ trial.intercept_slope)
        noise = 1e-13 * abs(point.value)
        if trial.value <= point.value + noise and abs(end) < 0.5 * abs(slope):
            return trial
        for shorter in self._shorter_steps(point, trial.b - point.b):
            if shorter.value < point.value:
                return shorter
        return None

    def _shorter_steps(
        self, point: FamilyEvaluation, step: Array
    ) -> Iterator[FamilyEvaluation]:
        """Where samples are all but decided, Newton's steps go anywhere."""
        upper = self.family.upper_bend(point.eta, self.data.y)
        if upper is not None:
            yield self._intercept_step(point, upper)
            return
        # Task by task, which is right without ties, then all by the same factor.
        size = np.maximum(np.abs(step), EPS)
        yield replace(point, b=point.b + step * np.log1p(size) / size)
        largest = float(size.max())
        yield replace(point, b=point.b + step * np.log1p(largest) / largest)

    def _bisect(self, point: FamilyEvaluation) -> FamilyEvaluation:
        """Best free intercepts by bisection, for scores so large that f is two lines.

        Between them all curvature lies, which Newton's steps pass over.
        """
        low, sign = point.b, -np.sign(point.intercept_slope)
        width = np.ones(len(low))
        high = low
        for _ in range(60):
            high = low + sign * width
            falls = sign * replace(point, b=high).intercept_slope < 0.0
            if not falls.any():
                break
            low, width = np.where(falls, high, low), np.where(falls, 2.0, 1.0) * width
        for _ in range(60):
            middle = 0.5 * (low + high)
            falls = sign * replace(point, b=middle).intercept_slope < 0.0
            low, high = np.where(falls, middle, low), np.where(falls, high, middle)
        return replace(point, b=low)

    def _intercept_step(
        self, point: FamilyEvaluation, bends: Array | None = None
    ) -> FamilyEvaluation:
        """Minimise the quadratic in b with these curvatures of the samples, or f″."""
        bends = point.bends if bends is None else bends
        total = self._floored(self.data.task_sums(self.data.weight * bends))
        misfit = self.data.task_sums(self.data.weight * point.slopes)
        b = self.intercepts.solver(total)(point.b - misfit / total)
        return replace(point, b=b)

    @cached_property
    def _null_scores(self) -> Array:
        """Scores of tasks without features (m,), shrunken a little to be finite."""
        data = self.data
        total, weight = data.task_sums(data.weight * data.y), data.task_weight
        # As if each task had one more row, the mean of all.
        row = data.weight.sum() / max(1, np.count_nonzero(data.weight))
        pooled = row * total.sum() / (weight.sum() or 1.0)
        return self.family.link((total + pooled) / (weight + row))

    @cached_property
    def _free_scores(self) -> Array:
        """The same as they are, where these are finite."""
        data, weight = self.data, self.data.task_weight
        means = data.task_sums(data.weight * data.y) / np.where(weight > 0, weight, 1.0)
        finite = (weight > 0) & self.family.has_finite_score(means)
        return np.where(finite, self.family.link(means), self._null_scores)

    @cached_property
    def _units(self) -> Array:
        """Curvature of each task without features (m,): the scale of its numbers."""
        data = self.data
        eta = np.broadcast_to(data.spread(self._null_scores), data.y.shape)
        return data.task_sums(data.weight * self.family.bend(eta, data.y))

    def _floored(self, curvature: Array) -> Array:
        """Keep curvatures of saturated tasks away from zero."""
        return np.maximum(curvature, 1e-14 * self._units)

    # Derivatives.

    def hessian(self, at: FamilyEvaluation, V: Array) -> Array:
        """Hessian in a point times V, intercepts following."""
        _, scores = self._follow(at, V)
        return self.data.adjoint(self.data.weight * at.bends * scores)

    def _follow(self, at: FamilyEvaluation, V: Array) -> tuple[Array, Array]:
        """First-order change of best intercepts (m,) and of scores."""
        scores, curvature = self.data.forward(V), self.data.weight * at.bends
        total = self._floored(self.data.task_sums(curvature))
        solve = self.intercepts.solver(total)
        b = solve(-self.data.task_sums(curvature * scores) / total)
        return b, scores + self.data.spread(b)

    def quadratic_model(self, at: FamilyEvaluation) -> SquaredFit:
        """Least squares with other weights and targets: iterative reweighting."""
        return SquaredFit(condense(self.reweighted(at)), self.intercepts)

    def far_model(self, at: FamilyEvaluation) -> SquaredFit:
        bends = self.family.far_bend(at.eta, self.data.y)
        return SquaredFit(condense(self.reweighted(at, bends)), self.intercepts)

    def least_squares(self, at: FamilyEvaluation) -> SquaredFit:
        model = self.reweighted(at)
        if issparse(model.X):
            model = model.with_matrix(model.X.toarray())
        return SquaredFit(centre_samples(model), self.intercepts)

    def reweighted(self, at: FamilyEvaluation, bends: Array | None = None) -> TaskData:
        """Samples with the targets and weights of a quadratic model.

        Its curvatures are ``bends``, by default f″.
        """
        data = self.data
        # Samples that are all but decided have hardly any curvature: rightly, where
        # Newton's step is one unit of the score, or wrongly, where it would have no
        # end.
        unit = data.spread(self._units / data.task_weight)
        bends = at.bends if bends is None else bends
        bends = np.maximum(bends, np.maximum(1e-10 * unit, 1e-5 * np.abs(at.slopes)))
        used = data.weight > 0
        target = at.scores + data.spread(at.b) - at.slopes / bends
        y, weight = np.where(used, target, 0.0), data.weight * bends
        return replace(data, y=y, weight=weight, offset=None)

    def solve_shifted(self, shift: float, V: Array) -> Array:
        raise TypeError(
            f"{self.family.name} loss has no fixed Hessian: use its quadratic model."
        )

    # Bounds on the curvature, where there are any.

    @cached_property
    def _squared(self) -> SquaredFit:
        """Squared loss, which has 1/L times the largest curvature."""
        return SquaredFit(
            centre_samples(self.data), self.intercepts.scaled(1.0 / self._lipschitz)
        )

    @property
    def _lipschitz(self) -> float:
        if self.family.lipschitz is None:
            raise TypeError(
                f"the gradient of {self.family.name} loss has no Lipschitz constant."
            )
        return self.family.lipschitz

    def majorant(self, V: Array) -> Array:
        """L times squared loss with 1/L times the intercepts' cost."""
        return self._lipschitz * self._squared.majorant(V)

    def task_spectra(self) -> tuple[Array, Array]:
        """L times those of XᵀX; curvature can vanish, so the smallest is zero."""
        _, largest = self._squared.task_spectra()
        return np.zeros_like(largest), self._lipschitz * largest

    @property
    def task_curvature(self) -> Array:
        """Trace of each task's largest Hessian (m,), or of that without features."""
        if self.has_lipschitz_gradient:
            return self._lipschitz * self._squared.task_curvature
        null = self.quadratic_model(self.evaluate(np.zeros(self.shape)))
        return null.task_curvature

    # Duals and rounding.

    def dual_sum(self, v: Array) -> float:
        """Σ w (v · offset − f*(v)) for residuals v."""
        data = self.data
        values = -self.family.conjugate(v, data.y)
        if data.offset is not None:
            values = values + v * data.offset
        return float(np.sum(np.where(data.weight > 0, data.weight * values, 0.0)))

    def has_conjugate(self, v: Array) -> bool:
        """Whether residuals are in the domain of f*."""
        low, high = self.family.domain(self.data.y)
        return not np.any(((v < low) | (v > high)) & (self.data.weight > 0))

    def slope_rounding(self, at: FamilyEvaluation) -> Array:
        """What rounding may leave of the slope in the best intercepts (m,)."""
        sums = self.data.task_sums(self.data.weight * np.abs(at.slopes))
        return 1e-10 * (self._units + sums) + 8.0 * self._tie_rounding(at.b)

    def newton_dual(self, at: FamilyEvaluation, V: Array, product: Array) -> float:
        change, scores = self._follow(at, V)
        return self._dual_at(at, at.slopes + at.bends * scores, change)

    def _dual_at(self, at: FamilyEvaluation, v: Array, change: Array) -> float:
        """Dual value at residuals v, for intercepts that change by so much."""
        if not self.has_conjugate(v):
            return -np.inf
        b, left = at.b + change, 0.0
        if not self.intercepts.are_fixed:
            sums = self.data.task_sums(self.data.weight * v)
            slope = sums + self.intercepts.slope(b)
            if np.any(np.abs(slope) > 1e4 * self.slope_rounding(at)):
                return -np.inf
            # Where curvatures are next to nothing, intercepts follow only roughly.
            left = float(slope @ b - 2.0 * np.abs(slope) @ np.abs(change))
        return self.dual_sum(v) - self.intercepts.value(b) + left

    def rounding(self, at: FamilyEvaluation) -> float:
        """Bound on what rounding errors of scores and sums may hide in the value."""
        data, size = self.data, np.abs(at.coef)
        scores = data.with_matrix(abs(data.X)).forward(size)
        scores = scores + data.spread(np.abs(at.b))
        if data.offset is not None:
            scores = scores + np.abs(data.offset)
        first = at.value + np.sum(data.weight * np.abs(at.slopes) * scores)
        if self.has_lipschitz_gradient:
            return float(2.0 * ROUNDING * first)
        # Errors of scores that are not small are magnified, at most as f″ may grow.
        reach = scores + data.spread(np.sum(np.abs(self.shift.T) * size, axis=0))
        errors = np.minimum(2.0 * ROUNDING * reach, 500.0)
        growth = data.weight * at.bends * (np.expm1(errors) - errors)
        return float(2.0 * ROUNDING * first + np.sum(growth))

    def gradient_noise(self, at: FamilyEvaluation) -> Array:
        """How far the gradient is off (d, m), as intercepts are at their best roughly.

        Features far from zero magnify what is left of the slope in the intercepts, and
        what rounding hides of it.
        """
        if self.intercepts.are_fixed:
            return np.zeros(self.shape)
        terms = self.data.weight * (np.abs(at.slopes) + at.bends)
        hidden = EPS * (self._units + self.data.task_sums(terms))
        slope = np.abs(at.intercept_slope) + hidden + self._tie_rounding(at.b)
        return np.asarray(np.abs(self.means) * slope)

    def _tie_rounding(self, b: Array) -> Array:
        """What rounding hides of the slope of ties between intercepts (m,)."""
        graph = self.intercepts.graph
        if graph is None:
            return np.zeros(len(b))
        return EPS * 2.0 * self.intercepts.tie_strength * graph.degree * np.abs(b)

    @cached_property
    def means(self) -> Array:
        """Mean of each feature in each task (d, m)."""
        weight = self.data.task_weight
        sums = self.data.adjoint(self.data.weight)
        return np.asarray(sums / np.where(weight > 0, weight, 1.0))

    @property
    def size(self) -> int:
        return int(self.data.X.nnz if issparse(self.data.X) else self.data.X.size)

    @cached_property
    def magnitude(self) -> float:
        return float(self._units.sum())

    @property
    def noise(self) -> float:
        """Value that is rounding only: targets are exact."""
        return 1e-13 * self.magnitude

    @property
    def intercept_graph(self) -> Laplacian | None:
        return self.intercepts.graph

    def intercept(self, P: Array) -> Array:
        return self.evaluate(P).b

    def intercept_at_zero(self, at: FamilyEvaluation) -> Array:
        return at.b - np.sum(self.shift.T * at.coef, axis=0)

    def restrict(self, features: Index) -> Self:
        return replace(
            self, data=self.data.restrict(features), shift=self.shift[:, features]
        )


def row_slopes(fit: object, data: TaskData, scores: Array) -> tuple[Array, Array]:
    """Residuals −w f′(η) and curvatures w f″(η) of samples at scores η."""
    if not isinstance(fit, FamilyFit):
        return data.weight * (data.y - scores), data.weight
    slope, bend = fit.family.slope(scores, data.y), fit.family.bend(scores, data.y)
    return -data.weight * slope, data.weight * bend
