"""Exchanges: those of the plain formulas, and fixed points are optima."""

import numpy as np

from priormtl.penalties import Nuclear
from priormtl.solvers.kernels.exchange import RELAXATION, Sides, exchange


def make_sides(shared=False, price=0.7, lam=0.4, m=6, d=4):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1 if shared else m, 9, d))
    gram = X.transpose(0, 2, 1) @ X
    inverse = np.linalg.inv(gram + price * np.eye(d))
    return gram, Sides(inverse, rng.standard_normal((m, d)), price, lam)


def plain_exchange(sides, coef, pull):
    known = sides.price * coef - pull + sides.linear
    fitted = np.einsum("ijk,ik->ij", np.broadcast_to(sides.inverse, (6, 4, 4)), known)
    target = coef + RELAXATION * (fitted - coef) + pull / sides.price
    new = Nuclear().prox(target, sides.lam / sides.price)
    return new, sides.price * (target - new)


def test_an_exchange_is_that_of_the_formulas():
    rng = np.random.default_rng(1)
    for shared in (False, True):
        _, sides = make_sides(shared)
        coef, pull = rng.standard_normal((2, 6, 4))
        expected, left = plain_exchange(sides, coef, pull)
        norm = exchange(sides, coef, pull, 1)
        np.testing.assert_allclose(coef, expected, atol=1e-12)
        np.testing.assert_allclose(pull, left, atol=1e-12)
        np.testing.assert_allclose(norm, Nuclear().value(coef), rtol=1e-12)


def test_where_exchanges_end_gradient_and_pull_cancel():
    gram, sides = make_sides()
    coef, pull = np.zeros((2, 6, 4))
    exchange(sides, coef, pull, 500)
    gradient = np.einsum("ijk,ik->ij", gram, coef) - sides.linear
    np.testing.assert_allclose(gradient, -pull, atol=1e-10)
    assert Nuclear().dual_norm(pull) <= sides.lam * (1 + 1e-12)


def test_nothing_happens_where_squares_have_no_digits():
    _, sides = make_sides(lam=1e-9)
    coef, pull = np.ones((2, 6, 4))
    assert exchange(sides, coef, pull, 3) < 0
    assert np.all(coef == 1.0)
    _, sides = make_sides()
    coef[0, 0] = np.inf
    assert exchange(sides, coef, pull, 3) < 0
