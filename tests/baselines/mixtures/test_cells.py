"""Cells: both layouts have the same, and sums agree with loops."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from priormtl.baselines.mixtures import cells as cells_module
from priormtl.baselines.mixtures.cells import gather_cells
from priormtl.data import from_columns, from_labels


def test_both_layouts_have_the_same_cells():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((8, 3)), rng.standard_normal((8, 4))
    Y[2, 1] = Y[5, 3] = np.nan
    row, task = np.nonzero(~np.isnan(Y))
    shared = gather_cells(from_columns(X, Y))
    stacked = gather_cells(from_labels(X[row], Y[row, task], task))
    assert shared.X.shape == stacked.X.shape == (8, 3)
    for cells in (shared, stacked):
        table = np.full((8, 4), np.nan)
        place = [np.flatnonzero((x == X).all(axis=1))[0] for x in cells.X[cells.row]]
        table[place, cells.task] = cells.y
        np.testing.assert_array_equal(table, Y)


def test_sums_are_those_of_loops():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (30, 2)).astype(float)
    task, weight = np.sort(rng.integers(0, 3, 30)), rng.uniform(0.5, 2.0, 30)
    cells = gather_cells(from_labels(X, rng.standard_normal(30), task, weight))
    values = rng.standard_normal((2, 30))
    rows = [values[:, cells.row == r].sum(axis=1) for r in range(len(cells.X))]
    np.testing.assert_allclose(cells.per_row(values), np.transpose(rows))
    tasks = [values[:, task == i].sum(axis=1) for i in range(3)]
    np.testing.assert_allclose(cells.per_task(values), np.transpose(tasks))
    assert cells.total == pytest.approx(weight.sum())
    assert cells.mean(cells.y) == pytest.approx(np.average(cells.y, weights=weight))
    np.testing.assert_allclose(cells.task_weight.sum(), cells.row_weight.sum())


def test_small_sparse_features_are_written_out(monkeypatch):
    X, y, task = csr_array(np.eye(4)), np.arange(4.0), [0, 0, 1, 1]
    assert isinstance(gather_cells(from_labels(X, y, task)).X, np.ndarray)
    monkeypatch.setattr(cells_module, "WRITTEN_OUT", 0)
    assert isinstance(gather_cells(from_labels(X, y, task)).X, csr_array)
