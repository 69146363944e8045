"""Surfaces: every value written, in a colour that can be read."""

import matplotlib as mpl
import numpy as np
import pytest

from priormtl.plotting import new_figure, plot_surface

X, Y = np.array([1.0, 10.0, 100.0]), np.array([1.0, 100.0])
VALUES = np.array([[90.0, 95.0, np.nan], [91.0, 92.0, 93.5]])


def draw(**options):
    return plot_surface(X, Y, VALUES, labels=("lam", "theta"), **options)


def lightness(colour):
    return np.dot(mpl.colors.to_rgb(colour), (0.2126, 0.7152, 0.0722))


def test_every_value_is_written_where_it_belongs():
    found = {text.get_position(): text.get_text() for text in draw().texts}
    assert found[1, 0] == "95.0"
    assert found[2, 1] == "93.5"
    assert found[2, 0] == ""


def test_strengths_and_their_names_are_on_the_axes():
    ax = draw()
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "10", "100"]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["1", "100"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("lam", "theta")


def test_text_stands_out_from_its_cell():
    ax = draw()
    (image,) = ax.images
    for text in ax.texts:
        column, row = text.get_position()
        if not np.isnan(VALUES[row, column]):
            cell = image.to_rgba(VALUES[row, column])[:3]
            assert abs(lightness(cell) - lightness(text.get_color())) > 0.3


@pytest.mark.parametrize(("limits", "ends"), [(None, (90, 95)), ((80, 99), (80, 99))])
def test_colours_span_the_values_or_the_limits(limits, ends):
    (image,) = draw(limits=limits).images
    assert image.get_clim() == ends


def test_given_axes_come_back():
    _, axes = new_figure(1, 1)
    assert draw(ax=axes[0, 0], decimals=2) is axes[0, 0]
    assert axes[0, 0].texts[0].get_text() == "90.00"


def test_values_need_not_be_written():
    assert not draw(decimals=None).texts


def test_values_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"per x, \(2, 3\): got shape \(3, 2\)"):
        plot_surface(np.ones(3), np.ones(2), np.ones((3, 2)), labels=("a", "b"))
    with pytest.raises(TypeError, match=r"^values must be numbers \(b, a\): got str"):
        plot_surface(np.ones(3), np.ones(2), "abc", labels=("a", "b"))
