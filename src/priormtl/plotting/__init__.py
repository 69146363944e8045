"""How it looks: figures from plain arrays, on any axes, in one style."""

from priormtl.plotting.convergence import Descent, plot_convergence
from priormtl.plotting.curves import Curve, plot_curves, plot_level
from priormtl.plotting.roc import plot_roc
from priormtl.plotting.saving import save_figure
from priormtl.plotting.style import (
    LOOKS,
    Axes,
    Figure,
    Look,
    choose_looks,
    new_figure,
    say_missing,
    share_legend,
    styled,
)
from priormtl.plotting.surfaces import plot_surface

__all__ = [
    "LOOKS",
    "Axes",
    "Curve",
    "Descent",
    "Figure",
    "Look",
    "choose_looks",
    "new_figure",
    "plot_convergence",
    "plot_curves",
    "plot_level",
    "plot_roc",
    "plot_surface",
    "save_figure",
    "say_missing",
    "share_legend",
    "styled",
]
