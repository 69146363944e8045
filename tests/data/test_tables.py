"""Table: rows taken in any way are the rows that TaskData would hold."""

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse

from priormtl.data import Table, from_codes


def stacked(weight=None, form=np.asarray):
    rng = np.random.default_rng(0)
    codes = np.array([2, 0, 1, 0, 2, 2, 0])
    X, y = rng.normal(size=(7, 2)), rng.normal(size=7)
    return Table(form(X), y, codes, ("a", "b", "c"), weight, ("u", "v"))


def columns(weight=None):
    y = np.array([[1.0, np.nan, 3.0], [2.0, np.nan, np.nan], [3.0, 5.0, 6.0]])
    X = np.random.default_rng(0).normal(size=(3, 2))
    return Table(X, y, None, ("a", "b", "c"), weight, None)


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_stacked_rows_become_tasks(form):
    table = stacked(form=form)
    data = table.to_tasks()
    known = from_codes(table.X, table.y, table.codes, table.tasks)
    np.testing.assert_array_equal(data.y, known.y)
    assert data.features == ("u", "v")
    assert issparse(data.X) == issparse(table.X)


def test_taking_rows_drops_tasks_without_any():
    part = stacked().take(np.array([4, 2, 0]))
    assert part.tasks == ("b", "c")
    assert part.codes.tolist() == [1, 0, 1]
    np.testing.assert_array_equal(part.y, stacked().y[[4, 2, 0]])


def test_rows_of_weight_zero_do_not_keep_a_task():
    weight = np.array([1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    part = stacked(weight).take(np.array([0, 1, 2]))
    assert part.tasks == ("a", "c")
    assert len(part) == 2
    assert part.to_tasks().tasks == ("a", "c")


def test_rows_may_be_taken_twice():
    part = stacked().take(np.array([1, 1, 3]))
    assert part.to_tasks().y.tolist() == stacked().y[[1, 1, 3]].tolist()


@pytest.mark.parametrize("weight", [None, np.ones(3), np.ones((3, 3))])
def test_columns_without_a_measured_target_are_dropped(weight):
    part = columns(weight).take(np.array([0, 1]))
    assert part.tasks == ("a", "c")
    assert part.to_tasks().shape == (2, 2)


def test_measured_targets():
    assert stacked().measured().shape == (7, 1)
    weight = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    known = [[True, False, False], [True, False, False], [True, True, True]]
    assert columns(weight).measured().tolist() == known
    assert columns(np.array([0.0, 1.0, 1.0])).measured()[0].tolist() == [False] * 3
