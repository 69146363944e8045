"""Equal rows are found in dense and sparse tables."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from priormtl.baselines.base import find_distinct

X = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, -0.0], [0.0, 2.0], [3.0, 0.0]])


@pytest.mark.parametrize("table", [X, csr_array(X)])
def test_equal_rows_are_one_kind(table):
    first, kind = find_distinct(table)
    assert len(first) == 3
    assert kind[0] == kind[2]
    assert kind[1] == kind[3]
    np.testing.assert_array_equal(X[first][kind], X)


def test_the_order_depends_on_contents_alone():
    order = [3, 4, 1, 0, 0, 2, 1]
    np.testing.assert_array_equal(
        X[find_distinct(X).first], X[order][find_distinct(X[order]).first]
    )


@pytest.mark.parametrize("kind", ["normal", "small whole numbers", "bits"])
def test_equal_rows_are_found(kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 7))
    if kind != "normal":
        X = rng.integers(0, 2 if kind == "bits" else 5, X.shape).astype(float)
    known, size = np.unique(X, axis=0, return_index=True)
    X = np.asfortranarray(X[rng.integers(0, 50, 300)])
    first, place = find_distinct(X)
    np.testing.assert_array_equal(X[first][place], X)
    assert len(first) == len(np.unique(X, axis=0)) <= len(known) == len(size)
