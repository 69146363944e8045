import numpy as np
import pytest

from instances import POWERS
from priormtl.penalties import SquaredNuclear, spectrum
from priormtl.penalties.spectrum import (
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


def test_what_is_not_finite_is_refused():
    with pytest.raises(FloatingPointError, match="no longer finite"):
        SquaredNuclear().prox(np.array([[np.nan, 1.0]]), 0.5)


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
