"""Stacked rows from one table per task, and from classes."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array, issparse

from priormtl import MultiTaskRegressor, one_vs_one, one_vs_rest, stack_tasks

PARTS = [np.arange(4.0).reshape(2, 2), np.ones((3, 2))]

TARGETS = [np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0])]


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, pl.DataFrame, csr_array])
def test_rows_stand_task_after_task(kind):
    X, y, task = stack_tasks([kind(part) for part in PARTS], TARGETS)
    values = X.toarray() if issparse(X) else np.asarray(X)
    assert np.array_equal(values, np.concatenate(PARTS))
    assert y.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert task.tolist() == [0, 0, 1, 1, 1]


def test_dicts_name_the_tasks():
    X, y, task = stack_tasks(
        dict(zip("vu", PARTS, strict=True)), dict(zip("vu", TARGETS, strict=True))
    )
    model = MultiTaskRegressor().fit(X, y, task=task)
    assert model.tasks_.tolist() == ["u", "v"]


@pytest.mark.parametrize(
    ("X", "y", "match"),
    [
        (PARTS, TARGETS[:1], "same tasks"),
        ([], [], "at least one"),
        (PARTS, TARGETS[::-1], "y of task 0 must have one value per row"),
        ({"a": PARTS[0]}, TARGETS, "both be lists or both be dicts"),
    ],
)
def test_what_does_not_match_is_refused(X, y, match):
    with pytest.raises(ValueError, match=match):
        stack_tasks(X, y)


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
