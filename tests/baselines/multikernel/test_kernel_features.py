"""Features of tasks: the same functions, values and objective as kernels."""

import numpy as np
import pytest

from priormtl.baselines.multikernel.base_kernels import Gaussian, KernelSet, Linear
from priormtl.baselines.multikernel.kernel_features import (
    KernelTasks,
    common_features,
    make_model,
    own_features,
)
from priormtl.baselines.multikernel.task_rows import TaskRows


def make_tasks(kinds, weight=None):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(6, 2))
    kernels = KernelSet.fit((Gaussian(1.0), Linear()), rows, np.ones(6), normalize=True)
    tasks = tuple(
        TaskRows(
            np.array(kind),
            rng.normal(size=len(kind)),
            np.ones(len(kind)) if weight is None else weight[: len(kind)],
            0.5,
        )
        for kind in kinds
    )
    return KernelTasks(rows, tasks, kernels, np.array([0.3] * len(kinds)), 2.0)


MAKERS = [own_features, lambda data: common_features(data, None)]
KINDS = [
    [[0, 1, 2], [3, 4], [1, 5]],
    [[0, 1, 2, 3, 4, 5]] * 3,
]


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("make", MAKERS)
def test_misfit_in_features_is_that_of_the_model(kinds, make):
    data = make_tasks(kinds, np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0]))
    features = make(data)
    coef = np.random.default_rng(1).normal(size=features.shape)
    model = make_model(data, features, coef)
    misfit = features.rest
    for group in features.groups:
        misfit += np.sum((group.target - group.forward(coef)) ** 2)
    expected = 0.0
    for i, task in enumerate(data.tasks):
        left = task.y - model.scores(data.rows[task.kind], i)
        expected += task.weight @ left**2 + task.scatter
    assert 4.0 * misfit == pytest.approx(expected)


def test_more_rows_than_features_are_condensed():
    data = make_tasks([[0, 1, 2, 3, 4, 5], [0, 2, 3, 4, 5]])
    features = common_features(data, np.array([1]))
    assert {group.features.shape[1] for group in features.groups} == {2}
    coef = np.random.default_rng(1).normal(size=features.shape)
    model = make_model(data, features, coef)
    misfit = features.rest + sum(
        np.sum((group.target - group.forward(coef)) ** 2) for group in features.groups
    )
    expected = sum(
        np.sum((task.y - model.scores(data.rows[task.kind], i)) ** 2) + task.scatter
        for i, task in enumerate(data.tasks)
    )
    assert 4.0 * misfit == pytest.approx(expected)


def test_rotated_rows_are_orthogonal():
    data = make_tasks(KINDS[0])
    for group in own_features(data).groups:
        for rows, squares in zip(group.features, group.squares, strict=True):
            np.testing.assert_allclose(rows @ rows.T, np.diag(squares), atol=1e-12)


def test_tasks_of_the_same_rows_share_one_table():
    data = make_tasks(KINDS[1])
    (group,) = common_features(data, None).groups
    assert len(group.features) == 1
    assert data.common_cells == 2 * 6 * 6
    assert make_tasks(KINDS[0]).common_cells == 2 * 6 * 7
