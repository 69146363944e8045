"""How well classes are told apart at every threshold."""

from priormtl._arrays import Array
from priormtl.plotting.numbers import read_numbers
from priormtl.plotting.style import (
    LOOKS,
    REFERENCE_LOOK,
    Axes,
    add_legend,
    new_axes,
    styled,
)

__all__ = ["frame_rates", "open_corner", "plot_roc_curves"]


def plot_roc_curves(
    fpr: Array,
    tpr: Array,
    *,
    zoom: float | None = None,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """ROC curves of all tasks, their mean, and a band of one standard deviation.

    Parameters
    ----------
    fpr : (k,) array
        False positive rates, the same for all tasks.
    tpr : (m, k) array
        True positive rates, task by task.
    zoom : float, optional
        Side of the upper left corner that is shown enlarged below the diagonal, in
        place of it.
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
        _draw(ax, fpr, tpr)
        if legend:
            add_legend(ax)
        frame_rates(ax, diagonal=zoom is None)
        if zoom is not None:
            _draw(open_corner(ax, zoom), fpr, tpr)
    return ax


def frame_rates(ax: Axes, *, diagonal: bool = True) -> None:
    """Axes of two rates, and what guessing reaches."""
    # A margin keeps curves that run along the frame visible.
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    ax.set(xlabel="False positive rate", ylabel="True positive rate")
    if diagonal:
        ax.plot([0, 1], [0, 1], color="#808080", linewidth=0.8, linestyle=":")


def _draw(ax: Axes, fpr: Array, tpr: Array) -> None:
    mean, sd = tpr.mean(axis=0), tpr.std(axis=0)
    lines = ax.plot(fpr, tpr.T, color=LOOKS[0].colour, linewidth=0.5, alpha=0.45)
    lines[0].set_label("each task")
    ends = (mean - sd).clip(0.0, 1.0), (mean + sd).clip(0.0, 1.0)
    band = ax.fill_between(fpr, *ends, color="#808080", alpha=0.35, linewidth=0)
    band.set_label("±1 sd of tasks")
    ax.plot(fpr, mean, color=REFERENCE_LOOK.colour, linewidth=2.0, label="mean")


def open_corner(ax: Axes, side: float) -> Axes:
    """Axes inside the axes that show their upper left corner enlarged."""
    corner: Axes = ax.inset_axes((0.44, 0.1, 0.52, 0.52))
    margin = 0.02 * side
    corner.set(xlim=(-margin, side), ylim=(1.0 - side, 1.0 + margin))
    corner.set(xticks=[0.0, side], yticks=[1.0 - side, 1.0])
    corner.tick_params(labelsize=8)
    corner.spines[:].set(visible=True, color="#808080")
    return corner
