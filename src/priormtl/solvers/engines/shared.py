"""SharedBlock: one Gram matrix for all tasks, by BLAS."""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from priormtl._arrays import Array
from priormtl.problem import BlockQuadratic, NormalForm
from priormtl.solvers.engines.base import (
    ActiveRows,
    GramDescent,
    conjugate_gradients,
    feature_modes,
    graph_of,
    lay_out_system,
)
from priormtl.solvers.kernels import rows as row_kernels

__all__ = ["SharedBlock"]

Solver = Callable[[Array], Array]


class SharedBlock:
    """One Gram matrix for all tasks."""

    def __init__(self, blocks: BlockQuadratic, form: NormalForm) -> None:
        self.blocks = blocks
        self.gram = np.require(blocks.gram[0], requirements=["C", "W"])
        linear = np.ascontiguousarray(form.linear)
        own = np.repeat(self.gram.diagonal()[:, np.newaxis], linear.shape[1], axis=1)
        self.graph = graph_of(blocks.laplacian)
        self.system = lay_out_system(blocks, self.gram, linear, own)
        self.curvature = self.system.own.mean(axis=1)
        self.has_ties = not blocks.laplacian.is_zero and bool(blocks.tie.any())

    def gradient(self, Q: Array) -> Array:
        """Gradient of the quadratic part."""
        used = Q.any(axis=1)
        product = self.gram[:, used] @ Q[used] - self.system.linear
        return product + self._tied(self.blocks.tie, Q)

    def descend(self, Q: Array, gradient: Array, mu: Array) -> GramDescent:
        """Begin sweeps from Q."""
        arrays = self.system, Q, gradient, mu
        sweep = partial(row_kernels.shared_sweep, *arrays)
        return GramDescent(self.system, sweep, Q, gradient)

    def multiply(self, rows: ActiveRows, x: Array) -> Array:
        """Hessian of the quadratic part times x."""
        return self._block(rows) @ x + self._tied(rows.tie, x)

    def direction(self, rows: ActiveRows, downhill: Array, tol: float) -> Array:
        """Conjugate gradients on what the penalty takes from an exact solver."""
        block = self._block(rows)
        modes = self.blocks.laplacian.modes if self.has_ties else None
        if modes is not None:
            solve = _solve_in_modes(block, rows, modes)
            return conjugate_gradients(
                solve, lambda x: -rows.straighten(x), downhill, tol
            )
        seen = (rows.tie * self.graph.degree.mean())[:, np.newaxis]
        solve = _factor(block + np.diag(rows.bend + seen[:, 0]))

        def correct(x: Array) -> Array:
            return self._tied(rows.tie, x) - seen * x - rows.straighten(x)

        return conjugate_gradients(solve, correct, downhill, tol)

    def _block(self, rows: ActiveRows) -> Array:
        if len(rows.place) == len(self.gram):
            return self.gram
        return self.gram[rows.place[:, np.newaxis], rows.place]

    def _tied(self, tie: Array, x: Array) -> Array | float:
        if not self.has_ties:
            return 0.0
        return tie[:, np.newaxis] * self.blocks.laplacian.times(x)


def _factor(block: Array) -> Solver:
    factor = cho_factor(block, lower=True, overwrite_a=True, check_finite=False)
    return lambda r: cho_solve(factor, r, check_finite=False)


def _solve_in_modes(
    block: Array, rows: ActiveRows, modes: tuple[Array, Array]
) -> Solver:
    """Exact, but for rows that are not tied at all."""
    own, basis = feature_modes(block, rows)
    stiffness = own[:, np.newaxis] + modes[0]
    return lambda r: basis @ ((basis.T @ r @ modes[1]) / stiffness) @ modes[1].T
