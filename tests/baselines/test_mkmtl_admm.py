"""MKMTL inside: kernels, features, the two norms and ADMM."""

import warnings
from math import log

import numpy as np
import pytest
from scipy.sparse import csr_array

from priormtl.baselines import mkmtl
from priormtl.baselines.mkmtl import Plan, PlannedFeatures, choose_plan
from priormtl.baselines.mkmtl.admm import (
    ADMMState,
    LowRankNorm,
    RotatedTasks,
    SharedNorm,
    SplitProblem,
    decreasing_root,
    minimise,
)
from priormtl.baselines.mkmtl.kernels import (
    Gaussian,
    KernelModel,
    KernelSet,
    KernelTasks,
    Linear,
    Polynomial,
    TaskRows,
    check_kernels,
    choose_landmarks,
    common_features,
    default_kernels,
    gather_tasks,
    inverse_roots,
    merge_rows,
    own_features,
)
from priormtl.baselines.mkmtl.shrinkage import block_slopes, power_norms, power_shares
from priormtl.data import from_columns, from_labels
from priormtl.exceptions import ApproximationWarning
from priormtl.penalties import SquaredNuclear

# Base kernels

X = np.random.default_rng(0).normal(size=(7, 3))
Z = np.random.default_rng(1).normal(size=(4, 3))
KERNELS = (Gaussian(0.7), Polynomial(3), Linear())


@pytest.mark.parametrize("sparse", [False, True])
def test_values_are_those_of_the_formulas(sparse):
    rows, others = (csr_array(X), csr_array(Z)) if sparse else (X, Z)
    fitted = KernelSet.fit(KERNELS, rows, np.ones(7), normalize=False)
    found = fitted.grams(rows, others)
    products = X @ Z.T / 3
    squares = ((X[:, None] - Z[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(found[0], np.exp(-squares / (2 * 0.49)), rtol=1e-10)
    np.testing.assert_allclose(found[1], (products + 1) ** 3, atol=1e-12)
    np.testing.assert_allclose(found[2], products, atol=1e-12)
    for kernel, K in zip(KERNELS, fitted.grams(rows, rows), strict=True):
        np.testing.assert_allclose(kernel.diagonal(rows), K.diagonal())


def test_the_mean_diagonal_becomes_one_and_weights_count_rows():
    weight = np.array([1.0, 2.0, 1.0, 3.0, 1.0, 1.0, 2.0])
    fitted = KernelSet.fit(None, X, weight, normalize=True)
    assert len(fitted) == 8
    for K in fitted.grams(X, X):
        assert np.average(K.diagonal(), weights=weight) == pytest.approx(1.0)
    repeated = np.repeat(X, weight.astype(int), axis=0)
    twin = KernelSet.fit(None, repeated, np.ones(11), normalize=True)
    np.testing.assert_allclose(fitted.grams(X, Z), twin.grams(X, Z))


def test_default_widths_are_root_mean_square_distances():
    share = np.full(7, 1 / 7)
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    expected = np.sqrt(squares.mean()) * np.array([0.25, 0.5, 1, 2, 4])
    for rows in (X, csr_array(X)):
        widths = [kernel.width for kernel in default_kernels(rows, share)[:5]]
        np.testing.assert_allclose(widths, expected)


def test_distances_far_from_the_origin_are_exact():
    far = KernelSet.fit((Gaussian(0.7),), X + 1e7, np.ones(7), normalize=False)
    near = KernelSet.fit((Gaussian(0.7),), X, np.ones(7), normalize=False)
    np.testing.assert_allclose(far.grams(X + 1e7, Z + 1e7), near.grams(X, Z), atol=1e-7)


def test_kernels_are_checked():
    assert check_kernels(None) is None
    assert check_kernels([Linear()]) == (Linear(),)
    for wrong in ((), "linear", (1.0,)):
        with pytest.raises(ValueError, match="kernels must be None or a tuple"):
            check_kernels(wrong)


# Tasks over distinct rows


def gather(y, centred=True):
    rows = np.array([[0.0], [1.0], [1.0], [2.0]])
    data = from_labels(rows, np.asarray(y), [0, 0, 1, 1])
    return gather_tasks(data, (Linear(),), normalize=True, centred=centred)


@pytest.mark.parametrize("centred", [False, True])
def test_targets_come_back_from_offset_and_unit(centred):
    y = np.array([1.0, 3.0, -10.0, 20.0])
    data = gather(y, centred)
    assert len(data.rows) == 3  # equal rows of different tasks are stored once
    assert data.offset.tolist() == ([2.0, 5.0] if centred else [0.0, 0.0])
    found = [data.unit * data.targets(i) + data.offset[i] for i in range(2)]
    np.testing.assert_allclose(np.sort(found, axis=1).ravel(), y)
    assert max(np.abs(data.targets(i)).max() for i in range(2)) == 1.0


@pytest.mark.parametrize("value", [0.0, 0.1, 1e100])
def test_equal_targets_are_their_mean_exactly(value):
    data = gather([value] * 4)
    assert data.offset.tolist() == [value, value]
    assert data.unit == 1.0


def test_equal_rows_are_merged_within_tasks():
    row = np.array([1, 0, 1, 0])
    data = from_labels(
        np.zeros((4, 1)), np.array([1.0, 5.0, 4.0, 7.0]), [0, 0, 0, 1], [1, 1, 2, 1]
    )
    first, second = merge_rows(data, row)
    np.testing.assert_array_equal(first.row, [0, 1])
    np.testing.assert_allclose(first.y, [5.0, 3.0])
    np.testing.assert_array_equal(first.weight, [1.0, 3.0])
    assert first.scatter == pytest.approx(4.0 + 2.0)
    np.testing.assert_array_equal(second.y, [7.0])
    Y = np.array([[1.0, np.nan], [2.0, 3.0], [3.0, np.nan], [2.0, np.nan]])
    first, second = merge_rows(from_columns(np.zeros((4, 1)), Y), row)
    np.testing.assert_array_equal(first.weight, [2.0, 2.0])
    np.testing.assert_array_equal(second.row, [0])
    assert first.scatter == pytest.approx(2.0)
    assert second.scatter == 0.0


# Features


def test_features_give_the_kernel_back():
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(6, 2)), rng.normal(size=(6, 4))]
    grams = np.stack([A @ A.T for A in factors])
    roots = inverse_roots(grams)
    assert roots.shape == (2, 6, 4)
    assert not roots[0, :, 2:].any()
    features = grams @ roots
    np.testing.assert_allclose(features @ features.swapaxes(1, 2), grams, atol=1e-9)
    assert not inverse_roots(np.zeros((1, 3, 3))).any()


def test_landmarks_are_distinct_and_repeatable():
    chosen = choose_landmarks(50, 10, 3)
    assert len(np.unique(chosen)) == 10
    np.testing.assert_array_equal(chosen, choose_landmarks(50, 10, 3))
    assert len(choose_landmarks(5, 10, 3)) == 5


def make_tasks(kinds, weight):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(6, 2))
    kernels = KernelSet.fit((Gaussian(1.0), Linear()), rows, np.ones(6), normalize=True)
    tasks = tuple(
        TaskRows(np.array(kind), rng.normal(size=len(kind)), weight[: len(kind)], 0.5)
        for kind in kinds
    )
    return KernelTasks(rows, tasks, kernels, np.array([0.3] * len(kinds)), 2.0)


KINDS = [[[0, 1, 2], [3, 4], [1, 5]], [[0, 1, 2, 3, 4, 5]] * 3]
MAKERS = {
    "own": own_features,
    "common": lambda data: common_features(data, None),
    "landmark": lambda data: common_features(data, np.array([1])),
}


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("maker", MAKERS)
def test_misfit_in_features_is_that_of_the_model(kinds, maker):
    weight = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0])
    data = make_tasks(kinds, weight)
    features = MAKERS[maker](data)
    coef = np.random.default_rng(1).normal(size=features.shape)
    model = KernelModel(data.kernels, features.expansion, 2.0 * coef, data.offset)
    misfit = features.unexplained
    for group in features.groups:
        misfit += np.sum((group.target - group.forward(coef)) ** 2)
        for rows, squares in zip(group.features, group.squares, strict=True):
            np.testing.assert_allclose(rows @ rows.T, np.diag(squares), atol=1e-12)
    expected = 0.0
    for i, task in enumerate(data.tasks):
        left = task.y - model.scores(data.rows[task.row], i)
        expected += task.weight @ left**2 + task.scatter
    assert 4.0 * misfit == pytest.approx(expected)


def test_tasks_of_the_same_rows_share_one_table():
    data = make_tasks(KINDS[1], np.ones(6))
    (group,) = common_features(data, None).groups
    assert len(group.features) == 1
    assert data.table_size == 2 * 6 * 6
    assert make_tasks(KINDS[0], np.ones(6)).table_size == 2 * 6 * 7


# Plans


def tasks(n=100):
    rng = np.random.default_rng(0)
    X, y, task = rng.normal(size=(n, 2)), rng.normal(size=n), np.arange(n) % 4
    data = from_labels(X, y, task)
    return gather_tasks(data, (Linear(),), normalize=True, centred=True)


@pytest.mark.parametrize(
    ("variant", "max_rows", "landmarks", "plan"),
    [
        ("auto", 100, "auto", Plan("low-rank", None)),
        ("shared", 25, "auto", Plan("shared", None)),
        ("low-rank", 1, None, Plan("low-rank", None)),
        ("shared", 100, 7, Plan("shared", (7, 3))),
    ],
)
def test_what_fits_or_is_asked_for_is_used_without_a_warning(
    variant, max_rows, landmarks, plan
):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose_plan(tasks(), variant, max_rows, landmarks, 3) == plan
        assert choose_plan(tasks(64), variant, 1, "auto", 0).landmarks is None


@pytest.mark.parametrize(("variant", "max_rows"), [("low-rank", 99), ("shared", 24)])
def test_too_many_rows_are_told(variant, max_rows):
    with pytest.warns(ApproximationWarning, match="64 landmarks among 100 distinct"):
        plan = choose_plan(tasks(), variant, max_rows, "auto", 3)
    assert plan == (variant, (64, 3))


def test_large_tables_get_landmarks(monkeypatch):
    monkeypatch.setattr(mkmtl, "LARGEST_TABLE", 9_999)
    with pytest.warns(ApproximationWarning):
        assert choose_plan(tasks(), "auto", 1000, "auto", 0).landmarks == (64, 0)
    assert choose_plan(tasks(), "low-rank", 1000, "auto", 0).landmarks is None


def test_features_of_a_plan_are_made_once():
    planned = PlannedFeatures(tasks())
    plan = Plan("low-rank", (5, 0))
    assert planned.of(plan) is planned.of(plan)
    assert planned.of(plan).shape == (4, 1, 2)
    assert planned.of(plan) is not planned.of(Plan("shared", None))


# Scalar equations


@pytest.mark.parametrize("guess", [0.0, 1e-9, 0.2999, 0.3, 0.9, 1.0, 5.0])
@pytest.mark.parametrize("power", [1.0, 1.5, 30.0])
def test_root_is_found(guess, power):
    found = decreasing_root(lambda x: power * log(0.3 / x), 1.0, guess)
    assert found == pytest.approx(0.3, rel=1e-10)


def test_kinks_and_roots_at_the_top():
    def bent(x):
        return log((max(0.5 - 3 * x, 0.0) + max(0.1 - x, 0.0) + 1e-300) / x)

    assert bent(decreasing_root(bent, 1.0, 0.0)) == pytest.approx(0.0, abs=1e-9)
    assert decreasing_root(lambda x: -log(x), 1.0, 0.0) == 1.0
    assert decreasing_root(lambda x: 1e-14 - log(x), 1.0, 0.5) == pytest.approx(1.0)


@pytest.mark.parametrize("power", [1.01, 2.0, 100.0])
def test_slopes_solve_their_equation(power):
    values = np.abs(np.random.default_rng(0).normal(size=(5, 6)))
    values[2] = 0.0
    v = block_slopes(values, 0.7, 1.3, power)
    left = np.maximum(values - 0.7 * 1.3 * v[:, None], 0).sum(axis=1)
    np.testing.assert_allclose(left, 1.3 * v**power, rtol=1e-9, atol=1e-14)
    assert v[2] == 0.0


@pytest.mark.parametrize("p", [2.5, 4.0, 10.0])
def test_shares_have_norm_one(p):
    lengths = np.abs(np.random.default_rng(0).normal(size=(5, 6)))
    lengths[1, 1] = 0.0
    high = np.linalg.norm(lengths, p, axis=1)
    high[2] = 0.0
    n = power_norms(lengths, high, 0.5, p)
    u = power_shares(lengths, n, 0.5, p)
    assert n[2] == 0.0
    assert not u[2].any()
    alive = [0, 1, 3, 4]
    np.testing.assert_allclose(np.linalg.norm(u[alive], p, axis=1), 1.0)
    np.testing.assert_allclose(
        (n[:, None] * u + 0.5 * u ** (p - 1))[alive], lengths[alive]
    )


# Norms

NORMS = [SharedNorm(p) for p in (2.0, 2.5, 4.0, 10.0)]
NORMS += [LowRankNorm(q) for q in (1.01, 1.3, 1.5, 1.99)]


@pytest.mark.parametrize("shape", [(4, 3, 7), (7, 2, 4), (1, 3, 5), (3, 1, 1)], ids=str)
@pytest.mark.parametrize("norm", NORMS, ids=str)
def test_prox_is_optimal_and_norms_are_dual(norm, shape):
    rng = np.random.default_rng(0)
    F = rng.normal(size=shape) * 3.0 ** np.arange(shape[1])[:, None]
    if isinstance(norm, SharedNorm):
        F[-1, 0] = 0.0
    Z = rng.normal(size=shape)
    assert np.vdot(F, Z) <= norm.value(F) * norm.dual_norm(Z) * (1 + 1e-12)
    for step in (1e-3, 0.3, 20.0):
        for guess in (0.0, 1.0):
            U, level = norm.prox(F, step, guess)
            residual = (F - U) / step
            assert norm.value(U) == pytest.approx(level, rel=1e-6)
            assert norm.dual_norm(residual) == pytest.approx(level, rel=1e-6)
            assert np.vdot(residual, U) == pytest.approx(level**2, rel=1e-6)


@pytest.mark.parametrize("norm", [SharedNorm(4.0), LowRankNorm(1.5)], ids=str)
def test_zero_stays_zero(norm):
    zero = np.zeros((3, 2, 4))
    U, level = norm.prox(zero, 0.5, 1.0)
    assert not U.any()
    assert level == 0.0
    np.testing.assert_array_equal(norm.kernel_weights(zero), [0.5, 0.5])


def test_one_kernel_is_the_squared_nuclear_norm():
    P = np.random.default_rng(2).normal(size=(6, 4))
    U, level = LowRankNorm(1.5).prox(P.T[:, np.newaxis], 0.4, 0.0)
    expected = SquaredNuclear().prox(P, 0.4)
    np.testing.assert_allclose(U[:, 0].T, expected, atol=1e-9)
    assert 0.5 * level**2 == pytest.approx(SquaredNuclear().value(expected))


def test_weights_are_those_of_the_reweighted_problems():
    """½ Σ t_j² / ρ_j is half the squared norm at the published weights ρ."""
    F, norm = np.random.default_rng(2).normal(size=(3, 4, 5)), SharedNorm(2.0)
    t = np.sqrt(np.sum(F**2, axis=(0, 2)))
    assert np.sum(t**2 / norm.kernel_weights(F)) == pytest.approx(norm.value(F) ** 2)
    F, q = F[:1], 1.5
    t = np.linalg.norm(F[0], axis=1)
    weights = LowRankNorm(q).kernel_weights(F)
    rho = weights / np.sum(weights ** (q / (2 - q))) ** ((2 - q) / q)
    assert np.sum(t**2 / rho) == pytest.approx(LowRankNorm(q).value(F) ** 2)


# ADMM

SHAPE = (3, 2, 4)


def make_problem(norm, c):
    """Three tasks: two of three rows, one of two."""
    rng = np.random.default_rng(0)
    groups = []
    for members, n in (([0, 2], 3), ([1], 2)):
        bases = [np.linalg.qr(rng.normal(size=(8, n)))[0].T for _ in members]
        squares = 0.5 + rng.random((len(members), n))
        features = np.stack(bases) * np.sqrt(squares)[:, :, np.newaxis]
        target = rng.normal(size=(len(members), n))
        own = np.array(members)
        groups.append(RotatedTasks(own, features, squares, target, (2, 4)))
    return SplitProblem(tuple(groups), norm, c)


@pytest.mark.parametrize("norm", [NORMS[0], NORMS[2], NORMS[6]], ids=str)
@pytest.mark.parametrize("c", [1e-2, 1.0, 1e4])
def test_the_gap_closes(norm, c):
    problem = make_problem(norm, c)
    found = minimise(problem, ADMMState.zero(SHAPE), 1e-10, 5000)
    assert found.gap <= 1e-10 * found.primal
    assert found.n_iter <= 200  # rho is balanced
    assert problem.primal(found.state.coef) == pytest.approx(found.primal)
    rng = np.random.default_rng(1)
    for size in (1e-4, 1e-2, 1.0):
        other = found.state.coef + size * rng.normal(size=SHAPE)
        assert problem.primal(other) >= found.dual
    first = minimise(problem, ADMMState.zero(SHAPE), 1e-12, 1)
    assert first.n_iter == 1
    assert first.dual <= found.primal <= first.primal


def test_the_quadratic_part_is_minimised():
    problem = make_problem(NORMS[0], 2.0)
    rng = np.random.default_rng(2)
    state = ADMMState(rng.normal(size=SHAPE), rng.normal(size=SHAPE), 0.7, 1.0)
    found = problem.minimise_quadratic(state)
    gradient = state.rho * (found.coef - state.coef + state.dual)
    for group, residual in zip(problem.groups, found.residuals, strict=True):
        np.testing.assert_allclose(residual, group.target - group.forward(found.coef))
        group.add_adjoint(gradient, -2.0 * residual)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-12)
