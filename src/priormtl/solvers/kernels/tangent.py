"""Compiled loops of nuclear Newton: products along matrices of one rank.

Near P = U diag(s) Vᵀ of rank r, matrices of that rank move along Z Vᵀ + U Yᵀ with
VᵀY = 0. Arrays have tasks or ranks first, so that inner loops run over contiguous
memory: ``Z`` (r, d) is stored by rows, ``Y`` is (m, r), products are (m, d).
"""

from typing import Any, NamedTuple

import numpy as np

from priormtl._arrays import Array
from priormtl.solvers.compile import compiled
from priormtl.solvers.kernels.graph import MAIN, OFF, Graph

__all__ = [
    "Inverses",
    "Place",
    "Quadratic",
    "conjugate_gradients",
    "curve",
    "invert_positive",
    "multiply",
]

MOST_STEPS = 300


class Quadratic(NamedTuple):
    """Hessian of a quadratic fit with its prior."""

    gram: Array  # (m, d, d), or (1, d, d) where all tasks have the same
    tie: Array  # (d,) strength of L in each row
    graph: Graph
    means: Array  # (m, d) of the features; (0, d) where intercepts are not tied
    coupling: Array  # (m, m) of the misfits of task means; (0, 0) likewise


class Place(NamedTuple):
    """A matrix of rank r, and what the penalty's curvature there needs."""

    U: Array  # (d, r)
    s: Array  # (r,)
    V: Array  # (m, r)
    normal: Array  # (m, d) part of −gradientᵀ that leaves the rank's matrices
    lam: float
    damping: float


class Inverses(NamedTuple):
    """Inverse blocks of the Hessian for rows of Y and for rows of Z.

    Rows of Y are tasks, or modes of the task graph; rows of Z are solved in the modes
    of the Gram matrix where all tasks have the same.
    """

    by_task: Array  # (m, r, r) or (1, r, r)
    task_modes: Array  # (m, m), or (0, 0)
    by_rank: Array  # (r, d, d), or (1, d, d) with the modes
    softness: Array  # (r, d) inverse stiffness of the modes, or (0, 0)


@compiled
def add(out: Array, factor: float, x: Array) -> None:
    """Add factor · x, in a loop: whole-array formulas take seconds to compile."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] += factor * x[i, j]


@compiled
def add_band(quadratic: Any, x: Array, out: Array) -> None:
    """Add what the graph's band contributes to tie · L x."""
    m, d = x.shape
    band, tie = quadratic.graph.band, quadratic.tie
    for i in range(m):
        for j in range(d):
            out[i, j] += tie[j] * band[MAIN, i] * x[i, j]
        if i > 0:
            for j in range(d):
                out[i, j] += tie[j] * band[OFF, i - 1] * x[i - 1, j]
                out[i - 1, j] += tie[j] * band[OFF, i - 1] * x[i, j]


@compiled
def add_ties(quadratic: Any, x: Array, out: Array) -> None:
    """Add tie · L x."""
    m, d = x.shape
    graph, tie = quadratic.graph, quadratic.tie
    add_band(quadratic, x, out)
    sums = np.zeros((graph.n_groups, d))
    for i in range(m):
        for k in range(graph.group_start[i], graph.group_start[i + 1]):
            for j in range(d):
                sums[graph.group_number[k], j] += graph.group_value[k] * x[i, j]
    for i in range(m):
        for k in range(graph.edge_start[i], graph.edge_start[i + 1]):
            other, value = x[graph.edge_task[k]], graph.edge_value[k]
            for j in range(d):
                out[i, j] += tie[j] * value * other[j]
        for k in range(graph.group_start[i], graph.group_start[i + 1]):
            total, value = sums[graph.group_number[k]], graph.group_value[k]
            for j in range(d):
                out[i, j] -= tie[j] * value * total[j]


@compiled
def add_coupling(quadratic: Any, x: Array, out: Array) -> None:
    """Add what tied intercepts leave of the task means."""
    m, d = x.shape
    means = quadratic.means
    along = np.empty(m)
    for i in range(m):
        total = 0.0
        for j in range(d):
            total += means[i, j] * x[i, j]
        along[i] = total
    misfit = np.dot(quadratic.coupling, along)
    for i in range(m):
        for j in range(d):
            out[i, j] += misfit[i] * means[i, j]


@compiled
def multiply_each(blocks: Array, x: Array) -> Array:
    """Row i of x times the symmetric block i."""
    m, d = x.shape
    out = np.empty((m, d))
    for i in range(m):
        block, row = blocks[i], x[i]
        for k in range(d):
            total = 0.0
            for j in range(d):
                total += block[k, j] * row[j]
            out[i, k] = total
    return out


@compiled
def multiply_blocks(blocks: Array, x: Array) -> Array:
    """Row i of x times the symmetric block i, or times the only one."""
    if len(blocks) == 1:
        return np.dot(x, blocks[0])
    return multiply_each(blocks, x)  # inlined here it would run half as fast


@compiled
def multiply(quadratic: Any, x: Array) -> Array:
    """Hessian times x (m, d)."""
    out = multiply_blocks(quadratic.gram, x)
    if quadratic.tie.any():
        add_ties(quadratic, x, out)
    if len(quadratic.coupling) > 0:
        add_coupling(quadratic, x, out)
    return out


@compiled
def project(V: Array, Y: Array) -> Array:
    """Y without its part along V."""
    out = Y.copy()
    add(out, -1.0, np.dot(V, np.dot(V.T, Y)))
    return out


@compiled
def turn(place: Any, within: Array) -> Array:
    """Penalty's curvature for changes (r, r) within the singular vectors.

    It bends for rotations only. Damping bends all the rest as much: a model without
    would send small singular values far below zero.
    """
    r = len(place.s)
    out = np.empty((r, r))
    for a in range(r):
        for b in range(r):
            bend = place.lam / (place.s[a] + place.s[b])
            odd, even = within[a, b] - within[b, a], within[a, b] + within[b, a]
            out[a, b] = bend * (odd + place.damping * even)
    return out


@compiled
def curve(quadratic: Any, place: Any, Z: Array, Y: Array) -> tuple[Array, Array]:
    """Hessian of the whole objective, damped, along matrices of one rank."""
    U, s, V, lam = place.U, place.s, place.V, place.lam
    move = np.dot(V, Z)
    add(move, 1.0, np.dot(Y, U.T))
    product = multiply(quadratic, move)
    within = np.dot(Z, U)
    outside = Z.copy()
    add(outside, -1.0, np.dot(within, U.T))
    new_Z = np.dot(V.T, product)
    add(new_Z, 1.0, np.dot(turn(place, within), U.T))
    new_Y = project(V, np.dot(product, U))
    pull_Z, pull_Y = np.dot(Y.T, place.normal), np.dot(place.normal, outside.T)
    for k in range(len(s)):
        for j in range(len(U)):
            bent = (lam * outside[k, j] - pull_Z[k, j]) / s[k]
            new_Z[k, j] += bent
    for i in range(len(V)):
        for k in range(len(s)):
            bent = (lam * Y[i, k] - pull_Y[i, k]) / s[k]
            new_Y[i, k] += bent
    return new_Z, new_Y


@compiled
def precondition(inverses: Any, V: Array, Z: Array, Y: Array) -> tuple[Array, Array]:
    """Approximate solution for the right-hand sides Z and Y."""
    if len(inverses.softness) > 0:
        modes = inverses.by_rank[0]
        turned_Z = np.dot(Z, modes)
        for k in range(turned_Z.shape[0]):
            for j in range(turned_Z.shape[1]):
                turned_Z[k, j] *= inverses.softness[k, j]
        new_Z = np.dot(turned_Z, modes.T)
    else:
        new_Z = multiply_blocks(inverses.by_rank, Z)
    if len(inverses.task_modes) > 0:
        turned = multiply_blocks(inverses.by_task, np.dot(inverses.task_modes.T, Y))
        return new_Z, project(V, np.dot(inverses.task_modes, turned))
    return new_Z, project(V, multiply_blocks(inverses.by_task, Y))


@compiled
def invert_positive(blocks: Array) -> Array:
    """Inverses of positive matrices, by sweeps over their pivots."""
    out = blocks.copy()
    d = blocks.shape[1]
    for i in range(len(blocks)):
        block = out[i]
        for k in range(d):
            pivot = 1.0 / block[k, k]
            row = block[k]
            for a in range(d):
                if a != k:
                    here, factor = block[a], block[a, k] * pivot
                    for j in range(d):
                        here[j] -= factor * row[j]
                    here[k] = -factor
            for j in range(d):
                row[j] *= pivot
            row[k] = pivot
    return out


@compiled
def inner(a: Array, b: Array) -> float:
    """⟨a, b⟩."""
    total = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            total += a[i, j] * b[i, j]
    return total


@compiled
def conjugate_gradients(
    quadratic: Any, place: Any, inverses: Any, rhs: Any, tol: float
) -> tuple[Array, Array, int]:
    """Z and Y that solve Hessian · (Z, Y) = rhs to a relative error of ``tol``."""
    rest_Z, rest_Y = rhs[0].copy(), rhs[1].copy()
    Z, Y = np.zeros_like(rest_Z), np.zeros_like(rest_Y)
    along_Z, along_Y = precondition(inverses, place.V, rest_Z, rest_Y)
    old = inner(rest_Z, along_Z) + inner(rest_Y, along_Y)
    goal, steps = tol * tol * old, 0
    while steps < MOST_STEPS and old > goal:
        turned_Z, turned_Y = curve(quadratic, place, along_Z, along_Y)
        bowl = inner(along_Z, turned_Z) + inner(along_Y, turned_Y)
        if not bowl > 0.0:
            break
        size = old / bowl
        add(Z, size, along_Z)
        add(Y, size, along_Y)
        add(rest_Z, -size, turned_Z)
        add(rest_Y, -size, turned_Y)
        soft_Z, soft_Y = precondition(inverses, place.V, rest_Z, rest_Y)
        new = inner(rest_Z, soft_Z) + inner(rest_Y, soft_Y)
        add(soft_Z, new / old, along_Z)
        add(soft_Y, new / old, along_Y)
        along_Z, along_Y = soft_Z, soft_Y
        old = new
        steps += 1
    return Z, Y, steps
