"""Yale: 28 pairs of the first eight people."""

import numpy as np

from priormtl.datasets import load_yale


def test_counts(data_home):
    data = load_yale(data_home=data_home)
    assert data.originals.shape == (88, 1024)
    assert data.X.shape == (28 * 22, 1024)
    assert np.bincount(data.label).tolist() == [11] * 8
    assert np.bincount(data.sample).tolist() == [7] * 88
    assert data.task_names[0] == "subject 0 vs 1"
    assert (data.X.min(), data.X.max()) == (0, 255)
