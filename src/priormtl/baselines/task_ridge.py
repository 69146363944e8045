"""Ridge regressions tied by kernels between tasks, by conjugate gradients.

Minimises C/2 ‖X_i w_i − y_i‖² + ½ Σ_j tr(W_j B_j⁻¹ W_jᵀ) without inverting B_j: the
unknown is H with W_j = B_j H_j, which is Xᵀα of the dual problem, so that kernels may
be singular.
"""

from dataclasses import dataclass

import numpy as np

from priormtl._arrays import Array
from priormtl.baselines.task_curvature import TaskCurvature

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


def _norm(rest: Array, axes: _TaskAxes) -> float:
    return float(np.vdot(rest, axes.values * rest))


def solve_ridge(
    curvature: TaskCurvature,
    C: float,
    kernels: Array,
    start: Array,
    *,
    accuracy: float,
    max_iter: int,
) -> RidgePoint:
    """Solve until the objective is within about ``accuracy`` of its minimum."""
    axes = _TaskAxes(kernels, curvature.blocks, curvature.linear.shape[1])
    linear = axes.enter(curvature.linear)
    damping = 1.0 / (1.0 + C * axes.values * curvature.mean)

    def multiply(W: Array) -> Array:
        return axes.enter(curvature.product(axes.leave(W)))

    H = axes.enter(start)
    W = axes.values * H
    rest = C * (linear - multiply(W)) - H if start.any() else C * linear
    step_H = damping * rest
    step_W = axes.values * step_H
    energy = float(np.vdot(rest, step_W))
    n = 1
    while _norm(rest, axes) > 2.0 * accuracy and n < max_iter:
        turn = C * multiply(step_W) + step_H
        length = energy / float(np.vdot(step_W, turn))
        H, W, rest = H + length * step_H, W + length * step_W, rest - length * turn
        next_H = damping * rest
        next_W = axes.values * next_H
        before, energy = energy, float(np.vdot(rest, next_W))
        step_H = next_H + energy / before * step_H
        step_W = next_W + energy / before * step_W
        n += 1
    pull = H + rest
    agreement = C * (curvature.constant - float(np.vdot(linear, W)))
    misfit = 0.5 * (agreement - float(np.vdot(W, pull)))
    return RidgePoint(
        axes.leave(H), axes.leave(W), axes.leave(pull), max(misfit, 0.0), agreement, n
    )
