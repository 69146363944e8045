"""Engines of block Newton: Gram matrices of each task, or one for all."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from priormtl._arrays import Array, Index
from priormtl.graphs import Laplacian
from priormtl.problem import BlockQuadratic
from priormtl.solvers import kernels

__all__ = ["ActiveRows", "Engine", "choose_engine", "lay_out_graph"]

STRONG_TIES = 5.0  # ties against the data's curvature, beyond which modes precondition
MOST_STEPS = 200


class ActiveRows(NamedTuple):
    """Rows that are not zero, with the penalty's curvature bend (I − unit unitᵀ)."""

    place: Index  # (a,)
    bend: Array  # (a,) lam/‖row‖
    unit: Array  # (a, m) row/‖row‖
    tie: Array  # (a,)


class Engine(Protocol):
    """What block Newton asks of a quadratic."""

    def gradient(self, Q: Array) -> Array:
        """Gradient of the quadratic part (k, m)."""

    def sweep(self, Q: Array, gradient: Array, mu: Array) -> None:
        """Minimise over one row after the other, in place."""

    def multiply(self, rows: ActiveRows, x: Array) -> Array:
        """Hessian of the quadratic part on these rows, times x."""

    def direction(self, rows: ActiveRows, downhill: Array, tol: float) -> Array:
        """Newton direction on these rows."""


def choose_engine(blocks: BlockQuadratic) -> Engine:
    """Engine for one common Gram matrix, or for one per task."""
    shared = len(blocks.gram) == 1 and blocks.linear.shape[1] > 1
    return SharedBlock(blocks) if shared else TaskBlocks(blocks)


class TaskBlocks:
    """A Gram matrix per task, in compiled loops with tasks last."""

    def __init__(self, blocks: BlockQuadratic) -> None:
        gram = blocks.gram_by_rows
        own = np.ascontiguousarray(np.einsum("jji->ji", gram))
        self.blocks = blocks
        self.own = own
        self.system = _system(blocks, gram, own)

    def gradient(self, Q: Array) -> Array:
        """Gradient of the quadratic part."""
        return kernels.full_gradient(self.system, Q)

    def sweep(self, Q: Array, gradient: Array, mu: Array) -> None:
        """Minimise over one row after the other."""
        kernels.sweep(self.system, Q, gradient, mu)

    def multiply(self, rows: ActiveRows, x: Array) -> Array:
        """Hessian of the quadratic part times x."""
        return kernels.curve(self._rows(rows), x)

    def direction(self, rows: ActiveRows, downhill: Array, tol: float) -> Array:
        """Conjugate gradients, preconditioned by blocks of tasks or by modes."""
        layout = self._rows(rows)
        preconditioner = self._modes(rows) or self._factors(layout)
        found, _ = kernels.conjugate_gradients(
            layout, preconditioner, downhill, tol, MOST_STEPS
        )
        return found

    def _rows(self, rows: ActiveRows) -> kernels.Rows:
        return kernels.Rows(self.system.gram, *rows, self.system.graph)

    def _factors(self, layout: kernels.Rows) -> kernels.Preconditioner:
        nothing = np.zeros((0, 0))
        factor = kernels.factor_tasks(layout, self.blocks.degree)
        return kernels.Preconditioner(factor, nothing, nothing, nothing)

    def _modes(self, rows: ActiveRows) -> kernels.Preconditioner | None:
        """Modes of the mean block and of the task graph, where ties dominate."""
        ties = rows.tie.mean() * self.blocks.degree.mean()
        if ties <= STRONG_TIES * self.own[rows.place].mean():
            return None
        modes = self.blocks.laplacian.modes
        if modes is None:
            return None
        mean = self.system.gram[rows.place[:, np.newaxis], rows.place].mean(axis=2)
        basis, stiffness = _stiffness(mean, rows, modes[0])
        nothing = np.zeros((0, 0, 0))
        return kernels.Preconditioner(nothing, basis, modes[1], stiffness)


class SharedBlock:
    """One Gram matrix for all tasks, by BLAS."""

    def __init__(self, blocks: BlockQuadratic) -> None:
        self.blocks = blocks
        self.gram = blocks.gram[0]
        m = blocks.linear.shape[1]
        own = np.repeat(self.gram.diagonal()[:, np.newaxis], m, axis=1)
        self.system = _system(blocks, self.gram, own)
        self.has_ties = not blocks.laplacian.is_zero and bool(blocks.tie.any())

    def gradient(self, Q: Array) -> Array:
        """Gradient of the quadratic part."""
        used = Q.any(axis=1)
        product = self.gram[:, used] @ Q[used] - self.blocks.linear
        return product + self._tied(self.blocks.tie, Q)

    def sweep(self, Q: Array, gradient: Array, mu: Array) -> None:
        """Minimise over one row after the other."""
        kernels.shared_sweep(self.system, Q, gradient, mu)

    def multiply(self, rows: ActiveRows, x: Array) -> Array:
        """Hessian of the quadratic part times x."""
        return self._block(rows) @ x + self._tied(rows.tie, x)

    def direction(self, rows: ActiveRows, downhill: Array, tol: float) -> Array:
        """Conjugate gradients, preconditioned by all but unit unitᵀ, nearly exactly."""
        block = self._block(rows)
        solve = self._solver(block, rows)

        def multiply(x: Array) -> Array:
            along = np.einsum("ij,ij->i", rows.unit, x)[:, np.newaxis]
            bent = rows.bend[:, np.newaxis] * (x - along * rows.unit)
            return block @ x + bent + self._tied(rows.tie, x)

        return _conjugate_gradients(multiply, solve, downhill, tol)

    def _block(self, rows: ActiveRows) -> Array:
        if len(rows.place) == len(self.gram):
            return self.gram
        return self.gram[rows.place[:, np.newaxis], rows.place]

    def _tied(self, tie: Array, x: Array) -> Array | float:
        if not self.has_ties:
            return 0.0
        return tie[:, np.newaxis] * self.blocks.laplacian.times(x)

    def _solver(self, block: Array, rows: ActiveRows) -> Callable[[Array], Array]:
        modes = self.blocks.laplacian.modes if self.has_ties else None
        if modes is None:
            bent = block + np.diag(rows.bend + rows.tie * self.blocks.degree.mean())
            factor = cho_factor(bent, lower=True, overwrite_a=True, check_finite=False)
            return lambda r: cho_solve(factor, r, check_finite=False)
        basis, stiffness = _stiffness(block, rows, modes[0])
        return lambda r: basis @ ((basis.T @ r @ modes[1]) / stiffness) @ modes[1].T


def lay_out_graph(laplacian: Laplacian) -> kernels.Graph:
    """A task graph as plain arrays."""
    edges, groups = laplacian.edges, laplacian.groups
    return kernels.Graph(
        edges.indptr.astype(np.intp),
        edges.indices.astype(np.intp),
        edges.data,
        groups.indptr.astype(np.intp),
        groups.indices.astype(np.intp),
        groups.data,
        int(groups.shape[1]),
    )


def _system(blocks: BlockQuadratic, gram: Array, own: Array) -> kernels.System:
    graph = lay_out_graph(blocks.laplacian)
    diagonal, modes = _row_bounds(blocks, own)
    linear = np.ascontiguousarray(blocks.linear)
    return kernels.System(gram, linear, diagonal, modes, blocks.lam, blocks.tie, graph)


def _row_bounds(blocks: BlockQuadratic, own: Array) -> tuple[Array, Array]:
    """Diagonal bounds on rows: over tasks, or over modes where ties outweigh data."""
    modes = None
    if blocks.tie.mean() * blocks.degree.mean() > own.max(axis=1).mean():
        modes = blocks.laplacian.modes
    if modes is None:
        return own + 2.0 * np.outer(blocks.tie, blocks.degree), np.zeros((0, 0))
    values, vectors = modes
    steepest = own.max(axis=1)[:, np.newaxis]
    return steepest + np.outer(blocks.tie, values), np.ascontiguousarray(vectors)


def _stiffness(block: Array, rows: ActiveRows, values: Array) -> tuple[Array, Array]:
    """Modes of a block with the penalty's curvature, and their stiffness under ties."""
    own, basis = np.linalg.eigh(block + np.diag(rows.bend))
    own = np.maximum(own, 1e-12 * own[-1])
    return np.ascontiguousarray(basis), own[:, np.newaxis] + rows.tie.mean() * values


def _conjugate_gradients(
    multiply: Callable[[Array], Array],
    precondition: Callable[[Array], Array],
    rhs: Array,
    tol: float,
) -> Array:
    """Solve to a relative error of ``tol``."""
    x, rest = np.zeros_like(rhs), rhs.copy()
    z = precondition(rest)
    p, old = z, float(np.vdot(rest, z))
    goal = tol * tol * old
    for _ in range(MOST_STEPS):
        if old <= goal:
            break
        product = multiply(p)
        bowl = float(np.vdot(p, product))
        if bowl <= 0.0:
            break
        x += (old / bowl) * p
        rest -= (old / bowl) * product
        z = precondition(rest)
        new = float(np.vdot(rest, z))
        p, old = z + (new / old) * p, new
    return x
