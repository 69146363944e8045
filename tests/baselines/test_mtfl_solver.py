"""MTFL inside: groups, the lattice norm and coupled ridge regressions."""

from itertools import combinations

import numpy as np
import pytest
from scipy.sparse import csr_array

from priormtl.baselines.coupling import Rotated, solve_ridge
from priormtl.baselines.lattice import LatticeNorm, check_groups, tree_groups
from priormtl.baselines.mtfl import MTFL
from priormtl.data import from_labels

pytestmark = pytest.mark.slow  # test_methods.py has the laws of all methods

POWERS = [(1.05, 1.05), (1.5, 1.5), (1.2, 1.8), (2.0, 2.0)]
EVERY_POWER = pytest.mark.parametrize(("p", "q"), POWERS)
SLICES = (slice(0, 2), slice(2, 5))


def all_groups(m):
    return [g for k in range(m) for g in combinations(range(m), k + 1)]


def make_norm(p=1.5, q=1.5):
    return LatticeNorm(all_groups(3), 3, 0.1, 1.2, p, q)


def rows(m=3, d=5, n=8, seed=0):
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((m * n, d)), np.repeat(np.arange(m), n)
    return X, X[:, 0] + rng.standard_normal(m * n), task


# Groups of tasks


def test_groups_are_listed_once_small_ones_first():
    assert check_groups([(2, 1), (0,), (1, 2, 1)]) == [(0,), (1, 2)]
    with pytest.raises(ValueError, match="at most 1023: got 1225"):
        check_groups((i, j) for i in range(50) for j in range(i))


def test_tree_joins_like_tasks_first():
    coef = np.array([[0.0, 1.0], [5.0, 5.0], [0.1, 1.0], [5.0, 5.2]])
    expected = [(0,), (1,), (2,), (3,), (0, 2), (1, 3), (0, 1, 2, 3)]
    assert tree_groups(coef) == tree_groups(1e200 * coef) == expected
    for m in (1, 2, 12):
        assert len(tree_groups(np.zeros((m, 3)))) == 2 * m - 1


def test_too_many_tasks_for_all_groups():
    X, y, task = rows(m=11, d=2, n=2)
    with pytest.raises(ValueError, match="at most 10 tasks: got 11"):
        MTFL(groups="all").fit(X, y, task=task)


def test_a_tree_joins_tasks_that_agree():
    X, _, task = rows(5, n=40)
    coef = 5.0 * np.random.default_rng(1).standard_normal((5, 5))
    coef[1] = coef[0]
    model = MTFL(groups="tree").fit(X, np.sum(X * coef[task], axis=1), task=task)
    assert (0, 1) in model.groups_
    assert len(model.groups_) == 9


# The norm


def naive_value(norm, lengths):
    sets = [set(group) for group in norm.groups]
    Q = [sum(x**norm.p for x in column) ** (1 / norm.p) for column in lengths.T]
    total = 0.0
    for v in sets:
        above = [x for x, g in zip(Q, sets, strict=True) if v <= g]
        N = sum(x**norm.q for x in above) ** (1 / norm.q)
        total += norm.growth ** (len(v) - 1) * N
    return total


@EVERY_POWER
def test_value_agrees_with_its_naive_twin(p, q):
    norm, lengths = make_norm(p, q), np.random.default_rng(0).random((2, 7))
    value = norm.levels(lengths).total
    assert value == pytest.approx(naive_value(norm, lengths))
    assert norm.levels(1e-200 * lengths).total == pytest.approx(1e-200 * value)
    assert norm.levels(np.zeros((2, 7))).total == 0.0


@EVERY_POWER
def test_weights_turn_the_norm_into_a_quadratic_above_it(p, q):
    norm, rng = make_norm(p, q), np.random.default_rng(1)
    lengths, other = rng.random((2, 7)), rng.random((2, 7))
    weights = norm.weights(lengths)
    value = norm.levels(lengths).total
    assert np.sum(lengths**2 / weights) == pytest.approx(value**2)
    assert np.sum(other**2 / weights) >= norm.levels(other).total ** 2


@EVERY_POWER
def test_dual_bound_is_above_every_product_and_exact_at_the_gradient(p, q):
    norm, rng = make_norm(p, q), np.random.default_rng(2)
    for _ in range(20):
        dual, lengths, near = rng.random((3, 2, 7))
        product = np.vdot(dual, lengths) / norm.levels(lengths).total
        assert product <= norm.dual_bound(dual, near) * (1 + 1e-12)
    lengths = rng.random((2, 7)) + 0.1
    gradient = lengths / norm.weights(lengths) / norm.levels(lengths).total
    assert norm.dual_bound(gradient, lengths) == pytest.approx(1.0, rel=1e-6)


def test_dual_bound_survives_groups_of_enormous_cost():
    m = 200
    groups = [(i,) for i in range(m)] + [tuple(range(k)) for k in range(2, m + 1)]
    norm = LatticeNorm(groups, m, 0.1, 2.0, 1.05, 1.05)
    near, dual = np.zeros((1, len(groups))), np.ones((1, len(groups)))
    weights, bound = norm.weights(near), norm.dual_bound(dual, near)
    assert np.isfinite(bound)
    assert np.all(np.isfinite(weights) & (weights > 0))
    for k in range(0, len(groups), 7):
        single = np.eye(len(groups))[[k]]
        assert bound >= 1.0 / norm.levels(single).total * (1 - 1e-12)


def test_a_group_needs_all_its_subsets():
    norm, rng = make_norm(), np.random.default_rng(4)
    for _ in range(10):
        lengths = rng.random((1, 7)) * (rng.random((1, 7)) < 0.3)
        group, above, _ = norm.levels(lengths)
        inside = norm.below[:, group > 0].any(axis=1)
        assert np.all(above[inside] > 0)
        assert np.all(above[~inside] == 0)


def test_kernels_and_dual_lengths_are_those_of_the_group_matrices():
    norm, rng = make_norm(), np.random.default_rng(3)
    weights, H = rng.random((2, 7)), rng.standard_normal((3, 5))
    expected = np.zeros((2, 3, 3))
    for k, group in enumerate(norm.groups):
        own, size = list(group), len(group)
        mean = np.full((size, size), 1.0 / size)
        inverse = np.linalg.inv(0.1 * mean + np.eye(size) - mean)
        for j, columns in enumerate(SLICES):
            expected[j][np.ix_(own, own)] += weights[j, k] * inverse
            square = np.trace(H[own, columns].T @ inverse @ H[own, columns])
            found = norm.dual_lengths(H, SLICES)[j, k]
            assert found == pytest.approx(np.sqrt(square))
    np.testing.assert_allclose(norm.kernels(weights), expected)


# Ridge regressions


@pytest.mark.parametrize("shape", [(3, 5, 8), (3, 12, 2)], ids=["tall", "wide"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_coupled_ridge_solves_its_normal_equations(shape, intercept, sparse):
    """C (X_iᵀX_i w_i − X_iᵀy_i) = −H_i with W_j = B_j H_j, block by block."""
    X, y, task = rows(*shape)
    m, d, _ = shape
    blocks = [np.arange(0, d, 2), np.arange(1, d, 2)]
    data = from_labels(csr_array(X) if sparse else X, y, task)
    rotated = Rotated.of(data, blocks, intercept=intercept)
    roots = np.random.default_rng(1).standard_normal((2, m, m - 1))
    kernels = roots @ roots.transpose(0, 2, 1)  # singular
    ridge = solve_ridge(rotated, 2.0, kernels, np.zeros_like(rotated.linear), 1e-20)
    W, loss = rotated.to_features(ridge.coef), 0.0
    slope = np.zeros((m, d))
    for i in range(m):
        own, target = X[task == i], y[task == i]
        if intercept:
            own, target = own - own.mean(axis=0), target - target.mean()
        slope[i] = 2.0 * own.T @ (target - own @ W[i])
        loss += np.sum((target - own @ W[i]) ** 2)
    for kernel, block in zip(kernels, blocks, strict=True):
        np.testing.assert_allclose(kernel @ slope[:, block], W[:, block], atol=1e-7)
    assert ridge.loss == pytest.approx(loss)
