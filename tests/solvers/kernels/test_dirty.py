"""Shifts of projections, and sweeps, against plain twins."""

import numpy as np
import pytest

from instances import random_coef
from priormtl.penalties import Dirty
from priormtl.solvers.kernels.dirty import DirtyRows, find_shift, sweep


def total_at(shift, sizes, own, most):
    return np.clip(own * (sizes - shift), 0.0, most).sum()


@pytest.mark.parametrize("near", [0.0, 0.3, 1.2, 50.0])
@pytest.mark.parametrize("seed", range(12))
def test_shift_is_the_least_that_is_enough(seed, near):
    rng = np.random.default_rng(seed)
    sizes, own = rng.exponential(size=9), rng.exponential(size=9)
    own[rng.random(9) < 0.3] = 0.0
    most, total = rng.exponential(), rng.exponential() * 2.0
    shift = find_shift(sizes, own, most, total, near)
    at = total_at(shift, sizes, own, most)
    if total_at(0.0, sizes, own, most) <= total:
        assert shift == 0.0
    else:
        assert at == pytest.approx(total, rel=1e-12)


def test_steps_between_far_pieces_do_not_get_lost():
    own = np.array([1e4, 1e-4, 1.0, 0.0])
    sizes = np.array([1.0, 5e3, 2.0, 7.0])
    for total in (0.1, 0.9, 1.7):
        shift = find_shift(sizes, own, 0.8, total, 0.0)
        assert total_at(shift, sizes, own, 0.8) == pytest.approx(total, rel=1e-9)


def draw_rows(ratio, d=3, m=4, lam=0.7):
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((m, d + 2, d))
    gram = np.einsum("inj,ink->jki", factors, factors)
    own = np.ascontiguousarray(np.einsum("jji->ji", gram))
    rows = DirtyRows(np.ascontiguousarray(gram), own, lam, ratio, np.zeros(d))
    return rows, rng.standard_normal((d, m))


@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.6, 2.0, 3.3, 4.0, 9.0])
def test_a_sweep_leaves_every_row_of_one_feature_at_its_minimum(ratio):
    rows, linear = draw_rows(ratio, d=1)
    Q, gradient = np.zeros_like(linear), -linear.copy()
    assert sweep(rows, Q, gradient, np.empty(4)) > 0.0
    np.testing.assert_allclose(gradient, rows.own * Q - linear, atol=1e-12)
    norm = Dirty(ratio)
    assert norm.dual_norm(gradient) <= rows.lam * (1 + 1e-10)
    assert -np.vdot(gradient, Q) == pytest.approx(rows.lam * norm.value(Q), abs=1e-10)
    assert sweep(rows, Q, gradient, np.empty(4)) <= 1e-25


@pytest.mark.parametrize("ratio", [0.5, 1.6, 2.0, 9.0])
def test_sweeps_lower_the_objective_and_keep_the_gradient(ratio):
    rows, linear = draw_rows(ratio)
    Q = random_coef(linear.shape, 4)
    gradient = np.einsum("jki,ki->ji", rows.gram, Q) - linear

    def value():
        smooth = 0.5 * np.vdot(Q, gradient - linear)
        return smooth + rows.lam * Dirty(ratio).value(Q)

    for _ in range(5):
        before = value()
        sweep(rows, Q, gradient, np.empty(4))
        exact = np.einsum("jki,ki->ji", rows.gram, Q) - linear
        np.testing.assert_allclose(gradient, exact, atol=1e-12)
        assert value() <= before + 1e-12
