"""How coefficients grow as lam falls."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.data import name_features
from priormtl.plotting.learned import find_places
from priormtl.plotting.names import shorten
from priormtl.plotting.style import LOOKS, Axes, add_legend, new_axes, styled
from priormtl.tables import count_words

__all__ = ["plot_path"]

OTHERS = "#b8b8b8"


def plot_path(
    path: Any,
    *,
    features: Sequence[Hashable] | None = None,
    top: int = len(LOOKS),
    task: Hashable = None,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Regularisation path: one line per feature, from large lam to small.

    Parameters
    ----------
    path : RegularizationPath
        From :func:`priormtl.regularization_path`.
    features : names or positions, optional
        Features that get a look and a name; the strongest by default. All others are
        thin and grey.
    top : int
        How many those are by default.
    task : task label, optional
        Show the coefficients of this task; by default ‖p_j‖ over all tasks, or the
        coefficients themselves where there is one task.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    legend : bool
        Whether to name the lines beside the axes.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from priormtl import regularization_path
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> path = regularization_path(X, y, task=task, lams=5)
    >>> ax = plot_path(path, top=2)
    >>> len(ax.lines)
    6
    """
    _check_path(path)
    values, label = _lines(path, task)
    names = name_features(path.features, path.coefs.shape[2])
    chosen = _choose(values, features, top, names)
    with styled():
        ax = new_axes(ax, 6.5, 3.8)
        _draw_others(ax, path.lams, np.delete(values, chosen, axis=1))
        for place, j in enumerate(chosen):
            look = LOOKS[place % len(LOOKS)]
            (line,) = ax.plot(path.lams, values[:, j], label=shorten(names[j]))
            line.set(color=look.colour, linestyle=look.line)
        _scale(ax, path.lams)
        ax.set(xlabel="lam", ylabel=label, title=_describe(path))
        if legend and ax.get_legend_handles_labels()[0]:
            add_legend(ax)
    return ax


def _check_path(path: Any) -> None:
    if not hasattr(path, "lams") or not hasattr(path, "coefs"):
        raise TypeError(
            "path must be what regularization_path(X, y, task=task) returns: got "
            f"{type(path).__name__}."
        )


def _lines(path: Any, task: Hashable) -> tuple[Array, str]:
    """One value per lam and feature (l, d), and what it is."""
    tasks = path.tasks.tolist()
    if task is None and len(tasks) > 1:
        return np.linalg.norm(path.coefs, axis=1), "Size of coefficients over all tasks"
    label = tasks[0] if task is None else task
    (i,) = find_places("task", [label], tasks, numbered=False)
    return path.coefs[:, i], "Coefficient"


def _choose(
    values: Array,
    features: Sequence[Hashable] | None,
    top: int,
    names: tuple[str, ...],
) -> Index:
    """Features asked for, else those that grow largest anywhere on the path."""
    if features is not None:
        return find_places("feature", features, names)
    size = np.abs(values).max(axis=0, initial=0.0)
    order = np.argsort(-size, kind="stable")
    return order[size[order] > 0][:top]


def _draw_others(ax: Axes, lams: Array, values: Array) -> None:
    if not values.shape[1]:
        return
    lines = ax.plot(lams, values, color=OTHERS, linewidth=0.7, zorder=1)
    lines[0].set_label(count_words(values.shape[1], "other feature"))


def _scale(ax: Axes, lams: Array) -> None:
    """Logarithmic lam, falling; straight below the smallest where lam = 0 is there."""
    positive = lams[lams > 0]
    if len(positive) == len(lams):
        ax.set_xscale("log")
    elif len(positive):
        ax.set_xscale("symlog", linthresh=float(positive.min()))
    ax.invert_xaxis()


def _describe(path: Any) -> str:
    least, most = path.active.sum(axis=1)[[0, -1]]
    d = path.coefs.shape[2]
    return f"{least} to {most} of {count_words(d, 'feature')} selected"
