"""Bands: intervals of means and of paired differences along settings."""

import numpy as np
import pytest
from scipy import stats

from priormtl.experiments.showing.bands import (
    Band,
    difference_band,
    mean_band,
    track_differences,
    track_means,
)
from priormtl.experiments.showing.measurements import Setting
from result_rows import SHARES, SIZES, measure, row

ALONG = [Setting("yale", "natural", size) for size in SIZES]


def test_band_of_a_mean_is_the_t_interval():
    values = np.array([0.3, 0.34, 0.38, 0.31])
    ends = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    expected = [100 * number for number in (values.mean(), *ends)]
    assert mean_band(dict(enumerate(values))) == pytest.approx(expected)


def test_one_value_has_no_width_and_none_no_band():
    assert mean_band({3: 0.5}) == Band(50.0, 50.0, 50.0)
    assert mean_band({}) is None


def test_difference_is_that_of_the_tables_in_points():
    found = measure()
    settings = Setting("yale", "expert", 3), Setting("yale", "none", 3)
    difference = found.compare(*settings, "auc")
    expected = (difference.mean, *difference.interval[:2])
    band = difference_band(found, *settings, "auc")
    assert band == pytest.approx([100 * number for number in expected])


def test_difference_to_itself_is_nothing():
    track = track_differences(measure(), ALONG, "natural", "auc")
    assert set(track.bands) == {Band(0.0, 0.0, 0.0)}


def test_tracks_follow_the_settings_and_skip_what_is_missing():
    found = measure()
    assert track_means(found, ALONG, "auc").places == list(SIZES)
    assert (
        track_means(found, ALONG[1:], "auc").bands
        == track_means(found, ALONG, "auc").bands[1:]
    )
    assert not track_means(found, [Setting("sarcos", "expert", 3)], "ve_tasks").places


def test_shares_are_places_in_per_cent():
    along = [Setting("yale", "natural", 10, share) for share in SHARES]
    assert track_means(measure(), along, "auc").places == [0, 25, 50, 75, 100]
    track = track_differences(measure(), along, "none", "auc")
    assert track.places == [0, 25, 50, 75, 100]


def test_no_common_repeat_no_band():
    rows = [row("yale", "natural", 0, "auc", 0.9), row("yale", "none", 1, "auc", 0.8)]
    settings = Setting("yale", "natural"), Setting("yale", "none")
    assert difference_band(measure(rows), *settings, "auc") is None
