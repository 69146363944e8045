"""How fast algorithms come down to the optimum."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from priormtl._arrays import Array
from priormtl.estimators import FitTrace
from priormtl.exceptions import suggest
from priormtl.plotting.style import (
    Axes,
    Look,
    add_legend,
    choose_looks,
    new_axes,
    say_missing,
    styled,
    tick_few_decades,
)

__all__ = ["Descent", "plot_convergence"]

LABELS = {"iterations": "Iteration", "seconds": "Seconds"}
N_MARKERS = 6
WAY_OUT = "trace_fit(model, X, y, task=task) makes a FitTrace."


@dataclass(frozen=True)
class Descent:
    """One algorithm's way down.

    Parameters
    ----------
    name : str
        What the legend says.
    iterations, seconds : (k,) arrays
        Where each value was reached.
    excess : (k,) array
        Objective minus optimum there.
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
    """How fast runs come down to the optimum, both axes logarithmic.

    Parameters
    ----------
    runs : FitTrace or Descent, or a sequence of them
        One line each. A FitTrace, from ``trace_fit(model, X, y, task=task)``, shows
        the duality gap, and dotted the tolerance at which the model counts as solved;
        a Descent shows the objective minus an optimum that is known.
    against : {"iterations", "seconds"}
        The horizontal axis.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    legend : bool
        Whether to name the lines beside the axes.

    Returns
    -------
    matplotlib Axes

    Notes
    -----
    The start, at iteration 0, has no place on a logarithmic axis. A line ends where
    the optimum is reached to the last digit, or below.

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
    label = _check_kind(listed)
    with styled():
        ax = new_axes(ax)
        looks = choose_looks([run.name for run in listed])
        for run in listed:
            _draw(ax, run, against, looks[run.name])
        if not any(np.size(line.get_xdata()) for line in ax.lines):
            # A logarithmic axis needs a number.
            return say_missing(ax, "at the optimum before the first step")
        _draw_tolerances(ax, listed)
        ax.set(xscale="log", yscale="log")
        tick_few_decades(ax.xaxis)
        ax.set(xlabel=LABELS[against], ylabel=label)
        if legend and listed:
            add_legend(ax)
    return ax


def _list_runs(runs: Any) -> list[Any]:
    if isinstance(runs, Descent | FitTrace):
        return [runs]
    if not isinstance(runs, Iterable) or isinstance(runs, str):
        name = type(runs).__name__
        raise TypeError(f"runs must be FitTrace or Descent: got {name}; {WAY_OUT}")
    return [*runs]


def _check_kind(runs: Sequence[Any]) -> str:
    """What is measured: the same for all runs, since they share an axis."""
    kinds = {type(run) for run in runs}
    if not kinds <= {Descent} and not kinds <= {FitTrace}:
        found = sorted(kind.__name__ for kind in kinds)
        raise TypeError(
            f"runs must all be FitTrace or all be Descent: got {found}; {WAY_OUT}"
        )
    return "Duality gap" if kinds == {FitTrace} else "Objective − optimum"


def _draw(ax: Axes, run: Descent | FitTrace, against: str, look: Look) -> None:
    height = run.gaps if isinstance(run, FitTrace) else run.excess
    place, height = _visible(getattr(run, against), height)
    (line,) = ax.plot(place, height, label=run.name, markevery=_spread(place))
    line.set(color=look.colour, linestyle=look.line, marker=look.marker)


def _draw_tolerances(ax: Axes, runs: Sequence[Any]) -> None:
    found = {run.tolerance for run in runs if isinstance(run, FitTrace)}
    for place, tolerance in enumerate(sorted(found - {0.0})):
        line = ax.axhline(tolerance, color="#808080", linewidth=1.0, linestyle=":")
        line.set_label("_" if place else "tolerance")


def _visible(place: Array, excess: Array) -> tuple[Array, Array]:
    """Points that a logarithm has, up to the first excess that it has not."""
    above = np.cumprod(excess > 0).astype(bool)
    kept = above & (place > 0)
    return place[kept], excess[kept]


def _spread(place: Array) -> list[int]:
    """A few points evenly apart on a logarithmic axis."""
    if not len(place):
        return []
    goals = np.geomspace(place[0], place[-1], N_MARKERS)
    nearest = np.searchsorted(place, goals).clip(max=len(place) - 1)
    return sorted(set(nearest.tolist()))
