"""Curves over a setting: values with bands, learning curves, convergence."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from priormtl._arrays import Array
from priormtl.estimators import FitTrace
from priormtl.exceptions import suggest
from priormtl.plotting.style import (
    REFERENCE_STYLE,
    Axes,
    LineStyle,
    add_legend,
    choose_styles,
    new_axes,
    read_numbers,
    shorten,
    show_missing,
    styled,
    tick_few_decades,
)

__all__ = [
    "Curve",
    "Descent",
    "plot_convergence",
    "plot_curves",
    "plot_learning_curve",
    "plot_level",
]

# Values with bands.


@dataclass(frozen=True)
class Curve:
    """Values at places, each with the ends of an interval.

    Parameters
    ----------
    name : str
        Name in the legend.
    places, values, low, high : (k,) arrays
        Positions, values, and the ends of their intervals.
    """

    name: str
    places: Array
    values: Array
    low: Array
    high: Array


def plot_curves(
    curves: Sequence[Curve],
    *,
    styles: Mapping[str, LineStyle] | None = None,
    log: bool = False,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Plot curves with markers and bands.

    Parameters
    ----------
    curves : sequence of Curve
        One line each.
    styles : mapping of names to LineStyle, optional
        Line style of each name, to draw it alike in several panels.
    log : bool
        Whether the horizontal axis is logarithmic, with ticks at the places.
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
    >>> sizes, values = np.array([3.0, 10.0, 30.0]), np.array([0.5, 0.7, 0.8])
    >>> curve = Curve("ridge", sizes, values, values - 0.1, values + 0.1)
    >>> ax = plot_curves([curve], log=True)
    >>> ax.get_xscale()
    'log'
    """
    if not isinstance(curves, Sequence) or not all(
        isinstance(curve, Curve) for curve in curves
    ):
        raise TypeError(
            f"curves must be a list of Curve: got {type(curves).__name__}; make each "
            "by Curve(name, places, values, low, high)."
        )
    if styles is None:
        styles = choose_styles([curve.name for curve in curves])
    with styled():
        ax = new_axes(ax)
        for curve in curves:
            colour, line, marker = styles[curve.name]
            band = curve.places, curve.low, curve.high
            ax.fill_between(*band, color=colour, alpha=0.18, linewidth=0)
            (drawn,) = ax.plot(curve.places, curve.values, label=curve.name)
            drawn.set(color=colour, linestyle=line, marker=marker)
        if log:
            places = sorted({float(place) for c in curves for place in c.places})
            ax.set_xscale("log")
            ax.set_xticks(places, [f"{place:g}" for place in places])
            ax.minorticks_off()
        if legend:
            add_legend(ax)
    return ax


def plot_level(name: str, value: float, low: float, high: float, *, ax: Axes) -> Axes:
    """Draw a horizontal reference line with a band.

    Parameters
    ----------
    name : str
        Name in the legend.
    value, low, high : float
        The level and the ends of its interval.
    ax : matplotlib Axes
        Axes to draw on.

    Returns
    -------
    matplotlib Axes
    """
    colour = REFERENCE_STYLE.colour
    with styled():
        ax.axhspan(low, high, color=colour, alpha=0.12, linewidth=0)
        ax.axhline(value, color=colour, linewidth=1.2, linestyle="--", label=name)
    return ax


# Learning curves.


def plot_learning_curve(
    sizes: Any,
    scores: Any,
    *,
    score: str = "Score on held-out rows",
    size: str = "Training rows",
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Plot the mean score, with its standard error, against the training size.

    Parameters
    ----------
    sizes : (k,) array
        Training sizes, such as the first output of scikit-learn's
        ``learning_curve``.
    scores : (k, r) array, or mapping of names to such arrays
        Scores of r repeats at each size, such as its third output. A mapping draws
        one line per model. NaN marks a missing score.
    score, size : str
        Labels of the axes.
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
    >>> scores = np.array([[0.4, 0.5, 0.45], [0.7, 0.6, 0.65]])
    >>> named = {"no prior": scores, "prior": scores + 0.1}
    >>> ax = plot_learning_curve([10, 100], named, size="Training rows per task")
    >>> [tick.get_text() for tick in ax.get_xticklabels()]
    ['10', '100']
    """
    places = read_numbers("sizes", sizes, "k")
    named = scores if isinstance(scores, Mapping) else {"": scores}
    curves = [_average_repeats(name, places, table) for name, table in named.items()]
    with styled():
        ax = plot_curves(curves, log=True, ax=new_axes(ax), legend=False)
        ax.set(xlabel=size, ylabel=score, title="Mean ± standard error")
        if legend and isinstance(scores, Mapping):
            add_legend(ax)
    return ax


def _average_repeats(name: str, places: Array, table: Any) -> Curve:
    """Mean over repeats and its standard error at each size that has a score."""
    if np.ndim(table) == 1:  # one repeat
        values = read_numbers("scores", table, "k")[:, np.newaxis]
    else:
        values = read_numbers("scores", table, "k", "r")
    if len(values) != len(places):
        raise ValueError(
            f"scores must be (sizes, repeats): got shape {values.shape} for "
            f"{len(places)} sizes."
        )
    # Standard error s / sqrt(r) with s² over r − 1, of the r scores that are there.
    known = ~np.isnan(values)
    kept = known.any(axis=1)
    count = known.sum(axis=1)[kept]
    mean = np.nanmean(values[kept], axis=1)
    error = np.nanstd(values[kept], axis=1) / np.sqrt(np.maximum(count - 1, 1))
    return Curve(shorten(name), places[kept], mean, mean - error, mean + error)


# Convergence.

LABELS = {"iterations": "Iteration", "seconds": "Seconds"}
N_MARKERS = 6
WAY_OUT = "trace_fit(model, X, y, task=task) makes a FitTrace."


@dataclass(frozen=True)
class Descent:
    """Progress of one algorithm towards a known optimum.

    Parameters
    ----------
    name : str
        Name in the legend.
    iterations, seconds : (k,) arrays
        Iteration and time at which each value was reached.
    excess : (k,) array
        Objective minus optimum.
    """

    name: str
    iterations: Array
    seconds: Array
    excess: Array


def plot_convergence(
    runs: Descent | FitTrace | Sequence[Descent] | Sequence[FitTrace],
    *,
    against: Literal["iterations", "seconds"] = "iterations",
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Plot the convergence of solvers, with logarithmic axes.

    Parameters
    ----------
    runs : FitTrace or Descent, or a sequence of them
        One line each. A FitTrace, from ``trace_fit(model, X, y, task=task)``, shows
        the duality gap and, dotted, the tolerance of the model. A Descent shows the
        objective minus a known optimum.
    against : {"iterations", "seconds"}
        The horizontal axis.
    ax : matplotlib Axes, optional
        Axes to draw on. By default, a new figure is created.
    legend : bool
        Whether to add a legend beside the axes.

    Returns
    -------
    matplotlib Axes

    Notes
    -----
    The start, at iteration 0, is not shown, because the axis is logarithmic. A line
    ends before the first value that is not positive.

    Examples
    --------
    >>> from priormtl import MultiTaskRegressor
    >>> from priormtl.datasets import make_related_tasks
    >>> from priormtl.plotting import trace_fit
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = MultiTaskRegressor()
    >>> names = ["ista", "fista"]
    >>> traces = [trace_fit(model, X, y, task=task, solver=name) for name in names]
    >>> plot_convergence(traces).get_ylabel()
    'Duality gap'
    """
    if against not in LABELS:
        near = suggest([against], list(LABELS))
        words = f"against must be one of {list(LABELS)}: got {against!r}."
        raise ValueError(f"{words}{near}")
    listed = _list_runs(runs)
    styles = choose_styles([run.name for run in listed])
    with styled():
        ax = new_axes(ax)
        for run in listed:
            place = getattr(run, against)
            height = run.gaps if isinstance(run, FitTrace) else run.excess
            # A logarithm shows positive points, up to the first that is not.
            kept = np.cumprod(height > 0).astype(bool) & (place > 0)
            place, height = place[kept], height[kept]
            (drawn,) = ax.plot(
                place, height, label=run.name, markevery=_spread_markers(place)
            )
            colour, line, marker = styles[run.name]
            drawn.set(color=colour, linestyle=line, marker=marker)
        if not any(np.size(line.get_xdata()) for line in ax.lines):
            # A logarithmic axis needs at least one number.
            return show_missing(ax, "at the optimum before the first step")
        found = {run.tolerance for run in listed if isinstance(run, FitTrace)}
        for k, tolerance in enumerate(sorted(found - {0.0})):
            drawn = ax.axhline(tolerance, color="#808080", linewidth=1.0, linestyle=":")
            drawn.set_label("_" if k else "tolerance")
        ax.set(xscale="log", yscale="log", xlabel=LABELS[against])
        gaps = bool(listed) and isinstance(listed[0], FitTrace)
        ax.set_ylabel("Duality gap" if gaps else "Objective − optimum")
        tick_few_decades(ax.xaxis)
        if legend and listed:
            add_legend(ax)
    return ax


def _list_runs(runs: Any) -> list[Any]:
    """List of runs, all of one kind since they share an axis."""
    if isinstance(runs, Descent | FitTrace):
        return [runs]
    if not isinstance(runs, Iterable) or isinstance(runs, str):
        name = type(runs).__name__
        raise TypeError(f"runs must be FitTrace or Descent: got {name}; {WAY_OUT}")
    listed = [*runs]
    kinds = {type(run) for run in listed}
    if not kinds <= {Descent} and not kinds <= {FitTrace}:
        found = sorted(kind.__name__ for kind in kinds)
        raise TypeError(
            f"runs must all be FitTrace or all be Descent: got {found}; {WAY_OUT}"
        )
    return listed


def _spread_markers(place: Array) -> list[int]:
    """A few points evenly apart on a logarithmic axis."""
    if not len(place):
        return []
    goals = np.geomspace(place[0], place[-1], N_MARKERS)
    nearest = np.searchsorted(place, goals).clip(max=len(place) - 1)
    return sorted(set(nearest.tolist()))
