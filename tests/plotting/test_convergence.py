"""Convergence: lines of what a logarithm can show."""

import numpy as np
import pytest

from priormtl.plotting import Descent, new_figure, plot_convergence

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
