"""A task graph in compiled loops: products, and systems of one row."""

from typing import Any, NamedTuple

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.graphs import Laplacian
from priormtl.solvers.compile import compiled

__all__ = ["Graph", "add_ties", "factor_row", "lay_out_graph", "solve_row"]

LOOSE, CHAIN, GROUP = 0, 1, 2
TINY = 1e-300  # a pivot that vanishes


class Graph(NamedTuple):
    """L = a tridiagonal band + other edges − U Uᵀ, the last two sparse by rows."""

    kind: int  # what one row's system is: CHAIN, GROUP, or LOOSE: only bounded
    main: Array  # (m,) the band's diagonal
    off: Array  # (m,) its entries (i, i + 1); the last is zero
    degree: Array  # (m,) diagonal of L
    edge_start: Index  # (m + 1,)
    edge_task: Index
    edge_value: Array
    group_start: Index  # (m + 1,)
    group_number: Index
    group_value: Array
    n_groups: int


def lay_out_graph(laplacian: Laplacian) -> Graph:
    """A task graph as plain arrays."""
    coo, groups = laplacian.edges.tocoo(), laplacian.groups
    m = laplacian.m
    main, off = laplacian.edges.diagonal(), np.zeros(m)
    above = coo.col - coo.row == 1
    off[coo.row[above]] = coo.data[above]
    rest = np.abs(coo.col - coo.row) > 1
    counts = np.bincount(coo.row[rest], minlength=m)
    order = np.argsort(coo.row[rest], kind="stable")
    return Graph(
        _kind(laplacian, off, bool(rest.any())),
        main,
        off,
        laplacian.degree,
        np.concatenate([[0], np.cumsum(counts)]).astype(np.intp),
        coo.col[rest][order].astype(np.intp),
        coo.data[rest][order],
        groups.indptr.astype(np.intp),
        groups.indices.astype(np.intp),
        groups.data,
        int(groups.shape[1]),
    )


def _kind(laplacian: Laplacian, off: Array, has_rest: bool) -> int:
    if laplacian.is_one_group:
        return GROUP
    return CHAIN if off.any() and not has_rest and not laplacian.groups.nnz else LOOSE


@compiled
def add_edges(graph: Any, tie: float, x: Array, out: Array) -> None:
    """Add what edges off the band contribute."""
    for i in range(len(x)):
        for k in range(graph.edge_start[i], graph.edge_start[i + 1]):
            out[i] += tie * graph.edge_value[k] * x[graph.edge_task[k]]


@compiled
def add_groups(graph: Any, tie: float, x: Array, out: Array) -> None:
    """Subtract tie · U Uᵀ x."""
    sums = np.zeros(graph.n_groups)
    for i in range(len(x)):
        for k in range(graph.group_start[i], graph.group_start[i + 1]):
            sums[graph.group_number[k]] += graph.group_value[k] * x[i]
    for i in range(len(x)):
        for k in range(graph.group_start[i], graph.group_start[i + 1]):
            out[i] -= tie * graph.group_value[k] * sums[graph.group_number[k]]


@compiled
def add_ties(graph: Any, tie: float, x: Array, out: Array) -> None:
    """Add tie · L x."""
    m = len(x)
    for i in range(m):
        out[i] += tie * graph.main[i] * x[i]
    for i in range(m - 1):
        out[i] += tie * graph.off[i] * x[i + 1]
    for i in range(m - 1):
        out[i + 1] += tie * graph.off[i] * x[i]
    if len(graph.edge_task) > 0:
        add_edges(graph, tie, x, out)
    if graph.n_groups > 0:
        add_groups(graph, tie, x, out)


@compiled
def factor_chain(
    graph: Any, tie: float, own: Array, shift: float, parts: Array
) -> None:
    """Factorise a tridiagonal row from both ends, which meet in the middle.

    Two chains of divisions that do not wait for each other take half the time of one.
    Parts: inverted pivots, and these times the links outwards and inwards.
    """
    pivot, outer, inner = parts[0], parts[1], parts[2]
    m = len(own)
    middle = m // 2
    top, bottom = 0.0, 0.0  # the last pivots
    for i in range(middle):
        j = m - 1 - i
        up = tie * graph.off[i - 1] if i > 0 else 0.0
        value = own[i] + shift + tie * graph.main[i] - up * up * top
        top = 1.0 / value if value > TINY else 0.0
        pivot[i] = top
        if j > middle:
            down = tie * graph.off[j]
            value = own[j] + shift + tie * graph.main[j] - down * down * bottom
            bottom = 1.0 / value if value > TINY else 0.0
            pivot[j] = bottom
    up = tie * graph.off[middle - 1] if middle > 0 else 0.0
    down = tie * graph.off[middle]
    value = own[middle] + shift + tie * graph.main[middle]
    value -= up * up * top + down * down * bottom
    pivot[middle] = 1.0 / value if value > TINY else 0.0
    for i in range(middle):
        outer[i] = pivot[i] * tie * graph.off[i - 1] if i > 0 else 0.0
        inner[i] = pivot[i] * tie * graph.off[i]
    for i in range(middle, m):
        outer[i] = pivot[i] * tie * graph.off[i]
        inner[i] = pivot[i] * tie * graph.off[i - 1] if i > 0 else 0.0


@compiled
def solve_chain(parts: Array, rhs: Array, out: Array) -> None:
    """Solve by the factors of ``factor_chain``: inwards, then outwards."""
    pivot, outer, inner = parts[0], parts[1], parts[2]
    m = len(rhs)
    middle = m // 2
    top, bottom = 0.0, 0.0
    for i in range(m):
        out[i] = pivot[i] * rhs[i]
    for i in range(middle):
        j = m - 1 - i
        top = out[i] - outer[i] * top
        out[i] = top
        if j > middle:
            bottom = out[j] - outer[j] * bottom
            out[j] = bottom
    out[middle] -= inner[middle] * top + outer[middle] * bottom
    top, bottom = out[middle], out[middle]
    for i in range(middle - 1, -1, -1):
        j = m - 1 - i
        top = out[i] - inner[i] * top
        out[i] = top
        if j > middle:
            bottom = out[j] - inner[j] * bottom
            out[j] = bottom


@compiled
def factor_row(
    graph: Any, kind: int, tie: float, own: Array, shift: float, parts: Array
) -> float:
    """Factorise diag(own + shift) + tie · L, or a bound on it, into ``parts`` (3, m).

    ``kind`` is the graph's, or LOOSE: then ties count twice their diagonal.
    Returns what a group leaves of the mean, 1 − tie uᵀ(…)⁻¹u, in a form that does
    not cancel. Pivots that vanish are left out of the solution.
    """
    m = len(own)
    if kind == CHAIN and tie > 0.0:
        factor_chain(graph, tie, own, shift, parts)
        return 1.0
    diagonal, factor = graph.main, tie
    if kind == LOOSE:
        diagonal, factor = graph.degree, 2.0 * tie
    pivot, left = parts[0], 0.0
    for i in range(m):
        value = own[i] + shift + factor * diagonal[i]
        inverse = 1.0 / value if value > TINY else 0.0
        pivot[i] = inverse
        left += (own[i] + shift) * inverse
    return left / m


@compiled
def solve_row(
    graph: Any,
    kind: int,
    tie: float,
    parts: Array,
    left: float,
    rhs: Array,
    out: Array,
) -> None:
    """Solve by the factors of ``factor_row``."""
    if kind == CHAIN and tie > 0.0:
        solve_chain(parts, rhs, out)
        return
    m, pivot = len(rhs), parts[0]
    for i in range(m):
        out[i] = rhs[i] * pivot[i]
    if kind == GROUP and tie > 0.0 and left > 0.0:
        along = 0.0
        for i in range(m):
            along += graph.group_value[i] * out[i]
        along *= tie / left
        for i in range(m):
            out[i] += along * graph.group_value[i] * pivot[i]
