"""Problem: minimise fit(P) + prior(P) + lam · penalty(P), with a certificate.

Any point P has a certificate: its objective and a dual value, which is a lower bound on
the optimum. The prior is least squares, with targets C of known values or zero, so that
the residuals of fit and prior, scaled by s until the dual norm of the gradient is at
most lam, are a dual point for every loss and penalty::

    dual(s) = fit.dual_value(s) − s θ ⟨C, D P − C⟩ − s² prior(P),
    s ‖∇(fit + prior)(P)‖* ≤ lam

Constraints on rows of P (signs, common effects) belong to the penalty: they make its
dual norm smaller (`penalties.L21`).

Two cases have no such bound. Without a penalty (lam = 0) the gradient itself must
vanish: a Newton step, which linearises the residuals, sees to that. Where constraints
hold P back, only the part of the gradient along which P may move must vanish, and what
is left of it bounds what any feasible point could gain. Penalties that are
powers of a norm are certified by their conjugate (`PowerDual`).
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl._numerics import ROUNDING, TINY
from priormtl.losses import (
    DataFit,
    Evaluation,
    MultinomialFit,
    OutlierEvaluation,
)
from priormtl.penalties import L21, Nuclear, Penalty, Power, RowConstraints
from priormtl.problem.newton_system import (
    FEW_UNKNOWNS,
    NewtonStep,
    is_near_singular,
    solve_newton_system,
)
from priormtl.problem.quadratic import QuadraticPrior
from priormtl.problem.second_order import largest_gain, split_flat_part


class Certificate(NamedTuple):
    """Objective at an iterate, and a lower bound on the optimum.

    Both are sums of rounded numbers; ``rounding`` bounds what that may hide.
    """

    primal: float
    dual: float
    rounding: float = 0.0
    # Whether the dual rests on Gram matrices that are near singular: only samples
    # could tell what their Newton system leaves open.
    is_uncertain: bool = False

    @property
    def gap(self) -> float:
        """Largest possible distance to the optimal objective."""
        return max(0.0, self.primal - self.dual) + self.rounding

    @property
    def least_gap(self) -> float:
        """Gap that steps may leave, as they are computed from rounded gradients."""
        return 4.0 * self.rounding


@dataclass(frozen=True, eq=False)
class Point:
    """The smooth part, fit + prior, evaluated at P."""

    coef: Array  # P (d, m)
    fit: Evaluation
    prior: QuadraticPrior
    prior_gradient: Array
    norm: float | None = None  # the penalty's value, where it is known

    @cached_property
    def prior_value(self) -> float:
        if self.prior.target is not None:
            return self.prior.value(self.coef)
        # By the gradient where ties and relations are too weak to cancel digits.
        value = 0.5 * float(np.vdot(self.coef, self.prior_gradient))
        size = float(np.vdot(self.coef, self.coef))
        # A prior of this stiffness leaves 13 digits of values.
        if self.prior.stiffness * size <= 1e2 * (self.fit.value + value):
            return max(0.0, value)
        return self.prior.value(self.coef)

    @property
    def value(self) -> float:
        return self.fit.value + self.prior_value

    @cached_property
    def gradient(self) -> Array:
        return self.fit.gradient + self.prior_gradient

    @property
    def total(self) -> Array:
        """Coefficients of the tasks: P plus task-specific components."""
        at = self.fit
        return at.total if isinstance(at, OutlierEvaluation) else self.coef


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise fit(P) + prior(P) + lam · penalty(P) over P (d, m)."""

    fit: DataFit[Any]
    prior: QuadraticPrior
    penalty: Penalty
    lam: float
    # Layouts and factors that solvers keep; shared by problems that differ in lam only.
    memo: dict[str, Any] = field(default_factory=dict, repr=False)
    shape: tuple[int, int] = field(init=False, repr=False)
    # Signs and common effects of rows, if there are any.
    constraints: RowConstraints | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rows = self.penalty.constraints if isinstance(self.penalty, L21) else None
        self.__dict__.update(shape=self.fit.shape, constraints=rows)

    def at(
        self, P: Array, near: Point | None = None, norm: float | None = None
    ) -> Point:
        """Evaluate at P; the only call that costs products with the data."""
        gradient = self.prior.gradient(P)
        evaluation = self.fit.evaluate(P, None if near is None else near.fit)
        return Point(P, evaluation, self.prior, gradient, norm)

    def extrapolate(self, current: Point, previous: Point, amount: float) -> Point:
        """Evaluate at current + amount · (current − previous), without a product."""
        step = amount * (current.coef - previous.coef)
        turn = amount * (current.prior_gradient - previous.prior_gradient)
        evaluation = self.fit.extrapolate(current.fit, previous.fit, amount)
        gradient = current.prior_gradient + turn
        return Point(current.coef + step, evaluation, self.prior, gradient)

    def prox(self, P: Array, step: float) -> Array:
        return self.penalty.prox(P, step * self.lam)

    @cached_property
    def is_balanced(self) -> bool:
        """Whether the optimum has classes whose coefficients sum to zero.

        Samples do not see what all classes share; penalty and prior are less without.
        """
        rows, penalty = self.constraints, self.penalty
        return (
            isinstance(self.fit, MultinomialFit)
            and isinstance(penalty, L21)
            and self.prior.target is None
            and (rows is None or not rows.signs.any())
        )

    def balance(self, P: Array) -> Array:
        """P without what all classes share, if the optimum has no such part."""
        if isinstance(self.fit, MultinomialFit) and self.is_balanced:
            return self.fit.balance(P)
        return P

    def objective(self, point: Point) -> float:
        if self.lam == 0 or point is self.__dict__.get("null_point"):
            return point.value
        norm = self.penalty.value(point.coef) if point.norm is None else point.norm
        return point.value + self.lam * norm

    def excess(self, point: Point, base: Point) -> float:
        """Value at a point above the tangent plane at ``base``.

        Quadratics have it in closed form. Otherwise values are compared; where
        these agree to rounding, gradients decide (equal to second order).
        """
        move = point.coef - base.coef
        if not self.fit.is_quadratic:
            excess = point.value - base.value - float(np.vdot(base.gradient, move))
            # Smaller differences of values mean nothing.
            if abs(excess) > 1e-12 * max(abs(base.value), abs(point.value)):
                return excess
        return 0.5 * float(np.vdot(move, point.gradient - base.gradient))

    def majorant(self, V: Array) -> Array:
        """Product of V with a matrix nowhere below the Hessian of fit + prior."""
        return self.fit.majorant(V) + self.prior.curve(V)

    def hessian(self, point: Point, V: Array) -> Array:
        return self.fit.hessian(point.fit, V) + self.prior.curve(V)

    def free_gradient(self, point: Point) -> Array:
        """Part of the gradient along which P may move."""
        if self.constraints is None:
            return point.gradient
        return self.constraints.free_gradient(point.coef, point.gradient)

    def newton_step(self, point: Point) -> NewtonStep:
        """Step to the minimum of the quadratic model at a point, found once."""
        known = point.__dict__.get("newton_step")
        if known is None:
            known = solve_newton_system(self, point)
            point.__dict__["newton_step"] = known
        return known

    def certify(self, point: Point) -> Certificate:
        """Bound the distance to the optimum by a dual point, rounding aside.

        P must meet the constraints.
        """
        primal = self.objective(point)
        if self.lam == 0:
            dual = 0.0 if self.is_far(point) else self._smooth_dual(point)
            return Certificate(primal, dual)
        if isinstance(self.penalty, Power):
            cost = self.lam * self.penalty.conjugate(point.gradient / self.lam)
            degree = self.penalty.degree()
            dual = PowerDual(point.fit, point.prior_value, cost, degree).best()
            return Certificate(primal, max(0.0, dual))
        # Fenchel duality (Bach et al., "Optimization with sparsity-inducing penalties",
        # 2012): s times the residuals is feasible for s ‖∇(fit + prior)‖* ≤ lam, and
        # the dual value is a parabola in s. So the best feasible s is its vertex, or
        # the nearest end (as in Ndiaye et al., "Gap safe screening rules", JMLR 18,
        # 2017). At P = 0 the dual norm is known.
        if point is self.__dict__.get("null_point"):
            length = self.lam_max
        else:
            length = self.penalty.dual_norm(point.gradient)
        limit = self.lam / length if length > 0 else np.inf
        slack = self.prior.slack(point.coef)
        scale = point.fit.best_scale(limit, point.prior_value, slack)
        if self.constraints is not None:
            scale = max(0.0, scale)  # dual norms with signs hold in one direction
        dual = point.fit.dual_value(scale) + scale * slack
        dual -= scale**2 * point.prior_value
        return Certificate(primal, max(0.0, float(dual)))

    def is_far(self, point: Point) -> bool:
        """Whether a Newton step, which costs less than a bound, has yet to be made.

        Without penalty, and where it promises more than most tolerances. Of quadratic
        problems this is known at the start.
        """
        begins = point is self.__dict__.get("null_point")
        if self.lam != 0 or (self.fit.is_quadratic and not begins):
            return False
        return self.newton_step(point).decrease > 1e-6 * self.null_objective

    def is_nearly_smooth(self, point: Point, limit: float) -> bool:
        """Whether the penalty costs no more than ``limit``, and lam is out of reach.

        Where lam is below the rounding errors of the gradient no scaled residual is
        feasible; then the optimum without penalty, which is lower, bounds that with.
        """
        if self.lam == 0 or isinstance(self.penalty, Power) or not point.coef.any():
            return False
        # Above, rounding leaves a feasible dual point.
        if self.lam >= 1e-6 * self.lam_max:
            return False
        return self.lam * self.penalty.value(point.coef) <= limit

    def certify_rounded(
        self, point: Point, found: Certificate, *, by_newton: bool = False
    ) -> Certificate:
        """A certificate with what rounding may hide, for a point where a run ends."""
        by_newton |= self.lam == 0
        if self.lam == 0 and found.dual == 0.0:
            found = found._replace(dual=self._smooth_dual(point))
        if self.is_nearly_smooth(point, found.gap):
            by_newton = True
            smooth = self._smooth_dual(point)
            found = found._replace(dual=max(found.dual, smooth))
        prior = np.vdot(np.abs(point.coef), np.abs(point.prior_gradient))
        others = ROUNDING * (found.primal + float(prior))
        # A bound above what it bounds shows an error of this size.
        others += max(0.0, found.dual - found.primal)
        rounding = self.fit.rounding(point.fit) + others
        small = self.fit.is_quadratic and point.coef.size <= FEW_UNKNOWNS
        uncertain = by_newton and small and is_near_singular(self, point)
        return found._replace(rounding=float(rounding), is_uncertain=uncertain)

    def certify_closely(self, point: Point, found: Certificate) -> Certificate:
        """A certificate that bears rounding errors of gradients, by a Newton system.

        Any Y with ⟨Y, P⟩ ≤ lam · penalty(P) for all P bounds the optimum by the least
        value of fit(P) + prior(P) + ⟨Y, P⟩, which a Newton step finds. With strong ties
        gradients are rounded by far more than lam, and scaling them until they are
        feasible leaves no bound. Here Y is a subgradient of the penalty at P, or
        near it. How it differs from −gradient counts by the inverse Hessian, which is
        small where gradients are rounded most.
        """
        if self.lam == 0 or isinstance(self.penalty, Power):
            return found
        if isinstance(point.fit, OutlierEvaluation):
            return found
        # By weak duality min F + lam · penalty ≥ min F + ⟨Y, ·⟩ for each such Y. Two of
        # them are tried: that of a proximal step, Y = (U − prox(U)) / step, which is
        # feasible whatever the rank of P, if the step is short relative to P, and the
        # subgradient at P, which is exact on rows that are not zero.
        size, slope = np.linalg.norm(point.coef), np.linalg.norm(point.gradient)
        step = 1e-3 * float(size / slope) if size > 0 and slope > 0 else 1.0
        start = point.coef - step * point.gradient
        pulls = [(start - self.prox(start, step)) / step]
        if isinstance(self.penalty, L21 | Nuclear):
            exact = self.penalty.subgradient(point.coef, point.gradient, self.lam)
            pulls.append(exact)
        dual = found.dual
        for pull in pulls:
            # Along directions without curvature any slope would gain for ever.
            bent, needed = split_flat_part(self, point, pull)
            # Rounding errors of large coefficients would make it one of a larger norm.
            room = self.lam - self.penalty.dual_norm(-needed)
            if room > 0.0:
                bent *= min(1.0, room / max(self.penalty.dual_norm(-bent), TINY))
                dual = max(dual, self._smooth_dual(point, bent + needed))
        return self.certify_rounded(point, found._replace(dual=dual), by_newton=True)

    def _smooth_dual(self, point: Point, pull: Array | None = None) -> float:
        """Dual value for lam = 0, less what is left of the gradient.

        With ``pull``, that of fit(P) + prior(P) + ⟨pull, P⟩.
        """
        # The minimum of a quadratic F lies ½ gᵀH⁻¹g below F(P): the decrease of one
        # Newton step. A system that is solved inexactly leaves a gradient, and other
        # losses leave terms of higher order: both are bounded below. Far from the
        # optimum no bound is of use.
        smooth = pull is None and not self.fit.is_quadratic
        if smooth and self.newton_step(point).decrease > 0.01 * point.value:
            return 0.0
        gain = largest_gain(self, point, pull)
        if gain is not None and (gain < np.inf or not self.fit.is_quadratic):
            offset = 0.0 if pull is None else float(np.vdot(pull, point.coef))
            return max(0.0, point.value + offset - gain)
        if pull is None:
            step, offset = self.newton_step(point), 0.0
        else:
            step = solve_newton_system(self, point, pull)
            offset = float(np.vdot(pull, point.coef))
        if self.fit.is_quadratic:
            # Products with strong ties are rounded, too: hence a quarter more.
            value = point.value + offset
            return max(0.0, value - 1.25 * step.decrease - step.left)
        if step.left == np.inf:
            return 0.0  # the optimum may be anywhere along what the ridge holds back
        V, end = step.direction, point.coef + step.direction
        product = self.fit.hessian(point.fit, V)
        slope = self.free_gradient(point) if pull is None else point.gradient + pull
        rest = slope + product + self.prior.curve(V)
        if self.constraints is not None:
            rest = self.constraints.level(rest)
        dual = self.fit.newton_dual(point.fit, V, product)
        dual += self.prior.slack(end) - self.prior.value(end)
        # The gradient that is left at the end counts there, to first order, and by
        # its size along the way from there to the optimum, which is short, or not.
        dual += float(np.vdot(rest, end))
        # An optimum without curvature may lie far away, and so may one along a way
        # on which the slope does not fall as the model says.
        falls = abs(float(np.vdot(rest, V))) <= 0.1 * abs(float(np.vdot(slope, V)))
        is_far = step.is_flat and (pull is None or not falls)
        way = np.abs(V) + 10.0 * np.abs(end) if is_far else np.abs(V)
        margin = 2.0 * float(np.vdot(np.abs(rest), way))
        noise = self.fit.gradient_noise(point.fit)
        if noise is not None and np.vdot(noise, np.abs(end)) > 1e-12 * point.value:
            # A gradient that is off by this could promise so much more. If that is not
            # small, the model is off, too.
            more = solve_newton_system(self, point, noise - point.gradient)
            # Along directions that samples leave open there is no gradient at all,
            # hence nothing that it could be off by.
            left = 0.0 if more.is_flat else more.left
            if more.decrease + left > 1e-8 * point.value:
                return 0.0
            both = 2.0 * np.sqrt(step.decrease * more.decrease) + more.decrease
            margin += 2.0 * (float(both) + left)
        # Second-order terms of the way to the optimum count by a share of the first.
        margin += 0.01 * max(0.0, point.value + offset - dual)
        return max(0.0, dual - margin)

    @cached_property
    def null_point(self) -> Point:
        return self.at(np.zeros(self.shape))

    @property
    def null_objective(self) -> float:
        """Objective at P = 0 without targets of the prior, the unit of tolerances."""
        return self.null_point.fit.value or self.null_point.value

    @cached_property
    def lam_max(self) -> float:
        """Smallest lam at which P = 0 is optimal; for powers only a scale for grids."""
        return self.penalty.dual_norm(self.null_point.gradient)

    def restrict(self, features: Index) -> Self:
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
        if theta is None and epsilon is None:
            other = replace(self, lam=lam)
        else:
            prior = self.prior.with_strengths(
                self.prior.theta if theta is None else theta,
                self.prior.epsilon if epsilon is None else epsilon,
            )
            other = replace(self, prior=prior, lam=lam, memo={})
        # No strength changes the objective at P = 0, unless the prior has targets: the
        # fit is evaluated once.
        null = self.null_point
        if self.prior.target is not None and other.prior is not self.prior:
            gradient = other.prior.gradient(null.coef)
            null = replace(null, prior=other.prior, prior_gradient=gradient)
        other.__dict__["null_point"] = null
        if "lam_max" in self.__dict__ and null is self.null_point:
            other.__dict__["lam_max"] = self.lam_max
        return other


class PowerDual(NamedTuple):
    """Dual values fit(s) − s² prior − s^r cost at multiples s of the residuals.

    A penalty of degree q has a conjugate of degree r = q / (q − 1).
    """

    fit: Evaluation
    prior_value: float
    cost: float  # conjugate of lam · penalty at the gradient
    degree: float  # q

    def best(self) -> float:
        """Best of a few trials, among them 1, which is the best at the optimum."""
        best, scale = self._value(1.0), 1.0
        if self.cost > self.fit.value:
            # Begin where the power is no larger than the misfit.
            scale = float((self.fit.value / self.cost) ** (1.0 / self._power))
        for _ in range(1 if self.degree == 2.0 else 4):
            scale = self._improve(scale)
            if scale <= 0:
                break
            best = max(best, self._value(scale))
        return best

    def _improve(self, scale: float) -> float:
        """Scale that is best where the square of equal slope stands for the power.

        The loss knows that one. Damping by q − 1 makes the step exact where the
        power outweighs all else, where undamped steps would oscillate.
        """
        if scale <= 0:
            return 0.0
        r = self._power
        square = 0.5 * r * self.cost * scale ** (r - 2.0)
        found = self.fit.best_scale(float("inf"), self.prior_value + square)
        if found <= 0:
            return 0.0
        damping = self.degree - 1.0
        return scale ** (1.0 - damping) * found**damping

    def _value(self, scale: float) -> float:
        quadratic = self.fit.dual_value(scale) - scale**2 * self.prior_value
        return float(quadratic - scale**self._power * self.cost)

    @property
    def _power(self) -> float:
        return self.degree / (self.degree - 1.0)
