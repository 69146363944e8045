import numpy as np
import pytest

from priormtl.baselines.lattice.lattice_norm import LatticeNorm
from priormtl.baselines.lattice.task_groups import all_groups, single_groups

POWERS = [(1.05, 1.05), (1.5, 1.5), (1.2, 1.8), (2.0, 2.0)]
BLOCKS = (slice(0, 2), slice(2, 5))


def make_norm(p=1.5, q=1.5, mean_share=0.1, growth=1.2, m=3):
    return LatticeNorm(all_groups(m), mean_share, growth, p, q)


def naive_value(norm, lengths):
    sets = [set(group) for group in norm.groups.sets()]
    Q = [sum(x**norm.p for x in column) ** (1 / norm.p) for column in lengths.T]
    total = 0.0
    for v in sets:
        above = [x for x, g in zip(Q, sets, strict=True) if v <= g]
        N = sum(x**norm.q for x in above) ** (1 / norm.q)
        total += norm.growth ** (len(v) - 1) * N
    return total


def group_matrix(norm, group):
    """M_g⁻¹ embedded in (m, m)."""
    inside = np.isin(np.arange(3), group).astype(float)
    mean = np.outer(inside, inside) / len(group)
    return np.diag(inside) + (1 / norm.mean_share - 1) * mean


@pytest.mark.parametrize(("p", "q"), POWERS)
def test_value_agrees_with_its_naive_twin(p, q):
    norm, lengths = make_norm(p, q), np.random.default_rng(0).random((2, 7))
    value = norm.value(lengths)
    assert value == pytest.approx(naive_value(norm, lengths))
    assert norm.value(1e-200 * lengths) == pytest.approx(1e-200 * value)
    assert norm.value(np.zeros((2, 7))) == 0.0


@pytest.mark.parametrize(("p", "q"), POWERS)
def test_weights_turn_the_norm_into_a_quadratic_above_it(p, q):
    norm, rng = make_norm(p, q), np.random.default_rng(1)
    lengths, other = rng.random((2, 7)), rng.random((2, 7))
    weights = norm.weights(lengths)
    assert np.sum(lengths**2 / weights) == pytest.approx(norm.value(lengths) ** 2)
    assert np.sum(other**2 / weights) >= norm.value(other) ** 2


@pytest.mark.parametrize(("p", "q"), POWERS)
def test_dual_bound_is_above_every_product(p, q):
    norm, rng = make_norm(p, q), np.random.default_rng(2)
    for _ in range(20):
        dual, lengths, near = rng.random((3, 2, 7))
        product = np.vdot(dual, lengths) / norm.value(lengths)
        assert product <= norm.dual_bound(dual, near) * (1 + 1e-12)


@pytest.mark.parametrize(("p", "q"), POWERS)
def test_dual_bound_is_exact_at_the_gradient(p, q):
    norm, lengths = make_norm(p, q), np.random.default_rng(3).random((2, 7)) + 0.1
    gradient = lengths / norm.weights(lengths) / norm.value(lengths)
    assert norm.dual_bound(gradient, lengths) == pytest.approx(1.0, rel=1e-6)


def test_dual_bound_survives_groups_of_enormous_cost():
    m = 200
    groups = single_groups(m).add([tuple(range(k)) for k in range(2, m + 1)])
    norm = LatticeNorm(groups, 0.1, 2.0, 1.05, 1.05)
    near, dual = np.zeros((1, len(groups))), np.ones((1, len(groups)))
    weights, bound = norm.weights(near), norm.dual_bound(dual, near)
    assert np.isfinite(bound)
    assert np.all(np.isfinite(weights) & (weights > 0))
    for k in range(len(groups)):
        single = np.eye(len(groups))[[k]]
        assert bound >= 1.0 / norm.value(single) * (1 - 1e-12)


def test_a_group_needs_all_its_subsets():
    norm = make_norm()
    rng = np.random.default_rng(4)
    for _ in range(10):
        lengths = rng.random((1, 7)) * (rng.random((1, 7)) < 0.3)
        group, above, _ = norm.levels(lengths)
        inside = norm.groups.below[:, group > 0].any(axis=1)
        assert np.all(above[inside] > 0)
        assert np.all(above[~inside] == 0)


def test_kernels_and_dual_squares_are_those_of_the_group_matrices():
    norm, rng = make_norm(), np.random.default_rng(5)
    weights, H = rng.random((2, 7)), rng.standard_normal((3, 5))
    kernels, squares = norm.kernels(weights), norm.dual_squares(H, BLOCKS)
    matrices = [group_matrix(norm, group) for group in norm.groups.sets()]
    for j, columns in enumerate(BLOCKS):
        weighted = [w * M for w, M in zip(weights[j], matrices, strict=True)]
        np.testing.assert_allclose(kernels[j], sum(weighted))
        part = H[:, columns]
        np.testing.assert_allclose(
            squares[j], [np.trace(part.T @ M @ part) for M in matrices]
        )


def test_pull_of_groups_outside_is_as_if_inside():
    norm, H = make_norm(), np.random.default_rng(6).standard_normal((3, 5))
    few = LatticeNorm(single_groups(3), 0.1, 1.2, 1.5, 1.5)
    pull = few.relative_pull(norm.groups, H, BLOCKS)
    lengths = np.sum(norm.dual_squares(H, BLOCKS) ** 1.5, axis=0) ** (1 / 3)
    np.testing.assert_allclose(pull, lengths / norm.level_weight)
