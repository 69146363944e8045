"""TaskSamples and SharedSamples: residuals instead of Gram matrices, for n < d."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from priormtl._arrays import Array
from priormtl._lazy import cached_property
from priormtl.problem import BlockQuadratic, SampleForm
from priormtl.solvers.engines.base import (
    ActiveRows,
    conjugate_gradients,
    graph_of,
    lay_out_system,
    penalty,
    run_sweeps,
)
from priormtl.solvers.kernels import samples as kernels

__all__ = ["SharedSamples", "TaskSamples"]

LIGHTEST = 1e-9  # weight against the data's curvature, below which inverses lose digits

Solver = Callable[[Array], Array]


class SampleDescent:
    """Sweeps that keep the residuals."""

    def __init__(
        self, samples: "Samples", Q: Array, gradient: Array, mu: Array
    ) -> None:
        self.trail = (Q, samples.misfit(Q))
        self._samples, self._gradient, self._mu = samples, gradient, mu

    def sweep(self) -> float:
        """Minimise over one row after the other."""
        Q, rest = self.trail
        return self._samples.sweep(rest, Q, self._gradient, self._mu)

    def run(self, least: int, limit: float) -> float:
        """Sweep on while moves shrink."""
        return run_sweeps(self.sweep, least, limit)

    def value(self) -> float:
        """½ ‖rest‖² + priors + penalty."""
        Q, rest = self.trail
        squares = float(np.vdot(rest, rest)) + float(
            np.vdot(Q, self._samples.prior_gradient(Q))
        )
        return 0.5 * squares + penalty(self._samples.blocks.lam, Q)

    def gradient(self) -> Array:
        """By one product with the samples."""
        Q, rest = self.trail
        return self._samples.pull(rest) + self._samples.prior_gradient(Q)


class Samples(ABC):
    """Samples (k, n), features first; what both layouts share."""

    def __init__(self, blocks: BlockQuadratic, form: SampleForm) -> None:
        relation = blocks.relation
        self.blocks, self.rows, self.target = blocks, form.rows, form.target
        self.starts = form.starts
        self.relation = kernels.Relation(
            relation.indptr.astype(np.intp),
            relation.indices.astype(np.intp),
            np.asarray(relation.data, dtype=np.float64),
        )
        own = self._squares() + relation.diagonal()[:, np.newaxis]
        self.graph = graph_of(blocks.laplacian)
        self.system = lay_out_system(blocks, form.rows, np.zeros((0, 0)), own)
        self.curvature = self.system.own.mean(axis=1)

    @abstractmethod
    def _squares(self) -> Array:
        """Σ z² of each row and task (k, m)."""

    @abstractmethod
    def _fit(self, rows: Array, x: Array) -> Array:
        """Fitted values of some rows' coefficients."""

    @abstractmethod
    def _pull(self, rows: Array, rest: Array) -> Array:
        """Sums of z · rest over each task's samples."""

    @abstractmethod
    def sweep(self, rest: Array, Q: Array, gradient: Array, mu: Array) -> float:
        """Compiled sweep."""

    @abstractmethod
    def _inverse(self, rows: Array, weight: Array) -> Solver:
        """Inverse of each task's rows · rowsᵀ + diag(weight)."""

    def gradient(self, Q: Array) -> Array:
        """Gradient of the quadratic part."""
        return self.pull(self.misfit(Q)) + self.prior_gradient(Q)

    def pull(self, rest: Array) -> Array:
        """Sums of z · rest over each task's samples, all rows."""
        return self._pull(self.rows, rest)

    def descend(self, Q: Array, gradient: Array, mu: Array) -> "SampleDescent":
        """Begin sweeps from Q."""
        return SampleDescent(self, Q, gradient, mu)

    def multiply(self, rows: ActiveRows, x: Array) -> Array:
        """Hessian of the quadratic part times x."""
        part = self.rows[rows.place]
        related = self.blocks.relation[rows.place][:, rows.place] @ x
        return self._pull(part, self._fit(part, x)) + related + self._tied(rows.tie, x)

    def direction(self, rows: ActiveRows, downhill: Array, tol: float) -> Array:
        """Conjugate gradients on what an inverse for each task leaves out."""
        relation = self.blocks.relation[rows.place][:, rows.place]
        stiff = relation.diagonal()[:, np.newaxis]
        ties = np.outer(rows.tie, self._degree())
        weight = np.maximum(
            rows.bend[:, np.newaxis] + stiff + ties, LIGHTEST * self.system.own.max()
        )
        solve = self._inverse(self.rows[rows.place], weight)
        excess = rows.bend[:, np.newaxis] - weight

        def correct(x: Array) -> Array:
            prior = self._tied(rows.tie, x) + excess * x
            if relation.nnz:
                prior = prior + relation @ x
            return prior - rows.straighten(x)

        return conjugate_gradients(solve, correct, downhill, tol)

    def misfit(self, Q: Array) -> Array:
        """Fitted values − targets."""
        used = np.flatnonzero(Q.any(axis=1))
        return self._fit(self.rows[used], Q[used]) - self.target

    def _degree(self) -> Array:
        """Diagonal of L as the inverse sees it."""
        return self.graph.degree

    def _tied(self, tie: Array, x: Array) -> Array:
        if not tie.any() or self.blocks.laplacian.is_zero:
            return np.zeros_like(x)
        return tie[:, np.newaxis] * self.blocks.laplacian.times(x)

    def prior_gradient(self, Q: Array) -> Array:
        """Gradient of both priors."""
        related = self.blocks.relation @ Q if self.blocks.relation.nnz else 0.0
        return related + self._tied(self.blocks.tie, Q)


class TaskSamples(Samples):
    """Every task has samples of its own, task after task."""

    def _squares(self) -> Array:
        parts = [self.rows[:, part] for part in self._slices()]
        return np.column_stack([np.einsum("ij,ij->i", z, z) for z in parts])

    def _fit(self, rows: Array, x: Array) -> Array:
        fitted = np.empty(rows.shape[1])
        for i, part in enumerate(self._slices()):
            fitted[part] = x[:, i] @ rows[:, part]
        return fitted

    def _pull(self, rows: Array, rest: Array) -> Array:
        sums = np.empty((len(rows), len(self.starts) - 1))
        for i, part in enumerate(self._slices()):
            sums[:, i] = rows[:, part] @ rest[part]
        return sums

    def sweep(self, rest: Array, Q: Array, gradient: Array, mu: Array) -> float:
        """Compiled sweep."""
        return kernels.sample_sweep(
            self.system, self.relation, self.starts, rest, Q, gradient, mu
        )

    def _inverse(self, rows: Array, weight: Array) -> Solver:
        parts = [np.ascontiguousarray(rows[:, part]) for part in self._slices()]
        solvers = [invert(part, weight[:, i]) for i, part in enumerate(parts)]
        return lambda r: np.column_stack(
            [solve(r[:, i]) for i, solve in enumerate(solvers)]
        )

    def _slices(self) -> list[slice]:
        ends = self.starts.tolist()
        return [slice(a, b) for a, b in pairwise(ends)]


class SharedSamples(Samples):
    """All tasks share the samples; targets are (m, n)."""

    def _squares(self) -> Array:
        squares = np.einsum("ij,ij->i", self.rows, self.rows)
        return np.repeat(squares[:, np.newaxis], len(self.target), axis=1)

    def _fit(self, rows: Array, x: Array) -> Array:
        return np.ascontiguousarray(x.T @ rows)

    def _pull(self, rows: Array, rest: Array) -> Array:
        return rows @ rest.T

    def sweep(self, rest: Array, Q: Array, gradient: Array, mu: Array) -> float:
        """Compiled sweep."""
        return kernels.shared_sample_sweep(
            self.system,
            self.relation,
            self._neighbours,
            rest,
            Q,
            gradient,
            mu,
        )

    @cached_property
    def _neighbours(self) -> Array:
        return kernels.lay_out_neighbours(self.rows)

    def _inverse(self, rows: Array, weight: Array) -> Solver:
        return invert(rows, weight[:, 0])

    def _degree(self) -> Array:
        return np.full_like(self.graph.degree, self.graph.degree.mean())


def invert(rows: Array, weight: Array) -> Solver:
    """Inverse of rows · rowsᵀ + diag(weight), by a system of the samples' size."""
    light = rows / weight[:, np.newaxis]
    small = rows.T @ light
    small.flat[:: len(small) + 1] += 1.0
    factor = cho_factor(small, lower=True, overwrite_a=True, check_finite=False)

    def solve(r: Array) -> Array:
        inner = cho_solve(factor, light.T @ r, check_finite=False)
        return (r.T / weight).T - light @ inner

    return solve
