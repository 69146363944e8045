"""How much data a model needs."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from priormtl._arrays import Array
from priormtl.plotting.curves import Curve, plot_curves
from priormtl.plotting.names import shorten
from priormtl.plotting.numbers import read_numbers
from priormtl.plotting.style import Axes, add_legend, new_axes, styled

__all__ = ["plot_learning_curve"]


def plot_learning_curve(
    sizes: Any,
    scores: Any,
    *,
    score: str = "Score on held-out rows",
    size: str = "Training rows",
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Mean score against the size of the training data, with its standard error.

    Parameters
    ----------
    sizes : (k,) array
        Sizes, such as the first part of what scikit-learn's ``learning_curve``
        returns.
    scores : (k, r) array, or mapping of names to such arrays
        Scores of r repeats at each size, such as the third part; several models by
        name share the axes. NaN where a score does not exist.
    score, size : str
        What the axes say.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    legend : bool
        Whether to name the lines beside the axes.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0.4, 0.5, 0.45], [0.7, 0.6, 0.65]])
    >>> named = {"no prior": scores, "prior": scores + 0.1}
    >>> ax = plot_learning_curve([10, 100], named, size="Training rows per task")
    >>> [tick.get_text() for tick in ax.get_xticklabels()]
    ['10', '100']
    """
    places = read_numbers("sizes", sizes, "k")
    named = scores if isinstance(scores, Mapping) else {"": scores}
    curves = [_curve(name, places, table) for name, table in named.items()]
    with styled():
        ax = plot_curves(curves, log=True, ax=new_axes(ax), legend=False)
        ax.set(xlabel=size, ylabel=score, title="Mean ± standard error")
        if legend and isinstance(scores, Mapping):
            add_legend(ax)
    return ax


def _curve(name: str, places: Array, table: Any) -> Curve:
    one = np.ndim(table) == 1  # score of each size
    values = read_numbers("scores", table, *("k" if one else "kr"))
    values = values[:, np.newaxis] if one else values
    if len(values) != len(places):
        raise ValueError(
            f"scores must be (sizes, repeats): got shape {values.shape} for "
            f"{len(places)} sizes."
        )
    known = ~np.isnan(values)
    kept = known.any(axis=1)
    count = known.sum(axis=1)[kept]
    mean = np.nanmean(values[kept], axis=1)
    error = np.nanstd(values[kept], axis=1) / np.sqrt(np.maximum(count - 1, 1))
    return Curve(shorten(name), places[kept], mean, mean - error, mean + error)
