"""ROC curves: of a fitted classifier's tasks, or of given rates."""

from typing import Any

import numpy as np

from priormtl._arrays import Array
from priormtl.estimators import TaskScores, separate_tasks
from priormtl.plotting.style import (
    LINE_STYLES,
    REFERENCE_STYLE,
    Axes,
    add_legend,
    new_axes,
    read_numbers,
    shorten,
    show_missing,
    styled,
)
from priormtl.tables import count_words

__all__ = ["plot_roc", "plot_roc_curves"]

CORNER = 0.2  # side of the enlarged corner, where curves are steep
# Zero twice: curves begin at the lower end of their rise there.
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
    """Plot the ROC curve of each task of a fitted classifier.

    Up to six tasks are drawn in different styles, with their areas in the legend.
    With more tasks, all curves are thin, with their mean at equal false positive
    rates and a band of one standard deviation over tasks. Tasks with only one class
    have no curve; the title counts them.

    Parameters
    ----------
    model : fitted classifier of tasks
        Such as ``MultiTaskClassifier``.
    X, y, task
        Held-out rows, as in :meth:`MultiTaskClassifier.fit`.
    ax : matplotlib Axes, optional
        Axes to draw on. By default, a new figure is created.
    legend : bool
        Whether to add a legend beside the axes.

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
    curves = [_roc_curve(part) for part in judged]
    with styled():
        ax = new_axes(ax, 5.6, 4.0)
        if not curves:
            return show_missing(ax, "every task shows one class only")
        areas = [
            100.0 * float(np.sum(np.diff(fpr) * (tpr[1:] + tpr[:-1])) / 2.0)
            for fpr, tpr in curves
        ]
        table = np.stack([_at_common_rates(*curve) for curve in curves])
        # Where curves would run along the frame, their corner is enlarged.
        reached = np.interp(CORNER, COMMON_RATES, table.mean(axis=0))
        zoom = CORNER if reached > 1 - CORNER / 2 else None
        if len(curves) > len(LINE_STYLES):
            plot_roc_curves(COMMON_RATES, table, zoom=zoom, ax=ax, legend=False)
        else:
            _frame_rates(ax, diagonal=zoom is None)
            for panel in [ax] if zoom is None else [ax, _open_corner(ax, zoom)]:
                named = zip(judged, curves, areas, LINE_STYLES, strict=False)
                for part, curve, area, style in named:
                    words = f"{shorten(part.task)}: {area:.1f} %"
                    (line,) = panel.plot(*curve, label=words)
                    line.set(color=style.colour, linestyle=style.line)
        title = f"{count_words(len(curves), 'task')}, mean AUC {np.mean(areas):.1f} %"
        n_left_out = len(parts) - len(curves)
        ax.set_title(f"{title}; {n_left_out} of one class" if n_left_out else title)
        if legend:
            add_legend(ax)
    return ax


def _roc_curve(part: TaskScores) -> Array:
    """False and true positive rates (2, k), from (0, 0) to (1, 1)."""
    order = np.argsort(-part.scores, kind="stable")
    positive, scores = part.positive[order], part.scores[order]
    # Rows of equal score pass a threshold together.
    last = np.append(scores[1:] != scores[:-1], True)
    counts = np.stack([np.cumsum(~positive), np.cumsum(positive)])[:, last]
    rates = counts / counts[:, -1:]
    return np.pad(rates, ((0, 0), (1, 0)))


def _at_common_rates(fpr: Array, tpr: Array) -> Array:
    """True positive rates at COMMON_RATES, the upper end where a curve rises."""
    last = np.append(fpr[1:] != fpr[:-1], True)
    values = np.interp(COMMON_RATES[1:], fpr[last], tpr[last])
    return np.append(0.0, values)


def plot_roc_curves(
    fpr: Array,
    tpr: Array,
    *,
    zoom: float | None = None,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Plot ROC curves of all tasks, with their mean and standard deviation.

    Parameters
    ----------
    fpr : (k,) array
        False positive rates, the same for all tasks.
    tpr : (m, k) array
        True positive rates, task by task.
    zoom : float, optional
        Side of the upper left corner that an inset enlarges, in place of the
        diagonal.
    ax : matplotlib Axes, optional
        Axes to draw on. By default, a new figure is created.
    legend : bool
        Whether to add a legend beside the axes.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> fpr = np.linspace(0.0, 1.0, 11)
    >>> ax = plot_roc_curves(fpr, np.stack([fpr**0.2, fpr**0.5]))
    >>> ax.get_xlabel()
    'False positive rate'
    """
    fpr, tpr = read_numbers("fpr", fpr, "k"), read_numbers("tpr", tpr, "m", "k")
    if tpr.shape[1] != len(fpr):
        raise ValueError(
            f"tpr must have a column for each rate of fpr: got {tpr.shape[1]} for "
            f"{len(fpr)}."
        )
    with styled():
        ax = new_axes(ax)
        _draw_many(ax, fpr, tpr)
        if legend:
            add_legend(ax)
        _frame_rates(ax, diagonal=zoom is None)
        if zoom is not None:
            _draw_many(_open_corner(ax, zoom), fpr, tpr)
    return ax


def _frame_rates(ax: Axes, *, diagonal: bool) -> None:
    """Axes of two rates, and the diagonal that guessing reaches."""
    # A margin keeps curves that run along the frame visible.
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    ax.set(xlabel="False positive rate", ylabel="True positive rate")
    if diagonal:
        ax.plot([0, 1], [0, 1], color="#808080", linewidth=0.8, linestyle=":")


def _draw_many(ax: Axes, fpr: Array, tpr: Array) -> None:
    mean, sd = tpr.mean(axis=0), tpr.std(axis=0)
    lines = ax.plot(fpr, tpr.T, color=LINE_STYLES[0].colour, linewidth=0.5, alpha=0.45)
    lines[0].set_label("each task")
    ends = (mean - sd).clip(0.0, 1.0), (mean + sd).clip(0.0, 1.0)
    band = ax.fill_between(fpr, *ends, color="#808080", alpha=0.35, linewidth=0)
    band.set_label("±1 sd of tasks")
    ax.plot(fpr, mean, color=REFERENCE_STYLE.colour, linewidth=2.0, label="mean")


def _open_corner(ax: Axes, side: float) -> Axes:
    """Inset axes that enlarge the upper left corner."""
    corner: Axes = ax.inset_axes((0.44, 0.1, 0.52, 0.52))
    margin = 0.02 * side
    corner.set(xlim=(-margin, side), ylim=(1.0 - side, 1.0 + margin))
    corner.set(xticks=[0.0, side], yticks=[1.0 - side, 1.0])
    corner.tick_params(labelsize=8)
    corner.spines[:].set(visible=True, color="#808080")
    return corner
