"""Least squares plus half a squared norm, by alternating directions (ADMM).

    min_F  c/2 Σ_i ‖t_i − R_i f_i‖² + 1/2 Ω(F)²

The quadratic part is solved exactly in each step, so that a strong C costs no more
steps than a weak one; its residuals give a dual point, which certifies the other part.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, Self

import numpy as np

from priormtl._arrays import Array, Index

__all__ = [
    "Found",
    "RotatedTasks",
    "SplitProblem",
    "SplitState",
    "SquaredNorm",
    "minimise",
]

RELAXATION = 1.7
LOOK_EVERY = 10
LEAST_CHANGE = 1.4  # of rho that is worth it
LAST_BALANCED = 1000  # step; a rho that changes for ever may keep it from settling


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
    def zero(cls, shape: tuple[int, int, int]) -> Self:
        """Start from nothing."""
        return cls(np.zeros(shape), np.zeros(shape), 1.0, 0.0)

    def with_rho(self, rho: float) -> Self:
        """Same multiplier under another weight."""
        return replace(self, dual=self.dual * (self.rho / rho), rho=rho)


class Smooth(NamedTuple):
    """Minimiser of the quadratic part near a point."""

    coef: Array
    residuals: list[Array]  # of each group, at coef


class Found(NamedTuple):
    """Where the search ended."""

    state: SplitState
    primal: float
    dual: float
    n_iter: int

    @property
    def gap(self) -> float:
        """How far the optimum can be below the objective, at most."""
        return max(self.primal - self.dual, 0.0)

    def join(self, other: Self) -> Self:
        """The lower objective with the higher bound."""
        lower = other if other.primal <= self.primal else self
        return lower._replace(dual=max(self.dual, other.dual))


@dataclass(frozen=True, eq=False)
class SplitProblem:
    """c/2 Σ_i ‖t_i − R_i f_i‖² + 1/2 Ω(F)²."""

    groups: tuple[RotatedTasks, ...]
    norm: SquaredNorm
    c: float

    def fit_near(self, state: SplitState) -> Smooth:
        """Minimise loss + rho/2 ‖F − (coef − dual)‖²."""
        F = state.coef - state.dual
        shift = state.rho / self.c
        residuals = []
        for group in self.groups:
            change = (group.target - group.forward(F)) / (group.squares + shift)
            residuals.append(shift * change)
            group.add_adjoint(F, change)
        return Smooth(F, residuals)

    def step(self, state: SplitState, smooth: Smooth) -> SplitState:
        """Proximal step after over-relaxation, then the multiplier."""
        mixed = RELAXATION * smooth.coef + (1.0 - RELAXATION) * state.coef
        aim = mixed + state.dual
        coef, level = self.norm.prox(aim, 1.0 / state.rho, state.norm)
        return SplitState(coef, aim - coef, state.rho, level)

    def primal(self, F: Array) -> float:
        """The objective."""
        misfit = sum(_square(g.target - g.forward(F)) for g in self.groups)
        return 0.5 * self.c * misfit + 0.5 * self.norm.value(F) ** 2

    def dual(self, smooth: Smooth) -> float:
        """Best lower bound that residuals give, at any scale."""
        Z = np.zeros(smooth.coef.shape)
        linear = quadratic = 0.0
        for group, residual in zip(self.groups, smooth.residuals, strict=True):
            group.add_adjoint(Z, self.c * residual)
            linear += self.c * float(np.vdot(group.target, residual))
            quadratic += self.c * _square(residual)
        if linear <= 0:
            return 0.0
        return 0.5 * linear * (linear / (quadratic + self.norm.dual_norm(Z) ** 2))


def minimise(
    problem: SplitProblem, start: SplitState, tol: float, most_steps: int
) -> Found:
    """Minimise until the gap is ``tol`` times the objective, or steps are used up."""
    state, best = start, Found(start, np.inf, 0.0, 0)
    for n_iter in range(1, most_steps + 1):
        smooth = problem.fit_near(state)
        looking = n_iter % LOOK_EVERY == 1 or n_iter == most_steps
        if looking:
            primal, dual = problem.primal(state.coef), problem.dual(smooth)
            best = best.join(Found(state, primal, dual, n_iter))
            if best.gap <= tol * best.primal:
                break
        moved = problem.step(state, smooth)
        if looking and n_iter <= LAST_BALANCED:
            factor = _imbalance(state, moved, smooth.coef)
            moved = moved.with_rho(factor * moved.rho)
        state = moved
    return best._replace(n_iter=n_iter)


def _imbalance(old: SplitState, new: SplitState, smooth: Array) -> float:
    """Factor for rho that brings both relative residuals together."""
    apart = _ratio(_size(smooth - new.coef), max(_size(smooth), _size(new.coef)))
    drift = _ratio(_size(new.coef - old.coef), _size(new.dual))
    if not 0 < min(apart, drift) <= max(apart, drift) < np.inf:
        return 1.0
    factor = float(np.sqrt(apart / drift))
    return factor if max(factor, 1.0 / factor) > LEAST_CHANGE else 1.0


def _square(values: Array) -> float:
    return float(np.vdot(values, values))


def _size(values: Array) -> float:
    return float(np.sqrt(_square(values)))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
