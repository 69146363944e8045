"""Faces: pixels row by row, subjects from 0."""

import numpy as np
import pytest
from scipy.io import savemat

from fake_originals import by_columns, write_faces
from priormtl.datasets.faces import convert_faces
from priormtl.exceptions import DataFileError

RNG = np.random.default_rng(0)
ARRAYS = {
    "X": RNG.integers(0, 256, (6, 1024)).astype(np.uint8),
    "subject": np.array([0, 0, 1, 1, 2, 2], dtype=np.uint8),
}


def test_images_are_turned_upright(tmp_path):
    made = convert_faces(write_faces(tmp_path, ARRAYS))
    for name, array in ARRAYS.items():
        assert made[name].dtype == array.dtype
        assert np.array_equal(made[name], array)


def test_other_names_of_the_variables_are_known(tmp_path):
    path = tmp_path / "ORL.mat"
    pixels = by_columns(ARRAYS["X"], 32, 32).astype(float)
    savemat(path, {"X": pixels, "Y": ARRAYS["subject"][:, None] + 1})
    assert np.array_equal(convert_faces([path])["X"], ARRAYS["X"])


@pytest.mark.parametrize(
    ("pixels", "count", "match"),
    [
        (np.ones((3, 100)), 3, "must hold 1024 pixels and one subject per image"),
        (np.ones((3, 1024)), 2, "got pixels .3, 1024. and 2 subjects"),
        (np.full((3, 1024), 0.5), 3, "fea must hold whole numbers from 0 to 255"),
    ],
)
def test_other_tables_are_refused(tmp_path, pixels, count, match):
    path = tmp_path / "faces.mat"
    savemat(path, {"fea": pixels, "gnd": np.ones((count, 1))})
    with pytest.raises(DataFileError, match=match):
        convert_faces([path])
