"""How coefficients change from task to task, with bands."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.plotting.learned import Learned, Per, read_model
from priormtl.plotting.names import (
    even_places,
    fold_words,
    name_ticks,
    shorten,
)
from priormtl.plotting.style import (
    LOOKS,
    Axes,
    Look,
    add_legend,
    new_axes,
    say_missing,
    styled,
)
from priormtl.tables import count_words

__all__ = ["plot_over_tasks"]

FEW = 4
MOST_MARKERS = 40


def plot_over_tasks(
    model: Any,
    features: Sequence[Hashable] | None = None,
    *,
    band: Any = None,
    tasks: Sequence[Hashable] | None = None,
    per: Per = "unit",
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Coefficients of a few features along the tasks, one line per feature.

    Tasks that no chain and no ``tasks`` puts in order are points, not lines.

    Parameters
    ----------
    model : fitted linear model
        Anything with ``coef_`` (m, d); names are taken from it.
    features : names or positions, optional
        What to show; the four largest ‖p_j‖ by default.
    band : pair of (m, d) arrays, or what has ``low`` and ``high``, optional
        Ends of an interval for each coefficient, in the units of ``coef_``, such as
        ``resample_coefficients(...).band()``. Its ``level``, where it has one, is
        said in the title.
    tasks : task labels, optional
        Tasks to show, in this order; all by default, as their chain has them.
    per, ax, legend
        As in :func:`plot_coefficients`.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from priormtl import MultiTaskRegressor
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = MultiTaskRegressor().fit(X, y, task=task)
    >>> ends = model.coef_ - 0.1, model.coef_ + 0.1
    >>> ax = plot_over_tasks(model, [0, 2], band=ends)
    >>> [text.get_text() for text in ax.get_legend().texts]
    ['x0', 'x2']
    """
    learned = read_model(model, per)
    columns = learned.find_tasks(tasks)
    rows = learned.choose_rows(FEW, features)
    joined = learned.ordered or tasks is not None
    ends = None if band is None else _read_band(band, learned)
    with styled():
        ax = new_axes(ax, 7.0, 3.8)
        if not len(rows):
            return say_missing(ax, f"no feature is selected (of {len(learned.P)})")
        ax.axhline(0.0, color="#808080", linewidth=0.8)
        for place, j in enumerate(rows):
            part = None if ends is None else ends[:, j, columns]
            name, look = shorten(learned.features[j]), LOOKS[place % len(LOOKS)]
            _draw(ax, learned.P[j, columns], part, name, look, joined=joined)
        name_ticks(ax, "x", [learned.tasks[i] for i in columns])
        ax.set(xlabel=f"Task ({len(columns)})", title=_describe(learned, rows, band))
        ax.set_ylabel(fold_words(f"Coefficient: {learned.unit}", ax))
        if legend:
            add_legend(ax)
    return ax


def _read_band(band: Any, learned: Learned) -> Array:
    """Ends (2, d, m) in the unit of what is shown."""
    low, high = (band.low, band.high) if hasattr(band, "low") else band
    ends = np.stack([np.asarray(low, np.float64), np.asarray(high, np.float64)])
    m, d = learned.P.shape[::-1]
    if ends.shape != (2, m, d):
        raise ValueError(
            f"band must be two arrays of shape {(m, d)}, as coef_: got "
            f"{ends.shape[1:]}."
        )
    return np.asarray((ends * learned.scale).transpose(0, 2, 1))


def _draw(
    ax: Axes,
    values: Array,
    ends: Array | None,
    name: str,
    look: Look,
    *,
    joined: bool,
) -> None:
    places = np.arange(len(values))
    (line,) = ax.plot(places, values, label=name, marker=look.marker)
    line.set(color=look.colour, linestyle=look.line if joined else "none")
    if joined:
        line.set_markevery(even_places(len(values), MOST_MARKERS).tolist())
    if ends is not None and joined and len(values) > 1:
        ax.fill_between(places, *ends, color=look.colour, alpha=0.18, linewidth=0)
    elif ends is not None:
        ax.vlines(places, *ends, color=look.colour, alpha=0.4, linewidth=2.5)


def _describe(learned: Learned, rows: Index, band: Any) -> str:
    words = f"{len(rows)} of {count_words(len(learned.P), 'feature')}"
    level = getattr(band, "level", None)
    return words if level is None else f"{words}, with {100 * level:g} % bands"
