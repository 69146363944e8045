"""Settings worth trying: few, different, and in the units of the data."""

import numpy as np
import pytest

from priormtl.baselines.lattice.lattice_norm import LatticeNorm
from priormtl.baselines.lattice.suggestions import natural_strength, suggest_settings
from priormtl.baselines.lattice.task_curvature import rotate_fit
from priormtl.baselines.lattice.task_groups import all_groups
from priormtl.data import from_labels
from priormtl.losses import FreeIntercepts, Squared

NORM = LatticeNorm(all_groups(3), 0.1, 1.5, 1.5, 1.5)


def curvature(x_scale=1.0, y_scale=1.0):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((24, 2)), np.repeat([0, 1, 2], 8)
    y = y_scale * (X[:, 0] + rng.standard_normal(24))
    fit = Squared().bind(from_labels(x_scale * X, y, task), FreeIntercepts())
    return rotate_fit(fit, [np.arange(2)])


@pytest.mark.parametrize("n", [1, 4, 5, 12, 60])
def test_there_are_at_most_as_many_as_asked_for(n):
    found = suggest_settings(curvature(), all_groups(3), 1.5, 1.5, n)
    assert n // 2 < len(found) <= n
    assert len({tuple(setting.items()) for setting in found}) == len(found)


def test_strengths_follow_the_units_of_features_alone():
    plain = natural_strength(curvature(), NORM)
    assert natural_strength(curvature(10.0, 7.0), NORM) == pytest.approx(plain / 100)


def test_targets_that_features_do_not_explain_have_the_unit_one():
    assert natural_strength(curvature(x_scale=0.0), NORM) == 1.0
