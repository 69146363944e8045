"""Coefficients as products w_i = v ∘ b_i: their joint penalty, lowered by turns.

Without v the objective is fit(W) + lam C Σ_j s_j^{k/(k+p)}, s_j = Σ_i |w_ji|^p. With v
at its best for the last W, lam Σ_j s_j / v_j^p is a tangent from above, so that every
step which lowers fit and tangent lowers the objective.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.baselines.multiplicative.row_steps import Place, RowStep
from priormtl.losses import DataFit, Evaluation

__all__ = ["JointPenalty", "State", "alternate", "begin", "stationarity"]

INNER = 0.1  # of the tolerance: what a step may leave to the next
MOST_HALVINGS = 40
SMALL = 1e-4  # of the objective: penalty of a row that may be on its way to zero,
WEAK = 0.1  # if the fit holds it with less than this share of that penalty
WORTH_LEAVING = 0.75  # share of rows left at which the others are left out


@dataclass(frozen=True)
class JointPenalty:
    """What lam (Σ_i ‖b_i‖_p^p + ‖v‖_k^k) comes to at the best v ≥ 0 and b = w / v."""

    p: int
    k: int
    lam: float

    def row_values(self, W: Array) -> Array:
        """Penalty of each row (d,)."""
        p, k = self.p, self.k
        factor = (k / p) ** (p / (k + p)) + (p / k) ** (k / (k + p))
        return self.lam * factor * self._sums(W) ** (k / (k + p))

    def value(self, W: Array) -> float:
        """Sum over the rows."""
        return float(self.row_values(W).sum())

    def shared(self, W: Array) -> Array:
        """Best v (d,)."""
        return np.asarray((self.p / self.k * self._sums(W)) ** (1 / (self.p + self.k)))

    def tangent(self, W: Array, v: Array) -> float:
        """Lam Σ_j s_j / v_j^p over rows with v_j > 0: the others are zero."""
        used = v > 0
        return self.lam * float(np.sum(self._sums(W[used]) / v[used] ** self.p))

    def _sums(self, W: Array) -> Array:
        return np.asarray(np.sum(np.abs(W) ** self.p, axis=1))


@dataclass(frozen=True, eq=False)
class State:
    """A place on the way, on the rows that are left."""

    step: RowStep
    features: Index  # rows that are left; the others are zero for good
    coef: Array
    point: Evaluation  # the fit there
    shared: Array  # v
    objective: float
    settled: bool = False

    def whole(self, d: int) -> Array:
        """Coefficients of all features (d, m)."""
        W = np.zeros((d, self.coef.shape[1]))
        W[self.features] = self.coef
        return W

    def restrict(self, kept: Index) -> Self:
        """Same place without the other rows, which are zero."""
        step, coef = self.step.restrict(kept), self.coef[kept]
        return replace(
            self,
            step=step,
            features=self.features[kept],
            coef=coef,
            point=step.fit.evaluate(coef, self.point),
            shared=self.shared[kept],
        )


def begin(step: RowStep, null: Evaluation) -> State:
    """W = 0 with v = 1: from elsewhere rows may be lost that the best solutions use."""
    d, m = step.fit.shape
    return State(step, np.arange(d), np.zeros((d, m)), null, np.ones(d), null.value)


def alternate(state: State, penalty: JointPenalty, tol: float) -> Iterator[State]:
    """States after each turn, until one gains no more than tol times the objective."""
    last = np.inf
    while not state.settled:
        following = _turn(state, penalty, INNER * tol * state.objective)
        if following is None:
            state = replace(state, settled=True)
        else:
            objective = following.objective
            settled = last - objective <= tol * objective
            state, last = replace(following, settled=settled), objective
        yield state


def stationarity(
    fit: DataFit[Any], penalty: JointPenalty, W: Array, point: Evaluation
) -> float:
    """Σ |w · slope of the objective in w| over the objective at W = 0.

    What would change, to first order, if all coefficients that are not zero moved by
    their own size. Units of features and targets cancel.
    """
    p, k = penalty.p, penalty.k
    norms = np.abs(W) ** p
    sums = norms.sum(axis=1, keepdims=True)
    shares = np.divide(norms, sums, out=np.zeros_like(norms), where=sums > 0)
    slopes = p * k / (p + k) * penalty.row_values(W)[:, np.newaxis] * shares
    unit = fit.evaluate(np.zeros_like(W)).value
    total = float(np.abs(W * point.gradient + slopes).sum())
    return total / unit if unit > 0 else 0.0


def _turn(state: State, penalty: JointPenalty, enough: float) -> State | None:
    """W for given v, then v; None where no better W can be told from rounding."""
    place = Place(state.coef, state.point, state.shared, penalty.lam, enough)
    found = _search(state, penalty, state.step.move(place))
    if found is None:
        return None
    coef, point = found
    lower = _look(state, penalty, coef, point)
    lower = _without_dying_rows(lower, penalty)
    used = np.flatnonzero(lower.shared)
    if 0 < len(used) <= WORTH_LEAVING * len(lower.shared):
        return lower.restrict(used)
    return lower


def _search(
    state: State, penalty: JointPenalty, target: Array
) -> tuple[Array, Evaluation] | None:
    """Halve the way to ``target`` until fit and tangent are lower."""
    fit = state.step.fit
    here = state.point.value + penalty.tangent(state.coef, state.shared)
    end = fit.evaluate(target, state.point)
    for halvings in range(1 if fit.is_quadratic else MOST_HALVINGS):
        part = 0.5**halvings
        coef = state.coef + part * (target - state.coef) if halvings else target
        point = fit.extrapolate(end, state.point, part - 1.0) if halvings else end
        if point.value + penalty.tangent(coef, state.shared) < here:
            return coef, point
    return None


def _look(state: State, penalty: JointPenalty, coef: Array, point: Evaluation) -> State:
    return replace(
        state,
        coef=coef,
        point=point,
        shared=penalty.shared(coef),
        objective=point.value + penalty.value(coef),
    )


def _without_dying_rows(state: State, penalty: JointPenalty) -> State:
    """Set rows to zero that are on their way there, where that is no worse.

    Ridge steps shrink a row that the fit does not hold ever faster, but never end.
    """
    W, cost = state.coef, penalty.row_values(state.coef)
    hold = np.abs(np.sum(W * state.point.gradient, axis=1))
    dying = (cost > 0) & (cost <= SMALL * state.objective) & (hold <= WEAK * cost)
    if not dying.any():
        return state
    coef = np.where(dying[:, np.newaxis], 0.0, W)
    point = state.step.fit.evaluate(coef, state.point)
    without = _look(state, penalty, coef, point)
    return without if without.objective <= state.objective else state
