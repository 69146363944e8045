"""Problem: data fit + prior + lam · penalty, with a certificate for any point."""

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.losses import DataFit, Evaluation, OutlierEvaluation
from priormtl.penalties import Penalty, Power, is_power
from priormtl.priors import QuadraticPrior
from priormtl.problem.certificate import Certificate
from priormtl.problem.conjugates import PowerDual
from priormtl.problem.newton_system import NewtonStep, is_uncertain, solve_newton_system

__all__ = ["Point", "Problem"]

ROUNDING = 1e-12  # relative size below which differences of values mean nothing
SUM_ROUNDING = 8.0 * float(np.finfo(np.float64).eps)
TINY = 1e-6  # share of lam_max below which rounding may leave no feasible dual point


@dataclass(frozen=True, eq=False)
class Point:
    """A place P with the smooth part's value and gradient there."""

    coef: Array  # P (d, m)
    fit: Evaluation
    prior: QuadraticPrior
    prior_gradient: Array
    norm: float | None = None  # the penalty's value, where the one who came here knows

    @cached_property
    def prior_value(self) -> float:
        """What the prior costs at P."""
        return self.prior.value(self.coef)

    @property
    def value(self) -> float:
        """Fit plus prior."""
        return self.fit.value + self.prior_value

    @cached_property
    def gradient(self) -> Array:
        """Gradient of fit plus prior."""
        return self.fit.gradient + self.prior_gradient

    @property
    def total(self) -> Array:
        """What features are multiplied with: P, and what tasks have of their own."""
        at = self.fit
        return at.total if isinstance(at, OutlierEvaluation) else self.coef


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise fit(P) + prior(P) + lam · penalty(P) over P (d, m)."""

    fit: DataFit[Any]
    prior: QuadraticPrior
    penalty: Penalty
    lam: float
    # What solvers have made of fit, prior and penalty: shared where lam alone differs.
    memo: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """(d, m)."""
        return self.fit.shape

    def at(
        self, P: Array, near: Point | None = None, norm: float | None = None
    ) -> Point:
        """Look at P; the only call that costs products with the data."""
        evaluation = self.fit.evaluate(P, None if near is None else near.fit)
        return Point(P, evaluation, self.prior, self.prior.gradient(P), norm)

    def extrapolate(self, current: Point, previous: Point, amount: float) -> Point:
        """Look at current + amount · (current − previous), at no product."""
        step = amount * (current.coef - previous.coef)
        turn = amount * (current.prior_gradient - previous.prior_gradient)
        evaluation = self.fit.extrapolate(current.fit, previous.fit, amount)
        gradient = current.prior_gradient + turn
        return Point(current.coef + step, evaluation, self.prior, gradient)

    def prox(self, P: Array, step: float) -> Array:
        """Proximal step of lam · penalty."""
        return self.penalty.prox(P, step * self.lam)

    def objective(self, point: Point) -> float:
        """Value that is minimised."""
        return point.value + self._penalty_value(point)

    def excess(self, point: Point, base: Point) -> float:
        """Value at a point above the tangent plane at ``base``.

        Quadratics have it in closed form. Otherwise values are compared; where
        these agree to rounding, gradients decide (equal to second order).
        """
        move = point.coef - base.coef
        if not self.fit.is_quadratic:
            excess = point.value - base.value - float(np.vdot(base.gradient, move))
            if abs(excess) > ROUNDING * max(abs(base.value), abs(point.value)):
                return excess
        return 0.5 * float(np.vdot(move, point.gradient - base.gradient))

    def majorant(self, V: Array) -> Array:
        """Product of V with a matrix nowhere below the Hessian of fit + prior."""
        return self.fit.majorant(V) + self.prior.gradient(V)

    def hessian(self, point: Point, V: Array) -> Array:
        """Hessian of fit + prior at a point, times V."""
        return self.fit.hessian(point.fit, V) + self.prior.gradient(V)

    def newton_step(self, point: Point) -> NewtonStep:
        """Step to the minimum of the quadratic model at a point, found once."""
        known = point.__dict__.get("newton_step")
        if known is None:
            known = solve_newton_system(self, point)
            point.__dict__["newton_step"] = known
        return known

    @property
    def is_uncertain(self) -> bool:
        """Whether a certificate rests on Gram matrices that are near singular."""
        return is_uncertain(self)

    def certify(self, point: Point) -> Certificate:
        """Bound the distance to the optimum by a dual point, rounding aside.

        The prior is extra least-squares rows with target zero, so that residuals,
        scaled until the gradient's dual norm is at most lam, are a dual point for
        every loss and penalty. Without a penalty (lam = 0) the gradient itself must
        vanish there: a Newton step, which linearises the residuals, sees to that.
        A power bounds no gradient; its conjugate counts what any gradient costs.
        """
        primal = self.objective(point)
        if self.lam == 0:
            return Certificate(primal, self._smooth_dual(point))
        if is_power(self.penalty):
            return Certificate(primal, self._power_dual(self.penalty, point))
        length = self._dual_norm(point)
        limit = self.lam / length if length > 0 else np.inf
        scale = point.fit.best_scale(limit, point.prior_value)
        dual = point.fit.dual_value(scale) - scale**2 * point.prior_value
        return Certificate(primal, max(0.0, float(dual)))

    def is_nearly_smooth(self, point: Point, limit: float) -> bool:
        """Whether the penalty costs no more than ``limit``, and lam is out of reach.

        Where lam is below the rounding errors of the gradient no scaled residual is
        feasible; then the optimum without penalty, which is lower, bounds that with.
        """
        if self.lam == 0 or is_power(self.penalty) or not point.coef.any():
            return False
        return self.lam < TINY * self.lam_max and self._penalty_value(point) <= limit

    def certify_rounded(self, point: Point, found: Certificate) -> Certificate:
        """A certificate with what rounding may hide, for a point where a run ends."""
        if self.is_nearly_smooth(point, found.gap):
            smooth = self._smooth_dual(point)
            found = found._replace(dual=max(found.dual, smooth))
        prior = np.vdot(np.abs(point.coef), np.abs(point.prior_gradient))
        others = SUM_ROUNDING * (found.primal + float(prior))
        rounding = 4.0 * self.fit.rounding(point.fit) + others
        return found._replace(rounding=float(rounding))

    def _power_dual(self, penalty: Power, point: Point) -> float:
        """Dual value where the penalty is certified by its conjugate."""
        cost = self.lam * penalty.conjugate(point.gradient / self.lam)
        dual = PowerDual(point.fit, point.prior_value, cost, penalty.degree())
        return max(0.0, dual.best())

    def _smooth_dual(self, point: Point) -> float:
        """Dual value for lam = 0, less what is left of the gradient."""
        step = self.newton_step(point)
        if self.fit.is_quadratic:
            return max(0.0, point.value - step.decrease - step.left)
        V, end = step.direction, point.coef + step.direction
        product = self.fit.hessian(point.fit, V)
        rest = point.gradient + product + self.prior.gradient(V)
        dual = self.fit.newton_dual(point.fit, V, product) - self.prior.value(end)
        margin = 2.0 * float(np.linalg.norm(rest) * np.linalg.norm(end))
        return max(0.0, dual - margin)

    @cached_property
    def null_point(self) -> Point:
        """P = 0."""
        return self.at(np.zeros(self.shape))

    @property
    def null_objective(self) -> float:
        """Objective at P = 0, the unit of tolerances."""
        return self.null_point.value

    @cached_property
    def lam_max(self) -> float:
        """Smallest lam at which P = 0 is optimal; for powers only a scale for grids."""
        return self.penalty.dual_norm(self.null_point.gradient)

    def restrict(self, features: Index) -> Self:
        """Same problem with all other features held at zero."""
        if np.array_equal(features, np.arange(self.shape[0])):
            return self
        return replace(
            self,
            fit=self.fit.restrict(features),
            prior=self.prior.restrict(features),
            penalty=self.penalty.restrict(features),
            memo={},
        )

    def with_strengths(
        self, *, lam: float, theta: float | None = None, epsilon: float | None = None
    ) -> Self:
        """Same problem at other strengths."""
        if theta is None and epsilon is None:
            other = replace(self, lam=lam)
        else:
            prior = self.prior.with_strengths(
                self.prior.theta if theta is None else theta,
                self.prior.epsilon if epsilon is None else epsilon,
            )
            other = replace(self, prior=prior, lam=lam, memo={})
        # No strength changes what P = 0 costs, so that it is looked at once.
        other.__dict__["null_point"] = self.null_point
        if "lam_max" in self.__dict__:
            other.__dict__["lam_max"] = self.lam_max
        return other

    def _penalty_value(self, point: Point) -> float:
        if self.lam == 0 or self._is_origin(point):
            return 0.0
        known = point.norm
        return self.lam * (self.penalty.value(point.coef) if known is None else known)

    def _dual_norm(self, point: Point) -> float:
        """Dual norm of the gradient; where all begin it is known."""
        if self._is_origin(point):
            return self.lam_max
        return self.penalty.dual_norm(point.gradient)

    def _is_origin(self, point: Point) -> bool:
        """Whether it is the point P = 0 that was looked at before."""
        return point is self.__dict__.get("null_point")
