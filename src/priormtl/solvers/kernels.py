"""Compiled inner loops on plain arrays, nothing else.

Letters: k rows (features), m tasks; ``gram`` (k, k, m) with tasks last, so that every
inner loop runs over contiguous memory. ``graph`` holds the task graph: L = E − U Uᵀ.
"""

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.solvers.compile import compiled

__all__ = [
    "Graph",
    "Preconditioner",
    "Rows",
    "System",
    "conjugate_gradients",
    "curve",
    "factor_tasks",
    "full_gradient",
    "shared_sweep",
    "sweep",
]

MOST_SECULAR_STEPS = 60
SMALLEST_PIVOT = 1e-14  # relative to the diagonal


class Graph(NamedTuple):
    """L = E − U Uᵀ, both sparse by rows."""

    edge_start: Index  # (m + 1,)
    edge_task: Index
    edge_value: Array
    group_start: Index  # (m + 1,)
    group_number: Index
    group_value: Array
    n_groups: int


class System(NamedTuple):
    """A block quadratic with row penalties, laid out for the loops."""

    gram: Array  # (k, k, m)
    linear: Array  # (k, m)
    diagonal: Array  # (k, m) bound on each row's Hessian, over tasks or modes
    modes: Array  # (m, m) of the task graph, in which ``diagonal`` is meant; or empty
    lam: Array  # (k,)
    tie: Array  # (k,)
    graph: Graph


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


class Preconditioner(NamedTuple):
    """Either factors of each task's block, or modes common to all tasks."""

    factor: Array  # (a, a, m), or empty
    basis: Array  # (a, a) modes of the features
    modes: Array  # (m, m) modes of the tasks
    stiffness: Array  # (a, m) eigenvalue of each pair of modes


@compiled
def tie_product(x: Array, graph: Any, out: Array) -> None:
    """L x."""
    sums = np.zeros(graph.n_groups)
    for i in range(len(x)):
        for k in range(graph.group_start[i], graph.group_start[i + 1]):
            sums[graph.group_number[k]] += graph.group_value[k] * x[i]
    for i in range(len(x)):
        total = 0.0
        for k in range(graph.edge_start[i], graph.edge_start[i + 1]):
            total += graph.edge_value[k] * x[graph.edge_task[k]]
        for k in range(graph.group_start[i], graph.group_start[i + 1]):
            total -= graph.group_value[k] * sums[graph.group_number[k]]
        out[i] = total


@compiled
def shrink_row(
    target: Array, diagonal: Array, lam: float, guess: float, out: Array
) -> float:
    """Minimise ½ Σ diagonal x² − target x + lam ‖x‖; returns lam/‖x‖, −1 if x = 0.

    With mu = lam/‖x‖ the solution is target/(diagonal + mu); Newton on
    1/‖x‖ − mu/lam finds mu, inside a bracket that always holds it.
    """
    length, steepest = 0.0, 0.0
    for i in range(len(target)):
        length += target[i] * target[i]
        steepest = max(steepest, diagonal[i])
    length = sqrt(length)
    if length <= lam:
        out[:] = 0.0
        return -1.0
    low, high = 0.0, lam * steepest / (length - lam)
    mu = guess if 0.0 < guess < high else high
    for _ in range(MOST_SECULAR_STEPS):
        square, slope = 0.0, 0.0
        for i in range(len(target)):
            inverse = 1.0 / (diagonal[i] + mu) if diagonal[i] + mu > 0 else 0.0
            part = target[i] * inverse
            square += part * part
            slope += part * part * inverse
        norm = sqrt(square)
        if mu * norm > lam:
            high = mu
        else:
            low = mu
        if lam == 0.0 or abs(mu * norm - lam) <= 1e-14 * lam:
            break
        newer = mu - (1.0 / norm - mu / lam) / (slope / (square * norm) - 1.0 / lam)
        mu = newer if low < newer < high else 0.5 * (low + high)
    for i in range(len(target)):
        out[i] = target[i] / (diagonal[i] + mu) if diagonal[i] + mu > 0 else 0.0
    return mu


@compiled
def add_ties(system: Any, j: int, move: Array, gradient: Array) -> None:
    """Change of the gradient by ties when row ``j`` moves."""
    if system.tie[j] > 0.0:
        tied = np.empty(len(move))
        tie_product(move, system.graph, tied)
        for i in range(len(move)):
            gradient[j, i] += system.tie[j] * tied[i]


@compiled
def full_gradient(system: Any, Q: Array) -> Array:
    """Gradient of the quadratic part at Q (k, m)."""
    out = -system.linear
    for j in range(len(Q)):
        if Q[j].any():
            for r in range(len(Q)):
                for i in range(Q.shape[1]):
                    out[r, i] += system.gram[j, r, i] * Q[j, i]
            add_ties(system, j, Q[j], out)
    return out


@compiled
def update_row(
    system: Any, j: int, Q: Array, gradient: Array, mu: Array
) -> tuple[Array, bool]:
    """Minimise a bound over row ``j``, exact but for its ties; how the row moved.

    The bound is diagonal: ties count twice their diagonal; or, where there are modes
    of the task graph, ties are exact there and the data counts its largest diagonal.
    """
    diagonal = system.diagonal[j]
    if len(system.modes) > 0:
        row, slope = np.dot(Q[j], system.modes), np.dot(gradient[j], system.modes)
    else:
        row, slope = Q[j].copy(), gradient[j]
    new = np.empty(len(row))
    mu[j] = shrink_row(diagonal * row - slope, diagonal, system.lam[j], mu[j], new)
    if len(system.modes) > 0 and mu[j] >= 0.0:
        new = np.dot(system.modes, new)
    move = new - Q[j]
    Q[j] = new
    return move, bool(move.any())


@compiled
def sweep(system: Any, Q: Array, gradient: Array, mu: Array) -> None:
    """Minimise over one row after the other."""
    k, m = Q.shape
    for j in range(k):
        move, moved = update_row(system, j, Q, gradient, mu)
        if moved:
            for r in range(k):
                for i in range(m):
                    gradient[r, i] += system.gram[j, r, i] * move[i]
            add_ties(system, j, move, gradient)


@compiled
def shared_sweep(system: Any, Q: Array, gradient: Array, mu: Array) -> None:
    """Same where one Gram matrix (k, k) serves all tasks."""
    k, m = Q.shape
    for j in range(k):
        move, moved = update_row(system, j, Q, gradient, mu)
        if moved:
            for r in range(k):
                factor = system.gram[j, r]
                for i in range(m):
                    gradient[r, i] += factor * move[i]
            add_ties(system, j, move, gradient)


@compiled
def curve(rows: Any, x: Array) -> Array:
    """Hessian of the quadratic part, on the rows that are not zero, times x (a, m)."""
    a, m = x.shape
    out, tied = np.zeros((a, m)), np.empty(m)
    for r in range(a):
        if rows.tie[r] > 0.0:
            tie_product(x[r], rows.graph, tied)
            for i in range(m):
                out[r, i] = rows.tie[r] * tied[i]
        for c in range(a):
            block = rows.gram[rows.place[r], rows.place[c]]
            for i in range(m):
                out[r, i] += block[i] * x[c, i]
    return out


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
def fill_blocks(rows: Any, degree: Array) -> Array:
    """Lower half of all tasks' blocks, ties on the diagonal only."""
    a, m = rows.unit.shape
    blocks = np.empty((a, a, m))
    for r in range(a):
        for c in range(r + 1):
            for i in range(m):
                blocks[r, c, i] = rows.gram[rows.place[r], rows.place[c], i]
        for i in range(m):
            blocks[r, r, i] += rows.bend[r] + rows.tie[r] * degree[i]
    return blocks


@compiled
def factor_tasks(rows: Any, degree: Array) -> Array:
    """Cholesky factors of all tasks' blocks at once; inverse diagonals."""
    factor = fill_blocks(rows, degree)
    a, _, m = factor.shape
    for c in range(a):
        floor = SMALLEST_PIVOT * factor[c, c]
        for q in range(c):
            for r in range(c, a):
                left, right, here = factor[r, q], factor[c, q], factor[r, c]
                for i in range(m):
                    here[i] -= left[i] * right[i]
        for i in range(m):
            pivot = factor[c, c, i]
            factor[c, c, i] = 1.0 / sqrt(pivot) if pivot > floor[i] else 0.0
        for r in range(c + 1, a):
            for i in range(m):
                factor[r, c, i] *= factor[c, c, i]
    return factor


@compiled
def solve_tasks(factor: Array, rhs: Array) -> Array:
    """Solve all tasks' blocks by their Cholesky factors."""
    a, m = rhs.shape
    x = rhs.copy()
    for r in range(a):
        here = x[r]
        for q in range(r):
            left, known = factor[r, q], x[q]
            for i in range(m):
                here[i] -= left[i] * known[i]
        for i in range(m):
            here[i] *= factor[r, r, i]
    for r in range(a - 1, -1, -1):
        here = x[r]
        for q in range(r + 1, a):
            left, known = factor[q, r], x[q]
            for i in range(m):
                here[i] -= left[i] * known[i]
        for i in range(m):
            here[i] *= factor[r, r, i]
    return x


@compiled
def solve_modes(rhs: Array, basis: Array, modes: Array, stiffness: Array) -> Array:
    """Solve where features (``basis``) and tasks (``modes``) diagonalise the matrix."""
    turned = np.dot(np.dot(basis.T, rhs), modes)
    a, m = turned.shape
    for r in range(a):
        for i in range(m):
            turned[r, i] /= stiffness[r, i]
    return np.dot(np.dot(basis, turned), modes.T)


@compiled
def inner(x: Array, y: Array) -> float:
    """⟨x, y⟩."""
    total = 0.0
    for r in range(x.shape[0]):
        for i in range(x.shape[1]):
            total += x[r, i] * y[r, i]
    return total


@compiled
def precondition(preconditioner: Any, rest: Array) -> Array:
    """Approximate solution of Hessian · x = rest."""
    if preconditioner.factor.shape[0] > 0:
        return solve_tasks(preconditioner.factor, rest)
    return solve_modes(
        rest,
        preconditioner.basis,
        preconditioner.modes,
        preconditioner.stiffness,
    )


@compiled
def conjugate_gradients(
    rows: Any, preconditioner: Any, rhs: Array, tol: float, most: int
) -> tuple[Array, int]:
    """Solve Hessian · x = rhs to a relative error of ``tol``."""
    x, rest = np.zeros_like(rhs), rhs.copy()
    z = precondition(preconditioner, rest)
    p, old = z.copy(), inner(rest, z)
    goal, steps = tol * tol * old, 0
    while steps < most and old > goal:
        product = curve(rows, p)
        add_bend(rows, p, product)
        bowl = inner(p, product)
        if bowl <= 0.0:
            break
        x += (old / bowl) * p
        rest -= (old / bowl) * product
        z = precondition(preconditioner, rest)
        new = inner(rest, z)
        p = z + (new / old) * p
        old = new
        steps += 1
    return x, steps
