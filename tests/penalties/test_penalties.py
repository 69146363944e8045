"""Laws of penalties, over the lists: a new one is tested by being listed."""

import numpy as np
import pytest

from instances import PENALTIES, POWERS, random_coef
from priormtl.penalties import (
    L21,
    Columns,
    Dirty,
    Nuclear,
    Power,
    Robust,
    RowSeparable,
    Schatten,
    TaskKernel,
    halve,
)

EVERY_PENALTY = pytest.mark.parametrize(
    "penalty", PENALTIES.values(), ids=PENALTIES.keys()
)
EVERY_POWER = pytest.mark.parametrize("penalty", POWERS.values(), ids=POWERS.keys())
NORMS_AND_POWERS = pytest.mark.parametrize(
    "penalty",
    [*PENALTIES.values(), *POWERS.values()],
    ids=[*PENALTIES.keys(), *POWERS.keys()],
)
SHAPES = pytest.mark.parametrize("m", [1, 3, 8])
STEPS = (0.0, 0.3, 0.7, 2.0, 50.0)


def weights_of(penalty, d):
    return np.ones(d) if penalty.weights is None else penalty.weights


def naive_value(penalty, P):
    """Twin of ``value``, from the definition."""
    if isinstance(penalty, Columns):
        return naive_value(L21(), P.T)
    if isinstance(penalty, Robust):
        L, S = halve(P)
        return penalty.ratio * naive_value(Nuclear(), L) + naive_value(Columns(), S)
    if isinstance(penalty, Dirty):
        return sum(naive_row_value(penalty.ratio, row) for row in P)
    if isinstance(penalty, Nuclear):
        return np.sqrt(np.maximum(np.linalg.eigvalsh(P.T @ P), 0.0)).sum()
    rows = zip(weights_of(penalty, len(P)), P, strict=True)
    return sum(weight * sum(x * x for x in row) ** 0.5 for weight, row in rows)


def naive_prox(penalty, P, step):
    """Twin of ``prox``: row by row, or through the eigenvectors of PᵀP."""
    if isinstance(penalty, Columns):
        return naive_prox(L21(), P.T, step).T
    if isinstance(penalty, Robust):
        L, S = halve(P)
        low = naive_prox(Nuclear(), L, step * penalty.ratio)
        return np.hstack([low, naive_prox(Columns(), S, step)])
    if isinstance(penalty, Dirty):
        return np.array([naive_row_prox(penalty.ratio, row, step) for row in P])
    if isinstance(penalty, Nuclear):
        squares, V = np.linalg.eigh(P.T @ P)
        lengths = np.sqrt(np.maximum(squares, 1e-300))
        return P @ V @ np.diag(np.maximum(0.0, 1.0 - step / lengths)) @ V.T
    U = np.zeros_like(P)
    for j, weight in enumerate(weights_of(penalty, len(P))):
        U[j] = max(0.0, 1.0 - step * weight / np.linalg.norm(P[j])) * P[j]
    return U


def naive_row_value(ratio, row):
    """Least Σ|s| + ratio · max|b| over s + b = row: b cuts the row at some level."""
    sizes = np.abs(row)
    levels = [0.0, *sizes]
    return min(np.maximum(sizes - t, 0.0).sum() + ratio * t for t in levels)


def naive_row_prox(ratio, row, step):
    """By bisection for the shift of the projection."""
    sizes, low, high = np.abs(row), 0.0, np.abs(row).max()

    def project(shift):
        return np.clip(sizes - shift, 0.0, step)

    if project(0.0).sum() <= ratio * step:
        high = 0.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        above = project(middle).sum() > ratio * step
        low, high = (middle, high) if above else (low, middle)
    return row - np.sign(row) * project(high)


@SHAPES
@EVERY_PENALTY
def test_prox_is_optimal(penalty, m):
    P = random_coef((5, m), scale=1.0)
    for step in STEPS[1:]:
        U = penalty.prox(P, step)
        residual = (P - U) / step
        assert penalty.dual_norm(residual) <= 1 + 1e-12
        assert np.vdot(residual, U) == pytest.approx(penalty.value(U), abs=1e-12)


@SHAPES
@EVERY_PENALTY
def test_prox_and_projection_on_the_dual_ball_add_up(penalty, m):
    P, step = random_coef((5, m), scale=1.0), 0.7
    projected = P - penalty.prox(P, step)
    assert penalty.dual_norm(projected) <= step * (1 + 1e-12)
    for seed in range(5):
        G = random_coef(P.shape, seed)
        inside = G * min(1.0, step / penalty.dual_norm(G))
        angle = np.vdot(P - projected, inside - projected)
        assert angle <= 1e-12


@SHAPES
@EVERY_PENALTY
def test_prox_agrees_with_its_naive_twin(penalty, m):
    P = random_coef((5, m), scale=1.0)
    for step in STEPS:
        U = naive_prox(penalty, P, step)
        np.testing.assert_allclose(penalty.prox(P, step), U, atol=1e-7)


@SHAPES
@EVERY_PENALTY
def test_value_agrees_with_its_naive_twin(penalty, m):
    P = random_coef((5, m))
    assert penalty.value(P) == pytest.approx(naive_value(penalty, P), rel=1e-7)


@NORMS_AND_POWERS
def test_prox_of_zero_is_zero_and_zero_costs_nothing(penalty):
    zero = np.zeros((5, 3))
    assert penalty.value(zero) == penalty.dual_norm(zero) == 0.0
    for step in STEPS:
        np.testing.assert_array_equal(penalty.prox(zero, step), zero)


@EVERY_PENALTY
def test_prox_without_a_step_stays(penalty):
    P = random_coef((5, 3))
    np.testing.assert_allclose(penalty.prox(P, 0.0), P, atol=1e-14)


@EVERY_PENALTY
def test_prox_reaches_zero_at_the_dual_norm(penalty):
    P = random_coef((5, 3))
    length = penalty.dual_norm(P)
    assert not penalty.prox(P, length * (1 + 1e-12)).any()
    assert penalty.prox(P, length * (1 - 1e-9)).any()


@NORMS_AND_POWERS
def test_prox_does_not_expand(penalty):
    for seed in range(10):
        A, B = random_coef((5, 3), seed, 2.0), random_coef((5, 3), seed + 100, 2.0)
        apart = np.linalg.norm(penalty.prox(A, 0.8) - penalty.prox(B, 0.8))
        assert apart <= np.linalg.norm(A - B) * (1 + 1e-12)


@SHAPES
@EVERY_PENALTY
def test_dual_norm_bounds_inner_products_and_is_attained(penalty, m):
    G = random_coef((5, m), seed=3)
    length = penalty.dual_norm(G)
    for seed in range(20):
        U = random_coef(G.shape, seed)
        assert np.vdot(G, U) <= length * penalty.value(U) * (1 + 1e-12)
    # The prox just below the dual norm keeps the direction that attains it.
    U = penalty.prox(G, length * (1 - 1e-6))
    assert np.vdot(G, U) == pytest.approx(length * penalty.value(U), rel=1e-5)


@EVERY_PENALTY
def test_value_is_a_norm(penalty):
    A, B = random_coef((5, 3), 1), random_coef((5, 3), 2)
    assert penalty.value(A + B) <= penalty.value(A) + penalty.value(B)
    assert penalty.value(-2.5 * A) == pytest.approx(2.5 * penalty.value(A))
    assert penalty.value(0.0 * A) == 0.0


@EVERY_PENALTY
def test_restriction_is_the_norm_of_what_is_left(penalty):
    features = np.array([4, 1])
    P = np.zeros((5, 3))
    P[features] = random_coef((2, 3))
    part = penalty.restrict(features)
    assert part.value(P[features]) == pytest.approx(penalty.value(P))
    assert part.dual_norm(P[features]) == pytest.approx(penalty.dual_norm(P))


@NORMS_AND_POWERS
def test_no_features_cost_nothing(penalty):
    none = np.zeros((0, 3))
    part = penalty.restrict(np.zeros(0, dtype=np.intp))
    assert part.value(none) == part.dual_norm(none) == 0.0
    assert part.prox(none, 1.0).shape == (0, 3)


def test_rows_decide_the_dual_norm_of_l21():
    penalty, G = PENALTIES["weighted"], random_coef((5, 3))
    rows = penalty.row_dual_norms(G)
    np.testing.assert_allclose(rows, np.linalg.norm(G, axis=1) / penalty.weights)
    assert penalty.dual_norm(G) == rows.max()


def test_weights_of_one_change_nothing():
    P = random_coef((5, 3))
    plain, ones = L21(), L21(np.ones(5))
    assert ones.value(P) == plain.value(P)
    np.testing.assert_array_equal(ones.prox(P, 0.4), plain.prox(P, 0.4))


def test_heavier_features_leave_first():
    P = np.ones((2, 3))
    U = L21(np.array([1.0, 2.0])).prox(P, 1.0)
    assert U[0].all()
    assert not U[1].any()


def test_kinds_of_penalties_are_known_by_class():
    assert isinstance(L21(), RowSeparable)
    assert not isinstance(Nuclear(), RowSeparable)
    assert all(isinstance(p, Power) for p in POWERS.values())
    assert not any(isinstance(p, Power) for p in PENALTIES.values())


def test_one_task_makes_both_penalties_what_they_are_for_vectors():
    p = random_coef((5, 1))
    assert L21().value(p) == pytest.approx(np.abs(p).sum())
    assert Nuclear().value(p) == pytest.approx(np.linalg.norm(p))


def naive_power_prox(penalty, P, step):
    """Twin of ``prox``: its scalar equation by bisection, on the SVD."""
    if isinstance(penalty, TaskKernel):
        A = (penalty.vectors * penalty.values) @ penalty.vectors.T
        return P @ A @ np.linalg.inv(A + 2.0 * step * np.eye(len(A)))
    U, s, Vt = np.linalg.svd(P, full_matrices=False)
    return (U * naive_shrink(penalty, s, step)) @ Vt


def naive_shrink(penalty, s, step):
    if isinstance(penalty, Schatten):
        q = penalty.exponent
        return bisect(lambda z: z + step * q * z ** (q - 1.0) - s, 0.0 * s, s)
    total = bisect(
        lambda t: t - np.maximum(s - step * t, 0.0).sum(), 0.0 * s[:1], s.sum() + s[:1]
    )
    return np.maximum(s - step * total, 0.0)


def bisect(rising, low, high):
    for _ in range(200):
        middle = 0.5 * (low + high)
        above = rising(middle) > 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return high


@EVERY_POWER
def test_prox_of_a_power_agrees_with_its_naive_twin(penalty):
    for seed in range(3):
        P = random_coef((5, 3), seed, scale=2.0)
        for step in (1e-6, *STEPS[1:]):
            expected = naive_power_prox(penalty, P, step)
            np.testing.assert_allclose(penalty.prox(P, step), expected, atol=1e-10)


@EVERY_POWER
def test_fenchel_young_and_equality_at_the_prox(penalty):
    for seed in range(10):
        U, G = random_coef((5, 3), seed), random_coef((5, 3), seed + 50)
        U = penalty.prox(U, 0.1)  # where the value is finite
        assert np.vdot(U, G) <= penalty.value(U) + penalty.conjugate(G) + 1e-12
    for step in STEPS[1:]:
        P = random_coef((5, 3), scale=2.0)
        U = penalty.prox(P, step)
        G = (P - U) / step  # a subgradient at U
        bound = penalty.value(U) + penalty.conjugate(G)
        assert np.vdot(U, G) == pytest.approx(bound, rel=1e-9)


@EVERY_POWER
def test_degrees_of_value_and_conjugate(penalty):
    P, q = penalty.prox(random_coef((5, 3)), 0.1), penalty.degree()
    assert penalty.value(2.5 * P) == pytest.approx(2.5**q * penalty.value(P))
    dual = 2.5 ** (q / (q - 1.0)) * penalty.conjugate(P)
    assert penalty.conjugate(2.5 * P) == pytest.approx(dual)
    assert penalty.conjugate(0.0 * P) == penalty.conjugate(np.zeros((0, 3))) == 0.0
