"""Figures: one panel each, labelled, from any rows."""

import numpy as np
import pyarrow as pa
import pytest

from priormtl.experiments.showing.figures import (
    CAPTIONS,
    convergence_figure,
    learning_difference_figure,
    learning_figure,
    robustness_figure,
    roc_figure,
    surface_figure,
)
from priormtl.experiments.showing.measurements import Setting
from priormtl.experiments.showing.paper import DATASETS
from result_rows import (
    LABELS,
    LEVELS,
    SIZES,
    SURFACES,
    convergence_rows,
    measure,
    roc_rows,
    row,
    score_rows,
    surface_rows,
)

FIGURES = {
    "figure1": lambda: convergence_figure(convergence_rows()),
    "figure2": lambda: roc_figure(roc_rows()),
    "figure3": lambda: surface_figure(surface_rows()),
    "learning": lambda: learning_figure(measure()),
    "learning-differences": lambda: learning_difference_figure(measure()),
    "robustness": lambda: robustness_figure(measure()),
}


def panels(figure):
    return [ax for ax in figure.axes if ax.axison and not hasattr(ax, "_colorbar")]


def texts(figure):
    return [text.get_text() for ax in figure.axes for text in ax.texts]


@pytest.fixture(scope="module", params=FIGURES)
def named(request):
    return request.param, FIGURES[request.param]()


def test_every_figure_has_a_caption(named):
    assert named[0] in CAPTIONS


def test_axes_have_labels(named):
    name, figure = named
    for ax in panels(figure):
        assert ax.get_xlabel()
        # Panels by time share the label of those by iteration.
        assert ax.get_ylabel() or name == "figure1"
        assert ax.get_title()


def test_legends_lie_outside_the_panels(named):
    _, figure = named
    figure.draw_without_rendering()
    assert all(ax.get_legend() is None for ax in figure.axes)
    for legend in figure.legends:
        box = legend.get_window_extent()
        assert not any(box.overlaps(ax.get_window_extent()) for ax in panels(figure))


def test_nothing_is_cut_off(named):
    _, figure = named
    figure.draw_without_rendering()
    for ax in panels(figure):
        box = ax.get_tightbbox()
        assert figure.bbox.x0 - 1 <= box.x0
        assert box.x1 <= figure.bbox.x1 + 1
        assert figure.bbox.y0 - 1 <= box.y0
        assert box.y1 <= figure.bbox.y1 + 1


@pytest.mark.parametrize("draw", [learning_figure, robustness_figure])
def test_a_single_panel_has_its_whole_legend(draw):
    figure = draw(measure([r for r in score_rows(2) if r["dataset"] == "yale"]))
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert figure.bbox.y0 <= box.y0


def test_convergence_has_two_panels_per_problem_and_all_algorithms():
    figure = convergence_figure(convergence_rows())
    assert [len(ax.lines) for ax in figure.axes] == [6] * 4
    assert [text.get_text() for text in figure.legends[0].texts] == [
        "gd",
        "ista",
        "ista-reverse",
        "fista",
        "linear",
        "auto",
    ]


def test_roc_curves_run_from_corner_to_corner():
    rows = roc_rows(("yale",)).to_pandas()
    rows["tpr"] = 0.5 + 0.5 * rows["tpr"]  # half of the positives are above all else
    for line in roc_figure(pa.Table.from_pandas(rows)).axes[0].lines:
        assert line.get_xydata()[[0, -1]].tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_roc_titles_hold_the_mean_area():
    rows = roc_rows(("yale",), n_tasks=3, n_repeats=2)
    areas = np.unique(rows["auc"].to_numpy())
    title = roc_figure(rows).axes[0].get_title()
    assert len(areas) == 6
    assert title == f"Yale: 3 tasks, mean AUC {100 * areas.mean():.1f} %"


def test_missing_data_sets_say_so():
    assert texts(roc_figure(roc_rows(("yale",)))) == [
        "MNIST: not measured",
        "ORL: not measured",
    ]
    assert "School: not measured" in texts(surface_figure(surface_rows(SURFACES[:2])))


@pytest.mark.parametrize(
    "draw", [learning_figure, learning_difference_figure, robustness_figure]
)
def test_nothing_measured_says_so(draw):
    assert texts(draw(measure([]))) == ["not measured"]


def test_empty_rows_give_empty_panels():
    assert set(texts(convergence_figure(convergence_rows().slice(0, 0)))) == {
        "not measured"
    }
    roc_figure(roc_rows().slice(0, 0))
    surface_figure(surface_rows().slice(0, 0))


@pytest.mark.parametrize(
    "draw", [learning_figure, learning_difference_figure, robustness_figure]
)
def test_planned_but_not_measured_says_so(draw):
    planned = [
        ("yale", "natural", 3, None, 0),
        ("yale", "natural", 10, 0.5, 0),
    ]
    assert texts(draw(measure([], planned))) == ["Yale: not measured"]


def test_learning_curves_are_the_means_of_the_rows():
    found = measure()
    figure = learning_figure(found)
    assert [ax.get_title() for ax in panels(figure)] == [DATASETS[n] for n in LEVELS]
    lines = {line.get_label(): line for line in figure.axes[2].lines}
    settings = [Setting("yale", "expert", size) for size in SIZES]
    means = [found.estimate(setting, "auc").mean for setting in settings]
    assert lines[LABELS["expert"]].get_ydata() == pytest.approx(means)


def test_a_method_looks_the_same_in_curves_and_differences():
    figures = learning_figure(measure()), learning_difference_figure(measure())
    colours = [
        {line.get_label(): line.get_color() for line in figure.axes[0].lines}
        for figure in figures
    ]
    for prior in ("natural", "artificial", "expert"):
        assert colours[0][LABELS[prior]] == colours[1][LABELS[prior]]


def test_a_single_repeat_can_be_drawn():
    for draw in (learning_figure, learning_difference_figure, robustness_figure):
        assert panels(draw(measure(score_rows(n_repeats=1))))


def test_robustness_has_the_level_of_no_prior():
    rows = [row("yale", "natural", k, "auc", 0.9, wrong=0.5) for k in range(3)]
    rows += [row("yale", "none", k, "auc", 0.8) for k in range(3)]
    (ax,) = panels(robustness_figure(measure(rows)))
    lines = {line.get_label(): line.get_ydata() for line in ax.lines}
    assert lines[LABELS["none"]] == pytest.approx([80.0, 80.0])
    assert lines[LABELS["natural"]] == pytest.approx([90.0])
