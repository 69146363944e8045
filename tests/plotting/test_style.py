"""The style: lines, colours, names, arrays and files, and nobody else's settings."""

import importlib.util
import os
import sys
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest

from priormtl.plotting import plot_roc_curves, plot_surface, save_figure, style
from priormtl.plotting.style import (
    DISAGREEMENT,
    LINE_STYLES,
    SIGNED,
    VALUES,
    add_legend,
    choose_styles,
    even_places,
    fold_words,
    format_number,
    name_ticks,
    new_axes,
    new_figure,
    read_numbers,
    share_legend,
    shorten,
    show_missing,
    styled,
    tick_few_decades,
)
from shown_models import AWKWARD_NAMES, lightness

# Style.


def test_styles_differ_in_every_way():
    for feature in zip(*LINE_STYLES, strict=True):
        assert len(set(feature)) == len(LINE_STYLES)


def test_every_colour_is_seen_on_white():
    colours = [mpl.colors.to_rgb(style.colour) for style in LINE_STYLES]
    assert lightness(colours).max() < 80


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


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    spec = importlib.util.spec_from_file_location("copy_of_style", style.__file__)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'priormtl\[plot\]'\.$"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_given_axes_are_used():
    _, axes = new_figure(1, 2)
    assert new_axes(axes[0, 1]) is axes[0, 1]
    assert new_axes(None).figure is not axes[0, 1].figure


def test_styles_come_again_when_names_are_many():
    styles = choose_styles([str(k) for k in range(len(LINE_STYLES) + 1)])
    assert styles["0"] == styles[str(len(LINE_STYLES))]


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
    ax = show_missing(new_axes(None), "not measured")
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


# Colours.


STEPS = np.linspace(0.0, 1.0, 256)
# Linear RGB of what people without red or green cones see (Viénot et al. 1999).
BLINDNESS = {
    "protan": [
        [0.11238, 0.88762, 0.0],
        [0.11238, 0.88762, 0.0],
        [0.00401, -0.00401, 1],
    ],
    "deutan": [
        [0.29275, 0.70725, 0.0],
        [0.29275, 0.70725, 0.0],
        [-0.02234, 0.02234, 1],
    ],
}


def shades(name):
    return lightness(mpl.colormaps.get_cmap(name)(STEPS))


@pytest.mark.parametrize(
    ("name", "sign"), [(SIGNED, 1), (VALUES, 1), (DISAGREEMENT, -1)]
)
def test_lightness_orders_the_numbers(name, sign):
    assert np.diff(sign * shades(name)).min() > 0


def test_both_signs_are_equally_far_from_zero_in_grey():
    low, zero, high = shades(SIGNED)[[0, 127, -1]]
    assert min(zero - low, high - zero) > 30


def test_zero_has_no_hue():
    red, green, blue, _ = SIGNED(0.5)
    assert max(red, green, blue) - min(red, green, blue) < 0.02


@pytest.mark.parametrize("kind", BLINDNESS)
def test_signs_keep_their_hue_for_the_colour_blind(kind):
    rgb = SIGNED(np.array([0.25, 0.8]))[:, :3] ** 2.2
    seen = rgb @ np.array(BLINDNESS[kind]).T
    bluish = seen[:, 2] - seen[:, :2].mean(axis=1)
    assert bluish[0] > 0.05
    assert bluish[1] < -0.05


def test_every_line_is_seen_on_white():
    assert shades(DISAGREEMENT).max() < 85


# Names.


@pytest.mark.parametrize("count", [0, 1, 2, 7, 40, 41, 1000])
@pytest.mark.parametrize("most", [0, 1, 2, 40])
def test_places_are_even_and_few(count, most):
    places = even_places(count, most)
    assert len(places) <= max(1, most)
    assert len(np.unique(np.diff(places))) <= 1
    assert list(places[:1]) == ([0] if count else [])


def test_all_places_are_kept_where_there_is_room():
    assert even_places(7, 7).tolist() == list(range(7))


@pytest.mark.parametrize("longest", [5, 6, 24])
def test_long_names_keep_both_ends(longest):
    text = shorten("abcdefghijklmnopqrstuvwxyz0123456789", longest)
    assert len(text) == longest
    assert (text[0], text[-1]) == ("a", "9")


def test_short_names_stay():
    assert [shorten(name) for name in ("a", 3, "größe", ("x", 1))] == [
        "a",
        "3",
        "größe",
        "('x', 1)",
    ]


@pytest.mark.parametrize("name", AWKWARD_NAMES)
def test_awkward_names_are_shown_as_they_are(name):
    ax = new_axes(None)
    ax.plot([0, 1], label=shorten(name))
    legend = ax.legend()
    name_ticks(ax, "y", [name])
    ax.figure.draw_without_rendering()
    assert len(legend.texts) == 1
    assert "\n" not in ax.get_yticklabels()[0].get_text()


@pytest.mark.parametrize("side", ["x", "y"])
def test_named_ticks_do_not_overlap(side):
    ax = new_axes(None)
    names = [f"a rather long name {k}" for k in range(300)]
    name_ticks(ax, side, names)
    ax.set(xlim=(-0.5, 299.5), ylim=(-0.5, 299.5))
    ax.figure.draw_without_rendering()
    labels = ax.get_xticklabels() if side == "x" else ax.get_yticklabels()
    boxes = [label.get_window_extent() for label in labels]
    assert 5 < len(boxes) < 60
    assert not any(a.overlaps(b) for a, b in pairwise(boxes))


def test_ticks_stand_at_their_names():
    ax = new_axes(None)
    name_ticks(ax, "x", list("abc"))
    found = [text.get_text() for text in ax.get_xticklabels()]
    assert (ax.get_xticks().tolist(), found) == ([0, 1, 2], ["a", "b", "c"])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0"),
        (3, "3"),
        (0.001, "0.001"),
        (8470.2, "8470"),
        (1e6, "1e+06"),
        (-12.345, "-12.3"),
        ("l21", "l21"),
        (None, "None"),
        (True, "True"),
    ],
)
def test_numbers_are_short_and_plain(value, words):
    assert format_number(value) == words


def test_words_are_folded_to_the_height():
    ax = new_axes(None, 4.0, 1.2)
    assert "\n" in fold_words("Coefficient: target per unit of the feature", ax)


# Numbers.


def test_lists_and_integers_are_numbers():
    found = read_numbers("values", [[1, 2], [3, 4]], "b", "a")
    assert found.dtype == np.float64
    assert found.tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize("wrong", ["abc", ["a", "b"], object(), [[1.0], [1.0, 2.0]]])
def test_other_things_are_refused(wrong):
    with pytest.raises(TypeError, match=r"^sizes must be numbers \(k,\): got \w+\.$"):
        read_numbers("sizes", wrong, "k")


@pytest.mark.parametrize("wrong", [3.0, None, np.ones(2), np.ones((2, 2, 2))])
def test_other_shapes_are_refused(wrong):
    with pytest.raises(ValueError, match=r"^values must have shape \(b, a\): got \("):
        read_numbers("values", wrong, "b", "a")


# Saving.


def draw():
    fpr = np.linspace(0, 1, 20)
    return plot_roc_curves(fpr, np.stack([fpr**0.1, fpr**0.3]), zoom=0.2).figure


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return save_figure(draw(), tmp_path_factory.mktemp("figures") / "roc.v1")


def test_both_files_are_what_they_are_called(saved):
    svg, png = saved
    assert [path.name for path in saved] == ["roc.v1.svg", "roc.v1.png"]
    assert svg.read_text(encoding="utf-8").startswith("<?xml")
    assert png.read_bytes().startswith(b"\x89PNG")


def test_the_same_figure_gives_the_same_bytes(saved, tmp_path):
    with mpl.rc_context({"svg.hashsalt": "other", "savefig.dpi": 30}):
        again = save_figure(draw(), tmp_path / "again")
    contents = [[path.read_bytes() for path in paths] for paths in (saved, again)]
    assert contents[0] == contents[1]


def test_images_inside_are_the_same_too(tmp_path):
    values = np.arange(6.0).reshape(2, 3)
    contents = []
    for name in ("a", "b"):
        ax = plot_surface(np.arange(3.0), np.arange(2.0), values, labels=("x", "y"))
        contents.append(save_figure(ax.figure, tmp_path / name)[0].read_bytes())
    assert contents[0] == contents[1]


def test_no_date_and_no_machine_is_written(saved):
    text = saved[0].read_text(encoding="utf-8")
    assert "dc:date" not in text
    assert os.fspath(saved[0].parent) not in text


@pytest.mark.slow
def test_a_failed_write_leaves_the_old_files_alone(saved, monkeypatch, tmp_path):
    paths = save_figure(draw(), tmp_path / "kept")
    before = [path.read_bytes() for path in paths]

    def refuse(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="disk full"):
        save_figure(draw(), tmp_path / "kept")
    assert [path.read_bytes() for path in paths] == before
    assert sorted(tmp_path.iterdir()) == sorted(paths)
