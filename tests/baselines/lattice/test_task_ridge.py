import numpy as np
import pytest

from priormtl.baselines.lattice.task_curvature import rotate_fit
from priormtl.baselines.lattice.task_ridge import solve_ridge
from priormtl.data import from_labels
from priormtl.losses import NoIntercepts, Squared

BLOCKS = [[np.arange(5)], [np.array([0, 3]), np.array([1, 2, 4])]]
C = 2.0


def make_tasks(seed=0):
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((24, 5)), np.repeat([0, 1, 2], 8)
    return X, X[:, 0] + rng.standard_normal(24), task


def make_curvature(blocks):
    return rotate_fit(
        Squared().bind(from_labels(*make_tasks()), NoIntercepts()), blocks
    )


def make_kernels(k, rank):
    roots = np.random.default_rng(1).standard_normal((k, 3, rank))
    return roots @ roots.transpose(0, 2, 1)


def solve_dual(kernels, blocks):
    """Coefficients (m, d) from the dual system of all rows."""
    X, y, task = make_tasks()
    K = sum(
        B[np.ix_(task, task)] * (X[:, block] @ X[:, block].T)
        for B, block in zip(kernels, blocks, strict=True)
    )
    alpha = np.linalg.solve(K + np.eye(len(y)) / C, y)
    H = np.array([X[task == i].T @ alpha[task == i] for i in range(3)])
    W = np.empty_like(H)
    for B, block in zip(kernels, blocks, strict=True):
        W[:, block] = B @ H[:, block]
    return W, alpha


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("blocks", BLOCKS)
def test_agrees_with_the_dual_system(blocks, rank):
    curvature, kernels = make_curvature(blocks), make_kernels(len(blocks), rank)
    start = np.zeros_like(curvature.linear)
    found = solve_ridge(curvature, C, kernels, start, accuracy=1e-24, max_iter=500)
    W, alpha = solve_dual(kernels, blocks)
    np.testing.assert_allclose(curvature.to_features(found.coef), W, atol=1e-9)
    np.testing.assert_allclose(found.inner, found.pull, atol=1e-9)
    assert found.misfit == pytest.approx(0.5 * alpha @ alpha / C)
    assert found.agreement == pytest.approx(make_tasks()[1] @ alpha)


def test_a_good_start_needs_no_steps():
    curvature, kernels = make_curvature(BLOCKS[0]), make_kernels(1, 3)
    start = np.zeros_like(curvature.linear)
    first = solve_ridge(curvature, C, kernels, start, accuracy=1e-20, max_iter=500)
    again = solve_ridge(
        curvature, C, kernels, first.inner, accuracy=1e-15, max_iter=500
    )
    assert again.n_products == 1
    np.testing.assert_allclose(again.coef, first.coef)


def test_kernels_of_zero_leave_zero():
    curvature = make_curvature(BLOCKS[0])
    start = np.ones_like(curvature.linear)
    found = solve_ridge(
        curvature, C, np.zeros((1, 3, 3)), start, accuracy=0.0, max_iter=9
    )
    assert not found.coef.any()
