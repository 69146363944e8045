"""Own parts where intercepts are tied: these couple the tasks, and are found too."""

from dataclasses import dataclass, replace

import numpy as np

from priormtl._arrays import Array
from priormtl._lazy import cached_property
from priormtl.losses.intercepts import NoIntercepts
from priormtl.losses.own import OwnParts, column_norms, solve_own
from priormtl.losses.squared import SquaredFit

__all__ = ["TiedOwn", "intercept_curvature", "solve_tied_own"]

MOST_STEPS = 50
MOST_HALVINGS = 30
SUFFICIENT = 1e-4  # share of the promised descent that a step must keep
SETTLED = 1e-12  # slopes, relative to the forces that balance
ROUNDING = 1e-13
LEAST_CURVATURE = 1e-10  # of an intercept that own parts can all but replace


@dataclass(frozen=True, eq=False)
class Held:
    """The fit at shared parts S, as a function of intercepts and own parts."""

    fit: SquaredFit
    strength: Array  # (m,)
    shared: Array  # (d, m)

    @cached_property
    def plain(self) -> SquaredFit:
        """Same fit without intercepts."""
        return replace(self.fit, intercepts=NoIntercepts())

    @cached_property
    def slope(self) -> Array:
        """Gradient of that at S."""
        return self.plain.evaluate(self.shared).gradient

    @cached_property
    def pull(self) -> Array:
        """What one unit of intercept adds to the gradient (d, m)."""
        return np.asarray(self.fit.moments.weight * self.fit.moments.x_mean.T)


@dataclass(frozen=True, eq=False)
class TiedOwn:
    """Best own parts at given intercepts b."""

    held: Held
    b: Array  # (m,)

    @cached_property
    def own(self) -> OwnParts:
        """Own parts; for given b no task sees another."""
        slope = self.held.slope + self.held.pull * self.b
        return solve_own(self.held.fit.modes, slope, self.held.strength)

    @cached_property
    def total(self) -> Array:
        """Shared plus own parts."""
        return self.held.shared + self.own.spread(len(self.b))

    @cached_property
    def force(self) -> Array:
        """Slope of the misfit in b (m,)."""
        moments = self.held.fit.moments
        reach = np.sum(moments.x_mean.T * self.total, axis=0)
        return moments.weight * (self.b + reach - moments.y_mean)

    @cached_property
    def slope(self) -> Array:
        """Slope of all that is minimised in b (m,)."""
        return self.force + self.held.fit.intercepts.slope(self.b)

    @cached_property
    def value(self) -> float:
        """Misfit and what intercepts and own parts cost."""
        moments, own = self.held.fit.moments, self.own
        at_zero = self.force - 0.5 * moments.weight * self.b
        misfit = self.held.plain.evaluate(self.total).value + self.b @ at_zero
        lengths = self.held.strength[own.tasks] @ column_norms(own.coef)
        return float(misfit + self.held.fit.intercepts.value(self.b) + lengths)

    def is_settled(self) -> bool:
        """Whether the slope is down to rounding."""
        moments = self.held.fit.moments
        forces = moments.weight * (np.abs(self.b) + np.abs(moments.y_mean))
        return bool(np.linalg.norm(self.slope) <= SETTLED * np.linalg.norm(forces))


def solve_tied_own(
    fit: SquaredFit, strength: Array, shared: Array, start: Array
) -> OwnParts:
    """Own parts at the best intercepts, by Newton's method from ``start`` (m,)."""
    point = TiedOwn(Held(fit, strength, shared), start)
    for _ in range(MOST_STEPS):
        closer = None if point.is_settled() else _newton_step(point)
        if closer is None:
            break
        point = closer
    return point.own


def _newton_step(point: TiedOwn) -> TiedOwn | None:
    """Go to the minimum of the quadratic model, or part of the way."""
    curvature = intercept_curvature(point.held.fit, point.own)
    solve = point.held.fit.intercepts.solver(curvature)
    direction = solve(point.b - point.force / curvature) - point.b
    slope = float(direction @ point.slope)
    noise = ROUNDING * abs(point.value)
    for halvings in range(MOST_HALVINGS):
        step = 0.5**halvings
        trial = TiedOwn(point.held, point.b + step * direction)
        if trial.value <= point.value + SUFFICIENT * step * slope:
            return trial
        # Near the minimum the value has no digits left, but the slope has.
        end = float(direction @ trial.slope)
        if trial.value <= point.value + noise and abs(end) < 0.5 * abs(slope):
            return trial
    return None


def intercept_curvature(fit: SquaredFit, own: OwnParts) -> Array:
    """Second derivative in each b_i (m,), own parts following."""
    moments, among = fit.moments, fit.modes.take(own.tasks)
    curvature = np.array(moments.weight)
    weight = curvature[own.tasks]
    u = among.turn(weight * moments.x_mean[own.tasks].T)
    w = among.turn(own.coef / column_norms(own.coef))
    stiff = among.values + own.shift[:, np.newaxis]
    along = np.sum(u * w / stiff, axis=1) ** 2 / np.sum(w**2 * among.values / stiff, 1)
    lost = np.sum(u**2 / stiff, axis=1) + own.shift * along
    curvature[own.tasks] = np.maximum(weight - lost, LEAST_CURVATURE * weight)
    return curvature
