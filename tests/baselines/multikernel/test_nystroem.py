"""Features from kernel matrices, and the rows that they are made of."""

import numpy as np

from priormtl.baselines.multikernel.nystroem import choose_landmarks, inverse_roots


def test_features_give_the_kernel_back():
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(6, 2)), rng.normal(size=(6, 4))]
    grams = np.stack([A @ A.T for A in factors])
    roots = inverse_roots(grams)
    assert roots.shape == (2, 6, 4)
    assert not roots[0, :, 2:].any()
    features = grams @ roots
    np.testing.assert_allclose(features @ features.swapaxes(1, 2), grams, atol=1e-9)


def test_a_kernel_of_zeros_has_no_features():
    assert not inverse_roots(np.zeros((1, 3, 3))).any()


def test_landmarks_are_distinct_and_repeatable():
    chosen = choose_landmarks(50, 10, 3)
    assert len(np.unique(chosen)) == 10
    np.testing.assert_array_equal(chosen, choose_landmarks(50, 10, 3))
    assert len(choose_landmarks(5, 10, 3)) == 5
