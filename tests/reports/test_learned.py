"""Learned: norms that do not overflow, names, and spreads where they are known."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from priormtl import MultiTaskRegressor
from priormtl.reports.learned import Learned, row_norms
from reported_models import drawn_rows, learned_of, model_of, tuned_model


@pytest.mark.parametrize("unit", [1.0, 1e-200, 1e200, 0.0])
def test_norms_scale(unit):
    rows = np.array([[3.0, 4.0], [0.0, 0.0], [1.0, 0.0]])
    assert row_norms(unit * rows) == pytest.approx(unit * np.array([5.0, 0.0, 1.0]))


def test_tiny_rows_beside_huge_ones_do_not_vanish():
    assert row_norms(np.array([[1e-180, 0.0], [1e180, 0.0]])).tolist() == [
        1e-180,
        1e180,
    ]


def test_sizes_do_not_depend_on_units():
    X, y, task, _ = drawn_rows()
    unit = np.geomspace(0.01, 100.0, X.shape[1])
    sizes = [
        Learned.read(
            MultiTaskRegressor(1.0, standardize=True).fit(Z, y, task=task)
        ).sizes
        for Z in (X, X * unit)
    ]
    assert sizes[0] == pytest.approx(sizes[1], rel=1e-3)


def test_spread_comes_from_rows_where_the_model_has_none():
    rows = np.array([[0.0, 7.0], [2.0, 7.0], [4.0, 7.0]])
    model = model_of(np.ones((2, 2)))
    dense, sparse = Learned.read(model, rows), Learned.read(model, csr_array(rows))
    assert dense.scale == pytest.approx([rows[:, 0].std(), 1.0])
    assert sparse.scale == pytest.approx(dense.scale)


def test_scale_that_the_fit_remembers_is_used():
    model = model_of(np.ones((2, 2)), feature_scale_=np.array([2.0, 3.0]))
    assert Learned.read(model).scale is None
    model.standardize = True
    assert Learned.read(model).scale.tolist() == [2.0, 3.0]


def test_names_are_the_models_or_positions():
    assert learned_of([[1.0, 2.0]]).features == ("x0", "x1")
    assert learned_of([[1.0]], ["é"]).features == ("é",)
    assert Learned.read(tuned_model()).tasks == ("East", "North", "South", "West")


def test_the_median_task_has_no_distance():
    assert learned_of([[1.0], [2.0], [9.0]]).distances.tolist() == [1.0, 0.0, 7.0]


@pytest.mark.parametrize("model", [MultiTaskRegressor(), object()])
def test_what_is_not_fitted_is_refused(model):
    with pytest.raises(TypeError, match="model must be a fitted linear model"):
        Learned.read(model)
