"""Kernels against their formulas, and their scales against weights."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from priormtl.baselines.multikernel.base_kernels import (
    Gaussian,
    KernelSet,
    Linear,
    Polynomial,
    check_kernels,
    default_kernels,
)

X = np.random.default_rng(0).normal(size=(7, 3))
Z = np.random.default_rng(1).normal(size=(4, 3))
KERNELS = (Gaussian(0.7), Polynomial(3), Linear())


@pytest.mark.parametrize("sparse", [False, True])
def test_values_are_those_of_the_formulas(sparse):
    rows, others = (csr_array(X), csr_array(Z)) if sparse else (X, Z)
    fitted = KernelSet.fit(KERNELS, rows, np.ones(7), normalize=False)
    found = fitted.grams(rows, others)
    products = X @ Z.T / 3
    squares = ((X[:, None] - Z[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(found[0], np.exp(-squares / (2 * 0.49)), rtol=1e-10)
    np.testing.assert_allclose(found[1], (products + 1) ** 3, atol=1e-12)
    np.testing.assert_allclose(found[2], products, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_diagonals_are_those_of_the_matrix(kernel):
    fitted = KernelSet.fit((kernel,), X, np.ones(7), normalize=False)
    np.testing.assert_allclose(kernel.diagonal(X), fitted.grams(X, X)[0].diagonal())


def test_the_mean_diagonal_becomes_one_and_weights_count_rows():
    weight = np.array([1.0, 2.0, 1.0, 3.0, 1.0, 1.0, 2.0])
    fitted = KernelSet.fit(None, X, weight, normalize=True)
    assert len(fitted) == 8
    for K in fitted.grams(X, X):
        assert np.average(K.diagonal(), weights=weight) == pytest.approx(1.0)
    repeated = np.repeat(X, weight.astype(int), axis=0)
    twin = KernelSet.fit(None, repeated, np.ones(11), normalize=True)
    np.testing.assert_allclose(fitted.grams(X, Z), twin.grams(X, Z))


def test_default_widths_are_root_mean_square_distances():
    share = np.full(7, 1 / 7)
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    widths = [kernel.width for kernel in default_kernels(X, share)[:5]]
    expected = np.sqrt(squares.mean()) * np.array([0.25, 0.5, 1, 2, 4])
    np.testing.assert_allclose(widths, expected)
    sparse = [kernel.width for kernel in default_kernels(csr_array(X), share)[:5]]
    np.testing.assert_allclose(sparse, expected)


def test_distances_far_from_the_origin_are_exact():
    far = KernelSet.fit((Gaussian(0.7),), X + 1e7, np.ones(7), normalize=False)
    near = KernelSet.fit((Gaussian(0.7),), X, np.ones(7), normalize=False)
    np.testing.assert_allclose(far.grams(X + 1e7, Z + 1e7), near.grams(X, Z), atol=1e-7)


def test_kernels_are_checked():
    assert check_kernels(None) is None
    assert check_kernels([Linear()]) == (Linear(),)
    for wrong in ((), "linear", (1.0,)):
        with pytest.raises(ValueError, match="kernels must be None or a tuple"):
            check_kernels(wrong)
