"""Newton's equations along matrices of one rank."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from priormtl._arrays import Array
from priormtl.problem import Problem
from priormtl.solvers import tangent_kernels as kernels
from priormtl.solvers.engines import lay_out_graph

__all__ = ["Direction", "Quadratic", "find_direction", "write_out"]

MOST_INNER_STEPS = 300
FINEST, COARSEST = 0.01, 0.1  # relative errors of conjugate gradients
MOST_CLIPPED = 0.5
FLOOR = 1e-10  # relative to the largest diagonal; keeps inverses positive
VANISHING = 1e-12  # singular values, relative to the largest, that a step leaves out


class Factors(Protocol):
    """U diag(s) Vᵀ."""

    @property
    def U(self) -> Array:
        """(d, r)."""

    @property
    def s(self) -> Array:
        """(r,)."""

    @property
    def V(self) -> Array:
        """(m, r)."""


@dataclass(frozen=True, eq=False)
class Quadratic:
    """A squared fit with its prior, laid out for compiled products."""

    layout: kernels.Quadratic
    own: Array  # (m, d, d) or (1, d, d) blocks of single tasks, ties included

    @cached_property
    def modes(self) -> tuple[Array, Array]:
        """Eigenvalues (d,) and eigenvectors (d, d) of the only block."""
        values, vectors = np.linalg.eigh(self.own[0])
        return np.maximum(values, 0.0), np.ascontiguousarray(vectors)


class Direction(NamedTuple):
    """A way along matrices of one rank: Zᵀ Vᵀ + U Yᵀ."""

    Z: Array  # (r, d)
    Y: Array  # (m, r)
    promise: float  # descent per unit of the way, to first order
    force: float  # length of the slope, relative to the penalty's own

    def move(self, factors: Factors, size: float) -> Array:
        """Go so far; singular values that would turn negative are left out."""
        U, s, V = factors.U, factors.s, factors.V
        core = np.diag(s) + size * (self.Z @ U).T
        values, vectors = np.linalg.eigh(0.5 * (core + core.T))
        step = size * self.Z + s[:, np.newaxis] * U.T
        left, right, Y = step.T, V, size * self.Y
        if values[0] <= VANISHING * values[-1]:
            kept = vectors[:, values > VANISHING * max(values[-1], 0.0)]
            mixer = kept @ kept.T
            outside = step.T - U @ core
            left = U @ (mixer @ core @ mixer) + outside @ mixer
            Y = Y @ mixer
        return np.asarray(left @ right.T + U @ Y.T)


def find_direction(
    quadratic: Quadratic, factors: Factors, gradient: Array, lam: float, damping: float
) -> Direction:
    """Newton direction of quadratic + lam · nuclear norm at U diag(s) Vᵀ."""
    U, s, V = factors.U, factors.s, factors.V
    slope = np.ascontiguousarray(gradient.T)
    slope_Z, slope_Y = V.T @ slope + lam * U.T, slope @ U + lam * V
    slope_Y -= V @ (V.T @ slope_Y)
    force = float(np.hypot(np.linalg.norm(slope_Z), np.linalg.norm(slope_Y)))
    force /= lam * np.sqrt(len(s))
    normal = _normal_part(factors, slope, lam * (1.0 - min(MOST_CLIPPED, force)))
    place = kernels.Place(U, s, V, normal, lam, damping)
    tol = max(FINEST, min(COARSEST, force))
    Z, Y, _ = kernels.conjugate_gradients(
        quadratic.layout,
        place,
        _invert(quadratic, place),
        (-slope_Z, -slope_Y),
        tol,
        MOST_INNER_STEPS,
    )
    promise = -float(np.vdot(slope_Z, Z) + np.vdot(slope_Y, Y))
    return Direction(Z, Y, promise, force)


def _normal_part(factors: Factors, slope: Array, limit: float) -> Array:
    """Part of −slope (m, d) that leaves the matrices of this rank, not above limit.

    Beyond lam the rank will grow: no Newton step can help there, and the model would
    have no minimum. Far from the optimum it counts less.
    """
    U, V = factors.U, factors.V
    across = slope - (slope @ U) @ U.T
    normal = V @ (V.T @ across) - across
    short = normal @ normal.T if len(normal) < len(U) else normal.T @ normal
    length = np.sqrt(max(0.0, float(np.linalg.eigvalsh(short)[-1])))
    return normal * (limit / length) if length > limit else normal


def _invert(quadratic: Quadratic, place: kernels.Place) -> kernels.Inverses:
    """Inverse diagonal blocks of the Hessian."""
    bend = place.lam / place.s + place.damping
    by_task = _invert_positive(_inside(quadratic.own, place.U) + np.diag(bend))
    if len(quadratic.own) == 1:
        values, vectors = quadratic.modes
        stiffness = values + np.maximum(bend[:, np.newaxis], FLOOR * values[-1])
        return kernels.Inverses(by_task, vectors[np.newaxis], 1.0 / stiffness)
    d = len(place.U)
    blocks = (place.V**2).T @ quadratic.own.reshape(-1, d * d)
    blocks[:, :: d + 1] += bend[:, np.newaxis]
    by_rank = _invert_positive(blocks.reshape(-1, d, d))
    return kernels.Inverses(by_task, by_rank, np.zeros((0, d)))


def _inside(blocks: Array, U: Array) -> Array:
    """Uᵀ block U of each task (m, r, r)."""
    d, r = U.shape
    half = (blocks.reshape(-1, d) @ U).reshape(-1, d, r)
    return np.asarray(U.T @ half)


def _invert_positive(blocks: Array) -> Array:
    """Inverses of positive matrices, which nearly singular ones stay."""
    diagonal = np.einsum("ijj->ij", blocks)
    diagonal += FLOOR * diagonal.max(axis=1, keepdims=True)
    return np.linalg.inv(blocks)


def write_out(problem: Problem) -> Quadratic:
    """Lay a squared fit with its prior out; tied intercepts are minimised out."""
    prior, (d, m) = problem.prior, problem.shape
    gram, means, coupling = _centred(problem)
    if prior.theta > 0 and prior.D.nnz:
        gram = gram + prior.theta * (prior.D.T @ prior.D).toarray()
    weights = np.ones(d) if prior.tie_weights is None else prior.tie_weights
    tie = np.zeros(d) if prior.laplacian.is_zero else prior.epsilon * weights
    graph = lay_out_graph(prior.laplacian)
    layout = kernels.Quadratic(
        np.ascontiguousarray(gram), tie, graph, means, coupling
    )
    return Quadratic(layout, _own_blocks(layout, prior.laplacian.degree))


def _own_blocks(layout: kernels.Quadratic, degree: Array) -> Array:
    """Blocks of single tasks; one common block takes the mean over tasks."""
    d = len(layout.tie)
    blocks = layout.gram
    shared = len(blocks) == 1
    if layout.tie.any():
        degree = degree.mean(keepdims=True) if shared else degree
        blocks = blocks + degree[:, np.newaxis, np.newaxis] * np.diag(layout.tie)
    if len(layout.coupling):
        own = layout.coupling.diagonal()[:, np.newaxis]
        squares = np.einsum("ij,ik->ijk", own * layout.means, layout.means)
        blocks = blocks + (squares.mean(axis=0, keepdims=True) if shared else squares)
    return np.ascontiguousarray(blocks)


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
    everyone = np.ascontiguousarray(np.broadcast_to(means, (m, d)))
    return form.gram[:, 1:, 1:] - products, everyone, coupling


def _couple(problem: Problem, weight: Array, strength: float) -> Array:
    """Curvature in the task means once tied intercepts are at their best.

    W − W (W + T)⁻¹ W for weights W and ties T, written without cancellation.
    """
    graph = problem.fit.intercept_graph
    ties = strength * (np.zeros((len(weight),) * 2) if graph is None else graph.dense())
    return np.asarray(
        weight[:, np.newaxis] * np.linalg.solve(np.diag(weight) + ties, ties)
    )
