"""Tasks of a few rows are left out, in the order of the others."""

import numpy as np
import pytest

from priormtl.data import TaskOrder, check_min_rows, large_tasks
from priormtl.data.labels import declared_order


def test_tasks_keep_their_order_and_its_declaration():
    tasks = TaskOrder(["mar", "jan", "feb"], declared=["mar", "apr", "jan", "feb"])
    kept = large_tasks(tasks, [5, 1, 2], 2)
    assert kept == ("mar", "feb")
    assert declared_order(kept) == ("mar", "apr", "jan", "feb")


def test_one_row_is_always_enough():
    assert large_tasks(("b", "a"), np.array([1.0, 2.0]), 1) == ("b", "a")


def test_nothing_left_is_an_error():
    with pytest.raises(ValueError, match="min_rows=9 must leave some tasks: none of 2"):
        large_tasks(("a", "b"), [8, 3], 9)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "3", None])
def test_other_than_counts_are_refused(wrong):
    with pytest.raises(ValueError, match="min_rows must be a whole number from 1 on"):
        check_min_rows(wrong)


def test_numbers_of_numpy_count():
    assert check_min_rows(np.int64(3)) == 3
