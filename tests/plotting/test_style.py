"""The style: told apart without colour, and nobody else's settings touched."""

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest

from priormtl.plotting.style import (
    LOOKS,
    add_legend,
    choose_looks,
    new_axes,
    new_figure,
    say_missing,
    share_legend,
    styled,
    tick_few_decades,
)


def lightness(colour):
    return np.dot(mpl.colors.to_rgb(colour), (0.2126, 0.7152, 0.0722))


def test_looks_differ_in_every_way():
    for feature in zip(*LOOKS, strict=True):
        assert len(set(feature)) == len(LOOKS)


def test_every_colour_is_seen_on_white():
    assert all(lightness(look.colour) < 0.7 for look in LOOKS)


def test_settings_of_others_stay():
    with mpl.rc_context({"font.size": 23.0}):
        with styled():
            assert mpl.rcParams["font.size"] != 23.0
        assert mpl.rcParams["font.size"] == 23.0


def test_the_style_does_not_depend_on_the_users():
    with styled():
        expected = dict(mpl.rcParams)
    with mpl.rc_context({"axes.labelsize": 40.0, "lines.linestyle": ":"}), styled():
        assert dict(mpl.rcParams) == expected


def test_the_room_opens_when_asked_for_and_loads_no_pyplot():
    code = (
        "import sys, priormtl; before = 'matplotlib' in sys.modules;"
        "priormtl.plotting.plot_coefficients;"
        "print(before, *(f'matplotlib{m}' in sys.modules for m in ('', '.pyplot')))"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "True", "False"]


def test_without_matplotlib_the_extra_is_named():
    code = "import sys; sys.modules['matplotlib'] = None; import priormtl.plotting"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert result.stderr.strip().endswith("pip install 'priormtl[plot]'.")


def test_given_axes_are_used():
    _, axes = new_figure(1, 2)
    assert new_axes(axes[0, 1]) is axes[0, 1]
    assert new_axes(None).figure is not axes[0, 1].figure


def test_looks_come_again_when_names_are_many():
    looks = choose_looks([str(k) for k in range(len(LOOKS) + 1)])
    assert looks["0"] == looks[str(len(LOOKS))]


@pytest.mark.parametrize("n_lines", [0, 3])
def test_a_shared_legend_names_each_line_once(n_lines):
    figure, axes = new_figure(1, 2)
    for ax in axes.flat:
        for k in range(n_lines):
            ax.plot([0, 1], label=f"line {k}")
    share_legend(figure)
    names = [text.get_text() for legend in figure.legends for text in legend.texts]
    assert names == [f"line {k}" for k in range(n_lines)]


def test_a_legend_beside_axes_covers_nothing():
    ax = new_axes(None)
    ax.plot([0, 1], label="line")
    add_legend(ax)
    ax.figure.draw_without_rendering()
    box = ax.get_legend().get_window_extent()
    assert box.x0 >= ax.get_window_extent().x1
    assert box.x1 <= ax.figure.bbox.x1


def test_an_empty_panel_says_why():
    ax = say_missing(new_axes(None), "not measured")
    assert not ax.axison
    assert [text.get_text() for text in ax.texts] == ["not measured"]


@pytest.mark.parametrize(("ends", "plain"), [((0.9, 20.0), True), ((1.0, 1e4), False)])
def test_short_logarithmic_axes_have_plain_numbers(ends, plain):
    ax = new_axes(None)
    ax.plot(ends, ends)
    ax.set_xscale("log")
    tick_few_decades(ax.xaxis)
    ax.figure.draw_without_rendering()
    shown = [text.get_text() for text in ax.get_xticklabels()]
    assert ("2" in shown) == plain
