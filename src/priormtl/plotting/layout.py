"""Where the nodes of a graph stand, so that joined nodes are near each other."""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, shortest_path
from scipy.spatial.distance import cdist

from priormtl._arrays import Array, Index

__all__ = ["place_nodes"]

STEPS = 100
ASPECT = 1.1  # width of the whole over its height
MARGIN = np.array([1.0, 0.8])  # between parts, for names
N_ANGLES = 36


def place_nodes(n_nodes: int, first: Index, second: Index) -> Array:
    """Positions (n_nodes, 2) with joined nodes about 1 apart.

    Parts that are not connected stand side by side, the largest first. The same graph
    is always placed alike.
    """
    ones = np.ones(len(first))
    graph = csr_array((ones, (first, second)), shape=(n_nodes, n_nodes))
    n_parts, owner = connected_components(graph, directed=False)
    members = [np.flatnonzero(owner == k) for k in range(n_parts)]
    members.sort(key=len, reverse=True)
    parts = [_place_part(graph[nodes][:, nodes]) for nodes in members]
    positions = np.zeros((n_nodes, 2))
    for nodes, part, corner in zip(members, parts, _corners(parts), strict=True):
        positions[nodes] = part + corner
    return positions


def _place_part(graph: csr_array) -> Array:
    """Positions of a connected graph, its corner at zero, lying rather than standing.

    Distances in the plane come near to numbers of edges on the way: stress
    majorisation, in which no step makes it worse.
    """
    n = graph.shape[0]
    if n == 1:
        return np.zeros((1, 2))
    # Dense as its result is: scipy 1.13 refuses some types of sparse indices.
    wanted = shortest_path(graph.toarray(), directed=False, unweighted=True)
    weight = 1.0 / (wanted + np.eye(n)) ** 2
    np.fill_diagonal(weight, 0.0)
    inverse = np.linalg.pinv(np.diag(weight.sum(axis=1)) - weight)
    positions = _start(wanted)
    for _ in range(STEPS):
        positions = inverse @ _pull(positions, wanted, weight)
    return _lay_down(positions)


def _start(wanted: Array) -> Array:
    """Main directions of the distances; a small circle parts what falls together."""
    n = len(wanted)
    centred = wanted**2 - (wanted**2).mean(axis=0)
    _, vectors = np.linalg.eigh(-(centred - centred.mean(axis=1, keepdims=True)) / 2)
    angle = 2.0 * np.pi * np.arange(n) / n
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    return np.sqrt(n) * vectors[:, :-3:-1] + 0.3 * circle


def _pull(positions: Array, wanted: Array, weight: Array) -> Array:
    distance = cdist(positions, positions)
    ratio = weight * wanted / np.maximum(distance, 1e-9)
    return ratio.sum(axis=1)[:, np.newaxis] * positions - ratio @ positions


def _lay_down(positions: Array) -> Array:
    """Turn into the smallest box, lying, the first node at its upper left."""
    first = positions[1] - positions[0]
    begin = np.arctan2(first[1], first[0])
    angles = begin + np.pi * np.arange(N_ANGLES) / N_ANGLES
    turned = min((positions @ _turn(angle) for angle in angles), key=_box)
    turned = turned - turned.mean(axis=0)
    turned *= np.where(turned[0] * [1.0, -1.0] > 0, -1.0, 1.0)
    return np.asarray(turned - turned.min(axis=0))


def _turn(angle: float) -> Array:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def _box(positions: Array) -> tuple[float, float]:
    """Area, rounded so that noise decides nothing, and height."""
    width, height = np.ptp(positions, axis=0)
    return round(float(width * height), 6), round(float(height), 6)


def _corners(parts: list[Array]) -> list[Array]:
    """Lower left corner of each part: rows from the top, filled from the left."""
    sizes = [part.max(axis=0) + MARGIN for part in parts]
    area = sum(float(size.prod()) for size in sizes)
    limit = max([np.sqrt(area * ASPECT), *(size[0] for size in sizes)])
    corners, x, y, height = [], 0.0, 0.0, 0.0
    for size in sizes:
        if x > 0 and x + size[0] > limit:
            x, y, height = 0.0, y - height, 0.0
        corners.append(np.array([x, y - size[1]]))
        x, height = x + size[0], max(height, size[1])
    return corners
