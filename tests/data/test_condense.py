"""Which representation is chosen, and tables of all forms as tasks."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array

from priormtl.data import (
    CentredSamples,
    SharedRows,
    StackedRows,
    TaskStatistics,
    accumulate,
    condense,
    from_columns,
    from_labels,
    summarize,
    summarize_tasks,
    to_tasks,
)


def stacked(n, d, m, form=np.asarray):
    rng = np.random.default_rng(0)
    return from_labels(
        form(rng.normal(size=(n, d))), rng.normal(size=n), np.arange(n) % m
    )


def shared(n, d, m, form=np.asarray):
    rng = np.random.default_rng(0)
    return from_columns(form(rng.normal(size=(n, d))), rng.normal(size=(n, m)))


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (stacked(12, 4, 3), TaskStatistics),
        (stacked(11, 4, 3), CentredSamples),
        (stacked(50, 4, 3, csr_array), CentredSamples),
        (shared(4, 4, 3), TaskStatistics),
        (shared(3, 4, 3), CentredSamples),
        (shared(50, 4, 3, csr_array), CentredSamples),
    ],
    ids=["long", "wide", "sparse", "shared", "shared wide", "shared sparse"],
)
def test_the_smaller_representation_is_chosen(data, kind):
    assert isinstance(condense(data), kind)


def test_statistics_are_taken_as_they_are():
    statistics = summarize_tasks(stacked(12, 4, 3))
    assert condense(statistics) is statistics


@pytest.mark.parametrize("build", [stacked, shared])
def test_the_choice_does_not_change_the_moments(build):
    for n in (3, 30):
        data = build(n, 4, 2)
        np.testing.assert_allclose(
            condense(data).xy, summarize_tasks(data).xy, rtol=1e-10, atol=1e-12
        )


def test_chunks_accumulate_to_the_whole():
    rng = np.random.default_rng(0)
    X, y, task = rng.normal(size=(30, 2)), rng.normal(size=30), rng.integers(0, 3, 30)
    chunks = (from_labels(X[k::4], y[k::4], task[k::4]) for k in range(4))
    found, whole = accumulate(chunks), summarize(X, y, task)
    assert found.tasks == whole.tasks
    np.testing.assert_allclose(found.xx, whole.xx, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(found.xy, whole.xy, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("columns", [False, True])
def test_small_tasks_are_left_out(columns):
    rng = np.random.default_rng(0)
    X, y, task = rng.normal(size=(9, 2)), rng.normal(size=9), np.repeat([2, 0, 1], 3)
    weight = np.ones(9)
    weight[0] = 0.0  # absent, so that task 2 has two rows
    if columns:
        cells = np.full((9, 3), np.nan)
        cells[np.arange(9), task] = y
        y, task = cells, None
    whole = summarize(X, y, task, weight)
    found = summarize(X, y, task, weight, min_rows=3)
    assert found.tasks == (0, 1)
    np.testing.assert_array_equal(found.xx, whole.gram()[:2])
    np.testing.assert_array_equal(found.yy, whole.yy[:2])
    assert summarize(X, y, task, weight, min_rows=2).tasks == whole.tasks


def test_small_tasks_may_be_all():
    with pytest.raises(ValueError, match="min_rows=3 must leave some tasks: none of 1"):
        summarize([[0.0], [2.0]], [1.0, 3.0], min_rows=3)
    with pytest.raises(ValueError, match=r"min_rows must be a whole .* got True"):
        summarize([[0.0], [2.0]], [1.0, 3.0], min_rows=True)


def test_no_labels_make_one_task():
    data = to_tasks([[1.0], [2.0]], [3.0, 4.0])
    assert isinstance(data, StackedRows)
    assert data.tasks == (0,)


def test_columns_of_targets_are_tasks():
    data = to_tasks([[1.0], [2.0]], [[3.0, 4.0], [5.0, np.nan]])
    assert isinstance(data, SharedRows)
    assert data.tasks == (0, 1)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_names_of_columns_name_features_and_tasks(frame):
    X, Y = (
        frame({"u": [1.0, 2.0], "v": [0.0, 1.0]}),
        frame({"p": [1, 2], "q": [3, None]}),
    )
    data = to_tasks(X, Y)
    assert data.features == ("u", "v")
    assert data.tasks == ("p", "q")
    assert data.weight.tolist() == [[1.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize("series", [pd.Series, pl.Series, np.array, list])
def test_labels_and_weights_come_in_any_form(series):
    task, weight = series(["b", "a"]), series([1.0, 2.0])
    found = summarize([[1.0], [2.0]], series([3.0, 4.0]), task, weight)
    assert found.tasks == ("a", "b")
    assert found.weight.tolist() == [2.0, 1.0]
    assert found.y_mean.tolist() == [4.0, 3.0]


def test_the_index_of_a_series_does_not_matter():
    task = pd.Series(["b", "a"], index=[7, 3])
    found = summarize([[1.0], [2.0]], pd.Series([3.0, 4.0], index=[1, 0]), task)
    assert found.y_mean.tolist() == [4.0, 3.0]


def test_labels_and_columns_exclude_each_other():
    with pytest.raises(ValueError, match="task must be None if y has one column per"):
        summarize(np.eye(2), np.eye(2), task=["a", "b"])


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (
            [1.0, 2.0],
            [1.0, 2.0],
            r"X must have two dimensions: got shape \(2,\)",
        ),
        (np.eye(2), [1.0], "y must have one value per row of X: got 1 for 2 rows"),
        (np.eye(2), ["a", "b"], "y must hold numbers: got list"),
        (np.eye(2), [1.0, np.nan], "y must be finite: it contains NaN"),
        (np.eye(2), 5.0, "y must"),
        (np.eye(2), np.ones((2, 1, 1)), "y must"),
        (np.eye(2), np.ones((2, 0)), "y must"),
        (np.empty((0, 2)), [], "at least one row"),
    ],
    ids=["flat X", "short", "text", "NaN", "one y", "3-D y", "no column", "no row"],
)
def test_tables_that_do_not_fit_are_refused(X, y, message):
    with pytest.raises(ValueError, match=message):
        summarize(X, y)


def test_integers_are_read_as_numbers():
    found = summarize(
        np.array([[1], [3]], dtype=np.int8), np.array([100, 120], np.int8)
    )
    assert found.xx[0, 0, 0] == 2.0
    assert found.y_mean[0] == 110.0
