"""One table per task, stacked."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array, issparse

from priormtl import MultiTaskRegressor, stack_tasks

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
