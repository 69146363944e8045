"""Surfaces: means over repeats, slices through the best, sensitivity."""

import numpy as np
import pyarrow.compute as pc
import pytest

from priormtl.experiments.showing.surfaces import PAIRS, Surface, describe_sensitivity
from result_rows import SURFACES, surface_rows


@pytest.fixture(scope="module")
def rows():
    return surface_rows()


@pytest.mark.parametrize("key", SURFACES)
def test_every_slice_holds_the_best(rows, key):
    surface = Surface.of(rows, *key)
    best = surface.values[surface.best]
    pick = np.nanmin if key[1].startswith("nmse") else np.nanmax
    assert best == pick(surface.values)
    assert all(pick(surface.slice(pair)) == best for pair in PAIRS)


def test_values_are_means_over_repeats_in_per_cent(rows):
    surface = Surface.of(rows, "yale", "auc")
    chosen = (pc.field("dataset") == "yale") & (pc.field("lam") == 10.0)
    chosen &= (pc.field("theta") == 1.0) & (pc.field("epsilon") == 100.0)
    values = rows.filter(chosen)["value"].to_numpy()
    assert len(values) == 2
    assert surface.values[2, 0, 4] == pytest.approx(100 * values.mean())


def test_slices_have_the_second_strength_down(rows):
    surface = Surface.of(rows, "school", "ve_pooled")
    _, _, at = surface.best
    assert np.array_equal(surface.slice((0, 1)), surface.values[:, :, at].T)


def test_limits_hold_all_slices(rows):
    surface = Surface.of(rows, "school", "ve_pooled")
    low, high = surface.limits
    for pair in PAIRS:
        assert low <= surface.slice(pair).min() <= surface.slice(pair).max() <= high


def test_the_sentence_names_the_strength_that_matters(rows):
    surface = Surface.of(rows, "school", "ve_pooled")
    assert max(surface.ranges(), key=surface.ranges().get) == "lam"
    assert "most along lam" in describe_sensitivity(surface)
    assert "2.00 along lam" in describe_sensitivity(surface)


def test_combinations_without_rows_are_gaps(rows):
    surface = Surface.of(rows.slice(1), "yale", "auc")
    assert not np.isnan(surface.values).any()  # the other repeat is there
    rows = surface_rows(n_repeats=1).slice(1)
    assert np.isnan(Surface.of(rows, "yale", "auc").values).sum() == 1


def test_what_is_missing_is_none(rows):
    assert Surface.of(rows, "mnist", "auc") is None
    assert Surface.of(rows, "yale", "ve_pooled") is None
