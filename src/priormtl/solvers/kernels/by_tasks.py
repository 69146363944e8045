"""Newton systems by conjugate gradients, preconditioned by each task's own block."""

from math import sqrt
from typing import Any

import numpy as np

from priormtl._arrays import Array
from priormtl.solvers.compile import compiled, inlined
from priormtl.solvers.kernels.graph import add_ties
from priormtl.solvers.kernels.vectors import advance, blend, inner, step_along

__all__ = ["factor_tasks", "solve_by_tasks", "solve_tasks"]

SMALLEST_PIVOT = 1e-12  # relative to the diagonal


@inlined
def fill_blocks(rows: Any) -> Array:
    """Lower half of all tasks' blocks, ties on the diagonal only."""
    a, m = rows.unit.shape
    blocks = np.empty((a, a, m))
    for r in range(a):
        for c in range(r + 1):
            source, here = rows.gram[rows.place[r], rows.place[c]], blocks[r, c]
            for i in range(m):
                here[i] = source[i]
        own = blocks[r, r]
        for i in range(m):
            own[i] += rows.bend[r] + rows.tie[r] * rows.graph.degree[i]
    return blocks


@compiled
def subtract_products(left: Array, right: Array, out: Array) -> None:
    """Subtract Σ_q left_q · right_q from ``out``, four at a time: fewer stores."""
    n, m = left.shape
    whole = n - n % 4
    for q in range(0, whole, 4):
        a, b, c, d = left[q], left[q + 1], left[q + 2], left[q + 3]
        e, f, g, h = right[q], right[q + 1], right[q + 2], right[q + 3]
        for i in range(m):
            out[i] -= a[i] * e[i] + b[i] * f[i] + c[i] * g[i] + d[i] * h[i]
    for q in range(whole, n):
        a, e = left[q], right[q]
        for i in range(m):
            out[i] -= a[i] * e[i]


@inlined
def factor_tasks(rows: Any) -> Array:
    """Cholesky factors of all tasks' blocks at once, mirrored; inverse diagonals.

    Blocks that hardly curve in some direction get a little curvature there.
    """
    factor = fill_blocks(rows)
    a, _, m = factor.shape
    floor = np.empty(m)
    for c in range(a):
        own = factor[c, c]
        for i in range(m):
            floor[i] = SMALLEST_PIVOT * own[i]
        for r in range(c, a):
            subtract_products(factor[r, :c], factor[c, :c], factor[r, c])
        for i in range(m):
            own[i] = 1.0 / sqrt(max(own[i], floor[i])) if floor[i] > 0.0 else 0.0
        for r in range(c + 1, a):
            here, mirror = factor[r, c], factor[c, r]
            for i in range(m):
                here[i] *= own[i]
                mirror[i] = here[i]
    return factor


@compiled
def solve_tasks(factor: Array, rhs: Array) -> Array:
    """Solve all tasks' blocks by their Cholesky factors."""
    a, m = rhs.shape
    x = rhs.copy()
    for r in range(a):
        here, own = x[r], factor[r, r]
        subtract_products(factor[r, :r], x[:r], here)
        for i in range(m):
            here[i] *= own[i]
    for r in range(a - 1, -1, -1):
        here, own = x[r], factor[r, r]
        subtract_products(factor[r, r + 1 :], x[r + 1 :], here)
        for i in range(m):
            here[i] *= own[i]
    return x


@inlined
def add_unfactored(rows: Any, x: Array, out: Array) -> None:
    """Add what ``fill_blocks`` leaves out of the Hessian, times x."""
    for r in range(x.shape[0]):
        here, there, unit, tie = x[r], out[r], rows.unit[r], rows.tie[r]
        along = 0.0
        for i in range(len(here)):
            along += unit[i] * here[i]
        along *= rows.bend[r]
        for i in range(len(here)):
            there[i] -= along * unit[i]
        if tie > 0.0:
            add_ties(rows.graph, tie, here, there)
            for i in range(len(here)):
                there[i] -= tie * rows.graph.degree[i] * here[i]


@compiled
def solve_by_tasks(rows: Any, rhs: Array, tol: float, most: int) -> Array:
    """Solve Hessian · x = rhs to a relative error of ``tol``.

    Blocks are never multiplied: ``solved`` is the right side to which their factors
    answer p, and follows from step to step.
    """
    factor = factor_tasks(rows)
    x, rest, solved = np.zeros(rhs.shape), rhs.copy(), rhs.copy()
    p = solve_tasks(factor, rest)
    old, steps = inner(rest, p), 0
    goal = tol * tol * old
    while steps < most and old > goal:
        product = solved.copy()
        add_unfactored(rows, p, product)
        if not step_along(x, rest, p, product, old):
            break
        z = solve_tasks(factor, rest)
        new = inner(rest, z)
        advance(z, new / old, p)
        blend(solved, new / old, rest)
        p, old = z, new
        steps += 1
    return x
