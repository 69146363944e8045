"""School: 139 regressions, and the original's cell arrays."""

import numpy as np
import pytest
from scipy.io import savemat

from paper_data import as_cells, write_school
from priormtl.datasets import load_school
from priormtl.datasets.loaders import SCHOOL_COLUMNS, convert_school
from priormtl.exceptions import DataFileError


@pytest.fixture(scope="module")
def school(data_home):
    return load_school(data_home=data_home)


def test_counts(school):
    assert school.X.shape == (15362, 27)
    assert len(school.task_names) == 139
    sizes = np.bincount(school.code)
    assert (sizes.min(), np.median(sizes), sizes.max()) == (22, 103, 251)
    assert (sizes < 50).sum() == 23
    assert (school.y.min(), school.y.max()) == (1, 70)
    assert round(school.y.mean(), 1) == 20.6
    assert np.linalg.matrix_rank(school.X) == 23


def test_columns_mean_what_their_names_say(school):
    column = {name: school.X[:, i] for i, name in enumerate(school.feature_names)}
    assert "bias" not in column
    for block in ("year_", "ethnic_"):
        members = [values for name, values in column.items() if name.startswith(block)]
        assert np.array_equal(sum(members), np.ones(15362))
    boys_only = column["school_boys"] == 1
    assert column["pupil_female"][boys_only].sum() == 1  # one girl excepted
    mean = [school.y[column[f"pupil_vr_band{i}"] == 1].mean() for i in (1, 2, 3)]
    assert [round(value, 1) for value in mean] == [30.3, 19.2, 11.1]


def test_small_cell_arrays_are_converted(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {
        "X": rng.integers(0, 100, (9, 28)).astype(np.uint8),
        "y": rng.integers(1, 70, 9).astype(np.uint8),
        "task": np.repeat([0, 1, 2], [2, 4, 3]).astype(np.int16),
        "columns": np.array(SCHOOL_COLUMNS),
    }
    made = convert_school(write_school(tmp_path, arrays))
    assert list(made) == list(arrays)
    for name, array in arrays.items():
        assert made[name].dtype == array.dtype
        assert np.array_equal(made[name], array)


def test_other_tables_are_refused(tmp_path):
    path = tmp_path / "school.mat"
    savemat(path, {"X": as_cells([np.ones((2, 5))]), "Y": as_cells([np.ones((2, 1))])})
    with pytest.raises(DataFileError, match="must hold 28 columns and one score"):
        convert_school([path])
    savemat(path, {"X": as_cells([np.ones((2, 28))]), "Y": as_cells([np.ones((3, 1))])})
    with pytest.raises(DataFileError, match="must hold 28 columns and one score"):
        convert_school([path])
