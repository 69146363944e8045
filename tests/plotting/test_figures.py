"""Laws of all figures: axes in, axes out, nothing cut, nobody's settings touched."""

from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import _pylab_helpers

from paper_data import PAPER
from priormtl import FeaturePrior, MultiTaskClassifier, MultiTaskRegressorCV
from priormtl import regularization_path as follow
from priormtl.plotting import (
    new_figure,
    plot_coefficients,
    plot_convergence,
    plot_effect,
    plot_learning_curve,
    plot_over_tasks,
    plot_path,
    plot_prior,
    plot_roc,
    plot_roc_curves,
    plot_search,
    trace_fit,
)
from priormtl.plotting.style import Axes
from shown_models import (
    AWKWARD_NAMES,
    fitted_model,
    random_effects,
    related_tasks,
    with_coef,
)

X, Y, TASK = related_tasks()
CLASSES = np.median(Y) < Y
LONG = [f"a long name that goes on and on {k}" for k in range(5)]


def draw_roc(**options):
    model = MultiTaskClassifier().fit(X, CLASSES, task=TASK)
    return plot_roc(model, X, CLASSES, task=TASK, **options)


def draw_search(**options):
    model = MultiTaskRegressorCV(
        lams=3, thetas=(1.0,), epsilons=(1.0, 10.0), cv=3, **PAPER
    )
    return plot_search(model.fit(X, Y, task=TASK), **options)


def named():
    return with_coef(random_effects(5, 5), LONG, LONG, task_prior="chain")


AUDIT = SimpleNamespace(
    relations=[
        SimpleNamespace(
            kind="feature",
            relation="a ~ b",
            first="a",
            second="b",
            sign="similar",
            weight=1.0,
            violation_before=0.9,
            verdict="disagrees",
        )
    ]
)

FIGURES = {
    "coefficients": lambda **options: plot_coefficients(named(), **options),
    "awkward": lambda **options: plot_coefficients(
        with_coef(random_effects(5, 5), AWKWARD_NAMES, AWKWARD_NAMES), **options
    ),
    "one": lambda **options: plot_coefficients(with_coef([[2.0]]), **options),
    "zero": lambda **options: plot_coefficients(with_coef([[0.0]]), **options),
    "convergence": lambda **options: plot_convergence(
        trace_fit(fitted_model(), X, Y, task=TASK, solver="fista"), **options
    ),
    "learning": lambda **options: plot_learning_curve(
        [5, 10], {LONG[0]: random_effects(2, 4), "b": random_effects(2, 4)}, **options
    ),
    "effect": lambda **options: plot_effect(
        with_coef(random_effects(9, 2), LONG[:2], [*LONG, *"abcd"]),
        LONG[0],
        values=[0.0, 1.0],
        **options,
    ),
    "over tasks": lambda **options: plot_over_tasks(named(), **options),
    "path": lambda **options: plot_path(follow(X, Y, task=TASK, lams=4), **options),
    "prior": lambda **options: plot_prior(fitted_model(), **options),
    "audit": lambda **options: plot_prior(AUDIT, **options),
    "prior alone": lambda **options: plot_prior(
        FeaturePrior.similar([(LONG[0], LONG[1])]), **options
    ),
    "roc": draw_roc,
    "rates": lambda **options: plot_roc_curves(
        np.linspace(0, 1, 11), np.linspace(0, 1, 11)[np.newaxis] ** 0.1, **options
    ),
    "search": draw_search,
}

every_figure = pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)


@every_figure
def test_a_figure_of_its_own_shows_all_of_itself_and_leaves_nothing_behind(draw):
    with mpl.rc_context({"font.size": 30.0, "axes.grid": False}):
        before = dict(mpl.rcParams)
        ax = draw()
        assert dict(mpl.rcParams) == before
    assert not _pylab_helpers.Gcf.figs
    assert isinstance(ax, Axes)
    assert ax.title.get_fontsize() == 10.5  # whatever the user's settings
    figure = ax.figure
    figure.draw_without_rendering()
    drawn = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert drawn.x0 >= -0.02
    assert drawn.y0 >= -0.02
    assert drawn.x1 <= width + 0.02
    assert drawn.y1 <= height + 0.02


@every_figure
def test_given_axes_are_used_and_others_left_alone(draw):
    figure, axes = new_figure(1, 2, width=6.0, height=4.5)
    assert draw(ax=axes[0, 1], legend=False) is axes[0, 1]
    assert not axes[0, 0].has_data()
    assert axes[0, 1].get_legend() is None
    assert figure.axes == list(axes[0])  # no scale of colours
