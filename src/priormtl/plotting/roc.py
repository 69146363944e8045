"""How well a fitted classifier tells classes apart, task by task."""

from typing import Any

import numpy as np

from priormtl._arrays import Array
from priormtl.estimators import TaskScores, separate_tasks
from priormtl.plotting.names import shorten
from priormtl.plotting.roc_curves import frame_rates, open_corner, plot_roc_curves
from priormtl.plotting.style import (
    LOOKS,
    Axes,
    add_legend,
    new_axes,
    say_missing,
    styled,
)
from priormtl.tables import count_words

__all__ = ["plot_roc"]

CORNER = 0.2  # side of what is shown enlarged, where curves are steep
# Zero twice: curves begin at its lower end.
COMMON_RATES = np.append(0.0, np.linspace(0.0, 1.0, 501))


def plot_roc(
    model: Any,
    X: Any,
    y: Any,
    *,
    task: Any = None,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """ROC curve of each task of a fitted classifier.

    Up to six tasks are told apart and named with their areas. Of more, all curves are
    thin, with their mean at equal false positive rates and a band of one standard
    deviation over the tasks. Tasks of which only one class is there have no curve;
    the title counts them.

    Parameters
    ----------
    model : fitted classifier of tasks
        Such as ``MultiTaskClassifier``.
    X, y, task
        Rows that the model has not seen, as in :meth:`MultiTaskClassifier.fit`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    legend : bool
        Whether to name the lines beside the axes.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from priormtl import MultiTaskClassifier, one_vs_one
    >>> X, y, task = one_vs_one(*load_iris(return_X_y=True))
    >>> model = MultiTaskClassifier().fit(X, y, task=task)
    >>> ax = plot_roc(model, X, y, task=task)
    >>> ax.get_title()
    '3 tasks, mean AUC 99.8 %'
    """
    parts = separate_tasks(model, X, y, task=task)
    judged = [part for part in parts if 0 < part.positive.sum() < len(part.positive)]
    curves = [_curve(part) for part in judged]
    with styled():
        ax = new_axes(ax, 5.6, 4.0)
        if not curves:
            return say_missing(ax, "every task shows one class only")
        table = np.stack([_at_common_rates(curve) for curve in curves])
        zoom = CORNER if _is_steep(table) else None
        if len(curves) > len(LOOKS):
            plot_roc_curves(COMMON_RATES, table, zoom=zoom, ax=ax, legend=False)
        else:
            _draw_few(ax, judged, curves, zoom)
        ax.set_title(_describe(curves, len(parts)))
        if legend:
            add_legend(ax)
    return ax


def _curve(part: TaskScores) -> Array:
    """False and true positive rates (2, k), from (0, 0) to (1, 1)."""
    order = np.argsort(-part.scores, kind="stable")
    positive, scores = part.positive[order], part.scores[order]
    # Rows of equal score pass a threshold together.
    last = np.append(scores[1:] != scores[:-1], True)
    counts = np.stack([np.cumsum(~positive), np.cumsum(positive)])[:, last]
    rates = counts / counts[:, -1:]
    return np.pad(rates, ((0, 0), (1, 0)))


def _area(curve: Array) -> float:
    fpr, tpr = curve
    return float(np.sum(np.diff(fpr) * (tpr[1:] + tpr[:-1])) / 2.0)


def _at_common_rates(curve: Array) -> Array:
    """True positive rates at COMMON_RATES, the upper end where a curve rises."""
    fpr, tpr = curve
    last = np.append(fpr[1:] != fpr[:-1], True)
    values = np.interp(COMMON_RATES[1:], fpr[last], tpr[last])
    return np.append(0.0, values)


def _is_steep(table: Array) -> bool:
    """Whether the curves would run along the frame."""
    return bool(np.interp(CORNER, COMMON_RATES, table.mean(axis=0)) > 1 - CORNER / 2)


def _draw_few(
    ax: Axes, parts: list[TaskScores], curves: list[Array], zoom: float | None
) -> None:
    frame_rates(ax, diagonal=zoom is None)
    for panel in [ax] if zoom is None else [ax, open_corner(ax, zoom)]:
        for part, curve, look in zip(parts, curves, LOOKS, strict=False):
            words = f"{shorten(part.task)}: {100.0 * _area(curve):.1f} %"
            (line,) = panel.plot(*curve, label=words)
            line.set(color=look.colour, linestyle=look.line)


def _describe(curves: list[Array], n_parts: int) -> str:
    mean = 100.0 * float(np.mean([_area(curve) for curve in curves]))
    words = f"{count_words(len(curves), 'task')}, mean AUC {mean:.1f} %"
    lone = n_parts - len(curves)
    return words if not lone else f"{words}; {lone} of one class"
