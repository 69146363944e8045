"""How well classes are told apart at every threshold."""

from priormtl._arrays import Array
from priormtl.plotting.style import (
    LOOKS,
    REFERENCE_LOOK,
    Axes,
    add_legend,
    new_axes,
    styled,
)

__all__ = ["plot_roc"]


def plot_roc(
    fpr: Array, tpr: Array, *, ax: Axes | None = None, legend: bool = True
) -> Axes:
    """ROC curves of all tasks, their mean, and a band of one standard deviation.

    Parameters
    ----------
    fpr : (k,) array
        False positive rates, the same for all tasks.
    tpr : (m, k) array
        True positive rates, task by task.
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
    >>> ax = plot_roc(fpr, np.stack([fpr**0.2, fpr**0.5]))
    >>> ax.get_xlabel()
    'False positive rate'
    """
    mean, sd = tpr.mean(axis=0), tpr.std(axis=0)
    colour = LOOKS[0].colour
    with styled():
        ax = new_axes(ax)
        lines = ax.plot(fpr, tpr.T, color=colour, linewidth=0.5, alpha=0.45)
        lines[0].set_label("each task")
        ends = (mean - sd).clip(0.0, 1.0), (mean + sd).clip(0.0, 1.0)
        ax.fill_between(
            fpr, *ends, color="#808080", alpha=0.35, linewidth=0, label="±1 sd of tasks"
        )
        ax.plot(fpr, mean, color=REFERENCE_LOOK.colour, linewidth=2.0, label="mean")
        ax.plot([0, 1], [0, 1], color="#808080", linewidth=0.8, linestyle=":")
        # A margin keeps curves that run along the frame visible.
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
        ax.set(xlabel="False positive rate", ylabel="True positive rate")
        if legend:
            add_legend(ax)
    return ax
