"""Outlier tasks: a loss under which every task may have a task-specific component.

A task that is unlike the others gets a component o_i beside its shared coefficients
s_i, at a cost of γ_i ‖o_i‖. `OutlierFit` minimises over the components O::

    F(S) = min over O of f(S + O) + Σ_i γ_i ‖o_i‖

F is convex and smooth. Its gradient is that of f at S + O, whose columns are never
longer than γ_i, and its conjugate is that of f wherever they are not. A dual point of
f with such columns therefore certifies the problem in S and O together.

For squared loss the components solve ½ oᵀG o + gᵀo + γ‖o‖ (`solve_components`): o = 0
where ‖g‖ ≤ γ, else o = −(G + μI)⁻¹g with μ‖o‖ = γ, one equation for one number in the
eigenbasis of G. Tied intercepts couple the tasks; they are found by Newton's method
(`solve_tied_components`). Other losses are replaced by quadratic models until their
optimality conditions hold.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, NoReturn, Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl._numerics import ROUNDING, SUFFICIENT, VANISHING, line_search
from priormtl.data import TaskStatistics
from priormtl.losses.base import DelegateFit, Evaluation, NoIntercepts
from priormtl.losses.squared import Modes, SquaredFit

MOST_STEPS = 50
DAMPING = 0.1  # share of curvature kept along components, which have none there


@dataclass(frozen=True, eq=False)
class OutlierEvaluation:
    """F at shared coefficients S, components and intercepts at their best."""

    fit: "OutlierFit"
    coef: Array  # S (k, m)
    specific: Array  # O (d, m), zero for most tasks
    inner: Evaluation  # of f at S + O

    @cached_property
    def value(self) -> float:
        return self.inner.value + self.fit.cost(self.specific)

    @cached_property
    def gradient(self) -> Array:
        gradient = self.inner.gradient
        return gradient if self.fit.features is None else gradient[self.fit.features]

    @property
    def total(self) -> Array:
        """S + O (d, m)."""
        return self.fit.embed(self.coef) + self.specific

    def dual_value(self, scale: float) -> float:
        # The conjugate of the components' cost is zero at feasible points.
        return self.inner.dual_value(scale)

    def best_scale(self, limit: float, prior_value: float, slack: float = 0.0) -> float:
        """As for f, with no column of the scaled gradient longer than γ_i."""
        limit = min(limit, self._column_limit)
        return self.inner.best_scale(limit, prior_value, slack)

    @cached_property
    def _column_limit(self) -> float:
        lengths = column_norms(self.inner.gradient)
        used = lengths > 0
        return float(np.min(self.fit.strength[used] / lengths[used], initial=np.inf))

    @cached_property
    def model(self) -> SquaredFit:
        """Quadratic model of F at S: agrees but for a share of the curvature."""
        fit = self.fit
        base: Any = fit.fit.quadratic_model(self.inner)
        tasks = np.flatnonzero(self.specific.any(axis=0))
        coef = self.specific[:, tasks]
        shift = fit.strength[tasks] / column_norms(coef)
        whole = np.arange(fit.fit.shape[0])
        features = whole if fit.features is None else fit.features
        components = Components(tasks, coef, shift)
        return model_fit(base, components, self.coef, self.gradient, features)


@dataclass(frozen=True, eq=False)
class OutlierFit(DelegateFit):
    """A data fit with task-specific components minimised out."""

    strength: Array  # γ (m,) > 0
    features: Index | None = None  # of the shared coefficients; None: all

    is_quadratic: ClassVar[bool] = False  # components come and go
    shifted_size: ClassVar[None] = None

    @property
    def shape(self) -> tuple[int, int]:
        d, m = self.fit.shape
        return (d if self.features is None else len(self.features)), m

    def evaluate(
        self, P: Array, near: OutlierEvaluation | None = None
    ) -> OutlierEvaluation:
        """Find the components for these shared coefficients."""
        shared = self.embed(P)
        if self.fit.is_quadratic:
            alone = self.fit.evaluate(shared)
            if np.all(column_norms(alone.gradient) <= self.strength):
                return OutlierEvaluation(self, P, np.zeros_like(shared), alone)
            start = None if near is None else near.total
            specific = self._minimise(self.fit, shared, alone, start)
            total = self.fit.evaluate(shared + specific)
            return OutlierEvaluation(self, P, specific, total)
        specific = np.zeros_like(shared) if near is None else near.specific
        known = None if near is None else near.inner
        inner = self.fit.evaluate(shared + specific, known)
        point = OutlierEvaluation(self, P, specific, inner)
        for _ in range(MOST_STEPS):
            closer = None if self._is_settled(point) else self._improve(point, shared)
            if closer is None:
                break
            point = closer
        return point

    def _minimise(
        self, fit: Any, shared: Array, alone: Evaluation, start: Array | None
    ) -> Array:
        """Components (d, m) for squared loss; ``start`` is a sum S + O nearby."""
        if fit.ties_means:
            b = fit.intercept(shared if start is None else start)
            found = solve_tied_components(fit, self.strength, shared, b)
        else:
            found = solve_components(fit.modes, alone.gradient, self.strength)
        return found.spread(shared.shape[1])

    def _is_settled(self, point: OutlierEvaluation) -> bool:
        """Whether gradients are −γ_i o_i / ‖o_i‖, or no longer than γ_i."""
        gradient, lengths = point.inner.gradient.copy(), column_norms(point.specific)
        used = lengths > 0
        unit = self.strength[used] * point.specific[:, used] / lengths[used]
        gradient[:, used] += unit
        error = 1e-10  # of the optimality conditions, relative
        limit = np.where(used, error, 1.0 + error) * self.strength
        return bool(np.all(column_norms(gradient) <= limit))

    def _improve(
        self, point: OutlierEvaluation, shared: Array
    ) -> OutlierEvaluation | None:
        """Minimise a quadratic model of the loss, then search along the way there."""
        model = self.fit.quadratic_model(point.inner)
        alone = model.evaluate(shared)
        target = self._minimise(model, shared, alone, point.total)
        move = target - point.specific
        costs = self.cost(target) - self.cost(point.specific)
        predicted = float(np.vdot(point.inner.gradient, move)) + costs
        most = point.value + ROUNDING * abs(point.value)

        def attempt(size: float) -> OutlierEvaluation | None:
            specific = target if size == 1.0 else point.specific + size * move
            inner = self.fit.evaluate(shared + specific, point.inner)
            trial = OutlierEvaluation(self, point.coef, specific, inner)
            falls = trial.value <= most + SUFFICIENT * size * predicted
            return trial if falls else None

        return line_search(attempt)

    def rounding(self, at: OutlierEvaluation) -> float:
        return self.fit.rounding(at.inner)

    def extrapolate(
        self, current: OutlierEvaluation, previous: OutlierEvaluation, amount: float
    ) -> OutlierEvaluation:
        """Evaluate there: components do not follow a line."""
        P = current.coef + amount * (current.coef - previous.coef)
        return self.evaluate(P, current)

    def hessian(self, at: OutlierEvaluation, V: Array) -> Array:
        return at.model.majorant(V)

    def majorant(self, V: Array) -> Array:
        """That of the fit: components only take curvature away."""
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
        """No curvature along components, at most the fit's elsewhere."""
        _, highest = self.fit.task_spectra()
        return np.zeros_like(highest), highest

    def far_model(self, at: OutlierEvaluation) -> SquaredFit:
        return self.quadratic_model(at)

    def quadratic_model(self, at: OutlierEvaluation) -> SquaredFit:
        """Squared fit whose components follow to first order."""
        return at.model

    def solve_shifted(self, shift: float, V: Array) -> NoReturn:
        raise TypeError(
            "a fit with task-specific components has no fixed Hessian: use its "
            "quadratic model."
        )

    def intercept(self, P: Array) -> Array:
        return self.fit.intercept(self.evaluate(P).total)

    def intercept_at_zero(self, at: OutlierEvaluation) -> Array:
        return self.fit.intercept_at_zero(at.inner)

    def restrict(self, features: Index) -> Self:
        """Only these features in shared coefficients; components keep all."""
        kept = features if self.features is None else self.features[features]
        return replace(self, features=kept)

    def embed(self, P: Array) -> Array:
        """Shared coefficients of all features (d, m)."""
        if self.features is None:
            return P
        whole = np.zeros(self.fit.shape)
        whole[self.features] = P
        return whole

    def cost(self, specific: Array) -> float:
        """Σ γ_i ‖o_i‖."""
        lengths = column_norms(specific)
        used = lengths > 0  # γ may be infinite elsewhere
        return float(self.strength[used] @ lengths[used])


def column_norms(P: Array) -> Array:
    """Euclidean lengths of columns."""
    return np.sqrt(np.einsum("ij,ij->j", P, P))


# Components of squared loss, where no task depends on another.


class Components(NamedTuple):
    """Components of those tasks that have one."""

    tasks: Index  # (k,)
    coef: Array  # (d, k)
    shift: Array  # (k,) μ = γ / ‖o‖

    def spread(self, m: int) -> Array:
        """Components of all tasks (d, m)."""
        whole = np.zeros((len(self.coef), m))
        whole[:, self.tasks] = self.coef
        return whole


def solve_components(modes: Modes, slope: Array, strength: Array) -> Components:
    """Components where the fit has gradient ``slope`` (d, m) without them."""
    called = np.flatnonzero(column_norms(slope) > strength)
    among = modes.take(called)
    parts = among.turn(slope[:, called])
    # Rounding errors outside the range of a task's Hessian must not count.
    kept = np.linalg.norm(parts, axis=1) > strength[called]
    tasks, among, parts = called[kept], among.take(kept), parts[kept]
    values, strength = among.values, strength[tasks]
    # μ with μ ‖parts / (values + μ)‖ = γ, by Newton's method from above: 1/‖o‖ − μ/γ
    # is concave in μ, so that every step stays above its root.
    largest = values.max(axis=1, initial=0.0)
    shift = strength * largest / (np.linalg.norm(parts, axis=1) - strength)
    for _ in range(200):
        stiff = values + shift[:, np.newaxis]
        length = np.linalg.norm(parts / stiff, axis=1)
        bend = np.sum(parts**2 / stiff**3, axis=1) / length**3
        step = (1.0 / length - shift / strength) / (bend - 1.0 / strength)
        shift, before = np.maximum(shift - step, 1e-14 * shift), shift
        if np.all(shift >= (1.0 - 1e-14) * before):
            break
    coef = -among.turn_back(parts / (values + shift[:, np.newaxis]))
    return Components(tasks, coef, shift)


# Components where intercepts are tied, which couples the tasks.


@dataclass(frozen=True, eq=False)
class TiedProblem:
    """The fit at shared coefficients S, as a function of intercepts and components."""

    fit: SquaredFit
    strength: Array  # (m,)
    shared: Array  # (d, m)

    @cached_property
    def plain(self) -> SquaredFit:
        return replace(self.fit, intercepts=NoIntercepts())

    @cached_property
    def slope(self) -> Array:
        """Gradient of that at S."""
        return self.plain.evaluate(self.shared).gradient

    @cached_property
    def cross(self) -> Array:
        """Derivative of the gradient in the intercepts (d, m)."""
        return np.asarray(self.fit.moments.weight * self.fit.moments.x_mean.T)


@dataclass(frozen=True, eq=False)
class TiedPoint:
    """Best components at given intercepts b."""

    problem: TiedProblem
    b: Array  # (m,)

    @cached_property
    def components(self) -> Components:
        """For given b no task depends on another."""
        slope = self.problem.slope + self.problem.cross * self.b
        return solve_components(self.problem.fit.modes, slope, self.problem.strength)

    @cached_property
    def total(self) -> Array:
        return self.problem.shared + self.components.spread(len(self.b))

    @cached_property
    def misfit_slope(self) -> Array:
        """Gradient of the misfit in b (m,)."""
        moments = self.problem.fit.moments
        scores = np.sum(moments.x_mean.T * self.total, axis=0)
        return moments.weight * (self.b + scores - moments.y_mean)

    @cached_property
    def slope(self) -> Array:
        """Gradient of the objective in b (m,)."""
        return self.misfit_slope + self.problem.fit.intercepts.slope(self.b)

    @cached_property
    def value(self) -> float:
        """Misfit and the costs of intercepts and components."""
        problem, found = self.problem, self.components
        at_zero = self.misfit_slope - 0.5 * problem.fit.moments.weight * self.b
        misfit = problem.plain.evaluate(self.total).value + self.b @ at_zero
        lengths = problem.strength[found.tasks] @ column_norms(found.coef)
        return float(misfit + problem.fit.intercepts.value(self.b) + lengths)

    def is_settled(self) -> bool:
        moments = self.problem.fit.moments
        terms = moments.weight * (np.abs(self.b) + np.abs(moments.y_mean))
        # Relative to the terms that cancel in the gradient.
        limit = 1e-12 * np.linalg.norm(terms)
        return bool(np.linalg.norm(self.slope) <= limit)


def solve_tied_components(
    fit: SquaredFit, strength: Array, shared: Array, start: Array
) -> Components:
    """Components at the best intercepts, by Newton's method from ``start`` (m,)."""
    point = TiedPoint(TiedProblem(fit, strength, shared), start)
    for _ in range(MOST_STEPS):
        closer = None if point.is_settled() else _newton_step(point)
        if closer is None:
            break
        point = closer
    return point.components


def _newton_step(point: TiedPoint) -> TiedPoint | None:
    """Go to the minimum of the quadratic model, or part of the way."""
    fit = point.problem.fit
    curvature = intercept_curvature(fit, point.components)
    solve = fit.intercepts.solver(curvature)
    direction = solve(point.b - point.misfit_slope / curvature) - point.b
    slope = float(direction @ point.slope)
    noise = 64.0 * ROUNDING * abs(point.value)

    def attempt(size: float) -> TiedPoint | None:
        trial = TiedPoint(point.problem, point.b + size * direction)
        if trial.value <= point.value + SUFFICIENT * size * slope:
            return trial
        # Near the minimum the value has no digits left, but the slope has.
        end = abs(float(direction @ trial.slope))
        flat = trial.value <= point.value + noise and end < 0.5 * abs(slope)
        return trial if flat else None

    return line_search(attempt)


def intercept_curvature(fit: SquaredFit, components: Components) -> Array:
    """Second derivative in each b_i (m,), components following."""
    tasks, coef, shift = components
    moments, among = fit.moments, fit.modes.take(tasks)
    curvature = np.array(moments.weight)
    weight = curvature[tasks]
    u = among.turn(weight * moments.x_mean[tasks].T)
    w = among.turn(coef / column_norms(coef))
    stiff = among.values + shift[:, np.newaxis]
    along = np.sum(u * w / stiff, axis=1) ** 2 / np.sum(w**2 * among.values / stiff, 1)
    lost = np.sum(u**2 / stiff, axis=1) + shift * along
    # A component can all but replace an intercept.
    curvature[tasks] = np.maximum(weight - lost, 1e-10 * weight)
    return curvature


# Quadratic models of F: moments of tasks whose components follow.


def model_fit(
    base: SquaredFit,
    components: Components,
    shared: Array,
    slope: Array,
    features: Index,
) -> SquaredFit:
    """Squared fit that agrees in gradient and curvature at the shared coefficients.

    ``base`` holds all features, ``shared`` and ``slope`` (k, m) only ``features``.
    Components take up all curvature along themselves. A model without any there would
    have no minimum, so that a share of it is kept (DAMPING).
    """
    k, m = len(features), base.shape[1]
    seen = base if k == base.shape[0] else base.restrict(features)
    tasks, coef, shift = components
    if not len(tasks):
        return seen
    moments, among = seen.moments, base.modes.take(tasks)
    grams = np.array(np.broadcast_to(moments.gram(), (m, k, k)))
    means = np.array(moments.weight), np.array(moments.x_mean), np.array(moments.y_mean)
    weights, x_means, y_means = means
    xy, yy = np.array(moments.xy), np.array(moments.yy)
    if base.ties_means:
        total = components.spread(m)
        total[features] += shared
        b = base.intercept(total)
        slope_b = -base.intercepts.slope(b)
        curvature, mixed = (
            intercept_curvature(base, components),
            _mixed(base, components),
        )
    for place, i in enumerate(tasks):
        # Hessian of a task whose component follows: μ Vᵀ (diag(t) − c (tw)(tw)ᵀ) V with
        # its eigenvectors V, t = λ / (λ + μ), and the component's direction w.
        own = 0 if len(among.values) == 1 else place
        vectors, mu = among.vectors[own], shift[place]
        share = among.values[own] / (among.values[own] + mu)
        w = vectors @ coef[:, place] / np.linalg.norm(coef[:, place])
        taken = (1.0 - DAMPING) * mu / float(w @ (share * w))
        part = vectors[:, features]
        q = part.T @ (share * w)
        gram = np.asarray((part.T * (mu * share)) @ part - taken * np.outer(q, q))
        linear = gram @ shared[:, i] - slope[:, i]
        x_means[i], y_means[i] = 0.0, 0.0
        if base.ties_means:
            # Moments about the means that make the mixed derivatives come out right.
            edge, weight = mixed[features, place], curvature[i]
            moment = edge @ shared[:, i] + weight * b[i] - slope_b[i]
            mean = edge / weight
            weights[i], x_means[i], y_means[i] = weight, mean, moment / weight
            linear = linear + edge * b[i] - mean * moment
            gram = gram - np.outer(edge, mean)
        grams[i], xy[i] = gram, linear
        # The constant at which the model's least value is zero.
        values, vectors = np.linalg.eigh(gram)
        kept = values > VANISHING * max(values[-1], 0.0)
        parts = vectors[:, kept].T @ linear
        yy[i] = float(np.sum(parts**2 / values[kept]))
    labels = tuple(range(m))
    statistics = TaskStatistics(*means, grams, xy, yy, labels, check=False)
    return SquaredFit(statistics, base.intercepts)


def _mixed(base: SquaredFit, components: Components) -> Array:
    """Mixed derivatives in intercept and features (d, k), components following."""
    tasks, coef, _ = components
    moments, among = base.moments, base.modes.take(tasks)
    cross = moments.weight[tasks] * moments.x_mean[tasks].T
    u = among.turn(cross)
    w = among.turn(coef / column_norms(coef))
    shift = components.shift[:, np.newaxis]
    stiff = among.values + shift
    share = among.values / stiff
    along = np.sum(u * w / stiff, axis=1) / np.sum(w**2 * share, axis=1)
    return cross - among.turn_back(share * (u + shift * along[:, np.newaxis] * w))
