"""Least squares plus half a squared norm, by alternating directions (ADMM).

    min_F  c/2 Σ_i ‖t_i − R_i f_i‖² + 1/2 Ω(F)²

The quadratic part is solved exactly in each step, so that a strong C costs no more
steps than a weak one; its residuals give a dual point, which certifies the other part.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from priormtl._arrays import Array, Index

__all__ = ["Found", "RotatedTasks", "SplitState", "SquaredNorm", "minimise"]

RELAXATION = 1.7
LOOK_EVERY = 10
MOST_UNBALANCED = 2.0  # of the two residuals, before the step size changes


class SquaredNorm(Protocol):
    """A norm of (m, k, r) arrays whose half square has a proximal point."""

    def value(self, F: Array) -> float:
        """The norm."""

    def dual_norm(self, Z: Array) -> float:
        """The dual norm."""

    def prox(self, F: Array, step: float, guess: float) -> tuple[Array, float]:
        """Proximal point of step/2 · norm², and its norm; ``guess``: near that."""


@dataclass(frozen=True, eq=False)
class RotatedTasks:
    """Tasks of equal size, in axes in which their Gram matrices are diagonal."""

    tasks: Index  # (b,)
    features: Array  # (b, n, k r), or (1, n, k r) where tasks have the same rows
    squares: Array  # (b, n) or (1, n): squared lengths of these rows
    target: Array  # (b, n)
    shape: tuple[int, int]  # (k, r)

    def forward(self, F: Array) -> Array:
        """Fitted values (b, n) of F (m, k, r)."""
        own = F[self.tasks, :, : self.shape[1]].reshape(len(self.tasks), -1)
        if len(self.features) == 1:
            return np.asarray(own @ self.features[0].T)
        return np.asarray((self.features @ own[:, :, np.newaxis])[:, :, 0])

    def add_adjoint(self, F: Array, residual: Array) -> None:
        """Add Rᵀ residual to these tasks of F."""
        if len(self.features) == 1:
            sums = residual @ self.features[0]
        else:
            sums = (residual[:, np.newaxis, :] @ self.features)[:, 0]
        F[self.tasks, :, : self.shape[1]] += sums.reshape(-1, *self.shape)


@dataclass(frozen=True, eq=False)
class SplitState:
    """Where the search stands."""

    coef: Array  # (m, k, r) proximal point
    dual: Array  # (m, k, r) multiplier of the agreement of both parts, over rho
    rho: float  # weight of their agreement
    norm: float  # of coef

    @classmethod
    def zero(cls, shape: tuple[int, int, int]) -> "SplitState":
        """Start from nothing."""
        return cls(np.zeros(shape), np.zeros(shape), 1.0, 0.0)

    def with_rho(self, rho: float) -> "SplitState":
        """Same multiplier under another weight."""
        return replace(self, dual=self.dual * (self.rho / rho), rho=rho)


class Found(NamedTuple):
    """Where the search ended."""

    state: SplitState
    primal: float
    gap: float
    n_iter: int


class Smooth(NamedTuple):
    """Minimiser of the quadratic part near a point."""

    coef: Array
    residuals: list[Array]  # of each group, at coef


def minimise(
    groups: Sequence[RotatedTasks],
    norm: SquaredNorm,
    c: float,
    start: SplitState,
    stop: tuple[float, int],
) -> Found:
    """Minimise; ``stop``: largest gap over the objective, and most steps."""
    state, (tol, most_steps) = start, stop
    best = Found(state, np.inf, np.inf, 0)
    for n_iter in range(1, most_steps + 1):
        smooth = _fit_near(groups, state, c)
        looking = n_iter % LOOK_EVERY == 1 or n_iter == most_steps
        if looking:
            best = _better(best, _certify(groups, norm, c, state, smooth, n_iter))
            if best.gap <= tol * best.primal:
                break
        state = _step(norm, state, smooth.coef, balance=looking)
    return best._replace(n_iter=n_iter)


def _better(old: Found, new: Found) -> Found:
    """The lower point with the higher bound."""
    bound = max(old.primal - old.gap, new.primal - new.gap) if old.n_iter else None
    kept = new if new.primal <= old.primal else old
    if bound is None:
        return kept
    # The newest state goes on; only what is reported is the best so far.
    return kept._replace(gap=max(kept.primal - bound, 0.0))


def _fit_near(groups: Sequence[RotatedTasks], state: SplitState, c: float) -> Smooth:
    """Minimise loss + rho/2 ‖F − (coef − dual)‖²."""
    F = state.coef - state.dual
    shift = state.rho / c
    residuals = []
    for group in groups:
        change = (group.target - group.forward(F)) / (group.squares + shift)
        residuals.append(shift * change)
        group.add_adjoint(F, change)
    return Smooth(F, residuals)


def _step(
    norm: SquaredNorm, state: SplitState, smooth: Array, *, balance: bool
) -> SplitState:
    """Proximal step after over-relaxation, then the multiplier."""
    mixed = RELAXATION * smooth + (1.0 - RELAXATION) * state.coef
    aim = mixed + state.dual
    coef, level = norm.prox(aim, 1.0 / state.rho, state.norm)
    moved = SplitState(coef, aim - coef, state.rho, level)
    if not balance:
        return moved
    return moved.with_rho(state.rho * _imbalance(state, moved, smooth))


def _imbalance(old: SplitState, new: SplitState, smooth: Array) -> float:
    """Factor for rho that brings both relative residuals together."""
    apart = _ratio(_size(smooth - new.coef), max(_size(smooth), _size(new.coef)))
    drift = _ratio(_size(new.coef - old.coef), _size(new.dual))
    if not 0 < min(apart, drift) <= max(apart, drift) < np.inf:
        return 1.0
    ratio = float(np.sqrt(apart / drift))
    return ratio if max(ratio, 1.0 / ratio) > np.sqrt(MOST_UNBALANCED) else 1.0


def _certify(
    groups: Sequence[RotatedTasks],
    norm: SquaredNorm,
    c: float,
    state: SplitState,
    smooth: Smooth,
    n_iter: int,
) -> Found:
    """Objective at the proximal point, and the gap to the dual of the residuals."""
    misfit = sum(_square(g.target - g.forward(state.coef)) for g in groups)
    primal = 0.5 * c * misfit + 0.5 * norm.value(state.coef) ** 2
    Z = c * _adjoint(groups, smooth.residuals, state.coef.shape)
    pairs = list(zip(groups, smooth.residuals, strict=True))
    linear = c * sum(float(np.vdot(g.target, r)) for g, r in pairs)
    quadratic = c * sum(_square(r) for _, r in pairs) + norm.dual_norm(Z) ** 2
    dual = 0.5 * linear**2 / quadratic if linear > 0 else 0.0
    return Found(state, primal, max(primal - dual, 0.0), n_iter)


def _adjoint(
    groups: Sequence[RotatedTasks],
    residuals: Sequence[Array],
    shape: tuple[int, ...],
) -> Array:
    Z = np.zeros(shape)
    for group, residual in zip(groups, residuals, strict=True):
        group.add_adjoint(Z, residual)
    return Z


def _square(values: Array) -> float:
    return float(np.vdot(values, values))


def _size(values: Array) -> float:
    return float(np.sqrt(_square(values)))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
