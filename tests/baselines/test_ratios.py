"""Ratios are checked once and crossed with paths."""

import numpy as np
import pytest

from priormtl.baselines.convex import check_ratio, cross_ratios


def test_none_is_the_default():
    assert check_ratio(None, 2.5) == 2.5
    assert check_ratio(np.float64(3.0), 2.5) == 3.0


@pytest.mark.parametrize("value", [0, -1.0, np.inf, np.nan, "2", True])
def test_other_ratios_are_refused(value):
    with pytest.raises(ValueError, match="ratio must be a positive finite number"):
        check_ratio(value, 1.0)


@pytest.mark.parametrize("n", [1, 2, 6, 7, 12, 20, 31])
def test_there_are_as_many_settings_as_asked_for(n):
    settings = cross_ratios([3.0, 1.0, 9.0], lambda ratio: 10.0 * ratio, n)
    assert len(settings) == n
    assert len({tuple(setting.items()) for setting in settings}) == n
    ratios = [setting["ratio"] for setting in settings]
    assert ratios[0] == 3.0
    assert len(set(ratios)) == min(3, max(1, n // 6))


def test_every_path_falls_from_its_own_end_by_three_decades():
    settings = cross_ratios([3.0, 1.0], lambda ratio: 10.0 * ratio, 12)
    lams = np.array([setting["lam"] for setting in settings]).reshape(2, 6)
    assert np.all(np.diff(lams, axis=1) < 0)
    np.testing.assert_allclose(lams[:, 0], [30.0, 10.0])
    np.testing.assert_allclose(lams[:, -1], [0.03, 0.01])


def test_equal_ratios_count_once_and_zero_ends_begin_at_one():
    settings = cross_ratios([1.0, 1.0], lambda _: 0.0, 12)
    assert {setting["ratio"] for setting in settings} == {1.0}
    assert settings[0]["lam"] == 1.0
