"""Sarcos: seven torques on a shared X, or with rows of their own."""

import numpy as np
import pytest
from scipy.io import savemat

from paper_data import write_sarcos
from priormtl.datasets import convert_original, load_sarcos, load_sarcos_one
from priormtl.datasets.loaders import convert_sarcos
from priormtl.exceptions import DataFileError


def test_counts(data_home):
    data = load_sarcos(data_home=data_home)
    assert data.X.shape == (4449, 21)
    assert data.y.shape == (4449, 7)
    assert data.task is None
    assert data.y.std(axis=0) == pytest.approx(
        [20.4, 14.9, 10.0, 13.8, 0.97, 1.7, 2.6], rel=0.03
    )
    assert len(np.unique(data.X, axis=0)) == 4449
    assert data.feature_names[7] == "velocity 0"


def test_rows_with_one_torque(data_home):
    data = load_sarcos_one(data_home=data_home)
    assert data.X.shape == (5608, 21)
    sizes = np.bincount(data.code)
    assert (len(sizes), sizes.min(), sizes.max()) == (7, 755, 858)
    assert data.groups.max() + 1 == 5284
    both = np.vstack([np.unique(data.X, axis=0), load_sarcos(data_home=data_home).X])
    assert len(np.unique(both, axis=0)) == 5284 + 4449


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_small_table_is_converted(tmp_path, dtype):
    rng = np.random.default_rng(0)
    arrays = {
        "X": rng.standard_normal((6, 21)).round(6),
        "Y": rng.standard_normal((6, 7)).round(6),
    }
    stored = {name: array.astype(dtype) for name, array in arrays.items()}
    made = convert_sarcos(write_sarcos(tmp_path, stored))
    for name, array in arrays.items():
        assert np.array_equal(made[name], array)


def test_other_tables_are_refused(tmp_path):
    path = tmp_path / "sarcos.mat"
    savemat(path, {"sarcos_inv_test": np.ones((3, 27))})
    with pytest.raises(DataFileError, match="must hold a table of 28 columns"):
        convert_sarcos([path])
    savemat(path, {"sarcos_inv": np.ones((3, 28))})
    with pytest.raises(DataFileError, match="no variable sarcos_inv_test"):
        convert_sarcos([path])


def test_a_converted_original_has_no_rows_with_one_torque(data_home, tmp_path):
    data = load_sarcos(data_home=data_home)
    originals = write_sarcos(tmp_path, {"X": data.X, "Y": data.y})
    assert convert_original("sarcos", originals, data_home=tmp_path).verified
    assert np.array_equal(load_sarcos(data_home=tmp_path).y, data.y)
    with pytest.raises(DataFileError, match="X_one, y_one, task_one; sarcos_inv_test"):
        load_sarcos_one(data_home=tmp_path)
