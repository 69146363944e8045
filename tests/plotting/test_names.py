"""Names: literal, short, and thinned where there is no room."""

from itertools import pairwise

import numpy as np
import pytest

from plotted_models import AWKWARD
from priormtl.plotting.names import (
    even_places,
    fold_words,
    name_ticks,
    say_number,
    shorten,
)
from priormtl.plotting.style import new_axes


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


@pytest.mark.parametrize("name", AWKWARD)
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
    assert say_number(value) == words


def test_words_are_folded_to_the_height():
    ax = new_axes(None, 4.0, 1.2)
    assert "\n" in fold_words("Coefficient: target per unit of the feature", ax)
