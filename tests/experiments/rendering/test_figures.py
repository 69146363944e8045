"""Figures: one panel each, labelled, from any rows."""

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy import stats

from paper_data import (
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
from priormtl.experiments.rendering.figures import (
    PAIRS,
    Surface,
    convergence_figure,
    learning_figure,
    mean_band,
    robustness_figure,
    roc_figure,
    surface_figure,
)
from priormtl.experiments.rendering.measurements import CAPTIONS, DATASETS, Setting

gains_figure = partial(learning_figure, gain=True)

FIGURES = {
    "figure1": lambda: convergence_figure(convergence_rows()),
    "figure2": lambda: roc_figure(roc_rows()),
    "figure3": lambda: surface_figure(surface_rows(SURFACES[1:3]), SURFACES[1:3]),
    "learning": lambda: learning_figure(four_sets()),
    "learning-differences": lambda: gains_figure(four_sets()),
    "robustness": lambda: robustness_figure(four_sets()),
}


def four_sets():
    """Two rows of panels, the second not full."""
    shown = ("school", "yale", "mnist", "orl")
    return measure([made for made in score_rows(3) if made["dataset"] in shown])


def panels(figure):
    return [ax for ax in figure.axes if ax.axison and not hasattr(ax, "_colorbar")]


def texts(figure):
    return [text.get_text() for ax in figure.axes for text in ax.texts]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "figure1" else pytest.mark.slow)
        for name in FIGURES
    ],
)
def test_panels_are_labelled_and_nothing_is_cut_off_or_covered(name):
    figure = FIGURES[name]()
    figure.draw_without_rendering()  # one drawing must do
    assert name in CAPTIONS
    for ax in panels(figure):
        assert ax.get_xlabel()
        # Panels by time share the label of those by iteration.
        assert ax.get_ylabel() or name == "figure1"
        assert ax.get_title()
        assert ax.get_legend() is None
        box = ax.get_tightbbox()
        assert figure.bbox.x0 - 1 <= box.x0 < box.x1 <= figure.bbox.x1 + 1
        assert figure.bbox.y0 - 1 <= box.y0 < box.y1 <= figure.bbox.y1 + 1
        for legend in figure.legends:
            window = legend.get_window_extent()
            assert not window.overlaps(ax.get_window_extent())


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
        "linear (Algorithm 3)",
        "auto",
    ]


def test_linear_is_named_after_what_it_is_where_there_is_no_strong_convexity():
    rows = convergence_rows(["school"])
    place = rows.column_names.index("sigma")
    rows = rows.set_column(place, "sigma", pa.array([0.0] * rows.num_rows))
    names = [text.get_text() for text in convergence_figure(rows).legends[0].texts]
    assert "linear (σ = 0: FISTA with restart)" in names


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


@pytest.mark.parametrize("draw", [learning_figure, gains_figure, robustness_figure])
def test_nothing_measured_says_so(draw):
    assert texts(draw(measure([]))) == ["not measured"]


def test_empty_rows_give_empty_panels():
    assert set(texts(convergence_figure(convergence_rows().slice(0, 0)))) == {
        "not measured"
    }
    roc_figure(roc_rows().slice(0, 0))
    surface_figure(surface_rows().slice(0, 0))


@pytest.mark.parametrize("draw", [learning_figure, gains_figure, robustness_figure])
def test_planned_but_not_measured_says_so(draw):
    planned = [Setting("yale", "natural", 3), Setting("yale", "natural", 10, 0.5)]
    assert texts(draw(measure([], planned))) == ["Yale: not measured"]


@pytest.fixture(scope="module")
def measured():
    return measure()


@pytest.fixture(scope="module")
def learning(measured):
    return learning_figure(measured), gains_figure(measured)


def lines(ax):
    return {line.get_label(): line for line in ax.lines}


def test_learning_curves_are_means_of_the_rows(measured, learning):
    figure, _ = learning
    assert [ax.get_title() for ax in panels(figure)] == [DATASETS[n] for n in LEVELS]
    ax = figure.axes[2]
    settings = [Setting("yale", "expert", size) for size in SIZES]
    means = [measured.estimate(setting, "auc").mean for setting in settings]
    line = lines(ax)[LABELS["expert"]]
    assert line.get_ydata() == pytest.approx(means)
    assert line.get_xdata().tolist() == list(SIZES)
    assert not ax.collections  # bands of several priors would cover each other
    # Sarcos has no expert.
    assert LABELS["expert"] not in lines(figure.axes[1])


def test_difference_curves_are_those_of_the_tables_in_points(measured, learning):
    _, figure = learning
    ax = figure.axes[2]
    found = measured.compare(Setting("yale", "expert", 3), "none")
    line = lines(ax)[LABELS["expert"]]
    assert line.get_ydata()[0] == pytest.approx(100 * found.mean)
    ends = [100 * end for end in found.interval[:2]]
    bar = ax.collections[-1].get_segments()[0]
    assert bar[:, 1] == pytest.approx(ends)
    assert bar[:, 0] == pytest.approx(line.get_xdata()[0])
    assert ax.get_ylabel() == "Gain in AUC (points)"


def test_a_method_looks_the_same_in_curves_and_differences(learning):
    curves, differences = (lines(figure.axes[0]) for figure in learning)
    for prior in ("natural", "artificial", "expert"):
        name = LABELS[prior]
        assert curves[name].get_color() == differences[name].get_color()


def test_repeats_that_only_one_method_has_are_not_compared():
    rows = [row("yale", "natural", 0, "auc", 0.9, size=3)]
    rows += [row("yale", "none", 1, "auc", 0.8, size=3)]
    assert texts(gains_figure(measure(rows))) == ["Yale: not measured"]


def test_the_band_of_a_mean_is_the_t_interval():
    values = np.array([0.3, 0.34, 0.38, 0.31])
    ends = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    expected = [100 * number for number in (values.mean(), *ends)]
    assert mean_band(dict(enumerate(values))) == pytest.approx(expected)
    assert mean_band({3: 0.5}) == (50.0, 50.0, 50.0)
    assert mean_band({}) is None


def test_a_single_repeat_can_be_drawn():
    rows = [row for row in score_rows(n_repeats=1) if row["dataset"] == "yale"]
    for draw in (learning_figure, gains_figure, robustness_figure):
        assert len(panels(draw(measure(rows)))) == 1


def test_robustness_begins_with_the_right_prior_and_tells_two_kinds_apart():
    place = {"size": 2}
    rows = [
        made
        for k in range(3)
        for made in (
            row("yale", "none", k, "auc", 0.8, **place),
            row("yale", "expert", k, "auc", 0.9, **place),
            row("yale", "expert", k, "auc", 0.85, wrong=1.0, **place),
            row("yale", "contradictory", k, "auc", 0.7, wrong=1.0, **place),
            # A control along the learning curves, no share that is varied.
            row("yale", "contradictory", k, "auc", 0.6, wrong=1.0, size=1),
            row("orl", "contradictory", k, "auc", 0.6, wrong=1.0, **place),
        )
    ]
    (ax,) = panels(robustness_figure(measure(rows)))
    lines = {line.get_label(): line for line in ax.lines}
    assert lines["random relations"].get_ydata() == pytest.approx([10.0, 5.0])
    assert lines["reversed relations"].get_ydata() == pytest.approx([10.0, -10.0])
    # Intervals of one share stand side by side.
    places = [line.get_xdata()[1] for name, line in lines.items() if "rel" in name]
    assert places[0] < 100.0 < places[1]
    assert ax.get_title() == "Yale, 2 rows per class"
    assert ax.get_xlabel() == "Wrong relations (%)"


# Surfaces.


@pytest.fixture(scope="module")
def rows():
    return surface_rows()


@pytest.mark.parametrize("key", SURFACES)
def test_every_slice_goes_through_the_best(rows, key):
    surface = Surface.of(rows, *key)
    best = surface.values[surface.best]
    pick = np.nanmin if key[1].startswith("nmse") else np.nanmax
    assert best == pick(surface.values)
    assert all(pick(surface.slice(pair)) == best for pair in PAIRS)
    # The second strength of a pair goes down.
    assert np.array_equal(
        surface.slice((0, 1)), surface.values[:, :, surface.best[2]].T
    )


def test_values_are_means_over_repeats_in_per_cent(rows):
    surface = Surface.of(rows, "yale", "auc")
    chosen = (pc.field("dataset") == "yale") & (pc.field("lam") == 10.0)
    chosen &= (pc.field("theta") == 1.0) & (pc.field("epsilon") == 100.0)
    values = rows.filter(chosen)["value"].to_numpy()
    assert len(values) == 2
    assert surface.values[2, 0, 4] == pytest.approx(100 * values.mean())


def test_slices_share_one_scale_of_colours_that_holds_them_all(rows):
    figure = surface_figure(rows, [("school", "ve_pooled")])
    images = [image for ax in figure.axes for image in ax.images]
    arrays = [np.asarray(image.get_array()) for image in images]
    ends = min(a.min() for a in arrays), max(a.max() for a in arrays)
    assert [image.get_clim() for image in images] == [ends] * 3
    assert [ax.get_title().split(" =")[0] for ax in figure.axes[:3]] == [
        "School, epsilon",
        "School, theta",
        "School, lam",
    ]


def test_the_sentence_names_the_strength_that_matters(rows):
    surface = Surface.of(rows, "school", "ve_pooled")
    assert max(surface.ranges(), key=surface.ranges().get) == "lam"
    assert "most along lam" in surface.describe()
    assert "2.00 along lam" in surface.describe()


def test_combinations_without_rows_are_gaps(rows):
    surface = Surface.of(rows.slice(1), "yale", "auc")
    assert not np.isnan(surface.values).any()  # the other repeat is there
    rows = surface_rows(n_repeats=1).slice(1)
    assert np.isnan(Surface.of(rows, "yale", "auc").values).sum() == 1


def test_what_is_missing_is_none(rows):
    assert Surface.of(rows, "mnist", "auc") is None
    assert Surface.of(rows, "yale", "ve_pooled") is None
