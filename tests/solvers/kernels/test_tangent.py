"""Compiled loops of nuclear Newton against NumPy."""

import numpy as np
import pytest

from priormtl.solvers.kernels import tangent as kernels


def positive_blocks(m, d, seed=0):
    factors = np.random.default_rng(seed).standard_normal((m, d + 1, d))
    return factors.transpose(0, 2, 1) @ factors


@pytest.mark.parametrize("d", [1, 2, 9])
def test_inverses_are_those_of_numpy(d):
    blocks = positive_blocks(5, d)
    expected = np.linalg.inv(blocks)
    np.testing.assert_allclose(kernels.invert_positive(blocks), expected, rtol=1e-6)


def test_inverses_bear_any_scale_of_the_unknowns():
    scale = np.array([1e-9, 1.0, 1e9])
    blocks = positive_blocks(4, 3) * scale * scale[:, np.newaxis]
    products = kernels.invert_positive(blocks) @ blocks
    balanced = products * scale[:, np.newaxis] / scale
    np.testing.assert_allclose(balanced, np.tile(np.eye(3), (4, 1, 1)), atol=1e-9)


def test_blocks_multiply_row_by_row_or_all_at_once():
    blocks = positive_blocks(4, 3)
    x = np.random.default_rng(1).standard_normal((4, 3))
    each = np.einsum("ijk,ik->ij", blocks, x)
    np.testing.assert_allclose(kernels.multiply_blocks(blocks, x), each, atol=1e-12)
    one = kernels.multiply_blocks(blocks[:1], x)
    np.testing.assert_allclose(one, x @ blocks[0], atol=1e-12)


def test_projection_leaves_nothing_along_the_basis():
    rng = np.random.default_rng(2)
    V, _ = np.linalg.qr(rng.standard_normal((6, 2)))
    V = np.ascontiguousarray(V)
    Y = kernels.project(V, rng.standard_normal((6, 2)))
    np.testing.assert_allclose(V.T @ Y, 0.0, atol=1e-14)


def test_damping_bends_what_rotations_do_not():
    s, lam = np.array([2.0, 1.0]), 3.0
    place = kernels.Place(np.eye(2), s, np.eye(2), np.zeros((2, 2)), lam, 0.25)
    even, odd = np.array([[1.0, 2.0], [2.0, 5.0]]), np.array([[0.0, 1.0], [-1.0, 0.0]])
    bend = 2.0 * lam / (s[:, np.newaxis] + s)
    np.testing.assert_allclose(kernels.turn(place, even), 0.25 * bend * even)
    np.testing.assert_allclose(kernels.turn(place, odd), bend * odd)
