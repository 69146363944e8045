"""Figures of models and of plain arrays, on any axes, in one style.

Every ``plot_…`` function takes ``ax=`` and returns the Axes; the figure is
``ax.figure``. pyplot is not used, and matplotlib's settings are left as they are.
"""

from priormtl.estimators import FitTrace, trace_fit
from priormtl.plotting.coefficients import plot_coefficients, plot_over_tasks
from priormtl.plotting.curves import (
    Curve,
    Descent,
    plot_convergence,
    plot_curves,
    plot_learning_curve,
    plot_roc,
    plot_roc_curves,
)
from priormtl.plotting.effects import plot_effect
from priormtl.plotting.priors import plot_prior
from priormtl.plotting.style import (
    Axes,
    Figure,
    choose_styles,
    new_figure,
    save_figure,
    share_legend,
    show_missing,
    styled,
)
from priormtl.plotting.tuning import plot_path, plot_search, plot_surface

__all__ = [
    "Axes",
    "Curve",
    "Descent",
    "Figure",
    "FitTrace",
    "choose_styles",
    "new_figure",
    "plot_coefficients",
    "plot_convergence",
    "plot_curves",
    "plot_effect",
    "plot_learning_curve",
    "plot_over_tasks",
    "plot_path",
    "plot_prior",
    "plot_roc",
    "plot_roc_curves",
    "plot_search",
    "plot_surface",
    "save_figure",
    "share_legend",
    "show_missing",
    "styled",
    "trace_fit",
]
