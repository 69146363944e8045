"""Sweeps over rows: each is minimised while all others stay."""

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.solvers.compile import compiled
from priormtl.solvers.descent import MOST_SWEEPS
from priormtl.solvers.kernels.graph import Graph, add_ties, factor_row, solve_row

__all__ = [
    "System",
    "descend",
    "full_gradient",
    "shared_sweep",
    "squared_size",
    "sweep",
    "update_row",
]

MOST_SECULAR_STEPS = 60
ROUNDING, NEARLY = 1e-14, 1e-4  # relative errors of lam/‖x‖


class System(NamedTuple):
    """A block quadratic with row penalties, laid out for the loops."""

    gram: Array  # (k, k, m), or (k, k) where one serves all tasks
    linear: Array  # (k, m)
    own: Array  # (k, m) diagonal of each row's Hessian, ties not counted
    lam: Array  # (k,)
    tie: Array  # (k,)
    kind: Index  # (k,) how each row sees the graph: as it is, or LOOSE
    graph: Graph


@compiled
def norm(x: Array) -> float:
    """Euclidean length."""
    total = 0.0
    for i in range(len(x)):
        total += x[i] * x[i]
    return sqrt(total)


@compiled
def add_scaled(factor: float, x: Array, out: Array) -> None:
    """Add factor · x."""
    for i in range(len(out)):
        out[i] += factor * x[i]


@compiled
def secular_step(lam: float, mu: float, size: float, x: Array, turned: Array) -> float:
    """Newton's step on 1/‖x‖ − mu/lam, where x moves by −turned with mu."""
    slope = 0.0
    for i in range(len(x)):
        slope += x[i] * turned[i]
    return (mu - lam / size) / (lam * slope / size**3 - 1.0)


@compiled
def shrink_row(
    graph: Any,
    kind: int,
    tie: float,
    own: Array,
    lam: float,
    target: Array,
    guess: float,
    out: Array,
) -> float:
    """Minimise ½ xᵀT x − target·x + lam ‖x‖; returns lam/‖x‖, −1 if x = 0.

    T = diag(own) + tie · L, or its bound. With mu = lam/‖x‖ the solution is
    (T + mu)⁻¹ target; Newton on 1/‖x‖ − mu/lam finds mu, inside a bracket that
    always holds it.
    """
    length, steepest = norm(target), 0.0
    if length <= lam:
        for i in range(len(out)):
            out[i] = 0.0
        return -1.0
    for i in range(len(own)):
        steepest = max(steepest, own[i] + 2.0 * tie * graph.degree[i])
    parts, turned = np.empty((3, len(own))), np.empty(len(own))
    low, high = 0.0, lam * steepest / (length - lam)
    mu = guess if 0.0 < guess < high else high
    for _ in range(MOST_SECULAR_STEPS):
        left = factor_row(graph, kind, tie, own, mu, parts)
        solve_row(graph, kind, tie, parts, left, target, out)
        size = norm(out)
        if abs(mu * size - lam) <= ROUNDING * lam:
            break
        if mu * size > lam:
            high = mu
        else:
            low = mu
        solve_row(graph, kind, tie, parts, left, out, turned)
        step = secular_step(lam, mu, size, out, turned)
        if abs(step) <= NEARLY * mu:  # what is left is of second order
            add_scaled(-step, turned, out)
            mu += step
            break
        mu = mu + step if low < mu + step < high else 0.5 * (low + high)
    return mu


@compiled
def update_row(
    system: Any, j: int, Q: Array, gradient: Array, mu: Array, move: Array
) -> bool:
    """Minimise over row ``j``, or a bound on it; how the row moved, and whether."""
    row, slope, own = Q[j], gradient[j], system.own[j]
    tie, lam, graph = system.tie[j], system.lam[j], system.graph
    if mu[j] < 0.0 and norm(row) == 0.0 and norm(slope) <= lam:
        return False
    target = np.empty(len(row))
    for i in range(len(row)):
        target[i] = own[i] * row[i] - slope[i]
    if system.kind[j] > 0:
        add_ties(graph, tie, row, target)
    else:
        for i in range(len(row)):
            target[i] += 2.0 * tie * graph.degree[i] * row[i]
    mu[j] = shrink_row(graph, system.kind[j], tie, own, lam, target, mu[j], move)
    moved = False
    for i in range(len(row)):
        new = move[i]
        move[i] = new - row[i]
        row[i] = new
        moved = moved or move[i] != 0.0
    return moved


@compiled
def full_gradient(system: Any, Q: Array) -> Array:
    """Gradient of the quadratic part at Q (k, m)."""
    out = np.empty(Q.shape)
    for j in range(len(Q)):
        for i in range(Q.shape[1]):
            out[j, i] = -system.linear[j, i]
    for j in range(len(Q)):
        if norm(Q[j]) > 0.0:
            spread_move(system.gram[j], Q[j], out)
            add_ties(system.graph, system.tie[j], Q[j], out[j])
    return out


@compiled
def spread_move(blocks: Array, move: Array, gradient: Array) -> None:
    """Change of all rows' gradients, when a row moves."""
    for r in range(len(gradient)):
        block, here = blocks[r], gradient[r]
        for i in range(len(move)):
            here[i] += block[i] * move[i]


@compiled
def sweep(system: Any, Q: Array, gradient: Array, mu: Array) -> float:
    """Minimise over one row after the other; how far all rows moved, squared."""
    move, moved = np.empty(Q.shape[1]), 0.0
    for j in range(len(Q)):
        if update_row(system, j, Q, gradient, mu, move):
            spread_move(system.gram[j], move, gradient)
            add_ties(system.graph, system.tie[j], move, gradient[j])
            moved += squared_size(system.own[j], move)
    return moved


@compiled
def shared_sweep(system: Any, Q: Array, gradient: Array, mu: Array) -> float:
    """Same where one Gram matrix (k, k) serves all tasks."""
    move, moved = np.empty(Q.shape[1]), 0.0
    for j in range(len(Q)):
        if update_row(system, j, Q, gradient, mu, move):
            for r in range(len(Q)):
                factor = system.gram[j, r]
                for i in range(len(move)):
                    gradient[r, i] += factor * move[i]
            add_ties(system.graph, system.tie[j], move, gradient[j])
            moved += squared_size(system.own[j], move)
    return moved


@compiled
def descend(
    system: Any,
    Q: Array,
    gradient: Array,
    mu: Array,
    least: int,
    limit: float,
) -> float:
    """Sweep at least so often, and on while moves shrink faster than ``limit``."""
    first, last, rate = 0.0, 0.0, 1.0
    for count in range(MOST_SWEEPS):
        last = sweep(system, Q, gradient, mu)
        if last == 0.0:
            return 1.0
        if count == 0:
            first = last
        else:
            rate = (last / first) ** (0.5 / count)
        if count + 1 >= least and rate > limit:
            break
    return rate


@compiled
def squared_size(own: Array, move: Array) -> float:
    """Σ own · move²: what a move changes in fitted values, all other rows apart."""
    total = 0.0
    for i in range(len(move)):
        total += own[i] * move[i] * move[i]
    return total
