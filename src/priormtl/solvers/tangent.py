"""Newton's equations along matrices of one rank, for quadratics with nuclear norm."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from priormtl._arrays import Array
from priormtl._lazy import cached_property
from priormtl.graphs import Laplacian
from priormtl.penalties import Factors
from priormtl.problem import Problem
from priormtl.solvers.engines.base import graph_of
from priormtl.solvers.kernels import tangent as kernels

__all__ = ["Direction", "Quadratic", "find_direction", "write_out"]

FINEST, COARSEST = 0.01, 0.1  # relative errors of conjugate gradients
MOST_CLIPPED = 0.5  # of the normal part, far from the optimum
DAMPING = 0.1  # of the penalty's curvature, per unit of force
SMALL = 64  # features up to which blocks of every rank are inverted
STRONG_TIES = 1.0  # ties against the data's curvature, beyond which modes solve
FLOOR = 1e-10  # relative to the diagonal; keeps inverses positive
VANISHING = 1e-12  # singular values, relative to the largest, that a step leaves out


@dataclass(frozen=True, eq=False)
class Quadratic:
    """A squared fit with its prior, laid out for compiled products."""

    layout: kernels.Quadratic
    laplacian: Laplacian

    @property
    def has_ties(self) -> bool:
        """Whether tasks are tied."""
        return bool(self.layout.tie.any())

    @cached_property
    def degree(self) -> Array:
        """Diagonal of L (m,)."""
        return self.laplacian.degree

    @cached_property
    def feature_modes(self) -> tuple[Array, Array] | None:
        """Eigenvalues (d,) and vectors (d, d) of the mean task, for one or many blocks.

        They stand for inverses of every rank, which are better where d is small.
        """
        layout = self.layout
        if len(layout.gram) > 1 and len(layout.tie) <= SMALL:
            return None
        mean = layout.gram.mean(axis=0)
        if len(layout.coupling):
            weighted = layout.coupling.diagonal()[:, np.newaxis] * layout.means
            mean = mean + weighted.T @ layout.means / len(weighted)
        values, vectors = np.linalg.eigh(mean)
        return np.maximum(values, 0.0), np.ascontiguousarray(vectors)

    @cached_property
    def task_modes(self) -> tuple[Array, Array] | None:
        """Eigenvalues (m,) and vectors (m, m) of L, where ties outweigh the data."""
        gram = self.layout.gram
        ties = self.layout.tie.mean() * self.degree.mean()
        weak = ties <= STRONG_TIES * np.einsum("ijj->ij", gram).mean()
        if not self.has_ties or (weak and len(gram) > 1):
            return None
        modes = self.laplacian.modes
        # A copy: compiled code would take read-only arrays for another type.
        return None if modes is None else (modes[0], modes[1].copy())

    @cached_property
    def steepest(self) -> float:
        """A curvature that is nowhere exceeded."""
        layout = self.layout
        squares = np.einsum("ijk,ijk->i", layout.gram, layout.gram)
        ties = 2.0 * float(layout.tie.max(initial=0.0) * self.degree.max(initial=0.0))
        lengths = np.einsum("ij,ij->i", layout.means, layout.means)
        means = float(np.trace(layout.coupling) * lengths.max(initial=0.0))
        return float(np.sqrt(squares.max())) + ties + means

    def multiply(self, V: Array) -> Array:
        """Hessian times V (d, m)."""
        return np.asarray(kernels.multiply(self.layout, np.ascontiguousarray(V.T)).T)


class Direction(NamedTuple):
    """A way along matrices of one rank: Zᵀ Vᵀ + U Yᵀ."""

    Z: Array  # (r, d)
    Y: Array  # (m, r), orthogonal to V
    promise: float  # descent per unit of the way, to first order
    force: float  # length of the slope, relative to the penalty's own

    def move(self, factors: Factors, size: float) -> Array:
        """Go so far; singular values that would turn negative are left out."""
        U, s, V = factors
        core = np.diag(s) + size * (U.T @ self.Z.T)
        left, Y = U * s + size * self.Z.T, size * self.Y
        values, vectors = np.linalg.eigh(0.5 * (core + core.T))
        if values[0] <= VANISHING * values[-1]:
            kept = vectors[:, values > VANISHING * max(values[-1], 0.0)]
            mixer = kept @ kept.T
            left = U @ (mixer @ core @ mixer) + (left - U @ core) @ mixer
            Y = Y @ mixer
        return np.asarray(left @ V.T + U @ Y.T)


def find_direction(
    quadratic: Quadratic, factors: Factors, gradient: Array, lam: float
) -> Direction:
    """Newton direction of quadratic + lam · nuclear norm at U diag(s) Vᵀ."""
    U, s, V = factors
    slope = np.ascontiguousarray(gradient.T)
    slope_Z, slope_Y = V.T @ slope + lam * U.T, slope @ U + lam * V
    slope_Y -= V @ (V.T @ slope_Y)
    length = float(np.hypot(np.linalg.norm(slope_Z), np.linalg.norm(slope_Y)))
    force = length / (lam * len(s) ** 0.5)
    normal = _normal_part(factors, slope, lam * (1.0 - min(MOST_CLIPPED, force)))
    place = kernels.Place(U, s, V, normal, lam, min(1.0, DAMPING * force))
    inverses = _invert(quadratic, place)
    tol = max(FINEST, min(COARSEST, force))
    downhill = (-slope_Z, -slope_Y)
    Z, Y, _ = kernels.conjugate_gradients(
        quadratic.layout, place, inverses, downhill, tol
    )
    promise = -float(np.vdot(slope_Z, Z) + np.vdot(slope_Y, Y))
    return Direction(Z, Y, promise, force)


def _normal_part(factors: Factors, slope: Array, limit: float) -> Array:
    """Part of −slope (m, d) that leaves the matrices of this rank, within a limit.

    Beyond lam the rank is going to grow: a model that kept it would have no minimum.
    """
    U, V = factors.U, factors.V
    across = slope - (slope @ U) @ U.T
    normal = V @ (V.T @ across) - across
    short = normal @ normal.T if len(normal) < len(U) else normal.T @ normal
    length = max(0.0, float(np.linalg.eigvalsh(short)[-1])) ** 0.5
    return np.asarray(normal * (limit / length) if length > limit else normal)


def _invert(quadratic: Quadratic, place: kernels.Place) -> kernels.Inverses:
    """Inverse diagonal blocks of the Hessian."""
    bend = place.lam / place.s
    modes = quadratic.task_modes
    no_modes = np.zeros((0, 0))
    by_task = _invert_positive(_task_blocks(quadratic, place.U) + np.diag(bend))
    task_modes = no_modes if modes is None else modes[1]
    if quadratic.feature_modes is None:
        blocks = _rank_blocks(quadratic, place.V)
        np.einsum("ijj->ij", blocks)[...] += bend[:, np.newaxis]
        by_rank = _invert_positive(blocks)
        return kernels.Inverses(by_task, task_modes, by_rank, no_modes)
    values, vectors = quadratic.feature_modes
    ties = _tie_strengths(quadratic, place.V) * quadratic.layout.tie.mean()
    stiffness = np.maximum(values + (bend + ties)[:, np.newaxis], FLOOR * values[-1])
    return kernels.Inverses(by_task, task_modes, vectors[np.newaxis], 1.0 / stiffness)


def _tie_strengths(quadratic: Quadratic, V: Array) -> Array:
    """vᵀLv of each column (r,)."""
    if not quadratic.has_ties:
        return np.zeros(V.shape[1])
    return np.asarray(np.einsum("ir,ri->r", V, quadratic.laplacian.times(V.T)))


def _rank_blocks(quadratic: Quadratic, V: Array) -> Array:
    """Hessian of each row of Z (r, d, d)."""
    layout, r = quadratic.layout, V.shape[1]
    d = len(layout.tie)
    blocks = ((V**2).T @ layout.gram.reshape(-1, d * d)).reshape(r, d, d)
    strengths = _tie_strengths(quadratic, V)[:, np.newaxis]
    np.einsum("ijj->ij", blocks)[...] += strengths * layout.tie
    if len(layout.coupling):
        spread = V.T[:, :, np.newaxis] * layout.means
        blocks += np.matmul(spread.transpose(0, 2, 1), layout.coupling @ spread)
    return blocks


def _task_blocks(quadratic: Quadratic, U: Array) -> Array:
    """Hessian of each row of Y (m, r, r), of each mode of tasks, or common to all."""
    layout = quadratic.layout
    blocks = _inside(layout.gram, U)
    if len(layout.coupling):
        along = layout.means @ U
        weighted = layout.coupling.diagonal()[:, np.newaxis] * along
        blocks = blocks + np.einsum("ij,ik->ijk", weighted, along)
    if not quadratic.has_ties:
        return blocks
    tied = U.T @ (layout.tie[:, np.newaxis] * U)
    if quadratic.task_modes is None:
        return np.asarray(blocks + quadratic.degree[:, np.newaxis, np.newaxis] * tied)
    strengths = quadratic.task_modes[0][:, np.newaxis, np.newaxis]
    return np.asarray(blocks.mean(axis=0) + strengths * tied)


def _inside(blocks: Array, U: Array) -> Array:
    """Uᵀ block U of each task (m, r, r)."""
    d, r = U.shape
    half = (blocks.reshape(-1, d) @ U).reshape(-1, d, r)
    return np.asarray(U.T @ half)


def _invert_positive(blocks: Array) -> Array:
    """Inverses of positive matrices, where nearly singular ones stay positive."""
    np.einsum("ijj->ij", blocks)[...] *= 1.0 + FLOOR
    if blocks.shape[1] > SMALL:
        return np.asarray(np.linalg.inv(blocks), dtype=np.float64)
    return np.asarray(kernels.invert_positive(blocks))


def write_out(problem: Problem) -> Quadratic:
    """Lay a squared fit with its prior out; tied intercepts are minimised out."""
    prior = problem.prior
    d, _ = problem.shape
    gram, means, coupling = _centred(problem)
    if prior.theta > 0 and prior.D.nnz:
        gram = gram + prior.relation.toarray()
    weights = np.ones(d) if prior.tie_weights is None else prior.tie_weights
    tie = np.zeros(d) if prior.laplacian.is_zero else prior.epsilon * weights
    graph = graph_of(prior.laplacian)
    gram = np.require(gram, requirements=["C", "W"])
    layout = kernels.Quadratic(gram, tie, graph, means, coupling)
    return Quadratic(layout, prior.laplacian)


def _centred(problem: Problem) -> tuple[Array, Array, Array]:
    """Gram matrices about task means, these means and how their misfits are tied."""
    form = problem.fit.normal_form()
    d, m = problem.shape
    if len(form.intercept_ties) == 0:
        return form.gram, np.zeros((0, d)), np.zeros((0, 0))
    weight = form.gram[:, 0, 0]
    means = form.gram[:, 0, 1:] / weight[:, np.newaxis]
    products = np.einsum("ij,ik->ijk", form.gram[:, 0, 1:], means)
    coupling = _couple(problem, np.broadcast_to(weight, m), form.intercept_ties[0])
    all_means = np.ascontiguousarray(np.broadcast_to(means, (m, d)))
    return form.gram[:, 1:, 1:] - products, all_means, coupling


def _couple(problem: Problem, weight: Array, strength: float) -> Array:
    """Curvature in the task means, tied intercepts at their best.

    W − W (W + T)⁻¹ W for weights W and ties T, written without cancellation.
    """
    graph = problem.fit.intercept_graph
    m = len(weight)
    ties = strength * (np.zeros((m, m)) if graph is None else graph.dense())
    solved = np.linalg.solve(np.diag(weight) + ties, ties)
    return np.asarray(weight[:, np.newaxis] * solved)
