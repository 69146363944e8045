"""Data layouts of block Newton: how a quadratic is kept, and its compiled operations.

=================  ============================  =======================================
layout             data                          Newton direction
=================  ============================  =======================================
`TaskBlocks`       a Gram matrix per task        compiled conjugate gradients
`SharedBlock`      one Gram matrix for all       conjugate gradients on BLAS solves
`TaskSamples`      samples per task, n < d       the same, inverses of the samples' size
`SharedSamples`    the same samples for all      the same, one inverse for all tasks
=================  ============================  =======================================

Each layout has the gradient of the quadratic part at Q (k, m); ``descend``, sweeps that
move Q in place; and on the rows that are not zero ``multiply``, the Hessian of the
quadratic part times x, a Newton ``direction``, and ``inverse``, about that of the
Hessian where only some entries move. ``curvature`` (k,) is the mean over tasks of each
row's Hessian, ties not counted. This module loads Numba: only `block_newton` imports
it, when a fit needs it.
"""

from abc import ABC, abstractmethod
from copy import copy
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from priormtl._arrays import Array, Index, restrict_tasks_last
from priormtl._lazy import cached_property
from priormtl._numerics import EPS, VANISHING, Operator, conjugate_gradients
from priormtl.problem import NormalForm, SampleForm
from priormtl.solvers.blocks import BlockQuadratic
from priormtl.solvers.kernels import newton, samples
from priormtl.solvers.kernels import rows as row_kernels
from priormtl.solvers.kernels.rows import (
    COMMON,
    LOOSE,
    MOST_SWEEPS,
    System,
    lay_out_graph,
)

STRONG_TIES = 5.0  # against the data's curvature: modes precondition if most are such


class ActiveRows(NamedTuple):
    """Rows that are not zero, with the penalty's curvature bend (I − unit unitᵀ)."""

    place: Index  # (a,)
    bend: Array  # (a,) lam/‖row‖
    unit: Array  # (a, m) row/‖row‖
    tie: Array  # (a,)

    def straighten(self, x: Array) -> Array:
        """What ``unit`` takes from bend · x."""
        along = np.einsum("ij,ij->i", self.unit, x) * self.bend
        return along[:, np.newaxis] * self.unit


def choose_layout(blocks: BlockQuadratic) -> "Layout":
    """By what is kept, Gram matrices or samples, and whether tasks share it."""
    form = blocks.form
    if isinstance(form, SampleForm):
        shared = form.target.ndim == 2
        return SharedSamples(blocks, form) if shared else TaskSamples(blocks, form)
    shared = len(form.gram) == 1 and blocks.laplacian.m > 1
    return SharedBlock(blocks, form) if shared else TaskBlocks(blocks, form)


L = TypeVar("L", bound="Layout")


def at_other_lam(layout: L, blocks: BlockQuadratic) -> L:
    """Same layout for blocks that differ in lam only."""
    other = copy(layout)
    other.blocks = blocks
    other.system = layout.system._replace(lam=blocks.lam)
    return other


# What layouts share.


def lay_out_system(blocks: BlockQuadratic, data: Array, own: Array) -> System:
    """Arrays for sweeps; weak ties are only bounded there."""
    graph = lay_out_graph(blocks.laplacian)
    # Against the data's curvature: a bound on such rows is as good.
    weak = blocks.tie * graph.degree.mean() <= 0.05 * own.mean(axis=1)
    kind = np.where(weak, LOOSE, graph.kind)
    kind = np.where(blocks.common, COMMON, kind).astype(np.intp)
    steepest = np.max(own + 2.0 * np.outer(blocks.tie, graph.degree), axis=1)
    strengths = blocks.lam, blocks.tie, steepest
    # Loops for constraints are compiled only where there are some.
    sign = blocks.sign if blocks.is_constrained else None
    return System(data, own, *strengths, kind, sign, graph)


def lay_out_gram(matrices: Array) -> Array:
    """Gram matrices (k, k, m) of all tasks, which loops only read.

    They would be compiled once more for arrays that cannot be written: matrices in this
    order that are read-only only as a view are not copied.
    """
    gram = matrices.transpose(1, 2, 0)
    if gram.flags.c_contiguous:
        try:
            gram = gram.view()
            gram.flags.writeable = True
            return gram
        except ValueError:  # those who own them may not write, either
            pass
    return restrict_tasks_last(matrices).transpose(1, 2, 0)


class Descent(ABC):
    """Sweeps from a point on."""

    trail: tuple[Array, Array]  # Q, and what sweeps keep beside it

    @abstractmethod
    def sweep(self) -> float:
        """Sweep once; how far rows moved, squared."""

    def run(self, least: int, limit: float) -> float:
        """Sweep at least so often, and on while moves shrink faster than ``limit``.

        Returns by what factor they shrink from one sweep to the next, about; 1 where
        nothing moves any more.
        """
        first, rate = 0.0, 1.0
        for count in range(MOST_SWEEPS):
            last = self.sweep()
            if not last > 0.0:  # or rounding has made curvatures negative
                return 1.0
            if count == 0:
                first = last
            else:
                rate = (last / first) ** (0.5 / count)
            if count + 1 >= least and rate > limit:
                break
        return rate


def tied(blocks: BlockQuadratic, tie: Array, x: Array) -> Array | float:
    """Ties · L x, for the ties of some rows."""
    if blocks.laplacian.is_zero or not tie.any():
        return 0.0
    return tie[:, np.newaxis] * blocks.laplacian.times(x)


def penalty(lam: Array, Q: Array) -> float:
    """Σ lam ‖q‖ over rows."""
    return float(lam @ np.sqrt(np.einsum("ij,ij->i", Q, Q)))


def is_outside(sign: Array | None, Q: Array) -> bool:
    """Whether an extrapolation has led out of the signs of rows."""
    if sign is None:
        return False
    signed = np.flatnonzero(sign)
    return bool(np.any(sign[signed, np.newaxis] * Q[signed] < 0))


def feature_modes(block: Array, rows: ActiveRows) -> tuple[Array, Array]:
    """Stiffness and modes of a tied block: basisᵀ (block + bend) basis = stiffness.

    The modes are scaled so that ties of any strengths become basisᵀ tie basis = 1:
    every mode is tied alike. Rows that are not tied count as hardly tied.
    """
    bent = block + np.diag(rows.bend)
    diagonal = bent.diagonal()
    least = 1e-9 * np.where(diagonal > 0, diagonal, 1.0)
    scale = 1.0 / np.sqrt(np.maximum(rows.tie, least))
    own, basis = np.linalg.eigh(scale[:, np.newaxis] * bent * scale)
    return np.maximum(own, VANISHING * own[-1]), scale[:, np.newaxis] * basis


# Gram matrices: sweeps keep the gradient.


class GramDescent(Descent):
    """Sweeps where one Gram matrix serves all tasks."""

    def __init__(
        self,
        layout: "TaskBlocks | SharedBlock",
        Q: Array,
        gradient: Array,
        mu: Array,
    ) -> None:
        self.trail = Q, gradient
        self._system, self._linear = layout.system, layout.linear
        self._arrays = Q, gradient, mu, np.empty((6, Q.shape[1]))

    def sweep(self) -> float:
        return row_kernels.shared_sweep(self._system, *self._arrays)

    def value(self) -> float:
        """½ ⟨Q, gradient − linear⟩ + penalty."""
        Q, gradient = self.trail
        if is_outside(self._system.sign, Q):
            return np.inf
        smooth = 0.5 * float(np.vdot(Q, gradient) - np.vdot(Q, self._linear))
        return smooth + penalty(self._system.lam, Q)

    def gradient(self) -> Array:
        return self.trail[1]


class TaskDescent(GramDescent):
    """Sweeps on a Gram matrix per task, in one compiled loop."""

    def sweep(self) -> float:
        return row_kernels.descend(self._system, *self._arrays, (1, 1, 0.0))[0]

    def run(self, least: int, limit: float) -> float:
        limits = (MOST_SWEEPS, least, limit)
        return row_kernels.descend(self._system, *self._arrays, limits)[1]


class TaskBlocks:
    """A Gram matrix per task, in compiled loops with tasks last."""

    def __init__(self, blocks: BlockQuadratic, form: NormalForm) -> None:
        gram = lay_out_gram(form.gram)
        own = np.ascontiguousarray(np.einsum("jji->ji", gram))
        self.blocks, self.linear = blocks, form.linear
        self.system = lay_out_system(blocks, gram, own)
        self.graph = self.system.graph
        self.curvature = own.mean(axis=1)
        tied = blocks.tie * float(self.graph.degree.mean())
        self._strongly_tied = tied > STRONG_TIES * self.curvature
        # Against the mean: rows that the data do not see at all are no trouble.
        self._rigidly_tied = tied > 1e3 * self.curvature.mean()

    def gradient(self, Q: Array) -> Array:
        place, out = np.flatnonzero(Q.any(axis=1)), -self.linear
        if len(place):
            lam, tie = self.system.lam[place], self.system.tie[place]
            rows = self._rows(ActiveRows(place, lam, Q, tie))
            newton.curve(rows, np.arange(len(Q)), place, Q[place], out)
        return out

    def descend(self, Q: Array, gradient: Array, mu: Array) -> TaskDescent:
        return TaskDescent(self, Q, gradient, mu)

    def multiply(self, rows: ActiveRows, x: Array) -> Array:
        out = np.zeros(x.shape)
        newton.curve(self._rows(rows), rows.place, np.arange(len(x)), x, out)
        return out

    def direction(self, rows: ActiveRows, downhill: Array, tol: float) -> Array:
        """Conjugate gradients, preconditioned by blocks of tasks or by modes."""
        modes, (a, m) = self._modes(rows), downhill.shape
        factor, layout = None, self._rows(rows)
        if modes is None:
            factor = np.empty((a, a, m))
            newton.factor_tasks(layout, factor, np.empty(m))
        work, rest = np.zeros((5, a, m)), downhill.copy()
        newton.solve_newton(layout, factor, modes, rest, tol, 200, work)
        return work[0]

    def inverse(self, rows: ActiveRows, free: NDArray[np.bool_]) -> Operator:
        """By modes where ties dominate, else by blocks of tasks."""
        modes, (a, m) = self._modes(rows), rows.unit.shape

        def solve(r: Array) -> Array:
            out = np.empty((a, m))
            if modes is None:
                newton.solve_tasks(factor, r, out)
            else:
                newton.solve_modes(self.graph, modes, r, np.empty((a, m)), out)
            return out

        if modes is None:
            factor = np.empty((a, a, m))
            newton.factor_free(self._rows(rows), free, factor, np.empty(m))
        return solve

    def _rows(self, rows: ActiveRows) -> newton.Rows:
        return newton.Rows(self.system.gram, *rows, self.graph)

    @cached_property
    def _mean_block(self) -> Array:
        """Gram matrix of the mean task (k, k)."""
        return self.system.gram.mean(axis=2)

    def _modes(self, rows: ActiveRows) -> newton.Modes | None:
        """Modes of the mean block with ties, if ties dominate."""
        strong = int(np.count_nonzero(self._strongly_tied[rows.place]))
        is_any_rigid = bool(self._rigidly_tied[rows.place].any())
        if not is_any_rigid and 2 * strong <= len(rows.place):
            return None
        loose = self.graph.kind == LOOSE
        modes = self.blocks.laplacian.modes if loose else None
        if loose and modes is None:
            return None
        mean = self._mean_block[rows.place[:, np.newaxis], rows.place]
        own, basis = feature_modes(mean, rows)
        a, m = rows.unit.shape
        parts, left, number = np.empty((a, 3, m)), np.ones(a), np.arange(a)
        if modes is not None:
            parts[:, 0] = 1.0 / (own[:, np.newaxis] + modes[0])
            # A copy: compiled code would take read-only arrays for another type.
            return newton.Modes(basis, 1.0, parts, left, modes[1].copy(), number)
        found = newton.Modes(basis, 1.0, parts, left, None, number)
        newton.factor_modes(self.graph, own, found, np.zeros(m))
        return found


class SharedBlock:
    """One Gram matrix for all tasks, by BLAS."""

    def __init__(self, blocks: BlockQuadratic, form: NormalForm) -> None:
        self.blocks, self.linear = blocks, form.linear
        self.gram = np.require(form.gram[0], requirements=["C", "W"])
        m = form.linear.shape[1]
        own = np.repeat(self.gram.diagonal()[:, np.newaxis], m, axis=1)
        self.system = lay_out_system(blocks, self.gram, own)
        self.graph = self.system.graph
        self.curvature = own.mean(axis=1)
        self.has_ties = not blocks.laplacian.is_zero and bool(blocks.tie.any())

    def gradient(self, Q: Array) -> Array:
        used = Q.any(axis=1)
        product = self.gram[:, used] @ Q[used] - self.linear
        return product + tied(self.blocks, self.blocks.tie, Q)

    def descend(self, Q: Array, gradient: Array, mu: Array) -> GramDescent:
        return GramDescent(self, Q, gradient, mu)

    def multiply(self, rows: ActiveRows, x: Array) -> Array:
        return self._block(rows) @ x + tied(self.blocks, rows.tie, x)

    def direction(self, rows: ActiveRows, downhill: Array, tol: float) -> Array:
        """Conjugate gradients on what the penalty takes from an exact solver."""
        solve = self.inverse(rows)
        if self.has_ties and self.blocks.laplacian.modes is not None:
            return conjugate_gradients(
                solve, lambda x, Mx: Mx - rows.straighten(x), downhill, tol
            )
        seen = (rows.tie * self.graph.degree.mean())[:, np.newaxis]
        return conjugate_gradients(
            solve,
            lambda x, Mx: (
                Mx + tied(self.blocks, rows.tie, x) - seen * x - rows.straighten(x)
            ),
            downhill,
            tol,
        )

    def inverse(
        self, rows: ActiveRows, free: NDArray[np.bool_] | None = None
    ) -> Operator:
        """Exact, but for rows that are not tied at all, where L has modes."""
        block = self._block(rows)
        modes = self.blocks.laplacian.modes if self.has_ties else None
        if modes is not None:
            values, vectors = modes
            own, basis = feature_modes(block, rows)
            stiffness = own[:, np.newaxis] + values
            return lambda r: basis @ ((basis.T @ r @ vectors) / stiffness) @ vectors.T
        seen = rows.tie * self.graph.degree.mean()
        bent = block + np.diag(rows.bend + seen)
        try:
            factor = cho_factor(bent, lower=True, check_finite=False)
        except np.linalg.LinAlgError:  # Gram matrices of features far from zero
            values, basis = np.linalg.eigh(bent)
            floor = EPS * len(values) * float(np.abs(values).max())
            stiffness = np.maximum(values, floor)[:, np.newaxis]
            return lambda r: basis @ ((basis.T @ r) / stiffness)
        return lambda r: cho_solve(factor, r, check_finite=False)

    def _block(self, rows: ActiveRows) -> Array:
        if len(rows.place) == len(self.gram):
            return self.gram
        return self.gram[rows.place[:, np.newaxis], rows.place]


# Samples instead of Gram matrices, for n < d: sweeps keep the residuals.


class SampleDescent(Descent):
    """Sweeps on samples."""

    def __init__(self, layout: "Samples", Q: Array, gradient: Array, mu: Array) -> None:
        self.trail = (Q, layout.residuals(Q))
        self._layout, self._gradient, self._mu = layout, gradient, mu

    def sweep(self) -> float:
        Q, rest = self.trail
        return self._layout.sweep(rest, Q, self._gradient, self._mu)

    def value(self) -> float:
        """½ ‖residuals‖² + priors + penalty."""
        (Q, rest), layout = self.trail, self._layout
        if is_outside(layout.system.sign, Q):
            return np.inf
        squares = float(np.vdot(rest, rest))
        squares += float(np.vdot(Q, layout.prior_gradient(Q)))
        if layout.blocks.pull is not None:
            squares -= float(np.vdot(Q, layout.blocks.pull))
        return 0.5 * squares + penalty(layout.blocks.lam, Q)

    def gradient(self) -> Array:
        """By one product with the samples."""
        (Q, rest), layout = self.trail, self._layout
        return layout.adjoint(layout.rows, rest) + layout.prior_gradient(Q)


class Samples(ABC):
    """Samples (k, n), features first; what both layouts share."""

    def __init__(self, blocks: BlockQuadratic, form: SampleForm) -> None:
        relation = blocks.relation
        self.blocks, self.rows, self.target = blocks, form.rows, form.target
        self.starts = form.starts
        self.relation = samples.Relation(
            relation.indptr.astype(np.intp),
            relation.indices.astype(np.intp),
            np.asarray(relation.data, dtype=np.float64),
            np.zeros((0, 0)) if blocks.pull is None else blocks.pull,
        )
        own = self._squares() + relation.diagonal()[:, np.newaxis]
        self.system = lay_out_system(blocks, form.rows, own)
        self.graph = self.system.graph
        self.degree = self.graph.degree  # diagonal of L as the inverse sees it
        self.curvature = own.mean(axis=1)

    @abstractmethod
    def _squares(self) -> Array:
        """Σ z² of each row and task (k, m)."""

    @abstractmethod
    def _fit(self, rows: Array, x: Array) -> Array:
        """Fitted values of some rows' coefficients."""

    @abstractmethod
    def adjoint(self, rows: Array, rest: Array) -> Array:
        """Sums of z · rest over each task's samples."""

    @abstractmethod
    def sweep(self, rest: Array, Q: Array, gradient: Array, mu: Array) -> float:
        """Compiled sweep."""

    @abstractmethod
    def _inverse(self, rows: Array, weight: Array) -> Operator:
        """Inverse of each task's rows · rowsᵀ + diag(weight)."""

    def gradient(self, Q: Array) -> Array:
        return self.adjoint(self.rows, self.residuals(Q)) + self.prior_gradient(Q)

    def descend(self, Q: Array, gradient: Array, mu: Array) -> SampleDescent:
        return SampleDescent(self, Q, gradient, mu)

    def multiply(self, rows: ActiveRows, x: Array) -> Array:
        part = self.rows[rows.place]
        related = self.blocks.relation[rows.place][:, rows.place] @ x
        product = self.adjoint(part, self._fit(part, x))
        return product + related + tied(self.blocks, rows.tie, x)

    def direction(self, rows: ActiveRows, downhill: Array, tol: float) -> Array:
        """Conjugate gradients on what an inverse for each task leaves out."""
        relation = self.blocks.relation[rows.place][:, rows.place]
        weight = self._weight(rows)
        solve = self._inverse(self.rows[rows.place], weight)
        excess = rows.bend[:, np.newaxis] - weight

        def multiply(x: Array, Mx: Array) -> Array:
            prior = Mx + tied(self.blocks, rows.tie, x) + excess * x
            if relation.nnz:
                prior = prior + relation @ x
            return prior - rows.straighten(x)

        return conjugate_gradients(solve, multiply, downhill, tol)

    def inverse(self, rows: ActiveRows, free: NDArray[np.bool_]) -> Operator:
        return self._inverse(self.rows[rows.place], self._weight(rows))

    def _weight(self, rows: ActiveRows) -> Array:
        """Diagonal of penalty and priors (a, m)."""
        stiff = self.blocks.relation.diagonal()[rows.place]
        ties = np.outer(rows.tie, self.degree)
        weight = (rows.bend + stiff)[:, np.newaxis] + ties
        # Inverses of lighter weights lose digits.
        return np.maximum(weight, 1e-9 * self.system.own.max())

    def residuals(self, Q: Array) -> Array:
        used = np.flatnonzero(Q.any(axis=1))
        return self._fit(self.rows[used], Q[used]) - self.target

    def prior_gradient(self, Q: Array) -> Array:
        blocks, gradient = self.blocks, np.zeros_like(Q)
        if blocks.relation.nnz:
            gradient += blocks.relation @ Q
        if blocks.pull is not None:
            gradient -= blocks.pull
        return gradient + tied(blocks, blocks.tie, Q)


class TaskSamples(Samples):
    """Samples per task, task after task."""

    def _squares(self) -> Array:
        parts = [self.rows[:, part] for part in self._slices]
        return np.column_stack([np.einsum("ij,ij->i", z, z) for z in parts])

    def _fit(self, rows: Array, x: Array) -> Array:
        fitted = np.empty(rows.shape[1])
        for i, part in enumerate(self._slices):
            fitted[part] = x[:, i] @ rows[:, part]
        return fitted

    def adjoint(self, rows: Array, rest: Array) -> Array:
        sums = np.empty((len(rows), len(self.starts) - 1))
        for i, part in enumerate(self._slices):
            sums[:, i] = rows[:, part] @ rest[part]
        return sums

    def sweep(self, rest: Array, Q: Array, gradient: Array, mu: Array) -> float:
        work = np.empty((6, Q.shape[1]))
        arrays: Any = self.relation, self.starts, rest, Q, gradient, mu, work
        return samples.sample_sweep(self.system, *arrays)

    def _inverse(self, rows: Array, weight: Array) -> Operator:
        parts = [np.ascontiguousarray(rows[:, part]) for part in self._slices]
        solvers = [invert(part, weight[:, i]) for i, part in enumerate(parts)]
        return lambda r: np.column_stack(
            [solve(r[:, i]) for i, solve in enumerate(solvers)]
        )

    @cached_property
    def _slices(self) -> list[slice]:
        return [slice(a, b) for a, b in pairwise(self.starts.tolist())]


class SharedSamples(Samples):
    """The same samples for all tasks; targets are (m, n)."""

    def __init__(self, blocks: BlockQuadratic, form: SampleForm) -> None:
        super().__init__(blocks, form)
        self.degree = np.full_like(self.degree, self.degree.mean())

    def _squares(self) -> Array:
        squares = np.einsum("ij,ij->i", self.rows, self.rows)
        return np.repeat(squares[:, np.newaxis], len(self.target), axis=1)

    def _fit(self, rows: Array, x: Array) -> Array:
        return np.ascontiguousarray(x.T @ rows)

    def adjoint(self, rows: Array, rest: Array) -> Array:
        return rows @ rest.T

    def sweep(self, rest: Array, Q: Array, gradient: Array, mu: Array) -> float:
        work = np.empty((6, Q.shape[1]))
        arrays: Any = self.relation, self._neighbours, rest, Q, gradient, mu, work
        return samples.shared_sample_sweep(self.system, *arrays)

    @cached_property
    def _neighbours(self) -> Array:
        return samples.lay_out_neighbours(self.rows)

    def _inverse(self, rows: Array, weight: Array) -> Operator:
        return invert(rows, weight[:, 0])


Layout = TaskBlocks | SharedBlock | Samples


def invert(rows: Array, weight: Array) -> Operator:
    """Inverse of rows · rowsᵀ + diag(weight), by a system of the samples' size."""
    light = rows / weight[:, np.newaxis]
    small = rows.T @ light
    small.flat[:: len(small) + 1] += 1.0
    factor = cho_factor(small, lower=True, overwrite_a=True, check_finite=False)

    def solve(r: Array) -> Array:
        inner = cho_solve(factor, light.T @ r, check_finite=False)
        return (r.T / weight).T - light @ inner

    return solve
