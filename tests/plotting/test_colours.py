"""Colours: their lightness alone orders the numbers, and zero is in the middle."""

import matplotlib as mpl
import numpy as np
import pytest

from plotted_models import lightness
from priormtl.plotting.colours import DISAGREEMENT, SIGNED, VALUES, symmetric_limit

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


@pytest.mark.parametrize(
    ("values", "limit"), [([[-3.0, 2.0]], 3.0), ([[0.0]], 1.0), (np.zeros((0, 2)), 1.0)]
)
def test_limits_are_symmetric_and_never_zero(values, limit):
    assert symmetric_limit(np.array(values)) == limit
