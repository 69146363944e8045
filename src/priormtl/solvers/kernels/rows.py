"""Sweeps over rows: each is minimised while all others stay."""

from typing import Any, NamedTuple

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.solvers.compile import compiled, inlined
from priormtl.solvers.descent import MOST_SWEEPS
from priormtl.solvers.kernels.graph import Graph, add_ties
from priormtl.solvers.kernels.row import Row, norm, update_row

__all__ = [
    "System",
    "descend",
    "full_gradient",
    "pick_row",
    "shared_sweep",
    "squared_size",
    "sweep",
]


class System(NamedTuple):
    """A block quadratic with row penalties, laid out for the loops."""

    gram: Array  # (k, k, m), or (k, k) where one serves all tasks
    linear: Array  # (k, m)
    own: Array  # (k, m) diagonal of each row's Hessian, ties not counted
    lam: Array  # (k,)
    tie: Array  # (k,)
    steepest: Array  # (k,) bound on each row's Hessian, ties counted
    kind: Index  # (k,) how each row sees the graph: as it is, or LOOSE
    graph: Graph


@inlined
def pick_row(system: Any, j: int) -> Row:
    """System of row ``j``."""
    return Row(
        system.own[j],
        system.graph.band,
        system.kind[j],
        system.tie[j],
        system.lam[j],
        system.steepest[j],
    )


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


@inlined
def spread_move(blocks: Array, move: Array, gradient: Array) -> None:
    """Change of all rows' gradients, when a row moves."""
    for r in range(len(gradient)):
        block, here = blocks[r], gradient[r]
        for i in range(len(move)):
            here[i] += block[i] * move[i]


@inlined
def sweep(system: Any, Q: Array, gradient: Array, mu: Array) -> float:
    """Minimise over one row after the other; how far all rows moved, squared."""
    work, moved = np.empty((6, Q.shape[1])), 0.0
    move = work[0]
    for j in range(len(Q)):
        row = pick_row(system, j)
        mu[j], moves = update_row(row, Q[j], gradient[j], mu[j], work)
        if moves:
            spread_move(system.gram[j], move, gradient)
            if row.tie > 0.0:
                add_ties(system.graph, row.tie, move, gradient[j])
            moved += squared_size(row.own, move)
    return moved


@compiled
def shared_sweep(system: Any, Q: Array, gradient: Array, mu: Array) -> float:
    """Same where one Gram matrix (k, k) serves all tasks."""
    work, moved = np.empty((6, Q.shape[1])), 0.0
    move = work[0]
    for j in range(len(Q)):
        row = pick_row(system, j)
        mu[j], moves = update_row(row, Q[j], gradient[j], mu[j], work)
        if moves:
            for r in range(len(Q)):
                factor = system.gram[j, r]
                for i in range(len(move)):
                    gradient[r, i] += factor * move[i]
            if row.tie > 0.0:
                add_ties(system.graph, row.tie, move, gradient[j])
            moved += squared_size(row.own, move)
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


@inlined
def squared_size(own: Array, move: Array) -> float:
    """Σ own · move²: what a move changes in fitted values, all other rows apart."""
    total = 0.0
    for i in range(len(move)):
        total += own[i] * move[i] * move[i]
    return total
