"""Vectors of conjugate gradients."""

import numpy as np
import pytest

from priormtl.solvers.kernels import vectors

RNG = np.random.default_rng(0)
X, Y, Z = RNG.random((3, 2, 5))


def test_sums_and_products():
    x, y = X.copy(), X.copy()
    vectors.advance(x, 2.0, Y)
    vectors.blend(y, 2.0, Y)
    assert x == pytest.approx(X + 2.0 * Y)
    assert y == pytest.approx(2.0 * X + Y)
    assert vectors.inner(X, Y) == pytest.approx(np.vdot(X, Y))


def test_a_step_leaves_nothing_along_its_direction():
    x, rest = np.zeros(X.shape), X.copy()
    product = 3.0 * Y
    assert vectors.step_along(x, rest, Y, product, float(np.vdot(X, Y)))
    assert np.vdot(rest, Y) == pytest.approx(0.0, abs=1e-12)
    assert rest == pytest.approx(X - 3.0 * x)


def test_no_step_where_nothing_curves():
    x, rest = np.zeros(X.shape), X.copy()
    assert not vectors.step_along(x, rest, Y, -Y, 1.0)
    assert np.array_equal(rest, X)
    assert not x.any()
