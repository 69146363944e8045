"""How a value depends on two strengths."""

import numpy as np

from priormtl._arrays import Array
from priormtl.plotting.colours import VALUES
from priormtl.plotting.numbers import read_numbers
from priormtl.plotting.style import Axes, new_axes, styled

__all__ = ["plot_surface"]

CELL_TEXT = {"ha": "center", "va": "center", "fontsize": 8}


def plot_surface(
    x: Array,
    y: Array,
    values: Array,
    *,
    labels: tuple[str, str],
    limits: tuple[float, float] | None = None,
    decimals: int | None = 1,
    ax: Axes | None = None,
) -> Axes:
    """Heat map with the values written in, one cell per pair of strengths.

    Parameters
    ----------
    x, y : (a,) and (b,) arrays
        Strengths; cells are equally wide whatever their steps.
    values : (b, a) array
        Values; NaN where there is none.
    labels : pair of str
        Names of the strengths.
    limits : pair of float, optional
        Ends of the colours, to share them between panels.
    decimals : int or None
        Digits of the values; None writes none.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.

    Returns
    -------
    matplotlib Axes
        Its one image can be given to ``figure.colorbar``.

    Examples
    --------
    >>> import numpy as np
    >>> strengths = np.array([1.0, 10.0, 100.0])
    >>> ax = plot_surface(strengths, strengths, np.eye(3), labels=("lam", "theta"))
    >>> ax.get_xlabel()
    'lam'
    """
    x, y = read_numbers("x", x, "a"), read_numbers("y", y, "b")
    values = read_numbers("values", values, "b", "a")
    if values.shape != (len(y), len(x)):
        raise ValueError(
            f"values must have one row per y and one column per x, {len(y), len(x)}: "
            f"got shape {values.shape}."
        )
    low, high = (np.nanmin(values), np.nanmax(values)) if limits is None else limits
    with styled():
        ax = new_axes(ax)
        ax.imshow(
            values, origin="lower", aspect="auto", cmap=VALUES, vmin=low, vmax=high
        )
        ax.grid(visible=False)
        ax.set_xticks(range(len(x)), [f"{strength:.3g}" for strength in x])
        ax.set_yticks(range(len(y)), [f"{strength:.3g}" for strength in y])
        ax.set(xlabel=labels[0], ylabel=labels[1])
        if decimals is not None:
            _write(ax, values, (low + high) / 2.0, decimals)
    return ax


def _write(ax: Axes, values: Array, middle: float, decimals: int) -> None:
    for (row, column), value in np.ndenumerate(values):
        colour = "white" if value < middle else "black"
        text = "" if np.isnan(value) else f"{value:.{decimals}f}"
        ax.text(column, row, text, CELL_TEXT, color=colour)
