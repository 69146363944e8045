"""MNIST: 45 pairs of digits, images kept once."""

import numpy as np
import pytest

from fake_originals import write_idx, write_mnist
from priormtl.datasets import load_mnist
from priormtl.datasets.mnist import convert_mnist
from priormtl.exceptions import DataFileError

RNG = np.random.default_rng(0)
ARRAYS = {
    "X": RNG.integers(0, 256, (5, 784)).astype(np.uint8),
    "digit": np.array([3, 1, 4, 1, 5], dtype=np.uint8),
}


def test_counts(data_home):
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
    made = convert_mnist(write_mnist(tmp_path, ARRAYS)[::order])
    for name, array in ARRAYS.items():
        assert made[name].dtype == array.dtype
        assert np.array_equal(made[name], array)


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    images, labels = write_mnist(tmp_path, ARRAYS)
    write_idx(labels, ARRAYS["digit"][:4])
    with pytest.raises(DataFileError, match="one label per image: got files of shape"):
        convert_mnist([images, labels])
    with pytest.raises(DataFileError, match="one label per image: got files of shape"):
        convert_mnist([labels, labels])
    with pytest.raises(DataFileError, match="give 2 original files"):
        convert_mnist([images])
