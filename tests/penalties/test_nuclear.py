"""Spectral penalties: digits of singular values, factors and special cases."""

import numpy as np
import pytest

from instances import POWERS, random_coef
from priormtl.penalties import Nuclear, Schatten, SquaredNuclear, TaskKernel
from priormtl.penalties import nuclear as spectrum
from priormtl.penalties.nuclear import (
    Shrunk,
    decompose_above,
    largest_singular_value,
    shrink_spectrum,
    singular_values,
)

SPECTRAL = {k: p for k, p in POWERS.items() if k != "kernel"}
SHAPES = [(6, 14), (14, 6), (5, 5), (1, 4), (4, 1)]


def with_spectrum(shape, values, seed=0):
    rng = np.random.default_rng(seed)
    k = min(shape)
    left, right = (np.linalg.qr(rng.normal(size=(n, k)))[0] for n in shape)
    return (left * values[:k]) @ right.T


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("penalty", SPECTRAL.values(), ids=SPECTRAL.keys())
@pytest.mark.parametrize("decades", [0, 3, 6, 10, 14])
def test_small_gram_matrices_give_the_digits_of_the_svd(
    penalty, shape, decades, monkeypatch
):
    P = with_spectrum(shape, np.geomspace(10.0, 10.0 ** (1 - decades), 6))
    for step in (1e-8, 1e-4, 1e-1, 10.0):
        quick = penalty.prox(P, step)
        with monkeypatch.context() as patch:
            patch.setattr(spectrum, "_has_digits", lambda *_: False)
            exact = penalty.prox(P, step)
        assert np.abs(quick - exact).max() <= 1e-9


def test_values_below_the_digits_of_squares_are_left_to_the_svd(monkeypatch):
    calls = []
    decompose = spectrum.decompose
    monkeypatch.setattr(
        spectrum, "decompose", lambda P: calls.append(1) or decompose(P)
    )
    keep = lambda values: Shrunk(values, 0.0)  # noqa: E731
    plain = with_spectrum((4, 6), np.array([1.0, 0.5, 0.1, 0.0]))
    np.testing.assert_allclose(shrink_spectrum(plain, keep), plain, atol=1e-14)
    assert not calls
    hard = with_spectrum((4, 6), np.array([1.0, 0.5, 1e-7, 1e-9]))
    np.testing.assert_allclose(shrink_spectrum(hard, keep), hard, atol=1e-15)
    assert calls


@pytest.mark.parametrize("scale", [1e-180, 1e-120, 1e120, 1e160])
def test_squares_out_of_range_are_left_to_the_svd(scale):
    P = with_spectrum((4, 6), np.array([4.0, 3.0, 2.0, 1.0]))
    np.testing.assert_allclose(
        SquaredNuclear().prox(scale * P, 0.3) / scale,
        SquaredNuclear().prox(P, 0.3),
        atol=1e-13,
    )


@pytest.mark.parametrize("penalty", [Nuclear(), SquaredNuclear()])
def test_what_is_not_finite_is_refused(penalty):
    with pytest.raises(FloatingPointError, match="no longer finite"):
        penalty.prox(np.array([[np.nan, 1.0]]), 0.5)


def test_nothing_has_no_singular_values():
    assert singular_values(np.zeros((0, 3))).shape == (0,)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", [1e-180, 1.0, 1e160])
def test_largest_singular_value_has_all_digits(shape, scale):
    P = scale * with_spectrum(shape, np.geomspace(10.0, 1e-9, 6))
    known = singular_values(P)[0]
    assert largest_singular_value(P) == pytest.approx(known, rel=1e-14)
    assert largest_singular_value(np.zeros(shape)) == 0.0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("least", [0.0, 1e-6, 0.02, 0.3, 20.0])
def test_values_above_a_limit_come_with_orthonormal_vectors(shape, least):
    P = with_spectrum(shape, np.geomspace(10.0, 1e-4, 6))
    left, values, right = decompose_above(P, least)
    kept = singular_values(P) > least
    np.testing.assert_allclose(values, singular_values(P)[kept], rtol=1e-9)
    for side in (left, right.T):
        np.testing.assert_allclose(side.T @ side, np.eye(kept.sum()), atol=1e-9)
    rest = P - (left * values) @ right
    assert largest_singular_value(rest) <= least + 1e-12


def test_nuclear_norm_survives_a_failing_driver(monkeypatch):
    P, drivers = random_coef((5, 3)), []
    svd = spectrum.svd

    def fragile(P, lapack_driver="gesdd", **options):
        drivers.append(lapack_driver)
        if lapack_driver == "gesdd":
            raise spectrum.LinAlgError
        return svd(P, lapack_driver=lapack_driver, **options)

    expected = Nuclear().shrink(P, 1e-6).product
    monkeypatch.setattr(spectrum, "svd", fragile)
    np.testing.assert_allclose(Nuclear().shrink(P, 1e-6).product, expected, atol=1e-13)
    assert drivers == ["gesdd", "gesvd"]


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (40, 6), (4, 1)])
@pytest.mark.parametrize("share", [1.1e-3, 0.01, 0.3, 0.9])
def test_both_ways_to_shrink_singular_values_agree(shape, share):
    P = random_coef(shape)
    step = share * np.linalg.norm(P)
    whole = Nuclear().shrink(P, step).product
    np.testing.assert_allclose(Nuclear().prox(P, step), whole, atol=1e-12)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (0, 4), (4, 1)])
def test_factors_of_the_nuclear_prox_are_orthonormal_and_multiply_to_it(shape):
    P = random_coef(shape)
    factors = Nuclear().shrink(P, 0.3)
    rank = len(factors.s)
    assert rank == (np.linalg.matrix_rank(Nuclear().prox(P, 0.3)) if P.size else 0)
    assert np.all(factors.s > 0)
    for side in (factors.U, factors.V):
        np.testing.assert_allclose(side.T @ side, np.eye(rank), atol=1e-12)
    np.testing.assert_allclose(factors.product, Nuclear().prox(P, 0.3), atol=1e-14)


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
    U = ones.prox(random_coef((5, 3)), 0.5)
    np.testing.assert_allclose(U, np.tile(U[:, :1], 3), atol=1e-14)
    assert ones.value(U) == pytest.approx(np.sum(U[:, 0] ** 2))


def test_identity_as_kernel_is_the_squared_norm():
    P, plain = random_coef((5, 3)), TaskKernel.of_matrix(np.eye(3))
    assert plain.value(P) == pytest.approx(np.sum(P**2))
    np.testing.assert_allclose(plain.prox(P, 0.5), P / 2.0)


@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_a_kernel_keeps_the_range_of_its_matrix(rank, scale):
    # Rounded eigenvalues of the null space are no part of it, whatever their sign.
    B = np.random.default_rng(rank).normal(size=(6, rank))
    kernel = TaskKernel.of_matrix(scale * B @ B.T)
    assert kernel.values.shape == (rank,)
    np.testing.assert_allclose(kernel.vectors @ (kernel.vectors.T @ B), B, atol=1e-9)
    P = random_coef((5, 6))
    outside = kernel.prox(P, 0.1) @ (np.eye(6) - B @ np.linalg.pinv(B))
    np.testing.assert_allclose(outside, 0.0, atol=1e-9)
