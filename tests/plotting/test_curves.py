"""Curves: values in their bands, means of repeats, and convergence."""

import numpy as np
import pytest
from scipy.stats import sem
from sklearn.model_selection import KFold, learning_curve

from priormtl import MultiTaskRegressor
from priormtl.plotting import (
    Curve,
    Descent,
    FitTrace,
    choose_styles,
    new_figure,
    plot_convergence,
    plot_curves,
    plot_learning_curve,
)
from shown_models import related_tasks

# Curves.


PLACES = np.array([3.0, 10.0, 100.0])
VALUES = np.array([0.5, 0.7, 0.8])


def curve(name="none", shift=0.0):
    values = VALUES + shift
    return Curve(name, PLACES, values, values - 0.1, values + 0.2)


def test_lines_and_bands_are_the_values():
    ax = plot_curves([curve()])
    (line,), (band,) = ax.lines, ax.collections
    assert np.array_equal(line.get_ydata(), VALUES)
    ends = band.get_paths()[0].vertices[:, 1]
    assert (ends.min(), ends.max()) == pytest.approx((0.4, 1.0))


def test_logarithmic_ticks_stand_at_the_places():
    ax = plot_curves([curve()], log=True)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["3", "10", "100"]
    assert not len(ax.get_xticks(minor=True))


def test_curves_are_told_apart_and_styles_can_be_shared():
    names = ["none", "natural", "expert"]
    styles = choose_styles(names)
    ax = plot_curves([curve("expert"), curve("none", 0.1)], styles=styles)
    colours = {line.get_label(): line.get_color() for line in ax.lines}
    assert colours == {name: styles[name].colour for name in ("expert", "none")}
    assert len({line.get_marker() for line in ax.lines}) == 2


@pytest.mark.parametrize("wrong", [3, "ridge", [1, 2], None])
def test_other_than_curves_are_refused(wrong):
    with pytest.raises(TypeError, match=r"^curves must be a list of Curve: got \w+;"):
        plot_curves(wrong)


# Learning.


SIZES = [5, 20, 80]
SCORES = np.random.default_rng(0).normal(size=(3, 6))


def test_lines_are_means_and_bands_standard_errors():
    ax = plot_learning_curve(SIZES, SCORES)
    (line,), (band,) = ax.lines, ax.collections
    assert np.array_equal(line.get_xdata(), SIZES)
    assert np.allclose(line.get_ydata(), SCORES.mean(axis=1))
    vertices = band.get_paths()[0].vertices
    for size, scores in zip(SIZES, SCORES, strict=True):
        ends = vertices[vertices[:, 0] == size, 1]
        expected = scores.mean() + sem(scores) * np.array([-1, 1])
        assert np.allclose([ends.min(), ends.max()], expected)


def test_models_are_named():
    ax = plot_learning_curve(SIZES, {"no prior": SCORES, "_prior": SCORES + 1.0})
    assert len(ax.get_legend().texts) == 2
    assert plot_learning_curve(SIZES, SCORES).get_legend() is None


def test_missing_scores_are_left_out():
    scores = SCORES.copy()
    scores[0] = np.nan
    scores[1, 2] = np.nan
    (line,) = plot_learning_curve(SIZES, scores).lines
    assert np.array_equal(line.get_xdata(), SIZES[1:])
    assert line.get_ydata()[0] == pytest.approx(np.nanmean(scores[1]))


@pytest.mark.parametrize("scores", [SCORES[:, 0], SCORES[:, :1]])
def test_one_repeat_has_no_band(scores):
    ax = plot_learning_curve(SIZES, scores)
    vertices = ax.collections[0].get_paths()[0].vertices
    assert set(vertices[:, 1].tolist()) == set(SCORES[:, 0].tolist())


def test_the_curve_of_scikit_learn_is_taken():
    X, y, task = related_tasks()
    rows = np.column_stack([X, np.unique(task, return_inverse=True)[1]])
    sizes, _, scores = learning_curve(
        MultiTaskRegressor(task=6, tol=1e-3),
        rows,
        y,
        train_sizes=[0.5, 1.0],
        cv=KFold(3, shuffle=True, random_state=0),
        shuffle=True,
        random_state=0,
    )
    ax = plot_learning_curve(sizes, scores, score="R²", size="Rows")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Rows", "R²")
    assert np.allclose(ax.lines[0].get_ydata(), scores.mean(axis=1))


def test_scores_of_other_sizes_are_refused():
    with pytest.raises(ValueError, match=r"got shape \(3, 6\) for 2 sizes"):
        plot_learning_curve(SIZES[:2], SCORES)


def test_other_than_numbers_are_refused():
    with pytest.raises(TypeError, match=r"^sizes must be numbers \(k,\): got str"):
        plot_learning_curve("abc", SCORES)
    with pytest.raises(TypeError, match=r"^scores must be numbers \(k, r\): got str"):
        plot_learning_curve(SIZES, "abc")


# Convergence.


STEPS = np.arange(0.0, 60.0)


def descend(name="gd", excess=None):
    excess = 0.8**STEPS if excess is None else excess
    return Descent(name, STEPS, STEPS / 100, excess)


@pytest.mark.parametrize("against", ["iterations", "seconds"])
def test_lines_are_the_positive_points(against):
    ax = plot_convergence([descend()], against=against)
    (line,) = ax.lines
    assert np.array_equal(line.get_xdata(), getattr(descend(), against)[1:])
    assert np.array_equal(line.get_ydata(), descend().excess[1:])
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


def test_a_line_ends_at_the_optimum():
    excess = 0.8**STEPS
    excess[40] = -1e-16
    (line,) = plot_convergence([descend(excess=excess)]).lines
    assert line.get_xdata()[-1] == 39


def test_an_empty_way_down_is_an_empty_line():
    (line,) = plot_convergence([descend(excess=np.zeros(60))]).lines
    assert len(line.get_xdata()) == 0


def test_algorithms_are_told_apart_and_named():
    ax = plot_convergence([descend("gd"), descend("fista", 0.5**STEPS)])
    assert [text.get_text() for text in ax.get_legend().texts] == ["gd", "fista"]
    assert len({line.get_marker() for line in ax.lines}) == 2
    assert len({line.get_linestyle() for line in ax.lines}) == 2


def test_given_axes_come_back_without_legend():
    _, axes = new_figure(1, 1)
    ax = plot_convergence([descend()], ax=axes[0, 0], legend=False)
    assert ax is axes[0, 0]
    assert ax.get_legend() is None
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Iteration", "Objective − optimum")


def trace(name="fista", gaps=None, tolerance=1e-3):
    gaps = 0.7**STEPS if gaps is None else gaps
    return FitTrace(name, STEPS, STEPS / 100, gaps + 5.0, gaps, tolerance)


def test_traces_show_gaps_and_their_tolerance_once():
    ax = plot_convergence([trace(), trace("ista", 0.9**STEPS)])
    fista, ista, tolerance = ax.lines
    assert np.array_equal(fista.get_ydata(), 0.7 ** STEPS[1:])
    assert np.array_equal(ista.get_ydata(), 0.9 ** STEPS[1:])
    assert set(tolerance.get_ydata()) == {1e-3}
    assert ax.get_ylabel() == "Duality gap"
    shown = [text.get_text() for text in ax.get_legend().texts]
    assert shown == ["fista", "ista", "tolerance"]


def test_one_trace_needs_no_list():
    one, listed = plot_convergence(trace()), plot_convergence([trace()])
    assert len(one.lines) == len(listed.lines) == 2


def test_a_run_that_was_over_at_once_is_drawn():
    start = FitTrace("auto", np.zeros(1), np.ones(1), np.ones(1), np.zeros(1), 0.0)
    ax = plot_convergence(start)
    ax.figure.draw_without_rendering()
    (words,) = ax.texts
    assert words.get_text() == "the start is optimal"


def test_models_are_told_how_to_be_traced():
    with pytest.raises(TypeError, match=r"got MultiTaskRegressor; trace_fit\(model"):
        plot_convergence(MultiTaskRegressor())


def test_gaps_and_distances_do_not_share_an_axis():
    with pytest.raises(TypeError, match="all be FitTrace or all be Descent"):
        plot_convergence([trace(), descend()])
    with pytest.raises(ValueError, match="against must be one of"):
        plot_convergence(trace(), against="minutes")
