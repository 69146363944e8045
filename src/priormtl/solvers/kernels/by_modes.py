"""Newton systems by conjugate gradients, preconditioned by modes of the mean block."""

from typing import Any, NamedTuple

import numpy as np

from priormtl._arrays import Array
from priormtl.solvers.compile import compiled
from priormtl.solvers.kernels.newton import curve
from priormtl.solvers.kernels.row import factor_row, solve_row
from priormtl.solvers.kernels.vectors import advance, inner, step_along

__all__ = ["Modes", "factor_modes", "solve_by_modes"]


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
