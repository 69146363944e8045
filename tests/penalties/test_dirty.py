"""The dirty norm: its split, its special cases, and projections that it is made of."""

import cvxpy as cp
import numpy as np
import pytest

from instances import random_coef
from naive_twins import shrink_largest
from priormtl.penalties import Dirty

RATIOS = pytest.mark.parametrize("ratio", [0.4, 1.0, 1.7, 2.0, 3.6, 5.0, 6.0, 8.0])


@RATIOS
def test_split_adds_up_and_costs_the_norm(ratio):
    P = random_coef((4, 6))
    shared, specific = Dirty(ratio).split(P)
    np.testing.assert_allclose(shared + specific, P, atol=1e-15)
    cost = np.abs(specific).sum() + ratio * np.abs(shared).max(axis=1).sum()
    assert cost == pytest.approx(Dirty(ratio).value(P), rel=1e-14)


@RATIOS
def test_no_split_costs_less(ratio):
    P = random_coef((1, 6))
    B = cp.Variable((1, 6))
    cost = cp.sum(cp.abs(P - B)) + ratio * cp.sum(cp.max(cp.abs(B), axis=1))
    best = cp.Problem(cp.Minimize(cost)).solve(solver=cp.CLARABEL)
    assert Dirty(ratio).value(P) == pytest.approx(best, rel=1e-7)


@pytest.mark.parametrize("ratio", [1, 2, 4])
def test_whole_ratios_sum_the_largest(ratio):
    P = random_coef((3, 5))
    rows = [cp.sum_largest(cp.abs(cp.Constant(row)), ratio).value for row in P]
    assert Dirty(ratio).value(P) == pytest.approx(sum(rows))


def test_small_ratios_share_all_and_large_ones_nothing():
    P = random_coef((4, 6))
    assert not Dirty(1.0).split(P).specific.any()
    assert not Dirty(6.0).split(P).shared.any()
    assert Dirty(6.0).value(P) == pytest.approx(np.abs(P).sum())
    assert Dirty(0.7).value(P) == pytest.approx(0.7 * np.abs(P).max(axis=1).sum())


def test_many_tasks_make_the_prox_a_soft_threshold():
    P = random_coef((4, 6), scale=2.0)
    soft = np.sign(P) * np.maximum(np.abs(P) - 0.6, 0.0)
    np.testing.assert_allclose(Dirty(6.0).prox(P, 0.6), soft, atol=1e-15)


@pytest.mark.parametrize("step", [0.1, 1.0, 3.0, 100.0])
def test_one_shared_row_makes_the_prox_that_of_the_largest_entry(step):
    row = random_coef((1, 7), scale=2.0)
    U = cp.Variable((1, 7))
    cost = step * cp.max(cp.abs(U)) + 0.5 * cp.sum_squares(U - row)
    cp.Problem(cp.Minimize(cost)).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(Dirty(1.0).prox(row, step), U.value, atol=1e-6)
    np.testing.assert_allclose(Dirty(1.0).prox(row, step), shrink_largest(row, step))


@pytest.mark.parametrize("radius", [0.5, 3.0, 1e3])
def test_prox_of_the_largest_entry_projects_on_the_l1_ball(radius):
    P = random_coef((6, 5), scale=2.0)
    projected = P - Dirty(1.0).prox(P, radius)
    assert np.abs(projected).sum(axis=1).max() <= radius * (1 + 1e-14)
    inside = np.abs(P).sum(axis=1) <= radius
    np.testing.assert_allclose(projected[inside], P[inside])
    for seed in range(5):
        other = random_coef(P.shape, seed)
        other *= radius / np.abs(other).sum(axis=1, keepdims=True)
        assert np.vdot(P - projected, other - projected) <= 1e-12


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e150])
def test_sizes_do_not_matter(scale):
    P = random_coef((5, 9))
    plain = Dirty(2.5).prox(P, 0.3)
    scaled = Dirty(2.5).prox(scale * P, 0.3 * scale)
    np.testing.assert_allclose(scaled / scale, plain, atol=1e-13)


def test_ties_and_zeros_are_no_trouble():
    P = np.array([[1.0, 1.0, -1.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    U = Dirty(2.0).prox(P, 0.3)
    np.testing.assert_allclose(U, [[0.8, 0.8, -0.8, 0.0], [0.0] * 4], atol=1e-15)
