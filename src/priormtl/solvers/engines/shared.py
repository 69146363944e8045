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
        self.gram = form.gram[0]
        if blocks.relation.nnz:
            self.gram = self.gram + blocks.relation.toarray()
        linear = np.ascontiguousarray(form.linear)
        own = np.repeat(self.gram.diagonal()[:, np.newaxis], linear.shape[1], axis=1)
        self.graph = graph_of(blocks.laplacian)
        self.system = lay_out_system(blocks, self.gram, linear, own)
        self.has_ties = not blocks.laplacian.is_zero and bool(blocks.tie.any())

    def gradient(self, Q: Array) -> Array:
        """Gradient of the quadratic part."""
        used = Q.any(axis=1)
        product = self.gram[:, used] @ Q[used] - self.system.linear
        return product + self._tied(self.blocks.tie, Q)

    def descend(self, Q: Array, gradient: Array, mu: Array) -> GramDescent:
        """Begin sweeps from Q."""
        arrays = self.system, self.graph, Q, gradient, mu
        sweep = partial(row_kernels.shared_sweep, *arrays)
        return GramDescent(self.system, sweep, Q, gradient)

    def multiply(self, rows: ActiveRows, x: Array) -> Array:
        """Hessian of the quadratic part times x."""
        return self._block(rows) @ x + self._tied(rows.tie, x)

    def direction(self, rows: ActiveRows, downhill: Array, tol: float) -> Array:
        """Conjugate gradients on what the penalty takes from an exact solver."""
        block = self._block(rows)
        modes = self.blocks.laplacian.modes if self.has_ties else None
        if modes is None:
            solve, tie = self._factor(block, rows), self.graph.degree.mean()
            rest = rows.tie[:, np.newaxis]
        else:
            solve, tie = _solve_in_modes(block, rows, modes), 0.0
            rest = (rows.tie - rows.tie.mean())[:, np.newaxis]

        def correct(x: Array) -> Array:
            tied = self._tied(rest[:, 0], x) - tie * rest * x if rest.any() else 0.0
            return tied - rows.straighten(x)

        return conjugate_gradients(solve, correct, downhill, tol)

    def _block(self, rows: ActiveRows) -> Array:
        if len(rows.place) == len(self.gram):
            return self.gram
        return self.gram[rows.place[:, np.newaxis], rows.place]

    def _tied(self, tie: Array, x: Array) -> Array | float:
        if not self.has_ties:
            return 0.0
        return tie[:, np.newaxis] * self.blocks.laplacian.times(x)

    def _factor(self, block: Array, rows: ActiveRows) -> Solver:
        """Exact but for ties, of which it sees the mean diagonal."""
        bent = block + np.diag(rows.bend + rows.tie * self.graph.degree.mean())
        factor = cho_factor(bent, lower=True, overwrite_a=True, check_finite=False)
        return lambda r: cho_solve(factor, r, check_finite=False)


def _solve_in_modes(
    block: Array, rows: ActiveRows, modes: tuple[Array, Array]
) -> Solver:
    """Exact where all rows are tied alike."""
    own, basis = feature_modes(block, rows)
    stiffness = own[:, np.newaxis] + rows.tie.mean() * modes[0]
    return lambda r: basis @ ((basis.T @ r @ modes[1]) / stiffness) @ modes[1].T
