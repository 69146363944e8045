"""What feature and task priors share: reading graphs, and tables for notebooks.

Users hold graphs as edge lists, adjacency matrices or networkx graphs; all become
edges (a, b, weight).
"""

from collections.abc import Hashable, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from scipy.sparse import coo_array, issparse, triu

from priormtl.rendering import Table, TableRow, TextCell

MOST_SHOWN = 20  # lines of a table
MOST_TERMS = 4  # names in a line

Line = tuple[str, str, str]  # what is related, how, how strongly

Edge = tuple[Hashable, Hashable, float]


def read_edges(graph: object) -> list[Edge]:
    """Edges (a, b, weight) of a graph; an adjacency matrix gives positions."""
    if hasattr(graph, "edges") and callable(graph.edges):
        edges = graph.edges(data="weight", default=1.0)
        return [_edge(edge) for edge in edges]
    if issparse(graph) or isinstance(graph, np.ndarray):
        return _adjacency_edges(graph)
    if isinstance(graph, Iterable) and not isinstance(graph, str):
        return [_edge(edge) for edge in graph]
    raise TypeError(
        "graph must be an edge list, an adjacency matrix or a networkx graph: got "
        f"{type(graph).__name__}."
    )


def _edge(edge: Any) -> Edge:
    if isinstance(edge, str) or not hasattr(edge, "__len__") or len(edge) not in (2, 3):
        raise ValueError(
            f"an edge must be (first, second) or (first, second, weight): got {edge!r}."
        )
    weight = float(edge[2]) if len(edge) == 3 else 1.0
    if not np.isfinite(weight):
        raise ValueError(f"an edge must have a finite weight: got {edge!r}.")
    return plain_label(edge[0]), plain_label(edge[1]), weight


def _adjacency_edges(matrix: object) -> list[Edge]:
    adjacency = coo_array(matrix, dtype=np.float64)
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise ValueError(
            f"an adjacency matrix must be square: got shape {adjacency.shape}."
        )
    if not np.all(np.isfinite(adjacency.data)):
        raise ValueError("an adjacency matrix must be finite.")
    if abs(adjacency - adjacency.T).max() > 0:
        raise ValueError(
            "an adjacency matrix must be symmetric: relations have no direction."
        )
    upper = triu(adjacency, format="coo")
    return [
        (int(a), int(b), float(w))
        for a, b, w in zip(*upper.coords, upper.data, strict=True)
        if w != 0
    ]


def plain_label(label: object) -> Hashable:
    """NumPy scalars as Python ones, so that labels compare and save alike."""
    value = label.item() if isinstance(label, np.generic) else label
    if isinstance(value, bool) or not isinstance(value, Hashable):
        raise ValueError(f"a name must be text or a position: got {label!r}.")
    return value


def check_weight(weight: float, name: str = "weight") -> float:
    if not np.isfinite(weight) or weight <= 0:
        raise ValueError(f"{name} must be positive and finite: got {weight!r}.")
    return float(weight)


def line_table(title: str, lines: Iterator[Line], total: int, what: str) -> Table:
    """Table of the first lines of a prior, which may hold millions."""
    rows = [
        TableRow(label, tuple(map(TextCell, cells)))
        for label, *cells in islice(lines, MOST_SHOWN)
    ]
    more = total - len(rows)
    notes = (f"… and {more} more {what}.",) if more > 0 else ()
    first = "features" if what == "relations" else "tasks"
    return Table(title, (first, "relation", "weight"), tuple(rows), "llr", notes)
