"""Sweeps over rows where samples are kept: residuals move, Gram matrices are absent."""

from typing import NamedTuple

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.solvers.kernels import compiled, in_place
from priormtl.solvers.kernels.rows import (
    System,
    add_ties,
    pick_row,
    squared_size,
    update_row,
)

BLOCK = 32  # rows between two products with the residuals


class Relation(NamedTuple):
    """Feature prior: θ DᵀD, sparse by rows, and θ DᵀC."""

    start: Index  # (k + 1,)
    column: Index
    value: Array
    pull: Array  # (k, m), or empty where C = 0


@in_place
def add_relation(relation: Relation, j: int, Q: Array, out: Array) -> None:
    """Add row ``j`` of the feature prior times Q."""
    for k in range(relation.start[j], relation.start[j + 1]):
        factor, row = relation.value[k], Q[relation.column[k]]
        for i in range(len(out)):
            out[i] += factor * row[i]


@in_place
def prior_slope(
    system: System, relation: Relation, j: int, Q: Array, out: Array
) -> None:
    """Gradient of both priors in row ``j``."""
    for i in range(len(out)):
        out[i] = -relation.pull[j, i] if len(relation.pull) > 0 else 0.0
    add_relation(relation, j, Q, out)
    if system.tie[j] > 0.0:
        graph, tie = system.graph, system.tie[j]
        add_ties(graph.kind, graph.band, graph.tree, graph.loose, tie, Q[j], out)


@in_place
def sample_sweep(
    system: System,
    relation: Relation,
    starts: Index,
    rest: Array,
    Q: Array,
    gradient: Array,
    mu: Array,
    work: Array,
) -> float:
    """Minimise over one row after the other; ``rest`` (n,) are fitted − target.

    ``system.gram`` holds the samples (k, n), features first, task after task.
    """
    m, move, moved = Q.shape[1], work[0], 0.0
    for j in range(len(Q)):
        values, slope = system.gram[j], gradient[j]
        prior_slope(system, relation, j, Q, slope)
        for i in range(m):
            total = 0.0
            for s in range(starts[i], starts[i + 1]):
                total += values[s] * rest[s]
            slope[i] += total
        row = pick_row(system, j)
        mu[j], moves = update_row(row, Q[j], slope, mu[j], work)
        if moves:
            moved += squared_size(row.own, move)
            for i in range(m):
                for s in range(starts[i], starts[i + 1]):
                    rest[s] += values[s] * move[i]
    return moved


@compiled
def lay_out_neighbours(rows: Array) -> Array:
    """Products of each row with those of its block (k, BLOCK)."""
    k = len(rows)
    out = np.zeros((k, BLOCK))
    for start in range(0, k, BLOCK):
        part = rows[start : start + BLOCK]
        out[start : start + BLOCK, : len(part)] = np.dot(part, part.T)
    return out


@compiled
def shared_sample_sweep(
    system: System,
    relation: Relation,
    neighbours: Array,
    rest: Array,
    Q: Array,
    gradient: Array,
    mu: Array,
    work: Array,
) -> float:
    """Same where all tasks share the samples; ``rest`` is (m, n).

    Blocks of rows read the residuals once: inside a block their products with each
    other (``neighbours``) keep the slopes up to date.
    """
    (k, m), move, moved = Q.shape, work[0], 0.0
    for start in range(0, k, BLOCK):
        end = min(start + BLOCK, k)
        slopes = np.dot(system.gram[start:end], rest.T)
        steps, any_moved = np.zeros((end - start, m)), False
        for j in range(start, end):
            slope = gradient[j]
            prior_slope(system, relation, j, Q, slope)
            slope += slopes[j - start]
            row = pick_row(system, j)
            mu[j], moves = update_row(row, Q[j], slope, mu[j], work)
            if moves:
                moved += squared_size(row.own, move)
                steps[j - start], any_moved = move, True
                for r in range(j + 1, end):
                    slopes[r - start] += neighbours[j, r - start] * move
        if any_moved:
            rest += np.dot(steps.T, system.gram[start:end])
    return moved
