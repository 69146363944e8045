"""Newton steps on the rows that are not zero."""

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.solvers.compile import compiled, inlined
from priormtl.solvers.kernels.graph import Graph, add_ties
from priormtl.solvers.kernels.vectors import inner

__all__ = [
    "Rows",
    "curve",
    "find_rows",
    "look_downhill",
    "move_rows",
    "search",
]

MOST_HALVINGS = 30
ROUNDING = 1e-15
TINY = 1e-300


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
def look_downhill(
    lam: Array, place: Index, unit: Array, gradient: Array
) -> tuple[Array, float]:
    """Negative gradient of the whole objective on rows, and its size against lam."""
    downhill, force, unit_force = np.empty(unit.shape), 0.0, TINY
    for r in range(len(place)):
        weight = lam[place[r]]
        unit_force += weight * weight
        for i in range(unit.shape[1]):
            pull = -(gradient[place[r], i] + weight * unit[r, i])
            downhill[r, i] = pull
            force += pull * pull
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
