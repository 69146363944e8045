"""Strengths to try: as listed, or a grid below lam_max."""

import numpy as np
import pytest

from priormtl import MultiTaskRegressor, summarize
from priormtl.estimators.splitting import read_grid, read_lams


def problem():
    rng = np.random.default_rng(0)
    data = summarize(rng.normal(size=(20, 3)), rng.normal(size=(20, 2)))
    return MultiTaskRegressor()._model().pose(data).problem


@pytest.mark.parametrize(("lams", "count"), [(None, 10), (4, 4), (1, 1)])
def test_a_number_of_lams_begins_at_lam_max(lams, count):
    found = read_lams(lams, problem())
    assert len(found) == count
    assert found[0] == pytest.approx(problem().lam_max)
    assert (np.diff(found) < 0).all()


def test_listed_lams_are_taken_as_they_are():
    assert read_lams([3.0, 0.0, 30.0], problem()).tolist() == [3.0, 0.0, 30.0]


def test_all_are_tried_with_all():
    grid = read_grid([1.0, 2.0], [0.5], [0.1, 1.0, 10.0], problem())
    assert len(grid.candidates()) == 6


@pytest.mark.parametrize("name", ["lams", "thetas", "epsilons"])
def test_bad_values_name_their_argument(name):
    grids = {"lams": [1.0], "thetas": [1.0], "epsilons": [1.0], name: [-1.0]}
    with pytest.raises(ValueError, match=name):
        read_grid(**grids, problem=problem())
