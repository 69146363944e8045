"""ADMM on small problems: its bound holds and its gap closes."""

import numpy as np
import pytest

from priormtl.baselines.multikernel.low_rank_kernels import LowRankKernels
from priormtl.baselines.multikernel.shared_weights import SharedWeights
from priormtl.baselines.multikernel.splitting import (
    RotatedTasks,
    SplitProblem,
    SplitState,
    minimise,
)

NORMS = [SharedWeights(2.0), SharedWeights(4.0), LowRankKernels(1.5)]
SHAPE = (3, 2, 4)


def make_problem(norm, c):
    """Three tasks: two of three rows, one of two."""
    rng = np.random.default_rng(0)
    groups = []
    for tasks, n in (([0, 2], 3), ([1], 2)):
        features = np.stack([np.linalg.qr(rng.normal(size=(8, n)))[0].T for _ in tasks])
        squares = 0.5 + rng.random((len(tasks), n))
        features *= np.sqrt(squares)[:, :, np.newaxis]
        target = rng.normal(size=(len(tasks), n))
        groups.append(RotatedTasks(np.array(tasks), features, squares, target, (2, 4)))
    return SplitProblem(tuple(groups), norm, c)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("c", [1e-2, 1.0, 1e4])
def test_the_gap_closes(norm, c):
    problem = make_problem(norm, c)
    found = minimise(problem, SplitState.zero(SHAPE), 1e-10, 5000)
    assert 0 <= found.gap <= 1e-10 * found.primal
    assert problem.primal(found.state.coef) == pytest.approx(found.primal)
    rng = np.random.default_rng(1)
    for size in (1e-4, 1e-2, 1.0):
        other = found.state.coef + size * rng.normal(size=SHAPE)
        assert problem.primal(other) >= found.dual


def test_one_step_reports_its_gap():
    found = minimise(make_problem(NORMS[0], 1.0), SplitState.zero(SHAPE), 1e-12, 1)
    assert found.n_iter == 1
    assert found.gap > 0


def test_the_smooth_part_is_solved():
    problem = make_problem(NORMS[0], 2.0)
    rng = np.random.default_rng(2)
    state = SplitState(rng.normal(size=SHAPE), rng.normal(size=SHAPE), 0.7, 1.0)
    smooth = problem.fit_near(state)
    gradient = state.rho * (smooth.coef - state.coef + state.dual)
    for group, residual in zip(problem.groups, smooth.residuals, strict=True):
        np.testing.assert_allclose(residual, group.target - group.forward(smooth.coef))
        group.add_adjoint(gradient, -2.0 * residual)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-12)
