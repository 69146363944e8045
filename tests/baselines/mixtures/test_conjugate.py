"""Conjugate gradients: several systems at once are solved as one by one."""

import numpy as np
import pytest

from priormtl.baselines.mixtures.conjugate import conjugate_gradients


@pytest.fixture
def systems():
    factors = np.random.default_rng(0).standard_normal((3, 8, 5))
    return np.einsum("kij,kil->kjl", factors, factors)


def solve(systems, right, **kwargs):
    return conjugate_gradients(
        lambda V: np.einsum("kij,kj->ki", systems, V),
        right,
        np.einsum("kii->ki", systems),
        **{"forcing": 1e-13, "products": 50} | kwargs,
    )


def test_solutions_are_exact(systems):
    right = np.random.default_rng(1).standard_normal((3, 5))
    expected = np.linalg.solve(systems, right[..., np.newaxis])[..., 0]
    np.testing.assert_allclose(solve(systems, right), expected, rtol=1e-8)


def test_a_truncated_solution_still_descends(systems):
    right = np.random.default_rng(1).standard_normal((3, 5))
    found = solve(systems, right, products=2)
    assert np.all(np.sum(found * right, axis=1) > 0)


def test_flat_coordinates_are_left_alone(systems):
    systems[1] = 0.0
    systems[2, 0] = systems[2, :, 0] = 0.0
    right = np.ones((3, 5))
    right[2, 0] = 0.0
    found = solve(systems, right)
    np.testing.assert_array_equal(found[1], 0.0)
    assert found[2, 0] == 0
    np.testing.assert_allclose(systems[2] @ found[2], right[2], atol=1e-8)
