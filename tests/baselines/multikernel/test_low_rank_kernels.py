"""The norm of low-rank functions: duality and optimality of its proximal point."""

import numpy as np
import pytest

from priormtl.baselines.multikernel.low_rank_kernels import LowRankKernels
from priormtl.penalties import SquaredNuclear

SHAPES = [(4, 3, 7), (7, 2, 4), (1, 3, 5), (3, 1, 1)]


@pytest.fixture(params=SHAPES, ids=str)
def functions(request):
    rng = np.random.default_rng(0)
    return rng.normal(size=request.param) * 3.0 ** np.arange(request.param[1])[:, None]


@pytest.mark.parametrize("q", [1.01, 1.3, 1.5, 1.99])
@pytest.mark.parametrize("step", [1e-3, 0.3, 20.0])
@pytest.mark.parametrize("guess", [0.0, 1.0])
def test_prox_is_optimal(functions, q, step, guess):
    F = functions
    norm = LowRankKernels(q)
    U, level = norm.prox(F, step, guess)
    residual = (F - U) / step
    assert norm.value(U) == pytest.approx(level, rel=1e-6)
    assert norm.dual_norm(residual) == pytest.approx(level, rel=1e-6)
    assert np.vdot(residual, U) == pytest.approx(level**2, rel=1e-6)


@pytest.mark.parametrize("q", [1.01, 1.5, 1.99])
def test_norms_are_dual(functions, q):
    F = functions
    norm = LowRankKernels(q)
    Z = np.random.default_rng(1).normal(size=F.shape)
    assert np.vdot(F, Z) <= norm.value(F) * norm.dual_norm(Z) * (1 + 1e-12)


def test_one_kernel_is_the_squared_nuclear_norm():
    P = np.random.default_rng(2).normal(size=(6, 4))
    U, level = LowRankKernels(1.5).prox(P.T[:, np.newaxis], 0.4, 0.0)
    expected = SquaredNuclear().prox(P, 0.4)
    np.testing.assert_allclose(U[:, 0].T, expected, atol=1e-9)
    assert 0.5 * level**2 == pytest.approx(SquaredNuclear().value(expected))


def test_nothing_stays_nothing():
    zero = np.zeros((3, 2, 4))
    U, level = LowRankKernels(1.5).prox(zero, 0.5, 1.0)
    assert not U.any()
    assert level == 0.0
    np.testing.assert_array_equal(LowRankKernels(1.5).kernel_weights(zero), [0.5, 0.5])


def test_weights_are_those_of_the_reweighted_problem():
    """½ Σ t_j² / ρ_j is the squared norm at ρ_j = t_j^{2−q} / (Σ t^q)^{(2−q)/q}."""
    F, q = np.random.default_rng(3).normal(size=(1, 4, 5)), 1.5
    t = np.linalg.norm(F[0], axis=1)
    weights = LowRankKernels(q).kernel_weights(F)
    rho = weights / np.sum(weights ** (q / (2 - q))) ** ((2 - q) / q)
    assert np.sum(t**2 / rho) == pytest.approx(LowRankKernels(q).value(F) ** 2)
