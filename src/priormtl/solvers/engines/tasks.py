"""TaskBlocks: a Gram matrix per task, in compiled loops with tasks last."""

import numpy as np

from priormtl._arrays import Array
from priormtl.problem import BlockQuadratic, NormalForm
from priormtl.solvers.engines.base import (
    MOST_STEPS,
    ActiveRows,
    GramDescent,
    feature_modes,
    graph_of,
    lay_out_system,
)
from priormtl.solvers.kernels import newton
from priormtl.solvers.kernels import rows as row_kernels
from priormtl.solvers.kernels.graph import LOOSE

__all__ = ["TaskBlocks"]

STRONG_TIES = 5.0  # against the data's curvature, beyond which modes precondition


class TaskBlocks:
    """A Gram matrix per task."""

    def __init__(self, blocks: BlockQuadratic, form: NormalForm) -> None:
        gram = row_kernels.lay_out_blocks(form.gram, blocks.relation.toarray())
        own = np.ascontiguousarray(np.einsum("jji->ji", gram))
        linear = np.ascontiguousarray(form.linear)
        self.laplacian = blocks.laplacian
        self.graph = graph_of(blocks.laplacian)
        self.system = lay_out_system(blocks, gram, linear, own)

    def gradient(self, Q: Array) -> Array:
        """Gradient of the quadratic part."""
        return row_kernels.full_gradient(self.system, self.graph, Q)

    def descend(self, Q: Array, gradient: Array, mu: Array) -> GramDescent:
        """Begin sweeps from Q."""

        def sweep(Q: Array, gradient: Array) -> float:
            return row_kernels.sweep(self.system, self.graph, Q, gradient, mu)

        return GramDescent(self.system, sweep, Q, gradient)

    def multiply(self, rows: ActiveRows, x: Array) -> Array:
        """Hessian of the quadratic part times x."""
        return newton.curve(self._rows(rows), x)

    def direction(self, rows: ActiveRows, downhill: Array, tol: float) -> Array:
        """Conjugate gradients, preconditioned by blocks of tasks or by modes."""
        layout = self._rows(rows)
        preconditioner = self._modes(rows) or self._factors(layout)
        found, _ = newton.conjugate_gradients(
            layout, preconditioner, downhill, tol, MOST_STEPS
        )
        return found

    def _rows(self, rows: ActiveRows) -> newton.Rows:
        return newton.Rows(self.system.gram, *rows, self.graph)

    def _factors(self, layout: newton.Rows) -> newton.Preconditioner:
        none, nothing = np.zeros(0), np.zeros((0, 0))
        factor = newton.factor_tasks(layout)
        return newton.Preconditioner(factor, nothing, 0.0, nothing, none, nothing)

    def _modes(self, rows: ActiveRows) -> newton.Preconditioner | None:
        """Modes of the mean block with ties, all rows tied alike, if ties dominate."""
        tie = float(rows.tie.mean())
        data = self.system.own[rows.place].mean()
        loose = self.graph.kind == LOOSE
        modes = self.laplacian.modes if loose else None
        if tie * self.graph.degree.mean() <= STRONG_TIES * data or (
            loose and modes is None
        ):
            return None
        mean = self.system.gram[rows.place[:, np.newaxis], rows.place].mean(axis=2)
        own, basis = feature_modes(mean, rows)
        pivot, left = np.empty(rows.unit.shape), np.ones(len(own))
        empty, vectors = np.zeros((0, 0, 0)), np.zeros((0, 0))
        if modes is None:
            newton.factor_modes(self.graph, tie, own, pivot, left)
        else:
            pivot[:] = 1.0 / (own[:, np.newaxis] + tie * modes[0])
            vectors = modes[1]
        return newton.Preconditioner(empty, basis, tie, pivot, left, vectors)
