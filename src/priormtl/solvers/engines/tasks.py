"""TaskBlocks: a Gram matrix per task, in compiled loops with tasks last."""

from functools import partial

import numpy as np

from priormtl._arrays import Array
from priormtl._lazy import cached_property
from priormtl.problem import BlockQuadratic, NormalForm
from priormtl.solvers.engines.base import (
    MOST_STEPS,
    ActiveRows,
    GramDescent,
    feature_modes,
    graph_of,
    lay_out_system,
)
from priormtl.solvers.kernels import by_modes, newton
from priormtl.solvers.kernels import rows as row_kernels
from priormtl.solvers.kernels.by_tasks import solve_by_tasks
from priormtl.solvers.kernels.graph import LOOSE

__all__ = ["TaskBlocks"]

STRONG_TIES = 5.0  # against the data's curvature: modes precondition if most are such
RIGID_TIES = 1e3  # if any is such: blocks of tasks hardly see what moves together


class TaskDescent(GramDescent):
    """Sweeps in one compiled loop."""

    def __init__(
        self, engine: "TaskBlocks", Q: Array, gradient: Array, mu: Array
    ) -> None:
        self._arrays = engine.system, Q, gradient, mu
        sweep = partial(row_kernels.sweep, *self._arrays)
        super().__init__(engine.system, sweep, Q, gradient)

    def run(self, least: int, limit: float) -> float:
        """Sweep on while moves shrink."""
        return row_kernels.descend(*self._arrays, least, limit)


class TaskBlocks:
    """A Gram matrix per task."""

    def __init__(self, blocks: BlockQuadratic, form: NormalForm) -> None:
        gram = np.ascontiguousarray(blocks.gram.transpose(1, 2, 0))
        own = np.ascontiguousarray(np.einsum("jji->ji", gram))
        linear = np.ascontiguousarray(form.linear)
        self.blocks = blocks
        self.graph = graph_of(blocks.laplacian)
        self.system = lay_out_system(blocks, gram, linear, own)
        self.curvature = self.system.own.mean(axis=1)
        degree = float(self.graph.degree.mean())
        pull, resistance = blocks.tie * degree, own.mean(axis=1)
        self._strongly_tied = pull > STRONG_TIES * resistance
        # Against the mean: rows that the data do not see at all are no trouble.
        self._rigidly_tied = pull > RIGID_TIES * resistance.mean()

    def gradient(self, Q: Array) -> Array:
        """Gradient of the quadratic part."""
        return row_kernels.full_gradient(self.system, Q)

    def descend(self, Q: Array, gradient: Array, mu: Array) -> "TaskDescent":
        """Begin sweeps from Q."""
        return TaskDescent(self, Q, gradient, mu)

    def multiply(self, rows: ActiveRows, x: Array) -> Array:
        """Hessian of the quadratic part times x."""
        return newton.curve(self._rows(rows), x)

    def direction(self, rows: ActiveRows, downhill: Array, tol: float) -> Array:
        """Conjugate gradients, preconditioned by blocks of tasks or by modes."""
        layout, modes = self._rows(rows), self._modes(rows)
        if modes is None:
            return solve_by_tasks(layout, downhill, tol, MOST_STEPS)
        return by_modes.solve_by_modes(layout, modes, downhill, tol, MOST_STEPS)

    @cached_property
    def _mean_block(self) -> Array:
        """Gram matrix of the mean task (k, k)."""
        return self.system.gram.mean(axis=2)

    def _rows(self, rows: ActiveRows) -> newton.Rows:
        return newton.Rows(self.system.gram, *rows, self.graph)

    def _ties_dominate(self, rows: ActiveRows) -> bool:
        strong = int(np.count_nonzero(self._strongly_tied[rows.place]))
        is_any_rigid = bool(self._rigidly_tied[rows.place].any())
        return is_any_rigid or 2 * strong > len(rows.place)

    def _modes(self, rows: ActiveRows) -> by_modes.Modes | None:
        """Modes of the mean block with ties, if ties dominate."""
        if not self._ties_dominate(rows):
            return None
        loose = self.graph.kind == LOOSE
        modes = self.blocks.laplacian.modes if loose else None
        if loose and modes is None:
            return None
        mean = self._mean_block[rows.place[:, np.newaxis], rows.place]
        own, basis = feature_modes(mean, rows)
        parts = np.empty((len(own), 3, rows.unit.shape[1]))
        left = np.ones(len(own))
        vectors = np.zeros((0, 0))
        if modes is None:
            by_modes.factor_modes(self.graph, 1.0, own, parts, left)
        else:
            parts[:, 0] = 1.0 / (own[:, np.newaxis] + modes[0])
            vectors = modes[1]
        return by_modes.Modes(basis, 1.0, parts, left, vectors)
