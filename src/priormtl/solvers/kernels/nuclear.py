"""Compiled loops for the nuclear norm: Newton along fixed rank, and ADMM.

Near P = U diag(s) Vᵀ of rank r, the tangent space of the matrices of that rank is
{Zᵀ Vᵀ + U Yᵀ : VᵀY = 0}. Arrays have tasks or ranks first, so that inner loops run over
contiguous memory: ``Z`` is (r, d), ``Y`` is (m, r), products and ``coef`` are (m, d).
Sums of arrays are loops, since whole-array formulas take seconds to compile.
"""

from typing import Any, NamedTuple

import numpy as np

from priormtl._arrays import Array
from priormtl.solvers.kernels import compiled
from priormtl.solvers.kernels.newton import advance, inner
from priormtl.solvers.kernels.rows import MAIN, OFF, Graph
from priormtl.solvers.splitting import RELAXATION


class Quadratic(NamedTuple):
    """Hessian of a quadratic fit with its prior."""

    gram: Array  # (m, d, d), or (1, d, d) where all tasks have the same
    tie: Array  # (d,) strength of L in each row
    graph: Graph
    means: Array  # (m, d) of the features; (0, d) where intercepts are not tied
    coupling: Array  # (m, m) of the residuals of task means; (0, 0) likewise


class BasePoint(NamedTuple):
    """A matrix of rank r, and what the penalty's curvature there needs."""

    U: Array  # (d, r)
    s: Array  # (r,)
    V: Array  # (m, r)
    normal: Array  # (m, d) part of −gradientᵀ that is normal to the tangent space
    lam: float
    damping: float


class Preconditioner(NamedTuple):
    """Inverse blocks of the Hessian for rows of Y and for rows of Z.

    Rows of Y are tasks, or eigenvectors of the task graph. Rows of Z are solved in the
    eigenvectors of the Gram matrix where all tasks have the same.
    """

    by_task: Array  # (m, r, r) or (1, r, r)
    task_modes: Array  # (m, m), or (0, 0)
    by_rank: Array  # (r, d, d), or (1, d, d) with the eigenvectors
    inverse_values: Array  # (r, d) of the eigenvectors, or (0, 0)


class Admm(NamedTuple):
    """A quadratic with the nuclear norm, at one value of rho."""

    inverse: Array  # (m, d, d) or (1, d, d) of Gram matrices + rho · I
    linear: Array  # (m, d)
    rho: float
    lam: float


@compiled
def add_band(quadratic: Quadratic, x: Array, out: Array) -> None:
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
    graph, tie = quadratic.graph.loose, quadratic.tie
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
def add_coupling(quadratic: Quadratic, x: Array, out: Array) -> None:
    """Add the curvature in the task means that tied intercepts leave."""
    m, d = x.shape
    means = quadratic.means
    along = np.empty(m)
    for i in range(m):
        total = 0.0
        for j in range(d):
            total += means[i, j] * x[i, j]
        along[i] = total
    residual = np.dot(quadratic.coupling, along)
    for i in range(m):
        for j in range(d):
            out[i, j] += residual[i] * means[i, j]


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
def multiply(quadratic: Quadratic, x: Array) -> Array:
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
    advance(out, -1.0, np.dot(V, np.dot(V.T, Y)))
    return out


@compiled
def penalty_within(base: BasePoint, within: Array) -> Array:
    """Penalty's Hessian for changes (r, r) within the singular vectors.

    The nuclear norm has curvature for rotations only. Damping adds it for all else: a
    model without would send small singular values far below zero.
    """
    r = len(base.s)
    out = np.empty((r, r))
    for a in range(r):
        for b in range(r):
            bend = base.lam / (base.s[a] + base.s[b])
            odd, even = within[a, b] - within[b, a], within[a, b] + within[b, a]
            out[a, b] = bend * (odd + base.damping * even)
    return out


@compiled
def hessian_product(
    quadratic: Quadratic, base: BasePoint, Z: Array, Y: Array
) -> tuple[Array, Array]:
    """Hessian of the whole objective, damped, times a tangent vector."""
    U, s, V, lam = base.U, base.s, base.V, base.lam
    move = np.dot(V, Z)
    advance(move, 1.0, np.dot(Y, U.T))
    product = multiply(quadratic, move)
    within = np.dot(Z, U)
    outside = Z.copy()
    advance(outside, -1.0, np.dot(within, U.T))
    new_Z = np.dot(V.T, product)
    advance(new_Z, 1.0, np.dot(penalty_within(base, within), U.T))
    new_Y = project(V, np.dot(product, U))
    # Curvature of the set of matrices of this rank: along it P changes to second order
    # by terms Y Z / s, which the normal part of the gradient sees. At the optimum that
    # part is below lam, so that the sum stays positive.
    normal_Z, normal_Y = np.dot(Y.T, base.normal), np.dot(base.normal, outside.T)
    for k in range(len(s)):
        for j in range(len(U)):
            bent = (lam * outside[k, j] - normal_Z[k, j]) / s[k]
            new_Z[k, j] += bent
    for i in range(len(V)):
        for k in range(len(s)):
            bent = (lam * Y[i, k] - normal_Y[i, k]) / s[k]
            new_Y[i, k] += bent
    return new_Z, new_Y


@compiled
def precondition(
    blocks: Preconditioner, V: Array, Z: Array, Y: Array
) -> tuple[Array, Array]:
    """Approximate solution for the right-hand sides Z and Y."""
    if len(blocks.inverse_values) > 0:
        modes = blocks.by_rank[0]
        turned_Z = np.dot(Z, modes)
        for k in range(turned_Z.shape[0]):
            for j in range(turned_Z.shape[1]):
                turned_Z[k, j] *= blocks.inverse_values[k, j]
        new_Z = np.dot(turned_Z, modes.T)
    else:
        new_Z = multiply_blocks(blocks.by_rank, Z)
    if len(blocks.task_modes) > 0:
        turned = multiply_blocks(blocks.by_task, np.dot(blocks.task_modes.T, Y))
        return new_Z, project(V, np.dot(blocks.task_modes, turned))
    return new_Z, project(V, multiply_blocks(blocks.by_task, Y))


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
def conjugate_gradients(
    quadratic: Quadratic,
    base: BasePoint,
    blocks: Preconditioner,
    rhs: tuple[Array, Array],
    tol: float,
) -> tuple[Array, Array, int]:
    """Z and Y that solve Hessian · (Z, Y) = rhs to a relative error of ``tol``."""
    rest_Z, rest_Y = rhs[0].copy(), rhs[1].copy()
    Z, Y = np.zeros_like(rest_Z), np.zeros_like(rest_Y)
    along_Z, along_Y = precondition(blocks, base.V, rest_Z, rest_Y)
    old = inner(rest_Z, along_Z) + inner(rest_Y, along_Y)
    goal, steps = tol * tol * old, 0
    while steps < 300 and old > goal:
        turned_Z, turned_Y = hessian_product(quadratic, base, along_Z, along_Y)
        curvature = inner(along_Z, turned_Z) + inner(along_Y, turned_Y)
        if not curvature > 0.0:
            break
        size = old / curvature
        advance(Z, size, along_Z)
        advance(Y, size, along_Y)
        advance(rest_Z, -size, turned_Z)
        advance(rest_Y, -size, turned_Y)
        soft_Z, soft_Y = precondition(blocks, base.V, rest_Z, rest_Y)
        new = inner(rest_Z, soft_Z) + inner(rest_Y, soft_Y)
        advance(soft_Z, new / old, along_Z)
        advance(soft_Y, new / old, along_Y)
        along_Z, along_Y = soft_Z, soft_Y
        old = new
        steps += 1
    return Z, Y, steps


@compiled
def iterate_admm(admm: Admm, coef: Array, dual: Array, n: int) -> float:
    """Iterate ``n`` times as `solvers.splitting` does, in place.

    Returns the nuclear norm of ``coef``; it is negative, and the iterations end, where
    squares of singular values do not have enough digits.
    """
    norm = 0.0
    for _ in range(n):
        norm = iterate_once(admm, coef, dual)
        if norm < 0.0:
            break
    return norm


@compiled
def iterate_once(admm: Admm, coef: Array, dual: Array) -> float:
    """One iteration of ADMM."""
    m, d = coef.shape
    rho, least = admm.rho, admm.lam / admm.rho
    target = np.empty_like(coef)
    for i in range(m):
        for j in range(d):
            target[i, j] = rho * coef[i, j] - dual[i, j] + admm.linear[i, j]
    fitted = multiply_blocks(admm.inverse, target)
    for i in range(m):
        for j in range(d):
            ahead = RELAXATION * (fitted[i, j] - coef[i, j])
            target[i, j] = coef[i, j] + ahead + dual[i, j] / rho
    # Proximal step by the eigenvectors of TᵀT whose singular values exceed lam / rho.
    squares = np.dot(target.T, target)
    if not np.isfinite(squares.sum()):
        return -1.0
    values, vectors = np.linalg.eigh(squares)
    # Squares do not tell singular values that are smaller against the largest.
    if not least > 1e-5 * np.sqrt(values[-1]):
        return -1.0
    first = len(values)
    while first > 0 and values[first - 1] > least * least:
        first -= 1
    kept = np.ascontiguousarray(vectors[:, first:])
    turned = np.dot(target, kept)
    norm = 0.0
    for k in range(turned.shape[1]):
        value = np.sqrt(values[first + k])
        norm += value - least
        share = 1.0 - least / value
        for i in range(m):
            turned[i, k] *= share
    new = np.dot(turned, kept.T)
    for i in range(m):
        for j in range(d):
            dual[i, j] = rho * (target[i, j] - new[i, j])
            coef[i, j] = new[i, j]
    return norm
