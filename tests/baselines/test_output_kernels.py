"""Penalties of eigenvalues: what is left of them is their least; given kernels."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from priormtl.baselines.output_kernels import EigenvaluePenalty, check_output_kernel

PENALTIES = [EigenvaluePenalty(p, g) for p in (1.0, 2.0, 5.0) for g in (None, 0.2)]


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("lam", [0.3, 7.0])
def test_what_is_left_is_the_least_over_eigenvalues(penalty, lam):
    sigma, gamma = 1.7, penalty.gamma or lam

    def joint(a):
        return lam * sigma**2 / a + gamma * a**penalty.power

    best = float(penalty.eigenvalues(np.array([sigma**2]), lam)[0])
    found = minimize_scalar(joint, bounds=(0.01, 100.0), method="bounded")
    assert best == pytest.approx(found.x, rel=1e-3)
    left = penalty.strength(lam) * sigma**penalty.exponent
    assert joint(best) == pytest.approx(left, rel=1e-12)


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
def test_strengths_know_their_lam(penalty):
    assert penalty.lam_of(penalty.strength(0.37)) == pytest.approx(0.37, rel=1e-12)


def test_a_singular_kernel_is_taken():
    A = np.ones((3, 3))
    np.testing.assert_array_equal(check_output_kernel(A.tolist(), 3), A)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "got None"),
        (np.eye(2), "3 x 3 tasks"),
        (np.full((3, 3), np.nan), "finite matrix"),
        (np.triu(np.ones((3, 3))), "symmetric"),
        (-np.eye(3), "smallest eigenvalue is -1"),
    ],
)
def test_other_kernels_are_refused(value, words):
    with pytest.raises(ValueError, match=words):
        check_output_kernel(value, 3)
