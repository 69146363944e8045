import numpy as np
import pytest

from priormtl._numerics import conjugate_gradients, line_search


def spd(rng, n):
    A = rng.standard_normal((n, n))
    return A @ A.T + n * np.eye(n)


def test_conjugate_gradients_solve_m_plus_correction():
    rng = np.random.default_rng(0)
    M, low = spd(rng, 6), rng.standard_normal((6, 2))
    correction = -0.5 * low @ low.T
    rhs = rng.standard_normal((6, 3))
    found = conjugate_gradients(
        lambda r: np.linalg.solve(M, r), lambda x, Mx: Mx + correction @ x, rhs, 1e-13
    )
    assert found == pytest.approx(np.linalg.solve(M + correction, rhs), abs=1e-10)


def test_conjugate_gradients_stop_where_nothing_curves():
    rhs = np.ones((2, 1))
    found = conjugate_gradients(lambda r: r, lambda x, Mx: Mx - 2.0 * x, rhs, 1e-6)
    assert not found.any()


@pytest.mark.parametrize("bound", [2.0, 1.0, 0.3, 2.0**-29])
def test_line_search_takes_the_largest_halving_that_is_accepted(bound):
    size = line_search(lambda size: size if size <= bound else None)
    assert size <= bound
    assert size == 1.0 or 2.0 * size > bound


def test_line_search_gives_up():
    tried = []
    assert line_search(tried.append, most=4) is None
    assert tried == [1.0, 0.5, 0.25, 0.125]
