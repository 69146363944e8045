"""BoundCells: turned or not, features have one curvature, in units of the targets."""

import numpy as np
import pytest

from priormtl.baselines.mixtures.bound_cells import BoundCells
from priormtl.baselines.mixtures.cells import gather_cells
from priormtl.baselines.mixtures.responses import Bernoulli, Gaussian
from priormtl.data import from_labels


def bind(response, rotate=True, centred=True, y_scale=1.0, x_scale=1.0):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((30, 3)), np.repeat([0, 1], 15)
    y = np.where(X[:, 0] > 0, 1.0, -1.0) * y_scale
    cells = gather_cells(from_labels(x_scale * X, y, task))
    return BoundCells(cells, response, rotate, centred)


@pytest.mark.parametrize("response", [Gaussian(), Bernoulli()], ids=["numbers", "odds"])
def test_turning_about_zero_changes_no_curvature(response):
    turned, plain = (bind(response, rotate, centred=False) for rotate in (True, False))
    assert turned.curvature == pytest.approx(plain.curvature, rel=1e-12)


def test_curvature_is_per_variance_of_the_targets():
    plain = bind(Gaussian()).curvature
    assert bind(Gaussian(), y_scale=3.0).curvature == pytest.approx(plain / 9)
    assert bind(Gaussian(), x_scale=5.0).curvature == pytest.approx(plain * 25)


def test_constant_features_have_the_unit_one():
    assert bind(Gaussian(), x_scale=0.0).curvature == 1.0
