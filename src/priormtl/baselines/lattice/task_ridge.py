"""Ridge regressions tied by kernels between tasks, by conjugate gradients.

Minimises C/2 ‖X_i w_i − y_i‖² + ½ Σ_j tr(W_j B_j⁻¹ W_jᵀ) without inverting B_j: the
unknown is H with W_j = B_j H_j, which is Xᵀα of the dual problem, so that kernels may
be singular.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from priormtl._arrays import Array
from priormtl.baselines.lattice.task_curvature import TaskCurvature

__all__ = ["RidgePoint", "solve_ridge"]


@dataclass(frozen=True, eq=False)
class RidgePoint:
    """Coefficients of kernels, with what they leave of the data."""

    inner: Array  # H (m, r)
    coef: Array  # W (m, r), row blocks B_j H_j
    pull: Array  # (m, r) Xᵀα at the residuals α = C (y − X w): H at the optimum
    misfit: float  # C/2 ‖X w − y‖²
    agreement: float  # ⟨y, α⟩
    n_products: int


class _TaskAxes:
    """Eigenvectors of kernels: coordinates in which these are numbers."""

    def __init__(self, kernels: Array, blocks: tuple[slice, ...], r: int) -> None:
        values, self._vectors = np.linalg.eigh(kernels)
        self._blocks = blocks
        self.values = np.empty((kernels.shape[1], r))
        for value, columns in zip(values, blocks, strict=True):
            self.values[:, columns] = np.maximum(value, 0.0)[:, np.newaxis]

    def enter(self, X: Array) -> Array:
        return self._turn(X, self._vectors.transpose(0, 2, 1))

    def leave(self, X: Array) -> Array:
        return self._turn(X, self._vectors)

    def _turn(self, X: Array, matrices: Array) -> Array:
        if len(self._blocks) == 1:
            return np.asarray(matrices[0] @ X)
        pairs = zip(matrices, self._blocks, strict=True)
        return np.hstack([matrix @ X[:, columns] for matrix, columns in pairs])


class _Descent(NamedTuple):
    """Where conjugate gradients stand, in the kernels' coordinates."""

    inner: Array  # H
    coef: Array  # W
    rest: Array  # C Xᵀ(y − X w) − H, which vanishes at the optimum
    step: Array  # next direction of H
    coef_step: Array  # the same of W
    energy: float  # ⟨rest, preconditioned rest⟩


class _System:
    """C G(W) + H = C Xᵀy with W = B H, where B is diagonal."""

    def __init__(self, curvature: TaskCurvature, C: float, kernels: Array) -> None:
        r = curvature.linear.shape[1]
        self._curvature, self._C = curvature, C
        self._axes = _TaskAxes(kernels, curvature.blocks, r)
        self._linear = self._axes.enter(curvature.linear)
        self._damping = 1.0 / (1.0 + C * self._axes.values * curvature.mean)

    def start(self, inner: Array) -> _Descent:
        H = self._axes.enter(inner)
        W = self._axes.values * H
        rest = self._C * self._linear
        if inner.any():
            rest = rest - self._C * self._multiply(W) - H
        step = self._damping * rest
        coef_step = self._axes.values * step
        return _Descent(H, W, rest, step, coef_step, float(np.vdot(rest, coef_step)))

    def advance(self, at: _Descent) -> _Descent:
        turn = self._C * self._multiply(at.coef_step) + at.step
        length = at.energy / float(np.vdot(at.coef_step, turn))
        rest = at.rest - length * turn
        step = self._damping * rest
        coef_step = self._axes.values * step
        energy = float(np.vdot(rest, coef_step))
        kept = energy / at.energy
        return _Descent(
            at.inner + length * at.step,
            at.coef + length * at.coef_step,
            rest,
            step + kept * at.step,
            coef_step + kept * at.coef_step,
            energy,
        )

    def error(self, at: _Descent) -> float:
        """Square of the rest in the kernels' norm: what a dual value would miss."""
        return 0.5 * float(np.vdot(at.rest, self._axes.values * at.rest))

    def look(self, at: _Descent, n_products: int) -> RidgePoint:
        pull = at.inner + at.rest
        overlap = float(np.vdot(self._linear, at.coef))
        agreement = self._C * (self._curvature.constant - overlap)
        misfit = 0.5 * (agreement - float(np.vdot(at.coef, pull)))
        leave = self._axes.leave
        return RidgePoint(
            leave(at.inner),
            leave(at.coef),
            leave(pull),
            max(misfit, 0.0),
            agreement,
            n_products,
        )

    def _multiply(self, W: Array) -> Array:
        return self._axes.enter(self._curvature.product(self._axes.leave(W)))


def solve_ridge(
    curvature: TaskCurvature,
    C: float,
    kernels: Array,
    start: Array,
    *,
    accuracy: float,
    max_iter: int,
) -> RidgePoint:
    """Solve until the dual objective is within about ``accuracy`` of its maximum."""
    system = _System(curvature, C, kernels)
    at, n = system.start(start), 1
    while system.error(at) > accuracy and at.energy > 0 and n < max_iter:
        at, n = system.advance(at), n + 1
    return system.look(at, n)
