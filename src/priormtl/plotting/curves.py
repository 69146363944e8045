"""How a value changes with a setting, with bands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from priormtl._arrays import Array
from priormtl.plotting.style import (
    REFERENCE_LOOK,
    Axes,
    Look,
    add_legend,
    choose_looks,
    new_axes,
    styled,
)

__all__ = ["Curve", "plot_curves", "plot_level"]


@dataclass(frozen=True)
class Curve:
    """Values at places, each with the ends of an interval.

    Parameters
    ----------
    name : str
        What the legend says.
    places, values, low, high : (k,) arrays
        Where, what, and its interval.
    """

    name: str
    places: Array
    values: Array
    low: Array
    high: Array


def plot_curves(
    curves: Sequence[Curve],
    *,
    looks: Mapping[str, Look] | None = None,
    log: bool = False,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Lines with markers in their bands.

    Parameters
    ----------
    curves : sequence of Curve
        One line each.
    looks : mapping of names to Look, optional
        To draw the same name alike in several panels.
    log : bool
        Whether the places are on a logarithmic axis, ticked at the places.
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
    >>> sizes, values = np.array([3.0, 10.0, 30.0]), np.array([0.5, 0.7, 0.8])
    >>> curve = Curve("ridge", sizes, values, values - 0.1, values + 0.1)
    >>> ax = plot_curves([curve], log=True)
    >>> ax.get_xscale()
    'log'
    """
    _check_curves(curves)
    chosen = choose_looks([curve.name for curve in curves]) if looks is None else looks
    with styled():
        ax = new_axes(ax)
        for curve in curves:
            _draw(ax, curve, chosen[curve.name])
        if log:
            _tick_at(ax, curves)
        if legend:
            add_legend(ax)
    return ax


def _check_curves(curves: Any) -> None:
    if not isinstance(curves, Sequence) or not all(
        isinstance(curve, Curve) for curve in curves
    ):
        raise TypeError(
            f"curves must be a list of Curve: got {type(curves).__name__}; make each "
            "by Curve(name, places, values, low, high)."
        )


def plot_level(name: str, value: float, low: float, high: float, *, ax: Axes) -> Axes:
    """Draw a horizontal line in its band, to compare curves with.

    Parameters
    ----------
    name : str
        What the legend says.
    value, low, high : float
        The level and its interval.
    ax : matplotlib Axes
        Where to draw.

    Returns
    -------
    matplotlib Axes
    """
    colour = REFERENCE_LOOK.colour
    with styled():
        ax.axhspan(low, high, color=colour, alpha=0.12, linewidth=0)
        ax.axhline(value, color=colour, linewidth=1.2, linestyle="--", label=name)
    return ax


def _draw(ax: Axes, curve: Curve, look: Look) -> None:
    ends = curve.places, curve.low, curve.high
    ax.fill_between(*ends, color=look.colour, alpha=0.18, linewidth=0)
    (line,) = ax.plot(curve.places, curve.values, label=curve.name)
    line.set(color=look.colour, linestyle=look.line, marker=look.marker)


def _tick_at(ax: Axes, curves: Sequence[Curve]) -> None:
    places = sorted({float(place) for curve in curves for place in curve.places})
    ax.set_xscale("log")
    ax.set_xticks(places, [f"{place:g}" for place in places])
    ax.minorticks_off()
