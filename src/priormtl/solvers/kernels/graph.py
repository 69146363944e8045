"""A task graph in compiled loops."""

from typing import Any, NamedTuple

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.graphs import Laplacian
from priormtl.solvers.compile import compiled, inlined

__all__ = ["Graph", "add_row_ties", "add_ties", "lay_out_graph"]

LOOSE, CHAIN, GROUP = 0, 1, 2
MAIN, OFF, DEGREE, TOGETHER = 0, 1, 2, 3  # what the rows of a band hold


class Graph(NamedTuple):
    """L = a tridiagonal band + other edges − U Uᵀ, the last two sparse by rows."""

    kind: int  # what one row's system is: CHAIN, GROUP, or LOOSE: only bounded
    band: Array  # (4, m) its diagonal, its entries (i, i + 1) and a last zero; the
    #              diagonal of L; U where L ties all tasks as one group
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
    kind, degree = _kind(laplacian, off, bool(rest.any())), laplacian.degree
    together = groups.data if kind == GROUP else np.zeros(m)
    return Graph(
        kind,
        np.array([main, off, degree, together]),
        degree,
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


@inlined
def add_edges(graph: Any, tie: float, x: Array, out: Array) -> None:
    """Add what edges off the band contribute."""
    for i in range(len(x)):
        for k in range(graph.edge_start[i], graph.edge_start[i + 1]):
            out[i] += tie * graph.edge_value[k] * x[graph.edge_task[k]]


@inlined
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
def add_band(band: Array, tie: float, x: Array, out: Array) -> None:
    """Add what the band contributes to tie · L x."""
    main, off, m = band[MAIN], band[OFF], len(x)
    for i in range(m):
        out[i] += tie * main[i] * x[i]
    for i in range(m - 1):
        out[i] += tie * off[i] * x[i + 1]
    for i in range(m - 1):
        out[i + 1] += tie * off[i] * x[i]


@compiled
def add_row_ties(kind: int, band: Array, tie: float, x: Array, out: Array) -> None:
    """Add tie · L x for a chain or one group of all."""
    add_band(band, tie, x, out)
    if kind == GROUP:
        together, along = band[TOGETHER], 0.0
        for i in range(len(x)):
            along += together[i] * x[i]
        for i in range(len(x)):
            out[i] -= tie * along * together[i]


@compiled
def add_loose_ties(graph: Any, tie: float, x: Array, out: Array) -> None:
    """Add tie · L x for any graph."""
    add_band(graph.band, tie, x, out)
    if len(graph.edge_task) > 0:
        add_edges(graph, tie, x, out)
    if graph.n_groups > 0:
        add_groups(graph, tie, x, out)


@inlined
def add_ties(graph: Any, tie: float, x: Array, out: Array) -> None:
    """Add tie · L x."""
    if graph.kind == LOOSE:
        add_loose_ties(graph, tie, x, out)
    else:
        add_row_ties(graph.kind, graph.band, tie, x, out)
