"""How it looks: figures of models and of plain arrays, on any axes, in one style.

Every ``plot_…`` function takes ``ax=`` and returns the Axes; the figure is
``ax.figure``. pyplot is not used and no setting of matplotlib is changed.
"""

from priormtl.estimators import FitTrace, trace_fit
from priormtl.plotting.coefficients import plot_coefficients
from priormtl.plotting.convergence import Descent, plot_convergence
from priormtl.plotting.curves import Curve, plot_curves, plot_level
from priormtl.plotting.learning import plot_learning_curve
from priormtl.plotting.over_tasks import plot_over_tasks
from priormtl.plotting.paths import plot_path
from priormtl.plotting.priors import plot_prior
from priormtl.plotting.roc import plot_roc
from priormtl.plotting.roc_curves import plot_roc_curves
from priormtl.plotting.saving import save_figure
from priormtl.plotting.search import plot_search
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
    "FitTrace",
    "Look",
    "choose_looks",
    "new_figure",
    "plot_coefficients",
    "plot_convergence",
    "plot_curves",
    "plot_learning_curve",
    "plot_level",
    "plot_over_tasks",
    "plot_path",
    "plot_prior",
    "plot_roc",
    "plot_roc_curves",
    "plot_search",
    "plot_surface",
    "save_figure",
    "say_missing",
    "share_legend",
    "styled",
    "trace_fit",
]
