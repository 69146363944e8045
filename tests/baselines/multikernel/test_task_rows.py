"""Samples of equal rows become one sample."""

import numpy as np
import pytest

from priormtl.baselines.multikernel.task_rows import merge_rows
from priormtl.data import from_columns, from_labels

KIND = np.array([1, 0, 1, 0])


def test_stacked_rows_are_merged_within_tasks():
    data = from_labels(
        np.zeros((4, 1)), np.array([1.0, 5.0, 4.0, 7.0]), [0, 0, 0, 1], [1, 1, 2, 1]
    )
    first, second = merge_rows(data, KIND)
    np.testing.assert_array_equal(first.kind, [0, 1])
    np.testing.assert_allclose(first.y, [5.0, 3.0])
    np.testing.assert_array_equal(first.weight, [1.0, 3.0])
    assert first.scatter == pytest.approx(4.0 + 2.0)
    np.testing.assert_array_equal(second.y, [7.0])


def test_unmeasured_cells_are_absent():
    Y = np.array([[1.0, np.nan], [2.0, 3.0], [3.0, np.nan], [2.0, np.nan]])
    first, second = merge_rows(from_columns(np.zeros((4, 1)), Y), KIND)
    np.testing.assert_array_equal(first.weight, [2.0, 2.0])
    np.testing.assert_array_equal(second.kind, [0])
    assert first.scatter == pytest.approx(2.0)
    assert second.scatter == 0.0
