"""Curves: values in their bands, names once, ticks at the places."""

import numpy as np
import pytest

from priormtl.plotting import Curve, choose_looks, new_figure, plot_curves, plot_level

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


def test_curves_are_told_apart_and_looks_can_be_shared():
    names = ["none", "natural", "expert"]
    looks = choose_looks(names)
    ax = plot_curves([curve("expert"), curve("none", 0.1)], looks=looks)
    colours = {line.get_label(): line.get_color() for line in ax.lines}
    assert colours == {name: looks[name].colour for name in ("expert", "none")}
    assert len({line.get_marker() for line in ax.lines}) == 2


def test_a_level_crosses_the_whole_panel():
    _, axes = new_figure(1, 1)
    ax = plot_curves([curve()], ax=axes[0, 0], legend=False)
    assert plot_level("reference", 0.6, 0.55, 0.65, ax=ax) is ax
    line = ax.lines[-1]
    assert (line.get_label(), set(line.get_ydata())) == ("reference", {0.6})
    assert ax.get_legend() is None


@pytest.mark.parametrize("wrong", [3, "ridge", [1, 2], None])
def test_other_than_curves_are_refused(wrong):
    with pytest.raises(TypeError, match=r"^curves must be a list of Curve: got \w+;"):
        plot_curves(wrong)
