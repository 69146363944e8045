"""Which features act in which tasks: coefficients as a heat map."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from priormtl._arrays import Index
from priormtl.plotting.colours import SIGNED, symmetric_limit
from priormtl.plotting.learned import Learned, Per, rank_rows, read_model
from priormtl.plotting.names import fold_words, name_ticks, shorten
from priormtl.plotting.style import Axes, new_axes, say_missing, styled
from priormtl.tables import count_words

__all__ = ["plot_coefficients"]


def plot_coefficients(
    model: Any,
    *,
    top: int | None = 30,
    features: Sequence[Hashable] | None = None,
    tasks: Sequence[Hashable] | None = None,
    per: Per = "unit",
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Heat map of coefficients, features × tasks, the strongest feature first.

    Dark blue is below zero, light yellow above, grey is zero: also without colours
    the sign is seen.

    Parameters
    ----------
    model : fitted linear model
        Anything with ``coef_`` (m, d); names are taken from it.
    top : int or None
        Most features that are shown: the largest ‖p_j‖ over the tasks. None shows
        all that have a coefficient.
    features : names or positions, optional
        Features to show instead, in this order.
    tasks : task labels, optional
        Tasks to show, in this order; all by default, as their chain has them.
    per : {"unit", "deviation"}
        Coefficients in the units of X, or for features that are divided by their
        standard deviation, which makes features comparable.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    legend : bool
        Whether to add the scale of colours.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from priormtl import MultiTaskRegressor
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> ax = plot_coefficients(MultiTaskRegressor().fit(X, y, task=task), top=3)
    >>> ax.get_title()
    'Strongest 3 of 6 features'
    """
    learned = read_model(model, per)
    rows = learned.choose_rows(top, features)
    columns = learned.find_tasks(tasks)
    with styled():
        ax = new_axes(ax, *_figure_size(len(rows), learned.tasks))
        if not len(rows):
            return say_missing(ax, f"no feature is selected (of {len(learned.P)})")
        _draw(ax, learned, rows, columns, legend=legend)
        ax.set_title(_describe(learned, len(rows), chosen=features is not None))
    return ax


def _describe(learned: Learned, n_shown: int, *, chosen: bool) -> str:
    """Say which features are shown."""
    d, n_active = len(learned.P), len(rank_rows(learned.P))
    if not chosen and n_shown < n_active:
        others = "" if n_active == d else f" with a coefficient, {d} in all"
        return f"Strongest {n_shown} of {count_words(n_active, 'feature')}{others}"
    if n_shown < d:
        words = f"{n_shown} of {count_words(d, 'feature')}"
        return words if chosen else f"{words} selected"
    return count_words(d, "feature")


def _figure_size(n_rows: int, tasks: Sequence[Hashable]) -> tuple[float, float]:
    """Inches in which names have room, also upright, on a page."""
    longest = max(len(shorten(task)) for task in tasks)
    width = float(np.clip(3.2 + 0.24 * len(tasks), 4.6, 9.0))
    height = float(np.clip(1.2 + 0.19 * n_rows, 2.0, 10.0))
    return width, height + 0.07 * longest


def _draw(
    ax: Axes, learned: Learned, rows: Index, columns: Index, *, legend: bool
) -> None:
    values = learned.P[np.ix_(rows, columns)]
    limit = symmetric_limit(values)
    image = ax.imshow(values, aspect="auto", cmap=SIGNED, vmin=-limit, vmax=limit)
    ax.grid(visible=False)
    ax.spines[:].set_visible(True)
    name_ticks(ax, "y", [learned.features[j] for j in rows])
    name_ticks(ax, "x", [learned.tasks[i] for i in columns])
    ax.set_xlabel(f"Task ({len(columns)})")
    if legend:
        ax.figure.colorbar(
            image, ax=ax, label=fold_words(f"Coefficient: {learned.unit}", ax)
        )
