"""Compiled loops for the nuclear norm against NumPy."""

import numpy as np
import pytest

from priormtl.penalties import Nuclear
from priormtl.solvers.kernels import nuclear as kernels
from priormtl.solvers.splitting import RELAXATION


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
    base = kernels.BasePoint(np.eye(2), s, np.eye(2), np.zeros((2, 2)), lam, 0.25)
    even, odd = np.array([[1.0, 2.0], [2.0, 5.0]]), np.array([[0.0, 1.0], [-1.0, 0.0]])
    bend = 2.0 * lam / (s[:, np.newaxis] + s)
    np.testing.assert_allclose(kernels.penalty_within(base, even), 0.25 * bend * even)
    np.testing.assert_allclose(kernels.penalty_within(base, odd), bend * odd)


def make_admm(shared=False, rho=0.7, lam=0.4, m=6, d=4):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1 if shared else m, 9, d))
    gram = X.transpose(0, 2, 1) @ X
    inverse = np.linalg.inv(gram + rho * np.eye(d))
    return gram, kernels.Admm(inverse, rng.standard_normal((m, d)), rho, lam)


def plain_iteration(admm, coef, dual):
    known = admm.rho * coef - dual + admm.linear
    fitted = np.einsum("ijk,ik->ij", np.broadcast_to(admm.inverse, (6, 4, 4)), known)
    target = coef + RELAXATION * (fitted - coef) + dual / admm.rho
    new = Nuclear().prox(target, admm.lam / admm.rho)
    return new, admm.rho * (target - new)


def test_an_iteration_follows_the_formulas():
    rng = np.random.default_rng(1)
    for shared in (False, True):
        _, admm = make_admm(shared)
        coef, dual = rng.standard_normal((2, 6, 4))
        expected, left = plain_iteration(admm, coef, dual)
        norm = kernels.iterate_admm(admm, coef, dual, 1)
        np.testing.assert_allclose(coef, expected, atol=1e-12)
        np.testing.assert_allclose(dual, left, atol=1e-12)
        np.testing.assert_allclose(norm, Nuclear().value(coef), rtol=1e-12)


def test_where_iterations_end_gradient_and_dual_cancel():
    gram, admm = make_admm()
    coef, dual = np.zeros((2, 6, 4))
    kernels.iterate_admm(admm, coef, dual, 500)
    gradient = np.einsum("ijk,ik->ij", gram, coef) - admm.linear
    np.testing.assert_allclose(gradient, -dual, atol=1e-10)
    assert Nuclear().dual_norm(dual) <= admm.lam * (1 + 1e-12)


def test_nothing_happens_where_squares_have_no_digits():
    _, admm = make_admm(lam=1e-9)
    coef, dual = np.ones((2, 6, 4))
    assert kernels.iterate_admm(admm, coef, dual, 3) < 0
    assert np.all(coef == 1.0)
    _, admm = make_admm()
    coef[0, 0] = np.inf
    assert kernels.iterate_admm(admm, coef, dual, 3) < 0
