"""How fast algorithms come down to the optimum."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from priormtl._arrays import Array
from priormtl.plotting.style import Axes, add_legend, choose_looks, new_axes, styled

__all__ = ["Descent", "plot_convergence"]

LABELS = {"iterations": "Iteration", "seconds": "Seconds"}
N_MARKERS = 6


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
    descents: Sequence[Descent],
    *,
    against: Literal["iterations", "seconds"] = "iterations",
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Objective minus optimum, both axes logarithmic.

    Parameters
    ----------
    descents : sequence of Descent
        One line each.
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
    A line ends where the optimum is reached to the last digit, or below.

    Examples
    --------
    >>> import numpy as np
    >>> steps = np.arange(1.0, 50.0)
    >>> ax = plot_convergence([Descent("gd", steps, steps / 1e3, 0.9**steps)])
    >>> ax.get_yscale()
    'log'
    """
    with styled():
        ax = new_axes(ax)
        looks = choose_looks([descent.name for descent in descents])
        for descent in descents:
            place, excess = _visible(getattr(descent, against), descent.excess)
            look = looks[descent.name]
            ax.plot(
                place,
                excess,
                color=look.colour,
                linestyle=look.line,
                marker=look.marker,
                markevery=_spread(place),
                label=descent.name,
            )
        ax.set(xscale="log", yscale="log")
        ax.set(xlabel=LABELS[against], ylabel="Objective − optimum")
        if legend:
            add_legend(ax)
    return ax


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
