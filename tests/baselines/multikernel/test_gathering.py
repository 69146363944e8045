"""Tasks over distinct rows: targets centred and divided, equal rows once."""

import numpy as np
import pytest

from priormtl.baselines.multikernel.base_kernels import Linear
from priormtl.baselines.multikernel.gathering import gather_tasks
from priormtl.data import from_labels

X = np.array([[0.0], [1.0], [1.0], [2.0]])
TASK = [0, 0, 1, 1]


def gather(y, centred=True):
    data = from_labels(X, np.asarray(y), TASK)
    return gather_tasks(data, (Linear(),), normalize=True, centred=centred)


def test_equal_rows_of_different_tasks_are_kept_once():
    assert gather([1.0, 2.0, 3.0, 4.0]).u == 3


@pytest.mark.parametrize("centred", [False, True])
def test_targets_come_back_from_offset_and_unit(centred):
    y = np.array([1.0, 3.0, -10.0, 20.0])
    data = gather(y, centred)
    assert data.offset.tolist() == ([2.0, 5.0] if centred else [0.0, 0.0])
    found = [data.unit * data.targets(i) + data.offset[i] for i in range(2)]
    np.testing.assert_allclose(np.sort(found, axis=1).ravel(), y)
    assert max(np.abs(data.targets(i)).max() for i in range(2)) == 1.0


@pytest.mark.parametrize("value", [0.0, 0.1, 1e100])
def test_equal_targets_are_their_mean_exactly(value):
    data = gather([value] * 4)
    assert data.offset.tolist() == [value, value]
    assert data.unit == 1.0
