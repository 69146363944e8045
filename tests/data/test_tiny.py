"""Numbers whose squares vanish are refused, others never."""

import numpy as np
import pytest

from priormtl import MultiTaskRegressor, summarize
from priormtl.data import refuse_tiny

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 3))
y = X @ [1.0, -1.0, 0.5]
task = np.repeat([0, 1], 20)


@pytest.mark.parametrize("scale", [1e-140, 1e-100, 1.0, 1e90])
def test_scales_that_doubles_can_square_are_taken(scale):
    summarize(X * scale, y * scale, task, np.full(40, min(scale, 1.0)))


@pytest.mark.parametrize("first", [0.0, 1.0])
@pytest.mark.parametrize("rest", [0.0, 1.0])
def test_constant_and_sparse_columns_are_taken(first, rest):
    column = np.r_[first, np.full(39, rest)]
    summarize(np.column_stack([X, column]), y, task)


def test_a_mean_that_cancels_is_no_tiny_column():
    column = np.r_[1.0, -1.0, np.full(38, 0.0)]
    statistics = summarize(np.column_stack([X, column]), y)
    statistics.x_mean[:, 3] = 1e-160
    refuse_tiny(statistics)


@pytest.mark.parametrize("wanted", [summarize, MultiTaskRegressor().fit])
def test_what_vanishes_is_named(wanted):
    tiny = X * [1.0, 1e-200, 1.0]
    with pytest.raises(ValueError, match=r"feature 1 must reach 1e-150, or"):
        wanted(tiny, y, task=task)
    with pytest.raises(ValueError, match=r"target must reach.*for example by 1e2"):
        wanted(X, y * 1e-200, task=task)


def test_tiny_weights_add_up_but_do_not_fit():
    weight = np.full(40, 1e-300)
    statistics = summarize(X, y, task, weight)
    np.testing.assert_allclose(statistics.xx * 1e300, summarize(X, y, task).xx)
    for fit in (
        lambda: MultiTaskRegressor().fit(X, y, task=task, sample_weight=weight),
        lambda: MultiTaskRegressor().fit_statistics(statistics + statistics),
    ):
        with pytest.raises(ValueError, match="the weight must reach"):
            fit()


def test_numbers_below_the_normal_ones_are_named_too():
    with pytest.raises(ValueError, match="Multiply it, for example by 1e300"):
        summarize(np.full((3, 1), 1e-320), [1.0, 2.0, 3.0])


def test_all_parts_count_together():
    well, tiny = summarize(X, y, task), summarize(X, y, task)
    tiny.x_mean[:, 1] = 1e-200
    tiny.xx[:, 1] = tiny.xx[:, :, 1] = 0.0
    refuse_tiny(well, tiny)
    with pytest.raises(ValueError, match="feature 1"):
        refuse_tiny(tiny)
