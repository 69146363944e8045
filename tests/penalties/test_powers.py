"""Laws of powers, over the list: a new one is tested by being listed."""

import numpy as np
import pytest

from instances import PENALTIES, POWERS, random_coef
from priormtl.penalties import Power, Schatten, SquaredNuclear, TaskKernel, is_power

EVERY_POWER = pytest.mark.parametrize("penalty", POWERS.values(), ids=POWERS.keys())
STEPS = (1e-6, 0.3, 0.7, 2.0, 50.0)
SHAPE = (5, 3)


def naive_prox(penalty, P, step):
    """Twin of ``prox``: its scalar equation by bisection, on the SVD."""
    if isinstance(penalty, TaskKernel):
        A = (penalty.vectors * penalty.values) @ penalty.vectors.T
        return P @ A @ np.linalg.inv(A + 2.0 * step * np.eye(len(A)))
    U, s, Vt = np.linalg.svd(P, full_matrices=False)
    return (U * naive_shrink(penalty, s, step)) @ Vt


def naive_shrink(penalty, s, step):
    if isinstance(penalty, Schatten):
        q = penalty.exponent
        return bisect(lambda z: z + step * q * z ** (q - 1.0) - s, 0.0 * s, s)
    total = bisect(
        lambda t: t - np.maximum(s - step * t, 0.0).sum(), 0.0 * s[:1], s.sum() + s[:1]
    )
    return np.maximum(s - step * total, 0.0)


def bisect(rising, low, high):
    for _ in range(200):
        middle = 0.5 * (low + high)
        above = rising(middle) > 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return high


@EVERY_POWER
def test_prox_agrees_with_its_naive_twin(penalty):
    for seed in range(3):
        P = random_coef(SHAPE, seed, scale=2.0)
        for step in STEPS:
            expected = naive_prox(penalty, P, step)
            np.testing.assert_allclose(penalty.prox(P, step), expected, atol=1e-10)


@EVERY_POWER
def test_fenchel_young_and_equality_at_the_prox(penalty):
    for seed in range(10):
        U, G = random_coef(SHAPE, seed), random_coef(SHAPE, seed + 50)
        U = penalty.prox(U, 0.1)  # where the value is finite
        assert np.vdot(U, G) <= penalty.value(U) + penalty.conjugate(G) + 1e-12
    for step in STEPS[1:]:
        P = random_coef(SHAPE, scale=2.0)
        U = penalty.prox(P, step)
        G = (P - U) / step  # a subgradient at U
        bound = penalty.value(U) + penalty.conjugate(G)
        assert np.vdot(U, G) == pytest.approx(bound, rel=1e-9)


@EVERY_POWER
def test_prox_does_not_expand(penalty):
    for seed in range(10):
        A, B = random_coef(SHAPE, seed, 2.0), random_coef(SHAPE, seed + 100, 2.0)
        apart = np.linalg.norm(penalty.prox(A, 0.8) - penalty.prox(B, 0.8))
        assert apart <= np.linalg.norm(A - B) * (1 + 1e-12)


@EVERY_POWER
def test_degrees_of_value_and_conjugate(penalty):
    P, q = penalty.prox(random_coef(SHAPE), 0.1), penalty.degree()
    assert penalty.value(2.5 * P) == pytest.approx(2.5**q * penalty.value(P))
    dual = 2.5 ** (q / (q - 1.0)) * penalty.conjugate(P)
    assert penalty.conjugate(2.5 * P) == pytest.approx(dual)


@EVERY_POWER
def test_zero_stays_and_costs_nothing(penalty):
    zero = np.zeros(SHAPE)
    assert penalty.value(zero) == penalty.conjugate(zero) == 0.0
    np.testing.assert_array_equal(penalty.prox(zero, 0.7), zero)


@EVERY_POWER
def test_no_features_cost_nothing(penalty):
    none = np.zeros((0, 3))
    part = penalty.restrict(np.zeros(0, dtype=np.intp))
    assert part.value(none) == part.conjugate(none) == part.dual_norm(none) == 0.0
    assert part.prox(none, 1.0).shape == (0, 3)


def test_norms_are_no_powers():
    assert all(is_power(p) and isinstance(p, Power) for p in POWERS.values())
    assert not any(is_power(p) for p in PENALTIES.values())


def test_squared_nuclear_norm_is_half_a_square():
    P = np.diag([3.0, 1.0])
    assert SquaredNuclear().value(P) == pytest.approx(8.0)
    assert SquaredNuclear().conjugate(P) == pytest.approx(4.5)


@pytest.mark.parametrize("q", [1.1, 4 / 3, 1.5, 1.99])
def test_schatten_prox_keeps_the_digits_of_tiny_values(q):
    step, s = 0.7, np.array([1e-12, 1e-9, 1e-3, 1.0, 1e6])
    z = np.array([Schatten(q).prox(np.array([[x]]), step)[0, 0] for x in s])
    np.testing.assert_allclose(z + step * q * z ** (q - 1.0), s, rtol=1e-12)


def test_a_singular_kernel_confines_the_rows():
    ones = TaskKernel.of_matrix(np.ones((3, 3)))
    U = ones.prox(random_coef(SHAPE), 0.5)
    np.testing.assert_allclose(U, np.tile(U[:, :1], 3), atol=1e-14)
    assert ones.value(U) == pytest.approx(np.sum(U[:, 0] ** 2))


def test_identity_as_kernel_is_the_squared_norm():
    P, plain = random_coef(SHAPE), TaskKernel.of_matrix(np.eye(3))
    assert plain.value(P) == pytest.approx(np.sum(P**2))
    np.testing.assert_allclose(plain.prox(P, 0.5), P / 2.0)
