"""What is known beforehand as a graph, and where data disagree with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from priormtl._arrays import Array
from priormtl.exceptions import suggest
from priormtl.plotting.colours import DISAGREEMENT
from priormtl.plotting.layout import place_nodes
from priormtl.plotting.names import fold_words, shorten
from priormtl.plotting.relations import (
    Link,
    read_audit,
    read_fitted,
    read_prior,
    read_ties,
)
from priormtl.plotting.style import Axes, mpl, new_axes, say_missing, styled, withStroke
from priormtl.priors import FeaturePrior
from priormtl.tables import count_words

__all__ = ["plot_prior"]

LONGEST, MOST_NAMED = 20, 80
KINDS = ("feature", "task")
LEAST_HEIGHT = 1.8  # in lengths of a line
PLAIN, INK = "#5a6b78", "#303030"
LINES = {"similar": "-", "opposite": (0, (3, 1.5)), "combination": (0, (1, 1))}
LABELS = {
    "audit": "Disagreement without the prior (0 holds, 1 opposite)",
    "model": "Disagreement left in the model (0 holds, 1 opposite)",
}


def plot_prior(
    source: Any,
    audit: Any = None,
    *,
    kind: Literal["feature", "task"] = "feature",
    top: int | None = 30,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Graph of the relations that are known beforehand.

    Features are nodes and relations are lines: solid for similar, dashed for
    opposite, broader for a larger weight, darker the more data disagree. Rows of D
    with other than two features are small squares, dotted to each of them.

    Parameters
    ----------
    source : fitted model, FeaturePrior or PriorAudit
        A fitted model is coloured by how far its coefficients violate each relation:
        ‖d P‖ for a row d of D over the largest that it can be. A prior alone has no
        colours.
    audit : PriorAudit, optional
        From ``audit_prior``: colours are then what data say without the prior, and
        relations with the verdict "disagrees" are crossed out.
    kind : {"feature", "task"}
        Relations of features, or, of a fitted model or an audit, ties of tasks. These
        have colours in audits alone.
    top : int or None
        Most relations that are shown, those with the largest disagreement; None
        shows all.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    legend : bool
        Whether to explain lines and colours.

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
    links, words = _read(source, audit, kind)
    shown = sorted(links, key=_urgency)[:top]
    graph = _build(shown)
    with styled():
        ax = new_axes(ax, *_figure_size(graph.positions))
        if not shown:
            return say_missing(ax, "the prior holds no relation")
        _draw(ax, shown, graph)
        ax.set_title(_describe(links, shown, kind))
        if legend:
            _explain(ax, shown, words)
    return ax


@dataclass(frozen=True, eq=False)
class _Graph:
    """Named nodes, then one node for each relation that is no pair; all placed."""

    names: list[Any]
    positions: Array  # (names and hubs, 2)
    ends: list[list[tuple[int, int]]]  # lines of each relation


def _read(source: Any, audit: Any, kind: str) -> tuple[list[Link], str]:
    if kind not in KINDS:
        near = suggest([kind], KINDS)
        raise ValueError(f'kind must be "feature" or "task": got {kind!r}.{near}')
    if audit is None and hasattr(source, "relations"):
        audit = source
    if audit is not None:
        _check_audit(audit)
        return read_audit(audit, kind), "audit"
    if kind == "feature" and isinstance(source, FeaturePrior):
        return read_prior(source), "prior"
    _check_source(source, kind)
    if kind == "task":
        return read_ties(source), "prior"
    return read_fitted(source), "model"


def _check_audit(audit: Any) -> None:
    if not hasattr(audit, "relations"):
        raise TypeError(
            "audit must be what audit_prior(model, X, y, task=task) returns: got "
            f"{type(audit).__name__}."
        )


def _check_source(source: Any, kind: str) -> None:
    if hasattr(source, "coef_"):
        return
    prior = ", a FeaturePrior" if kind == "feature" else ""
    raise TypeError(
        f"source must be a fitted linear model{prior} or a PriorAudit to show "
        f"relations of {kind}s: got {type(source).__name__}; call fit before."
    )


def _urgency(link: Link) -> tuple[bool, float, float]:
    return not link.disagrees, -(link.disagreement or 0.0), -link.weight


def _build(links: Sequence[Link]) -> _Graph:
    names = list(dict.fromkeys(name for link in links for name in link.members))
    place = {name: k for k, name in enumerate(names)}
    ends, n_nodes = [], len(names)
    for link in links:
        members = [place[name] for name in link.members]
        if link.sign != "combination":
            ends.append([(members[0], members[1])])
        else:
            ends.append([(n_nodes, member) for member in members])
            n_nodes += 1
    pairs = np.array([pair for part in ends for pair in part], dtype=np.intp)
    pairs = pairs.reshape(-1, 2)
    return _Graph(names, place_nodes(n_nodes, pairs[:, 0], pairs[:, 1]), ends)


def _figure_size(positions: Array) -> tuple[float, float]:
    """Inches in which names have room, on a page."""
    span = np.ptp(positions, axis=0) if len(positions) else np.zeros(2)
    width = float(np.clip(3.0 + 1.2 * span[0], 5.0, 12.0))
    return width, float(np.clip(1.5 + 0.75 * span[1], 2.6, 9.0))


def _draw(ax: Axes, links: Sequence[Link], graph: _Graph) -> None:
    segments = [
        (link, graph.positions[list(pair)])
        for link, part in zip(links, graph.ends, strict=True)
        for pair in part
    ]
    lines = mpl.collections.LineCollection(
        [segment for _, segment in segments],
        linestyles=[LINES[link.sign] for link, _ in segments],
        linewidths=_widths([link.weight for link, _ in segments]),
        zorder=1,
    )
    if any(link.disagreement is None for link in links):
        lines.set_color(PLAIN)
    else:
        lines.set(array=[link.disagreement for link, _ in segments], cmap=DISAGREEMENT)
        lines.set_clim(0.0, 1.0)
    ax.add_collection(lines)
    _cross_out(ax, [segment for link, segment in segments if link.disagrees])
    _draw_nodes(ax, graph)
    ax.set_axis_off()


def _widths(weights: Sequence[float]) -> Array:
    """Line widths in points: 2 for the largest weight, thinner by its root."""
    largest = max(weights, default=1.0) or 1.0
    return 0.8 + 1.7 * np.sqrt(np.array(weights) / largest)


def _cross_out(ax: Axes, segments: Sequence[Array]) -> None:
    if segments:
        middle = np.stack(segments).mean(axis=1)
        ax.plot(*middle.T, "x", markersize=7, color="black", zorder=3)


def _draw_nodes(ax: Axes, graph: _Graph) -> None:
    n_names = len(graph.names)
    features, hubs = graph.positions[:n_names], graph.positions[n_names:]
    nodes = ax.plot(*features.T, "o", color="white", markersize=6, zorder=2)
    nodes[0].set(markeredgecolor=INK, markeredgewidth=1.0)
    ax.plot(*hubs.T, "s", color=INK, markersize=3.5, zorder=2)
    sides = _free_sides(graph)
    for k, name in enumerate(graph.names[:MOST_NAMED]):
        words = ax.annotate(
            shorten(name, LONGEST),
            features[k],
            xytext=(0, 5 * sides[k]),
            textcoords="offset points",
            ha="center",
            va="bottom" if sides[k] > 0 else "top",
            fontsize=7.5,
        )
        # Names that cross a line stay readable.
        words.set_path_effects([withStroke(linewidth=2.0, foreground="white")])
    ax.margins(0.1, 0.15)
    height = graph.positions[:, 1]
    if np.ptp(height) < LEAST_HEIGHT:
        # What is nearly flat must not be drawn as if it were steep.
        middle = (height.min() + height.max()) / 2.0
        ax.set_ylim(middle - LEAST_HEIGHT / 2.0, middle + LEAST_HEIGHT / 2.0)


def _free_sides(graph: _Graph) -> Array:
    """+1 where a node's lines lead down, so that its name stands above; else −1."""
    lean = np.zeros(len(graph.positions))
    for a, b in (pair for part in graph.ends for pair in part):
        rise = graph.positions[b, 1] - graph.positions[a, 1]
        lean[a] += rise
        lean[b] -= rise
    return np.where(lean < -0.1, 1.0, -1.0)


def _describe(links: Sequence[Link], shown: Sequence[Link], kind: str) -> str:
    n_nodes = len({name for link in shown if link.by_name for name in link.members})
    nodes = count_words(n_nodes, kind)
    if len(shown) == len(links):
        words = f"{count_words(len(links), 'relation')} of {nodes}"
    else:
        words = f"Top {len(shown)} of {len(links)} relations, {nodes}"
    return f"{words}, {MOST_NAMED} of them named" if n_nodes > MOST_NAMED else words


def _explain(ax: Axes, links: Sequence[Link], words: str) -> None:
    """Legend of the kinds of lines that are there, and the scale of colours."""
    lines = ax.collections[0]
    if lines.get_array() is not None:
        ax.figure.colorbar(lines, ax=ax, label=fold_words(LABELS[words], ax))
    signs = [sign for sign in LINES if any(link.sign == sign for link in links)]
    handles = [mpl.lines.Line2D([], [], ls=LINES[sign], label=sign) for sign in signs]
    for handle in handles:
        handle.set(color=PLAIN, linewidth=1.8)
    if any(link.disagrees for link in links):
        cross = mpl.lines.Line2D([], [], ls="none", label="data disagree")
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
