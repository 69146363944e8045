"""Newton steps on the rows that are not zero.

Newton's equations are solved by conjugate gradients, preconditioned in one of two ways:
by each task's own block, or, where ties dominate, by modes of the mean task's block
with tasks tied exactly. The step is halved until it lowers the objective.
"""

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.solvers.kernels import compiled, inlined
from priormtl.solvers.kernels.rows import Graph, add_ties, factor_row, solve_row

MOST_HALVINGS = 30
ROUNDING = 1e-15
TINY = 1e-300
SMALLEST_PIVOT = 1e-12  # relative to the diagonal


# Vectors (rows, tasks) of conjugate gradients, moved in place.


@compiled
def inner(x: Array, y: Array) -> float:
    """⟨x, y⟩."""
    total = 0.0
    for r in range(x.shape[0]):
        for i in range(x.shape[1]):
            total += x[r, i] * y[r, i]
    return total


@compiled
def advance(x: Array, factor: float, y: Array) -> None:
    """Add factor · y, in place."""
    for r in range(x.shape[0]):
        for i in range(x.shape[1]):
            x[r, i] += factor * y[r, i]


@inlined
def blend(x: Array, factor: float, y: Array) -> None:
    """Factor · x + y, in place of x."""
    for r in range(x.shape[0]):
        for i in range(x.shape[1]):
            x[r, i] = factor * x[r, i] + y[r, i]


@inlined
def step_along(x: Array, rest: Array, p: Array, product: Array, old: float) -> bool:
    """Take the step of conjugate gradients along p; False where nothing curves.

    ``product`` is the matrix times p, and ``old`` what the last step left.
    """
    bowl = inner(p, product)
    if bowl <= 0.0:
        return False
    size = old / bowl
    for r in range(x.shape[0]):
        for i in range(x.shape[1]):
            x[r, i] += size * p[r, i]
            rest[r, i] -= size * product[r, i]
    return True


# The step.


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


@compiled
def curve(rows: Any, x: Array) -> Array:
    """Hessian of the quadratic part, on the rows that are not zero, times x (a, m)."""
    a, m = x.shape
    out = np.zeros((a, m))
    for r in range(a):
        if rows.tie[r] > 0.0:
            add_ties(rows.graph, rows.tie[r], x[r], out[r])
        for c in range(a):
            block = rows.gram[rows.place[r], rows.place[c]]
            for i in range(m):
                out[r, i] += block[i] * x[c, i]
    return out


@inlined
def penalty_change(lam: Array, before: Array, step: Array, size: float) -> float:
    """Σ lam (‖before + size · step‖ − ‖before‖) over rows."""
    total = 0.0
    for r in range(len(lam)):
        old, new = 0.0, 0.0
        for i in range(before.shape[1]):
            moved = before[r, i] + size * step[r, i]
            old += before[r, i] * before[r, i]
            new += moved * moved
        total += lam[r] * (sqrt(new) - sqrt(old))
    return total


@inlined
def search(lam: Array, P: Array, step: Array, along: float, bowl: float) -> float:
    """Largest halving of a step that lowers the objective; zero if none does.

    ``along`` and ``bowl`` are slope and curvature of the quadratic part.
    """
    size = 1.0
    for _ in range(MOST_HALVINGS):
        change = size * along + 0.5 * size**2 * bowl
        noise = ROUNDING * (abs(size * along) + size**2 * bowl)
        if change + penalty_change(lam, P, step, size) < -noise:
            return size
        size *= 0.5
    return 0.0


@compiled
def find_rows(lam: Array, Q: Array) -> tuple[Index, Array, Array]:
    """Rows that are not zero or not penalised, their bend, and their unit vectors."""
    k, m = Q.shape
    size, count = np.zeros(k), 0
    for j in range(k):
        for i in range(m):
            size[j] += Q[j, i] * Q[j, i]
        size[j] = sqrt(size[j])
        count += size[j] > 0.0 or lam[j] == 0.0
    place, bend, unit = np.empty(count, np.intp), np.empty(count), np.empty((count, m))
    a = 0
    for j in range(k):
        if size[j] > 0.0 or lam[j] == 0.0:
            length = size[j] if size[j] > 0.0 else 1.0
            place[a], bend[a] = j, lam[j] / length
            for i in range(m):
                unit[a, i] = Q[j, i] / length
            a += 1
    return place, bend, unit


@compiled
def descent_direction(
    lam: Array, place: Index, unit: Array, gradient: Array
) -> tuple[Array, float]:
    """Negative gradient of the whole objective on rows, and its size against lam."""
    downhill, force, unit_force = np.empty(unit.shape), 0.0, TINY
    for r in range(len(place)):
        weight = lam[place[r]]
        unit_force += weight * weight
        for i in range(unit.shape[1]):
            value = -(gradient[place[r], i] + weight * unit[r, i])
            downhill[r, i] = value
            force += value * value
    return downhill, sqrt(force / unit_force)


@compiled
def move_rows(
    lam: Array, place: Index, Q: Array, gradient: Array, step: Array, product: Array
) -> None:
    """Take as much of a step as lowers the objective; ``product``: Hessian · step."""
    a = len(place)
    P, weight, along = np.empty(step.shape), np.empty(a), 0.0
    for r in range(a):
        weight[r] = lam[place[r]]
        for i in range(step.shape[1]):
            P[r, i] = Q[place[r], i]
            along += gradient[place[r], i] * step[r, i]
    size = search(weight, P, step, along, inner(step, product))
    if size > 0.0:
        for r in range(a):
            for i in range(step.shape[1]):
                Q[place[r], i] += size * step[r, i]


# Preconditioned by each task's own block.


@compiled
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


@compiled
def factor_blocks(factor: Array) -> Array:
    """Factorise blocks in place.

    Blocks that hardly curve in some direction get a little curvature there.
    """
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


@inlined
def factor_tasks(rows: Any) -> Array:
    """Cholesky factors of all tasks' blocks at once, mirrored; inverse diagonals."""
    return factor_blocks(fill_blocks(rows))


@compiled
def factor_free(rows: Any, free: Any) -> Array:
    """The same, where entries that are not free have nothing to do with others."""
    blocks = fill_blocks(rows)
    a, _, m = blocks.shape
    for r in range(a):
        for c in range(r + 1):
            for i in range(m):
                if not (free[r, i] and free[c, i]):
                    blocks[r, c, i] = 1.0 if r == c else 0.0
    return factor_blocks(blocks)


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
    modes: Array  # (m, m) modes of the tasks, or empty


@compiled
def factor_modes(
    graph: Any, tie: float, stiffness: Array, parts: Array, left: Array
) -> None:
    """Factorise stiffness + tie · L for each mode of the features."""
    kind, band, own = graph.kind, graph.band, np.zeros(parts.shape[2])
    for r in range(len(stiffness)):
        left[r] = factor_row(kind, band, tie, own, stiffness[r], parts[r])


@compiled
def turn(basis: Array, x: Array, back: bool) -> Array:
    """Basis · x, or with its transpose."""
    a, m = x.shape
    out = np.zeros((a, m))
    for r in range(a):
        here = out[r]
        for c in range(a):
            factor, there = basis[r, c] if back else basis[c, r], x[c]
            for i in range(m):
                here[i] += factor * there[i]
    return out


@compiled
def solve_dense_modes(modes: Array, parts: Array, x: Array) -> None:
    """Multiply by 1/stiffness in modes of the tasks, in place."""
    m = len(modes)
    turned = np.empty(m)
    for r in range(len(x)):
        row = x[r]
        for k in range(m):
            total = 0.0
            for i in range(m):
                total += row[i] * modes[i, k]
            turned[k] = total * parts[r, 0, k]
        for i in range(m):
            total = 0.0
            for k in range(m):
                total += modes[i, k] * turned[k]
            row[i] = total


@compiled
def solve_modes(graph: Any, modes: Any, rhs: Array) -> Array:
    """Solve in modes of the features, tasks tied by a row's system or in modes too."""
    turned = turn(modes.basis, rhs, False)
    if len(modes.modes) > 0:
        solve_dense_modes(modes.modes, modes.parts, turned)
    else:
        right = np.empty(rhs.shape[1])
        for r in range(len(turned)):
            for i in range(len(right)):
                right[i] = turned[r, i]
            solve_row(
                graph.kind,
                graph.band,
                modes.tie,
                modes.parts[r],
                modes.left[r],
                right,
                turned[r],
            )
    return turn(modes.basis, turned, True)


@compiled
def add_bend(rows: Any, x: Array, out: Array) -> None:
    """Add the penalty's curvature times x."""
    for r in range(x.shape[0]):
        along = 0.0
        for i in range(x.shape[1]):
            along += rows.unit[r, i] * x[r, i]
        for i in range(x.shape[1]):
            out[r, i] += rows.bend[r] * (x[r, i] - along * rows.unit[r, i])


@compiled
def solve_by_modes(rows: Any, modes: Any, rhs: Array, tol: float, most: int) -> Array:
    """Solve Hessian · x = rhs to a relative error of ``tol``."""
    x, rest = np.zeros(rhs.shape), rhs.copy()
    p = solve_modes(rows.graph, modes, rest)
    old, steps = inner(rest, p), 0
    goal = tol * tol * old
    while steps < most and old > goal:
        product = curve(rows, p)
        add_bend(rows, p, product)
        if not step_along(x, rest, p, product, old):
            break
        z = solve_modes(rows.graph, modes, rest)
        new = inner(rest, z)
        advance(z, new / old, p)
        p, old = z, new
        steps += 1
    return x
