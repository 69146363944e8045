"""OutlierFit: a loss under which tasks that do not belong pull no harder than γ.

A task may have a part of its own beside what it shares, at γ_i ‖o_i‖::

    F(S) = min over O of f(S + O) + Σ_i γ_i ‖o_i‖

F is convex and smooth, its gradient is that of f at S + O, whose columns are never
longer than γ_i, and its conjugate is f's wherever they are not: what certifies f
certifies the problem in S and O together.
"""

from dataclasses import dataclass, replace
from typing import Any, NoReturn, Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.losses.around import Around
from priormtl.losses.base import Evaluation
from priormtl.losses.outlier_model import model_fit
from priormtl.losses.own import OwnParts, column_norms, solve_own
from priormtl.losses.squared import SquaredFit
from priormtl.losses.tied_own import solve_tied_own

__all__ = ["OutlierEvaluation", "OutlierFit"]

MOST_STEPS = 50
MOST_HALVINGS = 30
SETTLED = 1e-10  # misfit of forces and strengths, relative
ROUNDING = 1e-15


@dataclass(frozen=True, eq=False)
class OutlierEvaluation:
    """Misfit at shared parts, own parts and intercepts at their best."""

    fit: "OutlierFit"
    coef: Array  # S (k, m)
    own: Array  # O (d, m), zero for most tasks
    inner: Evaluation  # of S + O

    @cached_property
    def value(self) -> float:
        """Misfit of the sum, and what own parts cost."""
        return self.inner.value + self.fit.cost(self.own)

    @cached_property
    def gradient(self) -> Array:
        """That of the sum, for the features that are looked at."""
        gradient = self.inner.gradient
        return gradient if self.fit.features is None else gradient[self.fit.features]

    @property
    def total(self) -> Array:
        """S + O (d, m)."""
        return self.fit.embed(self.coef) + self.own

    def dual_value(self, scale: float) -> float:
        """That of the sum: own parts cost nothing at feasible points."""
        return self.inner.dual_value(scale)

    def best_scale(self, limit: float, prior_value: float) -> float:
        """As for the sum, with no column of the gradient longer than γ_i."""
        return self.inner.best_scale(min(limit, self._own_limit), prior_value)

    @cached_property
    def _own_limit(self) -> float:
        """Scale at which the first column of the gradient is as long as γ_i."""
        lengths = column_norms(self.inner.gradient)
        pulled = lengths > 0
        return float(
            np.min(self.fit.strength[pulled] / lengths[pulled], initial=np.inf)
        )

    @cached_property
    def model(self) -> SquaredFit:
        """Quadratic model, made once."""
        return self.fit.model_at(self)


@dataclass(frozen=True, eq=False)
class OutlierFit(Around):
    """A data fit with own parts of tasks minimised out."""

    strength: Array  # γ (m,) > 0
    features: Index | None = None  # that shared parts may use; None: all

    @property
    def shape(self) -> tuple[int, int]:
        """(d, m)."""
        d, m = self.fit.shape
        return (d if self.features is None else len(self.features)), m

    @property
    def is_quadratic(self) -> bool:
        """Never: outliers come and go."""
        return False

    def evaluate(
        self, P: Array, near: OutlierEvaluation | None = None
    ) -> OutlierEvaluation:
        """Find own parts for these shared parts."""
        if self.fit.is_quadratic:
            return self._evaluate_squared(P, near)
        return self._evaluate_smooth(P, near)

    def rounding(self, at: OutlierEvaluation) -> float:
        """That of the fit at the sum."""
        return self.fit.rounding(at.inner)

    def extrapolate(
        self, current: OutlierEvaluation, previous: OutlierEvaluation, amount: float
    ) -> OutlierEvaluation:
        """Look there: own parts do not follow a line."""
        P = current.coef + amount * (current.coef - previous.coef)
        return self.evaluate(P, current)

    def hessian(self, at: OutlierEvaluation, V: Array) -> Array:
        """That of the quadratic model."""
        return at.model.majorant(V)

    def majorant(self, V: Array) -> Array:
        """That of the fit: own parts only take curvature away."""
        product = self.fit.majorant(self.embed(V))
        return product if self.features is None else product[self.features]

    def newton_dual(self, at: OutlierEvaluation, V: Array, product: Array) -> float:
        """Dual value at P + V, less what linearisation missed of its gradient."""
        end = self.evaluate(at.coef + V, at)
        missed = np.linalg.norm(end.gradient - at.gradient - product)
        scale = end.best_scale(1.0, 0.0)
        lost = (1.0 - scale) * np.linalg.norm(end.gradient)
        margin = (missed + lost) * np.linalg.norm(end.coef)
        return float(end.dual_value(scale) - margin)

    def task_spectra(self) -> tuple[Array, Array]:
        """No curvature along own parts, at most the fit's elsewhere."""
        _, highest = self.fit.task_spectra()
        return np.zeros_like(highest), highest

    @property
    def shifted_size(self) -> None:
        """None: there is no fixed Hessian."""

    def quadratic_model(self, at: OutlierEvaluation) -> SquaredFit:
        """Squared fit whose own parts follow to first order."""
        return at.model

    def normal_form(self) -> NoReturn:
        """Not to be had."""
        raise TypeError("a fit with own parts has no normal form: take its model's.")

    def sample_form(self) -> NoReturn:
        """Not least squares."""
        raise TypeError("a fit with own parts is not least squares: take its model.")

    def solve_shifted(self, shift: float, V: Array) -> NoReturn:
        """Not to be had."""
        raise TypeError("a fit with own parts has no fixed Hessian: take its model.")

    def intercept(self, P: Array) -> Array:
        """Best intercepts for the sum (m,)."""
        return self.fit.intercept(self.evaluate(P).total)

    def intercept_at_zero(self, P: Array) -> Array:
        """Best intercepts for the sum, where features are zero as given (m,)."""
        return self.fit.intercept_at_zero(self.evaluate(P).total)

    def restrict(self, features: Index) -> Self:
        """Only these features in shared parts; own parts keep all."""
        kept = features if self.features is None else self.features[features]
        return replace(self, features=kept)

    def embed(self, P: Array) -> Array:
        """Shared parts of all features (d, m)."""
        if self.features is None:
            return P
        whole = np.zeros(self.fit.shape)
        whole[self.features] = P
        return whole

    def cost(self, own: Array) -> float:
        """Σ γ_i ‖o_i‖."""
        lengths = column_norms(own)
        used = lengths > 0  # γ may be infinite elsewhere
        return float(self.strength[used] @ lengths[used])

    def model_at(self, at: OutlierEvaluation) -> SquaredFit:
        """Squared fit that agrees at a point, but for a share of curvature."""
        base: Any = self.fit.quadratic_model(at.inner)
        tasks = np.flatnonzero(at.own.any(axis=0))
        coef = at.own[:, tasks]
        own = OwnParts(tasks, coef, self.strength[tasks] / column_norms(coef))
        whole = np.arange(self.fit.shape[0])
        features = whole if self.features is None else self.features
        return model_fit(base, own, at.coef, at.gradient, features)

    def _evaluate_squared(
        self, P: Array, near: OutlierEvaluation | None
    ) -> OutlierEvaluation:
        shared = self.embed(P)
        alone = self.fit.evaluate(shared)
        if np.all(column_norms(alone.gradient) <= self.strength):
            return OutlierEvaluation(self, P, np.zeros_like(shared), alone)
        start = None if near is None else near.total
        own = self._solve_model(self.fit, shared, alone, start)
        return OutlierEvaluation(self, P, own, self.fit.evaluate(shared + own))

    def _solve_model(
        self, fit: Any, shared: Array, alone: Evaluation, start: Array | None
    ) -> Array:
        """Own parts (d, m) for squared loss; ``start`` is a sum nearby."""
        if fit.ties_means:
            b = fit.intercept(shared if start is None else start)
            found = solve_tied_own(fit, self.strength, shared, b)
        else:
            found = solve_own(fit.modes, alone.gradient, self.strength)
        return found.spread(shared.shape[1])

    def _evaluate_smooth(
        self, P: Array, near: OutlierEvaluation | None
    ) -> OutlierEvaluation:
        """By quadratic models of the loss, each solved exactly."""
        shared = self.embed(P)
        own = np.zeros_like(shared) if near is None else near.own
        inner = self.fit.evaluate(shared + own, None if near is None else near.inner)
        point = OutlierEvaluation(self, P, own, inner)
        for _ in range(MOST_STEPS):
            closer = None if self._is_settled(point) else self._improve(point, shared)
            if closer is None:
                break
            point = closer
        return point

    def _is_settled(self, point: OutlierEvaluation) -> bool:
        """Whether gradients are −γ_i o_i / ‖o_i‖, or no longer than γ_i."""
        gradient, lengths = point.inner.gradient, column_norms(point.own)
        used = lengths > 0
        gradient = gradient.copy()
        gradient[:, used] += self.strength[used] * point.own[:, used] / lengths[used]
        limit = np.where(used, SETTLED, 1.0 + SETTLED) * self.strength
        return bool(np.all(column_norms(gradient) <= limit))

    def _improve(
        self, point: OutlierEvaluation, shared: Array
    ) -> OutlierEvaluation | None:
        """Best own parts of a model of the loss, or part of the way there."""
        model = self.fit.quadratic_model(point.inner)
        alone = model.evaluate(shared)
        target = self._solve_model(model, shared, alone, point.total)
        move = target - point.own
        costs = self.cost(target) - self.cost(point.own)
        promised = float(np.vdot(point.inner.gradient, move)) + costs
        for halvings in range(MOST_HALVINGS):
            step = 0.5**halvings
            own = target if halvings == 0 else point.own + step * move
            inner = self.fit.evaluate(shared + own, point.inner)
            trial = OutlierEvaluation(self, point.coef, own, inner)
            noise = ROUNDING * abs(point.value)
            if trial.value <= point.value + 1e-4 * step * promised + noise:
                return trial
        return None
