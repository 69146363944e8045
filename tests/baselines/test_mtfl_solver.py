"""MTFL inside: groups, the lattice norm, coupled ridge regressions and reweighting."""

from collections import deque
from itertools import islice

import numpy as np
import pytest
from scipy.sparse import csr_array

from priormtl.baselines.mtfl import (
    choose_groups,
    lattice,
    natural_strength,
    read_blocks,
    reweighting,
)
from priormtl.baselines.mtfl.lattice import (
    LatticeNorm,
    all_groups,
    named_groups,
    single_groups,
    tree_groups,
)
from priormtl.baselines.mtfl.reweighting import (
    LatticeProblem,
    extrapolate,
    grow_groups,
    reweight,
    rotate_fit,
    solve_ridge,
)
from priormtl.data import from_columns, from_labels
from priormtl.losses import FreeIntercepts, NoIntercepts, Squared

POWERS = [(1.05, 1.05), (1.5, 1.5), (1.2, 1.8), (2.0, 2.0)]
EVERY_POWER = pytest.mark.parametrize(("p", "q"), POWERS)
SLICES = (slice(0, 2), slice(2, 5))
STEPS = 60


def rows(m=3, d=5, n=8, seed=0, x_scale=1.0, y_scale=1.0):
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((m * n, d)), np.repeat(np.arange(m), n)
    y = X[:, 0] + rng.standard_normal(m * n)
    return x_scale * X, y_scale * y, task


def curvature_of(X, y, task, intercepts=None, blocks=None):
    fit = Squared().bind(from_labels(X, y, task), intercepts or FreeIntercepts())
    return rotate_fit(fit, blocks or [np.arange(X.shape[1])])


def make_norm(p=1.5, q=1.5, groups=None):
    return LatticeNorm(groups or all_groups(3), 0.1, 1.2, p, q)


def make_problem(seed=0, C=1.0, **scales):
    return LatticeProblem(curvature_of(*rows(seed=seed, **scales)), make_norm(), C)


# Groups of tasks


@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_all_subsets_are_listed_once_with_their_inclusion(m):
    groups = all_groups(m)
    sets = [set(group) for group in groups.sets()]
    assert len(groups) == len({frozenset(group) for group in sets}) == 2**m - 1
    assert groups.sizes.tolist() == sorted(map(len, sets))
    np.testing.assert_array_equal(groups.below, [[v <= g for g in sets] for v in sets])


def test_tree_joins_like_tasks_first():
    coef = np.array([[0.0, 1.0], [5.0, 5.0], [0.1, 1.0], [5.0, 5.2]])
    sets = tree_groups(coef).sets()
    assert sets == [(0,), (1,), (2,), (3,), (0, 2), (1, 3), (0, 1, 2, 3)]


@pytest.mark.parametrize("m", [1, 2, 12])
@pytest.mark.parametrize("value", [0.0, 1e200])
def test_equal_tasks_have_a_tree(m, value):
    groups = tree_groups(np.full((m, 3), value))
    assert len(groups) == 2 * m - 1
    assert groups.sets()[-1] == tuple(range(m))


def test_groups_by_name():
    groups = named_groups([["b", "a"], ["c"], ["a", "b"]], ("a", "b", "c"))
    assert groups.named("abc") == [("c",), ("a", "b")]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (3, "must be"),
        ([["a", "z"]], "known tasks only: got 'z'"),
        ([["a"], []], "non-empty groups"),
        (["ab"], "list non-empty groups"),
        ([["a"]], r"every task at least once: \['b'\]"),
    ],
)
def test_groups_by_name_are_checked(groups, message):
    with pytest.raises(ValueError, match=message):
        named_groups(groups, ("a", "b"))


def test_too_many_groups_are_refused():
    assert len(all_groups(10)) == 1023
    with pytest.raises(ValueError, match="at most 10 tasks: got 11"):
        all_groups(11)
    pairs = [(i, j) for i in range(50) for j in range(i)]
    with pytest.raises(ValueError, match="at most 1023: got 1225"):
        named_groups(pairs, tuple(range(50)))


def test_candidates_have_all_their_subsets():
    singles = single_groups(4)
    assert len(singles.candidates()) == 6
    grown = singles.add([(0, 1), (1, 2), (2, 3)])
    assert grown.candidates() == [(0, 2), (0, 3), (1, 3)]
    assert grown.add([(0, 2)]).candidates() == [(0, 1, 2), (0, 3), (1, 3)]
    assert all_groups(3).candidates() == []


def test_groups_are_found_among_others():
    some = single_groups(3).add([(0, 2)])
    place = all_groups(3).find(some)
    np.testing.assert_array_equal(all_groups(3).member[place], some.member)


@pytest.mark.parametrize(("m", "choice"), [(2, "all"), (10, "all"), (11, "tree")])
def test_auto_takes_all_groups_of_few_tasks(m, choice):
    found, groups = choose_groups("auto", tuple(range(m)), curvature_of(*rows(m)))
    assert found == choice
    assert len(groups) == (2**m - 1 if choice == "all" else 2 * m - 1)


def test_a_tree_joins_tasks_that_agree():
    X, y, task = rows(5, n=40)
    coef = 5.0 * np.random.default_rng(1).standard_normal((5, 5))
    coef[1] = coef[0]
    y = np.sum(X * coef[task], axis=1)
    _, groups = choose_groups("tree", tuple(range(5)), curvature_of(X, y, task))
    assert (0, 1) in groups.sets()
    flat = curvature_of(0.0 * X, y, task)
    assert len(choose_groups("tree", tuple(range(5)), flat)[1]) == 9


def test_blocks_by_position_and_name():
    plain, named = (
        from_columns(np.eye(3), np.eye(3)[:, :2], features=features)
        for features in (None, ["u", "v", "w"])
    )
    (one,) = read_blocks(None, plain)
    assert one.tolist() == [0, 1, 2]
    mixed = read_blocks([["w", 0], ["v"]], named)
    assert [block.tolist() for block in mixed] == [[2, 0], [1]]
    for wrong in ([[0, 1]], [[0, 1, 2], []], [[0, 0, 1, 2]], [["u"]]):
        with pytest.raises(ValueError, match="each of the 3 features exactly once"):
            read_blocks(wrong, plain)


# The norm


def naive_value(norm, lengths):
    sets = [set(group) for group in norm.groups.sets()]
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
    value = norm.value(lengths)
    assert value == pytest.approx(naive_value(norm, lengths))
    assert norm.value(1e-200 * lengths) == pytest.approx(1e-200 * value)
    assert norm.value(np.zeros((2, 7))) == 0.0


@EVERY_POWER
def test_weights_turn_the_norm_into_a_quadratic_above_it(p, q):
    norm, rng = make_norm(p, q), np.random.default_rng(1)
    lengths, other = rng.random((2, 7)), rng.random((2, 7))
    weights = norm.weights(lengths)
    assert np.sum(lengths**2 / weights) == pytest.approx(norm.value(lengths) ** 2)
    assert np.sum(other**2 / weights) >= norm.value(other) ** 2


@EVERY_POWER
def test_dual_bound_is_above_every_product_and_exact_at_the_gradient(p, q):
    norm, rng = make_norm(p, q), np.random.default_rng(2)
    for _ in range(20):
        dual, lengths, near = rng.random((3, 2, 7))
        product = np.vdot(dual, lengths) / norm.value(lengths)
        assert product <= norm.dual_bound(dual, near) * (1 + 1e-12)
    lengths = rng.random((2, 7)) + 0.1
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
    for k in range(0, len(groups), 7):
        single = np.eye(len(groups))[[k]]
        assert bound >= 1.0 / norm.value(single) * (1 - 1e-12)


def test_a_group_needs_all_its_subsets():
    norm, rng = make_norm(), np.random.default_rng(4)
    for _ in range(10):
        lengths = rng.random((1, 7)) * (rng.random((1, 7)) < 0.3)
        group, above, _ = norm.levels(lengths)
        inside = norm.groups.below[:, group > 0].any(axis=1)
        assert np.all(above[inside] > 0)
        assert np.all(above[~inside] == 0)


def test_kernels_and_dual_squares_are_those_of_the_group_matrices():
    norm, rng = make_norm(), np.random.default_rng(5)
    weights, H = rng.random((2, 7)), rng.standard_normal((3, 5))
    kernels, squares = norm.kernels(weights), norm.dual_squares(H, SLICES)
    matrices = []  # M_g⁻¹ embedded in (m, m)
    for group in norm.groups.sets():
        inside = np.isin(np.arange(3), group).astype(float)
        mean = np.outer(inside, inside) / len(group)
        matrices.append(np.diag(inside) + (1 / norm.mean_share - 1) * mean)
    for j, columns in enumerate(SLICES):
        weighted = [w * M for w, M in zip(weights[j], matrices, strict=True)]
        np.testing.assert_allclose(kernels[j], sum(weighted))
        part = H[:, columns]
        expected = [np.trace(part.T @ M @ part) for M in matrices]
        np.testing.assert_allclose(squares[j], expected)


def test_dual_norms_of_candidates_are_as_if_they_were_present():
    norm, H = make_norm(), np.random.default_rng(6).standard_normal((3, 5))
    few = make_norm(groups=single_groups(3))
    found = few.relative_dual_norms(norm.groups, H, SLICES)
    lengths = np.sum(norm.dual_squares(H, SLICES) ** 1.5, axis=0) ** (1 / 3)
    np.testing.assert_allclose(found, lengths / norm.level_weight)


# Coupled ridge regressions

RNG = np.random.default_rng(0)
TASK = np.repeat([0, 1, 2], [5, 3, 9])
X = RNG.standard_normal((17, 6)) + 2.0
WIDE = RNG.standard_normal((17, 40))
Y = RNG.standard_normal((17, 3))
GAPS = np.where(RNG.random((17, 3)) < 0.2, np.nan, Y)
WEIGHT = RNG.random(17) + 0.5
DATA = {
    "rows": from_labels(X, Y[:, 0], TASK),
    "long": from_labels(np.tile(X, (9, 1)), np.tile(Y[:, 0], 9), np.tile(TASK, 9)),
    "wide": from_labels(WIDE, Y[:, 0], TASK, WEIGHT),
    "sparse": from_labels(csr_array(X * (X > 2)), Y[:, 0], TASK, WEIGHT),
    "shared": from_columns(X, Y, WEIGHT),
    "wide shared": from_columns(WIDE, Y),
    "gaps": from_columns(X, GAPS),
    "flat": from_labels(np.ones((17, 6)), Y[:, 0], TASK),
}


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("intercepts", [FreeIntercepts(), NoIntercepts()])
@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("largest", [reweighting.LARGEST_GRAM, 1])
def test_rotated_fit_is_the_fit(name, intercepts, several, largest, monkeypatch):
    monkeypatch.setattr(reweighting, "LARGEST_GRAM", largest)
    fit = Squared().bind(DATA[name], intercepts)
    d = fit.shape[0]
    blocks = [np.arange(0, d, 2), np.arange(1, d, 2)] if several else [np.arange(d)]
    turned = rotate_fit(fit, blocks)
    W = np.random.default_rng(1).standard_normal(turned.linear.shape)
    P = turned.to_features(W)
    product, expected = turned.product(W), fit.evaluate(P.T)
    value = 0.5 * (np.vdot(W, product) + turned.constant) - np.vdot(W, turned.linear)
    assert value == pytest.approx(expected.value, rel=1e-10)
    np.testing.assert_allclose(
        turned.to_features(product - turned.linear).T,
        expected.gradient,
        atol=1e-9 * max(1.0, np.abs(expected.gradient).max()),
    )
    np.testing.assert_allclose(np.linalg.norm(P, axis=1), np.linalg.norm(W, axis=1))
    # The diagonal of the mean curvature preconditions.
    m, r = W.shape
    units = [turned.product(np.tile(row, (m, 1))).mean(axis=0) for row in np.eye(r)]
    unit = max(1.0, turned.mean.max())
    np.testing.assert_allclose(np.diag(units), turned.mean, atol=1e-10 * unit)


@pytest.mark.parametrize("name", DATA)
def test_mean_curvature_is_diagonal(name):
    fit = Squared().bind(DATA[name], FreeIntercepts())
    turned = rotate_fit(fit, [np.arange(fit.shape[0])])
    m, r = turned.linear.shape
    columns = [turned.product(np.tile(row, (m, 1))).mean(axis=0) for row in np.eye(r)]
    unit = max(1.0, turned.mean.max())
    np.testing.assert_allclose(columns, np.diag(turned.mean), atol=1e-10 * unit)
    assert name != "wide" or r == 14  # directions without curvature are dropped


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize(
    "blocks", [[np.arange(5)], [np.array([0, 3]), np.array([1, 2, 4])]]
)
def test_coupled_ridge_agrees_with_the_dual_system(blocks, rank):
    (X, y, task), C = rows(), 2.0
    curvature = curvature_of(X, y, task, NoIntercepts(), blocks)
    roots = np.random.default_rng(1).standard_normal((len(blocks), 3, rank))
    kernels, start = roots @ roots.swapaxes(1, 2), np.zeros_like(curvature.linear)
    found = solve_ridge(curvature, C, kernels, start, accuracy=1e-24, max_iter=500)
    pairs = list(zip(kernels, blocks, strict=True))
    K = sum(B[np.ix_(task, task)] * (X[:, b] @ X[:, b].T) for B, b in pairs)
    alpha = np.linalg.solve(K + np.eye(len(y)) / C, y)
    H = np.array([X[task == i].T @ alpha[task == i] for i in range(3)])
    W = np.empty_like(H)
    for B, block in pairs:
        W[:, block] = B @ H[:, block]
    np.testing.assert_allclose(curvature.to_features(found.coef), W, atol=1e-9)
    np.testing.assert_allclose(found.inner, found.correlation, atol=1e-9)
    assert found.loss == pytest.approx(0.5 * alpha @ alpha / C)
    assert found.target_product == pytest.approx(y @ alpha)
    again = solve_ridge(
        curvature, C, kernels, found.inner, accuracy=1e-15, max_iter=500
    )
    assert again.n_products == 1
    np.testing.assert_allclose(again.coef, found.coef)
    none = solve_ridge(
        curvature, C, 0.0 * kernels, 1.0 + start, accuracy=0.0, max_iter=9
    )
    assert not none.coef.any()


# Reweighting


def test_extrapolation_of_affine_steps_leads_to_their_end():
    A, end = np.diag([0.9, 0.5, 0.2]), np.array([1.0, -2.0, 3.0])
    points, steps, point = deque(), deque(), np.zeros(3)
    for _ in range(4):
        points.append(point)
        steps.append((A - np.eye(3)) @ (point - end))
        point = point + steps[-1]
    np.testing.assert_allclose(extrapolate(points, steps, np.ones(3)), end)


def test_extrapolation_of_equal_steps_is_a_step():
    points, steps = deque([np.zeros(2), np.ones(2)]), deque([np.ones(2), np.ones(2)])
    found = extrapolate(points, steps, np.ones(2))
    np.testing.assert_array_equal(found, [2.0, 2.0])


@pytest.mark.parametrize("seed", range(4))
def test_objectives_fall_and_bounds_rise(seed):
    points = list(islice(reweight(make_problem(seed)), 200))
    objectives = np.array([point.objective for point in points])
    duals = np.array([point.dual for point in points])
    # Ridge regressions are solved only as accurately as the gap requires.
    assert np.all(np.diff(objectives) <= 1e-5 * objectives[0])
    assert np.all(np.diff(duals) >= 0)
    assert np.all(duals <= objectives.min() * (1 + 1e-12))
    assert points[-1].gap <= 1e-7 * points[-1].objective
    assert min(np.flatnonzero([p.relative_gap < 1e-6 for p in points])) < 60


@pytest.mark.parametrize("C", [0.01, 100.0])
def test_start_elsewhere_leads_to_the_same_end(C):
    problem = make_problem(C=C)
    *_, elsewhere = islice(reweight(make_problem(C=1.0)), 30)
    *_, cold = islice(reweight(problem), 80)
    *_, warm = islice(reweight(problem, elsewhere), 80)
    assert warm.objective == pytest.approx(cold.objective, rel=1e-9)


def test_targets_of_zero_are_solved_at_once():
    problem = make_problem(y_scale=0.0)
    first = next(reweight(problem))
    assert first.objective == 0.0
    assert problem.is_solved(first, 1e-12)


def growing_problem(growth):
    norm = LatticeNorm(single_groups(4), 0.1, growth, 1.5, 1.5)
    return LatticeProblem(curvature_of(*rows(4)), norm, 1.0)


def solve(problem, last):
    *_, point = islice(reweight(problem, last), STEPS)
    return point, STEPS


def test_expensive_groups_are_not_added():
    grown, _, n_iter = grow_groups(growing_problem(50.0), solve)
    assert len(grown.norm.groups) == 4
    assert n_iter == STEPS


def test_cheap_groups_lower_the_objective():
    problem = growing_problem(1.1)
    alone, _ = solve(problem, None)
    grown, point, n_iter = grow_groups(problem, solve)
    groups = grown.norm.groups.sets()
    assert len(groups) > 4
    assert n_iter > STEPS
    assert point.objective < alone.objective
    for group in groups:
        rest = [tuple(i for i in group if i != left) for left in group]
        assert len(group) == 1 or set(rest) <= set(groups)


@pytest.mark.parametrize("most", [3, 4, 6])
def test_there_are_never_too_many_groups(most, monkeypatch):
    monkeypatch.setattr(lattice, "MOST_GROUPS", most)
    monkeypatch.setattr(reweighting, "MOST_GROUPS", most)
    grown, _, _ = grow_groups(growing_problem(1.1), solve)
    assert len(grown.norm.groups) == max(most, 4)


def test_the_unit_of_strengths_follows_the_units_of_features_alone():
    norm = make_norm()
    plain = natural_strength(curvature_of(*rows()), norm)
    other = natural_strength(curvature_of(*rows(x_scale=10.0, y_scale=7.0)), norm)
    assert other == pytest.approx(plain / 100)
    assert natural_strength(curvature_of(*rows(x_scale=0.0)), norm) == 1.0
