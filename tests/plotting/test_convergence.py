"""Convergence: lines of what a logarithm can show."""

import numpy as np
import pytest

from priormtl import MultiTaskRegressor
from priormtl.plotting import Descent, FitTrace, new_figure, plot_convergence

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
    assert words.get_text() == "at the optimum before the first step"


def test_models_are_told_how_to_be_traced():
    with pytest.raises(TypeError, match=r"got MultiTaskRegressor; trace_fit\(model"):
        plot_convergence(MultiTaskRegressor())


def test_gaps_and_distances_do_not_share_an_axis():
    with pytest.raises(TypeError, match="all be FitTrace or all be Descent"):
        plot_convergence([trace(), descend()])
    with pytest.raises(ValueError, match="against must be one of"):
        plot_convergence(trace(), against="minutes")
