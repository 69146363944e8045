"""ORL: 40 people, each against the rest, on a shared X."""

import numpy as np

from priormtl.datasets import load_orl


def test_counts(data_home):
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
