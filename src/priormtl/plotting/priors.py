"""The graph of a prior: nodes are features, edges are relations.

Colours show how far coefficients violate each relation: ‖d P‖ for a row d of D,
divided by the largest value that it can have.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, shortest_path
from scipy.spatial.distance import cdist

from priormtl._arrays import Array, Index
from priormtl.data import name_features, unnamed_feature
from priormtl.estimators import read_fitted
from priormtl.fitted import Fitted
from priormtl.plotting import style
from priormtl.priors import (
    Constraint,
    FeaturePrior,
    Grid,
    Near,
    Pairs,
    Part,
    Rows,
    measure_violations,
)
from priormtl.rendering import count_words

MOST_NAMED = 80
PLAIN, INK = "#5a6b78", "#303030"
LINES = {"similar": "-", "opposite": (0, (3, 1.5)), "combination": (0, (1, 1))}


def plot_prior(
    source: object,
    audit: object = None,
    *,
    top: int | None = 30,
    ax: style.Axes | None = None,
    legend: bool = True,
) -> style.Axes:
    """Plot the relations of a prior as a graph.

    Nodes are features, and lines are relations: solid if similar, dashed if opposite,
    wider for larger weights, and darker for larger disagreement with the data. A row of
    D with more or fewer than two features is a small square with dotted lines.

    Parameters
    ----------
    source : fitted model, FeaturePrior or PriorAudit
        Relations to show. For a fitted model, colours show by how much its
        coefficients violate each relation: ‖d P‖ for a row d of D, divided by its
        largest possible value. A prior without a model has no colours.
    audit : PriorAudit, optional
        Result of ``audit_prior``. Colours then show the disagreement without the
        prior, and relations with the verdict "disagrees" are crossed out.
    top : int or None, default=30
        Maximum number of relations to show, by disagreement. None shows all.
    ax, legend
        See :func:`plot_coefficients`.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from priormtl import FeaturePrior
    >>> prior = FeaturePrior.from_groups({"verbal": ["reading", "essay", "debate"]})
    >>> ax = plot_prior(prior)
    >>> ax.get_title()
    '3 relations of 3 features'
    """
    relations, label = read_relations(source, audit)
    shown = sorted(
        relations, key=lambda r: (not r.disagrees, -(r.disagreement or 0.0), -r.weight)
    )[:top]
    graph = _build_graph(shown)
    # Inches in which names have room, on a page.
    span = np.ptp(graph.positions, axis=0) if shown else np.zeros(2)
    width = float(np.clip(3.0 + 1.2 * span[0], 5.0, 12.0))
    height = float(np.clip(1.5 + 0.75 * span[1], 2.6, 9.0))
    with style.styled():
        ax = style.new_axes(ax, width, height)
        if not shown:
            return style.show_missing(ax, "the prior has no relations")
        lines = _draw_edges(ax, shown, graph)
        _draw_nodes(ax, graph)
        ax.set_axis_off()
        n_nodes = len({name for r in shown if r.by_name for name in r.members})
        title = f"{count_words(len(relations), 'relation')} of "
        if len(shown) < len(relations):
            title = f"Top {len(shown)} of {len(relations)} relations, "
        title += count_words(n_nodes, "feature")
        named = f", {MOST_NAMED} of them named" if n_nodes > MOST_NAMED else ""
        ax.set_title(title + named)
        if legend:
            _add_legend(ax, shown, lines, label)
    return ax


# Reading relations.


@runtime_checkable
class Audited(Protocol):
    """An audit, which is made in a room beside this one."""

    @property
    def relations(self) -> "Sequence[AuditedRelation]": ...


class AuditedRelation(Protocol):
    """What is shown of a relation of an audit."""

    kind: str
    relation: str
    first: str | None
    second: str | None
    sign: str
    weight: float
    violation_before: float
    verdict: str


@dataclass(frozen=True)
class Relation:
    """One relation: its members by name, and what is known of it."""

    members: tuple[Hashable, ...]
    sign: str  # "similar", "opposite" or "combination"
    weight: float
    disagreement: float | None  # from 0, holds exactly, to 1, as wrong as possible
    disagrees: bool = False  # by the verdict of an audit
    by_name: bool = True  # whether members are names; else the relation in words


def read_relations(source: object, audit: object) -> tuple[list[Relation], str]:
    """Relations of whatever was passed, and the label of their colours."""
    if audit is None and isinstance(source, Audited):
        audit = source
    if audit is not None:
        label = "Disagreement without the prior (0 holds, 1 opposite)"
        return _read_audit(audit), label
    if isinstance(source, FeaturePrior):
        return [found for part in source.parts for found in _read_part(part)], ""
    try:
        fitted = read_fitted(source)
    except TypeError:
        raise TypeError(
            "source must be a fitted linear model, a FeaturePrior or a PriorAudit: got "
            f"{type(source).__name__}; call fit first."
        ) from None
    label = "Disagreement left in the model (0 holds, 1 opposite)"
    return _read_fitted(fitted), label


def _read_audit(audit: object) -> list[Relation]:
    if not isinstance(audit, Audited):
        raise TypeError(
            "audit must be the result of audit_prior(model, X, y, task=task): got "
            f"{type(audit).__name__}."
        )
    return [
        Relation(
            (row.first, row.second) if row.first is not None else (row.relation,),
            row.sign,
            row.weight,
            row.violation_before,
            row.verdict == "disagrees",
            row.first is not None,
        )
        for row in audit.relations
        if row.kind == "feature"
    ]


def _read_part(part: Part) -> list[Relation]:
    if isinstance(part, Rows):
        names = name_features(part.features, part.D.shape[1])
        return [_read_row(part.D, row, names) for row in range(part.D.shape[0])]
    if isinstance(part, Constraint):  # no relation, and exact
        return []
    if isinstance(part, Near):
        known = [x if isinstance(x, str) else unnamed_feature(x) for x in part.features]
        return [Relation((x,), "combination", part.weight, None) for x in known]
    if isinstance(part, Grid):
        part = part.pairs()
    if not isinstance(part, Pairs):
        raise ValueError(
            "prior contains strongest correlations, which are computed by fit: pass "
            "the fitted model to show its relations."
        )
    found = []
    for *pair, sign, weight in zip(
        part.first, part.second, part.sign, part.weight, strict=True
    ):
        names = tuple(x if isinstance(x, str) else unnamed_feature(x) for x in pair)
        found.append(
            Relation(names, "similar" if sign > 0 else "opposite", weight, None)
        )
    return found


def _read_fitted(fitted: Fitted) -> list[Relation]:
    fitted = fitted.by_class()
    prior, scale = fitted.feature_prior, fitted.units
    if prior is None:
        return []
    # The prior acts on coefficients of the features as scaled in the fit, and not on
    # the task-specific components of outlier tasks.
    P = (fitted.shared_coef * scale).T
    rows = prior.rows_in_units(scale, fitted.labels)
    D = csr_array(prior.matrix(len(P)), copy=True)
    D.eliminate_zeros()
    return [
        _read_row(D, row, fitted.names, float(disagreement))
        for row, disagreement in enumerate(measure_violations(rows[0], P, rows[1]))
    ]


def _read_row(
    D: csr_array, row: int, names: Sequence[Hashable], disagreement: float | None = None
) -> Relation:
    """Relation of one row of D; a pair if it has two members of equal size."""
    here = slice(D.indptr[row], D.indptr[row + 1])
    members, values = D.indices[here], D.data[here]
    sign = "combination"
    if len(values) == 2 and np.isclose(*np.abs(values)):
        sign = "similar" if values.prod() < 0 else "opposite"
    weight = float(np.square(values).mean()) if len(values) else 0.0
    return Relation(tuple(names[j] for j in members), sign, weight, disagreement)


# Drawing.


@dataclass(frozen=True, eq=False)
class _Graph:
    """Named nodes, then one node for each relation that is no pair; all placed."""

    names: list[Hashable]
    positions: Array  # (nodes, 2)
    edges: list[list[tuple[int, int]]]  # of each relation


def _build_graph(relations: Sequence[Relation]) -> _Graph:
    names = list(dict.fromkeys(name for r in relations for name in r.members))
    place = {name: k for k, name in enumerate(names)}
    edges, n_nodes = [], len(names)
    for relation in relations:
        members = [place[name] for name in relation.members]
        if relation.sign != "combination":
            edges.append([(members[0], members[1])])
        else:
            edges.append([(n_nodes, member) for member in members])
            n_nodes += 1
    pairs = np.array([pair for part in edges for pair in part], dtype=np.intp)
    pairs = pairs.reshape(-1, 2)
    return _Graph(names, place_nodes(n_nodes, pairs[:, 0], pairs[:, 1]), edges)


def _draw_edges(
    ax: style.Axes, relations: Sequence[Relation], graph: _Graph
) -> "style.mpl.collections.LineCollection":
    segments = [
        (relation, graph.positions[list(pair)])
        for relation, part in zip(relations, graph.edges, strict=True)
        for pair in part
    ]
    weights = np.array([relation.weight for relation, _ in segments])
    largest = weights.max(initial=0.0) or 1.0
    lines = style.mpl.collections.LineCollection(
        [segment for _, segment in segments],
        linestyles=[LINES[relation.sign] for relation, _ in segments],
        linewidths=0.8 + 1.7 * np.sqrt(weights / largest),
        zorder=1,
    )
    if any(relation.disagreement is None for relation in relations):
        lines.set_color(PLAIN)
    else:
        values = [relation.disagreement for relation, _ in segments]
        lines.set(array=values, cmap=style.DISAGREEMENT)
        lines.set_clim(0.0, 1.0)
    ax.add_collection(lines)
    crossed = [segment for relation, segment in segments if relation.disagrees]
    if crossed:
        middle = np.stack(crossed).mean(axis=1)
        ax.plot(*middle.T, "x", markersize=7, color="black", zorder=3)
    return lines


def _draw_nodes(ax: style.Axes, graph: _Graph) -> None:
    n_names = len(graph.names)
    features, hubs = graph.positions[:n_names], graph.positions[n_names:]
    nodes = ax.plot(*features.T, "o", color="white", markersize=6, zorder=2)
    nodes[0].set(markeredgecolor=INK, markeredgewidth=1.0)
    ax.plot(*hubs.T, "s", color=INK, markersize=3.5, zorder=2)
    # A name stands above its node where the node's edges lead down, else below.
    lean = np.zeros(len(graph.positions))
    for a, b in (pair for part in graph.edges for pair in part):
        rise = graph.positions[b, 1] - graph.positions[a, 1]
        lean[a] += rise
        lean[b] -= rise
    for k, name in enumerate(graph.names[:MOST_NAMED]):
        above = lean[k] < -0.1
        words = ax.annotate(
            style.shorten(name, 20),
            features[k],
            xytext=(0, 5 if above else -5),
            textcoords="offset points",
            ha="center",
            va="bottom" if above else "top",
            fontsize=7.5,
        )
        # Names that cross a line stay readable.
        words.set_path_effects([style.withStroke(linewidth=2.0, foreground="white")])
    ax.margins(0.1, 0.15)  # which makes the axes 1.3 times as high as the graph
    height = graph.positions[:, 1]
    least = 1.8  # in lengths of an edge
    if 1.3 * np.ptp(height) < least:
        # A nearly flat graph must not be drawn as if it were steep.
        middle = (height.min() + height.max()) / 2.0
        ax.set_ylim(middle - least / 2.0, middle + least / 2.0)


def _add_legend(
    ax: style.Axes,
    relations: Sequence[Relation],
    lines: "style.mpl.collections.LineCollection",
    label: str,
) -> None:
    if lines.get_array() is not None:
        ax.figure.colorbar(lines, ax=ax, label=style.fold_words(label, ax))
    signs = [sign for sign in LINES if any(r.sign == sign for r in relations)]
    handles = [
        style.mpl.lines.Line2D([], [], ls=LINES[sign], label=sign) for sign in signs
    ]
    for handle in handles:
        handle.set(color=PLAIN, linewidth=1.8)
    if any(relation.disagrees for relation in relations):
        cross = style.mpl.lines.Line2D([], [], ls="none", label="data disagree")
        handles.append(cross)
        cross.set(marker="x", color="black")
    ax.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=4,
        fontsize=9,
        handlelength=2.4,
        columnspacing=1.2,
    )


# Placing nodes.


def place_nodes(n_nodes: int, first: Index, second: Index) -> Array:
    """Positions (n_nodes, 2) with joined nodes about 1 apart.

    Connected components stand side by side, the largest first. The same graph always
    has the same layout.
    """
    ones = np.ones(len(first))
    graph = csr_array((ones, (first, second)), shape=(n_nodes, n_nodes))
    n_parts, owner = connected_components(graph, directed=False)
    members = [np.flatnonzero(owner == k) for k in range(n_parts)]
    members.sort(key=len, reverse=True)
    parts = [_place_component(graph[nodes][:, nodes]) for nodes in members]
    # Rows from the top, each filled from the left.
    margin = np.array([1.0, 0.8])  # between components, for names
    sizes = [part.max(axis=0) + margin for part in parts]
    area = sum(float(size.prod()) for size in sizes)
    aspect = 1.1  # width of the whole over its height
    limit = max([np.sqrt(area * aspect), *(size[0] for size in sizes)])
    positions, x, y, height = np.zeros((n_nodes, 2)), 0.0, 0.0, 0.0
    for nodes, part, size in zip(members, parts, sizes, strict=True):
        if x > 0 and x + size[0] > limit:
            x, y, height = 0.0, y - height, 0.0
        positions[nodes] = part + np.array([x, y - size[1]])
        x, height = x + size[0], max(height, size[1])
    return positions


def _place_component(graph: csr_array) -> Array:
    """Positions of a connected graph, its lower left corner at zero.

    Stress majorisation (Gansner, Koren & North 2004): distances in the plane approach
    the numbers of edges between nodes, and no step increases the stress.
    """
    n = graph.shape[0]
    if n == 1:
        return np.zeros((1, 2))
    # Dense as its result is: scipy 1.13 refuses some types of sparse indices.
    wanted = shortest_path(graph.toarray(), directed=False, unweighted=True)
    weight = 1.0 / (wanted + np.eye(n)) ** 2
    np.fill_diagonal(weight, 0.0)
    inverse = np.linalg.pinv(np.diag(weight.sum(axis=1)) - weight)
    # Start at the principal coordinates; a small circle separates equal ones.
    centred = wanted**2 - (wanted**2).mean(axis=0)
    _, vectors = np.linalg.eigh(-(centred - centred.mean(axis=1, keepdims=True)) / 2)
    angle = 2.0 * np.pi * np.arange(n) / n
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    positions = np.sqrt(n) * vectors[:, :-3:-1] + 0.3 * circle
    for _ in range(100):
        distance = cdist(positions, positions)
        ratio = weight * wanted / np.maximum(distance, 1e-9)
        sums = ratio.sum(axis=1)[:, np.newaxis]
        positions = inverse @ (sums * positions - ratio @ positions)
    return _rotate(positions)


def _rotate(positions: Array) -> Array:
    """Rotate into the smallest box, wider than high, the first node upper left."""
    first = positions[1] - positions[0]
    begin = np.arctan2(first[1], first[0])
    candidates = []
    for angle in begin + np.pi * np.arange(36) / 36:
        cos, sin = np.cos(angle), np.sin(angle)
        candidates.append(positions @ np.array([[cos, -sin], [sin, cos]]))

    def box(turned: Array) -> tuple[float, float]:
        # Area, then height, rounded so that noise decides nothing.
        width, height = np.ptp(turned, axis=0)
        return round(float(width * height), 6), round(float(height), 6)

    turned = min(candidates, key=box)
    turned = turned - turned.mean(axis=0)
    turned *= np.where(turned[0] * [1.0, -1.0] > 0, -1.0, 1.0)
    return np.asarray(turned - turned.min(axis=0))
