"""Norms of functions in several kernel spaces, by laws and by their definitions."""

import numpy as np
import pytest

from priormtl.penalties import LowRankKernels, SharedKernels, SquaredNuclear

PENALTIES = [(SharedKernels, p) for p in (2.0, 2.5, 10.0)]
PENALTIES += [(LowRankKernels, q) for q in (1.01, 1.5, 1.99)]
EVERY_PENALTY = pytest.mark.parametrize(("kind", "power"), PENALTIES)


def random_functions(k, r, m, seed=0):
    """Kernels of very different norms, one function without values."""
    F = np.random.default_rng(seed).normal(size=(k, r, m))
    F *= 3.0 ** np.arange(k)[:, None, None]
    F[0, :, -1] = 0.0
    return F


@EVERY_PENALTY
def test_value_and_dual_norm_follow_the_definition(kind, power):
    F = random_functions(3, 5, 4)
    P, conjugate = F.reshape(15, 4), power / (power - 1)
    if kind is SharedKernels:
        lengths = np.linalg.norm(F, axis=1)
        total = np.linalg.norm(lengths, power, axis=1).sum()
        dual = np.linalg.norm(lengths, conjugate, axis=1).max()
    else:
        values = np.linalg.svd(F, compute_uv=False)
        total = np.linalg.norm(values.sum(axis=1), power)
        dual = np.linalg.norm(values[:, 0], conjugate)
    penalty = kind(3, power)
    assert penalty.value(P) == pytest.approx(0.5 * total**2)
    assert penalty.dual_norm(P) == pytest.approx(dual)
    assert penalty.conjugate(P) == pytest.approx(0.5 * dual**2)


@pytest.mark.parametrize("shape", [(3, 7, 4), (2, 4, 7), (3, 5, 1), (1, 1, 3)], ids=str)
@EVERY_PENALTY
def test_prox_is_optimal(kind, power, shape):
    """(P − U) / step is a subgradient of ½ Ω² at U: its dual norm and product are Ω."""
    penalty = kind(shape[0], power)
    P = random_functions(*shape).reshape(-1, shape[2])
    for step in (1e-3, 0.3, 20.0):
        U = penalty.prox(P, step)
        residual, level = (P - U) / step, np.sqrt(2.0 * penalty.value(U))
        assert penalty.dual_norm(residual) == pytest.approx(level, rel=1e-6)
        assert np.vdot(residual, U) == pytest.approx(level**2, rel=1e-6)
    np.testing.assert_array_equal(penalty.prox(P, 0.0), P)


@EVERY_PENALTY
def test_zero_stays_zero_with_even_weights(kind, power):
    zero = np.zeros((8, 3))
    assert not kind(2, power).prox(zero, 0.5).any()
    np.testing.assert_array_equal(kind(2, power).weights(zero), [0.5, 0.5])


def test_one_kernel_is_the_squared_nuclear_norm():
    P = np.random.default_rng(2).normal(size=(6, 4))
    U = LowRankKernels(1, 1.5).prox(P, 0.4)
    np.testing.assert_allclose(U, SquaredNuclear().prox(P, 0.4), atol=1e-9)


def test_weights_are_those_of_the_reweighted_problems():
    """½ Σ t_j² / ρ_j is half the squared norm at the published weights ρ."""
    P, q = random_functions(4, 5, 3).reshape(20, 3), 1.5
    shared, low_rank = SharedKernels(4, 2.0), LowRankKernels(4, q)
    value = 0.5 * np.sum(shared.norms(P) ** 2 / shared.weights(P))
    assert value == pytest.approx(shared.value(P))
    weights = low_rank.weights(P)
    rho = weights / np.sum(weights ** (q / (2 - q))) ** ((2 - q) / q)
    value = 0.5 * np.sum(low_rank.norms(P) ** 2 / rho)
    assert value == pytest.approx(low_rank.value(P))
