"""The norm of shared kernels: duality and optimality of its proximal point."""

import numpy as np
import pytest

from priormtl.baselines.multikernel.shared_weights import SharedWeights

SHAPES = [(4, 3, 7), (7, 2, 4), (1, 3, 5), (3, 1, 1)]


@pytest.fixture(params=SHAPES, ids=str)
def functions(request):
    rng = np.random.default_rng(0)
    F = rng.normal(size=request.param) * 3.0 ** np.arange(request.param[1])[:, None]
    F[-1, 0] = 0.0
    return F


@pytest.mark.parametrize("p", [2.0, 2.5, 4.0, 10.0])
@pytest.mark.parametrize("step", [1e-3, 0.3, 20.0])
@pytest.mark.parametrize("guess", [0.0, 1.0])
def test_prox_is_optimal(functions, p, step, guess):
    F = functions
    norm = SharedWeights(p)
    U, level = norm.prox(F, step, guess)
    residual = (F - U) / step
    assert norm.value(U) == pytest.approx(level, rel=1e-8)
    assert norm.dual_norm(residual) <= level * (1 + 1e-8)
    assert np.vdot(residual, U) == pytest.approx(level**2, rel=1e-8)


@pytest.mark.parametrize("p", [2.0, 4.0])
def test_norms_are_dual(functions, p):
    F = functions
    norm = SharedWeights(p)
    Z = np.random.default_rng(1).normal(size=F.shape)
    assert np.vdot(F, Z) <= norm.value(F) * norm.dual_norm(Z) * (1 + 1e-12)


def test_weights_are_those_of_the_published_dual():
    """½ Σ_j n_j² / γ_j is the squared norm at γ_j = n_j / Σ n."""
    F = np.random.default_rng(2).normal(size=(3, 4, 5))
    norm = SharedWeights(2.0)
    parts = np.sqrt(np.sum(F**2, axis=(0, 2)))
    weights = norm.kernel_weights(F)
    assert np.sum(parts**2 / weights) == pytest.approx(norm.value(F) ** 2)
    np.testing.assert_array_equal(norm.kernel_weights(0 * F), np.full(4, 0.25))


def test_nothing_stays_nothing():
    U, level = SharedWeights(4.0).prox(np.zeros((3, 2, 4)), 0.5, 1.0)
    assert not U.any()
    assert level == 0.0
