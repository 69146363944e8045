"""Images: pairs of people and digits, and people against the rest."""

import numpy as np
import pytest
from scipy.io import savemat

from paper_data import by_columns, write_faces, write_idx, write_mnist
from priormtl.datasets import load_mnist, load_orl, load_yale
from priormtl.datasets.loaders import convert_faces, convert_mnist
from priormtl.exceptions import DataFileError

RNG = np.random.default_rng(0)
FACES = {
    "X": RNG.integers(0, 256, (6, 1024)).astype(np.uint8),
    "subject": np.array([0, 0, 1, 1, 2, 2], dtype=np.uint8),
}


def test_images_are_turned_upright(tmp_path):
    made = convert_faces(write_faces(tmp_path, FACES))
    for name, array in FACES.items():
        assert made[name].dtype == array.dtype
        assert np.array_equal(made[name], array)


def test_other_names_of_the_variables_are_known(tmp_path):
    path = tmp_path / "ORL.mat"
    pixels = by_columns(FACES["X"], 32, 32).astype(float)
    savemat(path, {"X": pixels, "Y": FACES["subject"][:, None] + 1})
    assert np.array_equal(convert_faces([path])["X"], FACES["X"])


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


# Yale.


def test_yale_counts(data_home):
    data = load_yale(data_home=data_home)
    assert data.originals.shape == (88, 1024)
    assert data.X.shape == (28 * 22, 1024)
    assert np.bincount(data.label).tolist() == [11] * 8
    assert np.bincount(data.sample).tolist() == [7] * 88
    assert data.task_names[0] == "subject 0 vs 1"
    assert (data.X.min(), data.X.max()) == (0, 255)


# ORL.


def test_orl_counts(data_home):
    data = load_orl(data_home=data_home)
    assert data.X.shape == (400, 1024)
    assert data.y.shape == (400, 40)
    assert np.bincount(data.label).tolist() == [10] * 40
    assert (data.X.min(), data.X.max()) == (2, 235)


def test_an_image_is_positive_for_its_own_person_only(data_home):
    data = load_orl(data_home=data_home)
    assert np.array_equal(data.y.argmax(axis=1), data.label)
    assert ((data.y > 0).sum(axis=1) == 1).all()
    assert data.classes[7] == ("others", "subject 07")


# MNIST.


DIGITS = {
    "X": RNG.integers(0, 256, (5, 784)).astype(np.uint8),
    "digit": np.array([3, 1, 4, 1, 5], dtype=np.uint8),
}


def test_mnist_counts(data_home):
    data = load_mnist(data_home=data_home)
    assert data.originals.shape == (10000, 784)
    assert data.originals.dtype == np.uint8
    sizes = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert np.bincount(data.label).tolist() == sizes
    assert np.bincount(data.sample).tolist() == [9] * 10000
    assert data.code.shape == (90000,)
    assert (~data.originals.any(axis=0)).sum() == 116


@pytest.mark.parametrize("order", [1, -1])
def test_images_and_labels_come_in_either_order(tmp_path, order):
    made = convert_mnist(write_mnist(tmp_path, DIGITS)[::order])
    for name, array in DIGITS.items():
        assert made[name].dtype == array.dtype
        assert np.array_equal(made[name], array)


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    images, labels = write_mnist(tmp_path, DIGITS)
    write_idx(labels, DIGITS["digit"][:4])
    with pytest.raises(DataFileError, match="one label per image: got files of shape"):
        convert_mnist([images, labels])
    with pytest.raises(DataFileError, match="one label per image: got files of shape"):
        convert_mnist([labels, labels])
    with pytest.raises(DataFileError, match="give 2 original files"):
        convert_mnist([images])
