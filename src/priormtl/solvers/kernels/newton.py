"""Newton's equations on the rows that are not zero.

They are solved by conjugate gradients, preconditioned in one of two ways: by each
task's own block, or, where ties dominate, by modes of the mean task's block with tasks
tied exactly. Callers allocate all arrays (`in_place`).
"""

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from priormtl._arrays import Array, Index
from priormtl._numerics import VANISHING
from priormtl.solvers.kernels import in_place, inlined
from priormtl.solvers.kernels.rows import DEGREE, Graph, add_ties, factor_row, solve_row

# Vectors (rows, tasks) of conjugate gradients, moved in place.


@in_place
def inner(x: Array, y: Array) -> float:
    """⟨x, y⟩."""
    total = 0.0
    for r in range(x.shape[0]):
        for i in range(x.shape[1]):
            total += x[r, i] * y[r, i]
    return total


@in_place
def advance(x: Array, factor: float, y: Array) -> None:
    """Add factor · y, in place."""
    for r in range(x.shape[0]):
        for i in range(x.shape[1]):
            x[r, i] += factor * y[r, i]


# The Hessian.


class Rows(NamedTuple):
    """The rows that are not zero, and the Hessian on them.

    ``bend`` is lam/‖p‖ and ``unit`` p/‖p‖ of each row: the penalty's curvature is
    bend (I − unit unitᵀ).
    """

    gram: Array  # (k, k, m)
    place: Index  # (a,) which rows
    bend: Array  # (a,)
    unit: Array  # (a, m)
    tie: Array  # (a,) strength of L in each row
    graph: Graph


@in_place
def curve(rows: Rows, to: Index, at: Index, x: Array, out: Array) -> None:
    """Add the Hessian of the quadratic part, from rows to rows ``to``, times x (a, m).

    ``to[at]`` are the rows themselves.
    """
    graph = rows.graph
    for r in range(len(to)):
        here = out[r]
        for c in range(len(x)):
            block, there = rows.gram[to[r], rows.place[c]], x[c]
            for i in range(len(here)):
                here[i] += block[i] * there[i]
    for c in range(len(x)):
        if rows.tie[c] > 0.0:
            tie, tree, loose, here = rows.tie[c], graph.tree, graph.loose, out[at[c]]
            add_ties(graph.kind, graph.band, tree, loose, tie, x[c], here)


# Preconditioned by each task's own block.


@in_place
def subtract_products(left: Array, right: Array, n: int, out: Array) -> None:
    """Subtract Σ left_q · right_q over q < n, four at a time: fewer stores."""
    m = len(out)
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
def factor_blocks(factor: Array, floor: Array) -> None:
    """Cholesky factors in place of all tasks' blocks, mirrored; inverse diagonals.

    Blocks that hardly curve in some direction get a little curvature there.
    ``floor`` (m,) is scratch.
    """
    a, _, m = factor.shape
    # Column by column: L_rc = (A_rc − Σ_{q<c} L_rq L_cq) / L_cc, for all tasks at once,
    # which lie next to each other in memory.
    for c in range(a):
        own = factor[c, c]
        for i in range(m):
            floor[i] = VANISHING * own[i]
        for r in range(c, a):
            subtract_products(factor[r], factor[c], c, factor[r, c])
        for i in range(m):
            own[i] = 1.0 / sqrt(max(own[i], floor[i])) if floor[i] > 0.0 else 0.0
        for r in range(c + 1, a):
            here, mirror = factor[r, c], factor[c, r]
            for i in range(m):
                here[i] *= own[i]
                mirror[i] = here[i]


@inlined
def fill_blocks(rows: Rows, blocks: Array) -> None:
    """Lower half of all tasks' blocks, ties on the diagonal only."""
    a, m = rows.unit.shape
    degree = rows.graph.band[DEGREE]
    for r in range(a):
        for c in range(r + 1):
            source, here = rows.gram[rows.place[r], rows.place[c]], blocks[r, c]
            for i in range(m):
                here[i] = source[i]
        own = blocks[r, r]
        for i in range(m):
            own[i] += rows.bend[r] + rows.tie[r] * degree[i]


@in_place
def factor_tasks(rows: Rows, blocks: Array, floor: Array) -> None:
    """Cholesky factors of all tasks' blocks into ``blocks`` (a, a, m)."""
    fill_blocks(rows, blocks)
    factor_blocks(blocks, floor)


@in_place
def factor_free(
    rows: Rows, free: NDArray[np.bool_], blocks: Array, floor: Array
) -> None:
    """The same, where entries that are not free have nothing to do with others."""
    fill_blocks(rows, blocks)
    a, _, m = blocks.shape
    for r in range(a):
        for c in range(r + 1):
            for i in range(m):
                if not (free[r, i] and free[c, i]):
                    blocks[r, c, i] = 1.0 if r == c else 0.0
    factor_blocks(blocks, floor)


@inlined
def solve_tasks(factor: Array, rhs: Array, x: Array) -> None:
    """Solve all tasks' blocks by their Cholesky factors."""
    a, m = rhs.shape
    # L y = rhs downwards, then Lᵀ x = y upwards, by the mirrored half.
    for r in range(a):
        here, there, own = x[r], rhs[r], factor[r, r]
        for i in range(m):
            here[i] = there[i]
        subtract_products(factor[r], x, r, here)
        for i in range(m):
            here[i] *= own[i]
    for r in range(a - 1, -1, -1):
        here, own = x[r], factor[r, r]
        subtract_products(factor[r, r + 1 :], x[r + 1 :], a - 1 - r, here)
        for i in range(m):
            here[i] *= own[i]


# Preconditioned by modes of the mean block.


class Modes(NamedTuple):
    """Modes of the mean task's block, tasks tied exactly.

    In modes of the features each mode's system over tasks is one of a single row, or
    is diagonal in modes of the tasks.
    """

    basis: Array  # (a, a) modes of the features
    tie: float  # strength of L in every mode
    parts: Array  # (a, 3, m) factors of each mode's system
    left: Array  # (a,)
    vectors: Array | None  # (m, m) modes of the tasks
    number: Index  # (a,) 0, 1, 2, …


@in_place
def factor_modes(graph: Graph, stiffness: Array, modes: Modes, own: Array) -> None:
    """Factorise stiffness + tie · L for each mode of the features; ``own`` is zero."""
    kind, band, tree = graph.kind, graph.band, graph.tree
    for r in range(len(stiffness)):
        modes.left[r] = factor_row(
            kind, band, tree, modes.tie, own, stiffness[r], modes.parts[r]
        )


@in_place
def turn(basis: Array, x: Array, back: bool, out: Array) -> None:
    """Basis · x, or with its transpose."""
    a, m = x.shape
    for r in range(a):
        here = out[r]
        for i in range(m):
            here[i] = 0.0
        for c in range(a):
            factor, there = basis[r, c] if back else basis[c, r], x[c]
            for i in range(m):
                here[i] += factor * there[i]


@in_place
def solve_each_mode(
    graph: Graph, modes: Modes, vectors: Array | None, x: Array, scratch: Array
) -> None:
    """Solve each mode's system over tasks, in place; ``vectors`` are the modes'."""
    for r in range(len(x)):
        row, parts = x[r], modes.parts[r]
        if vectors is None:
            kind, band, tree, left = graph.kind, graph.band, graph.tree, modes.left[r]
            solve_row(kind, band, tree, modes.tie, parts, left, row, row)
        else:
            m, turned = len(row), scratch[r]
            for k in range(m):
                total = 0.0
                for i in range(m):
                    total += row[i] * vectors[i, k]
                turned[k] = total * parts[0, k]
            for i in range(m):
                total = 0.0
                for k in range(m):
                    total += vectors[i, k] * turned[k]
                row[i] = total


@in_place
def solve_modes(
    graph: Graph, modes: Modes, rhs: Array, turned: Array, out: Array
) -> None:
    """Solve in modes of the features; ``turned`` (a, m) is scratch."""
    turn(modes.basis, rhs, False, turned)
    solve_each_mode(graph, modes, modes.vectors, turned, out)
    turn(modes.basis, turned, True, out)


# Conjugate gradients.


@in_place
def solve_newton(
    rows: Rows,
    factor: Array | None,
    modes: Modes | None,
    rest: Array,
    tol: float,
    most: int,
    work: Array,
) -> None:
    """Solve Hessian · x = rest to a relative error of ``tol``, by ``factor`` or modes.

    ``work`` (5, a, m) is zero and begins with x; ``rest`` becomes the residuals. Blocks
    of tasks are never multiplied: ``solved`` is the right side to which their factors
    answer p, and follows from step to step.
    """
    x, p, solved, z, product = work[0], work[1], work[2], work[3], work[4]
    graph, degree = rows.graph, rows.graph.band[DEGREE]
    a, m = x.shape
    old, goal = 1.0, 0.0
    for step in range(most + 1):
        # Numba leaves out what is None: hence no else.
        if factor is not None:
            solve_tasks(factor, rest, z)
        if modes is not None:
            solve_modes(graph, modes, rest, product, z)
        new = inner(rest, z)
        if step == 0:
            goal = tol * tol * new
        if step == most or not new > goal:
            break
        share = new / old if step > 0 else 0.0
        for r in range(a):
            for i in range(m):
                p[r, i] = share * p[r, i] + z[r, i]
                solved[r, i] = share * solved[r, i] + rest[r, i]
        # The Hessian is B + tie (L − diag L) − bend u uᵀ, with the blocks B of tasks.
        # As z = B⁻¹ rest, p = B⁻¹ solved, so that B p = solved costs nothing.
        if factor is not None:
            for r in range(a):
                here, there, tie = p[r], product[r], rows.tie[r]
                for i in range(m):
                    there[i] = solved[r, i] - tie * degree[i] * here[i]
                if tie > 0.0:
                    tree, loose = graph.tree, graph.loose
                    add_ties(graph.kind, graph.band, tree, loose, tie, here, there)
        if modes is not None:
            for r in range(a):
                for i in range(m):
                    product[r, i] = rows.bend[r] * p[r, i]
            curve(rows, rows.place, modes.number, p, product)
        for r in range(a):
            here, there, unit, along = p[r], product[r], rows.unit[r], 0.0
            for i in range(m):
                along += unit[i] * here[i]
            along *= rows.bend[r]
            for i in range(m):
                there[i] -= along * unit[i]
        bowl = inner(p, product)
        if bowl <= 0.0:
            break
        size, old = new / bowl, new
        for r in range(a):
            for i in range(m):
                x[r, i] += size * p[r, i]
                rest[r, i] -= size * product[r, i]
