"""Class labels as binary tasks."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array

from priormtl import one_vs_one, one_vs_rest

LABELS = np.array(["a", "b", "c", "a", "b"])
X = np.arange(10.0).reshape(5, 2)


def test_each_row_stands_in_the_tasks_of_its_class():
    rows, y, task = one_vs_one(X, LABELS)
    assert task.tolist() == ["a vs b"] * 4 + ["a vs c"] * 3 + ["b vs c"] * 3
    for label, name in zip(y, task, strict=True):
        assert label in name.split(" vs ")
    assert np.array_equal(rows[:4], X[[0, 1, 3, 4]])


def test_each_row_stands_in_every_task_against_the_rest():
    rows, y, task = one_vs_rest(X, LABELS)
    assert rows.shape == (15, 2)
    assert y.sum() == 5
    assert np.array_equal(y[:5], LABELS == "a")
    assert task.tolist() == ["a"] * 5 + ["b"] * 5 + ["c"] * 5


@pytest.mark.parametrize("split", [one_vs_one, one_vs_rest])
def test_tables_keep_their_kind(split):
    expected = split(X, LABELS)[0]
    frame = split(pd.DataFrame(X, columns=["u", "v"]), LABELS)[0]
    assert isinstance(frame, pd.DataFrame)
    assert np.array_equal(frame.to_numpy(), expected)
    assert isinstance(split(pl.DataFrame(X), LABELS)[0], pl.DataFrame)
    sparse = split(csr_array(X), LABELS)[0]
    assert np.array_equal(sparse.toarray(), expected)


def test_one_class_is_no_task():
    with pytest.raises(ValueError, match=r"at least two classes: got \['a'\]"):
        one_vs_one(X, ["a"] * 5)
    with pytest.raises(ValueError, match="one-dimensional"):
        one_vs_rest(X, X)
