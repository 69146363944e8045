"""MTRL: optima, the learned covariance, and the alternation of coupled ridges."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from drawn_tasks import logistic_loss, low_rank_tasks, optimum, squared_loss
from instances import bind, golden_rows, golden_tasks, random_coef, random_tasks
from priormtl import MultiTaskRegressor
from priormtl.baselines.clmt import CLMT
from priormtl.baselines.coupling import (
    Alternation,
    decades,
    kernel_from,
    map_eigenvalues,
)
from priormtl.baselines.mtrl import (
    MTRL,
    MTRLClassifier,
    relationship_step,
    task_covariance,
)
from priormtl.data import from_labels
from priormtl.penalties import TaskKernel
from priormtl.problem import Problem, QuadraticPrior
from priormtl.solvers import max_iter, solve

pytestmark = pytest.mark.slow  # test_methods.py has the laws of all methods

EXACT = {"fit_intercept": False, "tol": 1e-12}
GOLDEN_DIAGONAL = [0.144036, 0.226337, 0.297043, 0.332584]


@pytest.fixture(scope="module")
def rows():
    return golden_rows(4, 5)


def fitted(model, rows):
    X, y, task = rows
    return model.fit(X, y >= 0 if isinstance(model, MTRLClassifier) else y, task=task)


def reference(rows, lam, ridge, loss):
    W = cp.Variable((rows[0].shape[1], len(np.unique(rows[2]))))
    penalty = ridge / 2 * cp.sum_squares(W) + lam / 2 * cp.square(cp.normNuc(W))
    return optimum(loss(W, rows) + penalty)


def joint_reference(rows, lam, ridge):
    """The published problem, in coefficients and covariance."""
    m = len(np.unique(rows[2]))
    W, covariance = cp.Variable((rows[0].shape[1], m)), cp.Variable((m, m), PSD=True)
    penalty = ridge / 2 * cp.sum_squares(W)
    penalty += lam / 2 * cp.matrix_frac(W.T, covariance)
    return optimum(squared_loss(W, rows) + penalty, cp.trace(covariance) == 1)


def test_golden_values(rows):
    model = fitted(MTRL(lam=0.2, ridge=0.1, **EXACT), rows)
    assert model.objective_ == pytest.approx(3.7076348115, abs=1e-9)
    assert model.dual_gap_ <= 1e-10
    singular = np.linalg.svd(model.coef_, compute_uv=False)
    assert singular.sum() == pytest.approx(4.65257556, abs=1e-6)
    diagonal = np.diag(model.task_covariance_)
    np.testing.assert_allclose(diagonal, GOLDEN_DIAGONAL, atol=1e-6)


def test_golden_value_of_logistic_loss(rows):
    model = fitted(MTRLClassifier(lam=0.2, ridge=0.1, **EXACT), rows)
    assert model.objective_ == pytest.approx(8.2798794325, abs=1e-9)


@pytest.mark.parametrize(("m", "d"), [(4, 6), (6, 3)])
@pytest.mark.parametrize("strengths", [(0.1, 0.0), (2.0, 0.5)])
def test_a_convex_solver_agrees(m, d, strengths):
    data, (lam, ridge) = low_rank_tasks(m, d, seed=m), strengths
    model = fitted(MTRL(lam, ridge, **EXACT), data)
    expected = reference(data, lam, ridge, squared_loss)
    assert model.objective_ == pytest.approx(expected, rel=1e-6)
    assert model.objective_ == pytest.approx(
        joint_reference(data, lam, ridge), rel=1e-5
    )
    model = fitted(MTRLClassifier(lam, ridge, **EXACT), data)
    expected = reference(data, lam, ridge, logistic_loss)
    assert model.objective_ == pytest.approx(expected, rel=1e-6)


def test_the_covariance_is_one_and_attains_the_penalty(rows):
    model = fitted(MTRL(lam=0.2, ridge=0.1, **EXACT), rows)
    covariance, W = model.task_covariance_, model.coef_.T
    assert np.trace(covariance) == pytest.approx(1.0)
    assert np.linalg.eigvalsh(covariance)[0] >= -1e-15
    size = np.linalg.svd(W, compute_uv=False).sum() ** 2
    attained = np.trace(W @ np.linalg.pinv(covariance, rtol=1e-10) @ W.T)
    assert attained == pytest.approx(size)


def test_without_ridge_it_is_the_nuclear_norm(rows):
    X, y, task = rows
    model = fitted(MTRL(lam=0.5, ridge=0.0, **EXACT), rows)
    lam = 0.5 * np.linalg.svd(model.coef_, compute_uv=False).sum()
    plain = {"penalty": "nuclear", "theta": 0.0, "epsilon": 0.0}
    twin = MultiTaskRegressor(lam=lam, **plain, **EXACT).fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_, twin.coef_, atol=1e-5)
    trace = CLMT(lam=0.5 * lam, penalty="trace", **EXACT).fit(X, y, task=task)
    np.testing.assert_allclose(model.coef_, trace.coef_, atol=1e-5)


def test_unrelated_tasks_are_a_ridge():
    X, y = golden_tasks(4, 5)
    task = np.repeat(np.arange(4), [len(t) for t in y])
    table = np.vstack(X), np.concatenate(y), task
    first = MTRL(lam=0.2, ridge=0.1, solver="alternating", max_iter=1, **EXACT)
    with pytest.warns(ConvergenceWarning):
        fitted(first, table)
    kernel = {"penalty": "fixed", "output_kernel": np.eye(4)}
    twin = CLMT(lam=(0.1 + 4 * 0.2) / 2, **kernel, **EXACT)
    np.testing.assert_allclose(first.coef_, fitted(twin, table).coef_, atol=1e-13)
    for i in range(4):
        gram = X[i].T @ X[i] + (0.1 + 4 * 0.2) * np.eye(5)
        ridge = np.linalg.solve(gram, X[i].T @ y[i])
        np.testing.assert_allclose(first.coef_[i], ridge, atol=1e-13)


def test_identical_tasks_are_fully_related():
    X, y, _ = low_rank_tasks(1, 4, seed=0, n=12)
    model = MTRL(lam=0.3, ridge=0.1, tol=1e-12).fit(X, np.column_stack([y, y, y]))
    np.testing.assert_allclose(
        model.task_covariance_, np.full((3, 3), 1 / 3), atol=1e-9
    )


def test_opposite_targets_turn_the_sign_of_their_relation(rows):
    X, y, task = rows
    model = fitted(MTRL(lam=0.2, ridge=0.1, tol=1e-12), rows)
    turned = fitted(
        MTRL(lam=0.2, ridge=0.1, tol=1e-12), (X, np.where(task == 1, -y, y), task)
    )
    signs = np.array([1.0, -1.0, 1.0, 1.0])
    expected = signs[:, None] * model.task_covariance_ * signs
    np.testing.assert_allclose(turned.task_covariance_, expected, atol=1e-6)


def alternated_values(data, steps, lam, ridge):
    values = []
    for n in range(1, steps):
        model = MTRL(lam, ridge, solver="alternating", max_iter=n, **EXACT)
        with pytest.warns(ConvergenceWarning):
            values.append(fitted(model, data).objective_)
    return np.array(values)


def test_the_alternation_falls_and_ends_above_the_optimum(rows):
    values = alternated_values(rows, 8, 0.2, 0.1)
    best = fitted(MTRL(lam=0.2, ridge=0.1, **EXACT), rows).objective_
    assert np.all(np.diff(values) <= 1e-12)
    assert np.all(values >= best)
    assert values[-1] <= best * 1.01


def test_published_system_with_intercepts(rows):
    """[[K + ½ diag(n_i), E], [Eᵀ, 0]] of a mean loss without the half."""
    X, y, task = rows
    A = np.eye(4) / 4 @ np.linalg.inv(0.1 * np.eye(4) / 4 + 0.2 * np.eye(4))
    K, E = A[np.ix_(task, task)] * (X @ X.T), np.eye(4)[task]
    corner = K + 0.5 * np.diag(np.bincount(task)[task])
    system = np.block([[corner, E], [E.T, np.zeros((4, 4))]])
    found = np.linalg.solve(system, np.append(y, np.zeros(4)))
    # The published objective is twice ours: strengths are halved.
    settings = {"solver": "alternating", "max_iter": 1, "task_weight": "mean"}
    model = MTRL(lam=0.1, ridge=0.05, **settings)
    with pytest.warns(ConvergenceWarning):
        fitted(model, rows)
    np.testing.assert_allclose(model.intercept_, found[-4:], atol=1e-12)
    W = (X.T * found[:-4]) @ E @ A
    np.testing.assert_allclose(model.coef_, W.T, atol=1e-12)


def test_steps_of_the_covariance():
    np.testing.assert_allclose(task_covariance(np.zeros((3, 2))), np.eye(2) / 2)
    np.testing.assert_allclose(relationship_step(np.zeros((3, 2))), np.eye(2) / 2)
    W = np.random.default_rng(0).normal(size=(2, 5))
    blurred, exact = relationship_step(W), task_covariance(W)
    assert np.trace(blurred) == pytest.approx(1.0)
    assert np.linalg.eigvalsh(blurred)[0] > 0
    np.testing.assert_allclose(blurred, exact, atol=2e-3)
    assert np.linalg.matrix_rank(exact, tol=1e-10) == 2


def test_no_penalty_is_least_squares():
    X, y, task = low_rank_tasks(2, 3, seed=1, n=9)
    model = MTRL(lam=0.0, ridge=0.0, **EXACT).fit(X, y, task=task)
    for i in range(2):
        expected = np.linalg.lstsq(X[task == i], y[task == i], rcond=None)[0]
        np.testing.assert_allclose(model.coef_[i], expected, atol=1e-10)


def test_a_path_is_as_good_as_single_fits(rows):
    X, y, task = rows
    model = MTRL(ridge=0.1, tol=1e-10)
    bound = model._bind(from_labels(X, y, task))
    for lam, outcome in zip((5.0, 0.5), model._follow(bound, (5.0, 0.5)), strict=True):
        single = fitted(MTRL(lam, 0.1, tol=1e-10), rows)
        assert outcome.objective == pytest.approx(single.objective_, abs=1e-8)
        assert outcome.shortfall is None


@pytest.mark.parametrize("n", [1, 2, 6, 20])
def test_suggestions(rows, n):
    X, y, task = rows
    model = MTRL()
    settings = model._suggest(model._bind(from_labels(X, y, task)), n)
    assert len(settings) == n
    assert len({s["ridge"] for s in settings}) == {1: 1, 2: 1, 6: 2, 20: 4}[n]
    order = [(s["ridge"], s["lam"]) for s in settings]
    assert order == sorted(order, reverse=True)


def test_errors_tell_the_way_out(rows):
    with pytest.raises(ValueError, match="ridge must be a finite number"):
        fitted(MTRL(ridge=-1.0), rows)
    with pytest.raises(ValueError, match="solver must be one of"):
        fitted(MTRL(solver="newton"), rows)
    with pytest.raises(ValueError, match="lam must be a finite number above 0"):
        fitted(MTRL(lam=0.0, solver="alternating"), rows)
    with pytest.raises(ValueError, match="needs squared loss"):
        fitted(MTRLClassifier(solver="alternating"), rows)


def degenerate():
    X, y, task = low_rank_tasks(3, 4, seed=5)
    one_hot = np.hstack([np.eye(3)[np.arange(15) % 3], X[:, :1]])
    return {
        "one task": (X, y, np.zeros(15)),
        "one row each": (X[:3], y[:3], np.arange(3)),
        "constant column": (np.hstack([X, np.ones((15, 1))]), y, task),
        "duplicates": (np.hstack([X, X]), y, task),
        "one-hot": (one_hot, y, task),
        "wide": (np.tile(X, 4), y, task),
        "huge": (1e8 * X, 1e8 * y, task),
        "tiny": (1e-8 * X, 1e-8 * y, task),
        "constant targets": (X, np.ones(15), task),
    }


@pytest.mark.parametrize("name", degenerate())
@pytest.mark.parametrize("model", [MTRL(), CLMT(), CLMT(penalty="trace")], ids=str)
def test_degenerate_data(name, model):
    X, y, task = degenerate()[name]
    model.fit(X, y, task=task)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.dual_gap_)


def test_separable_classes(rows):
    X, y, task = rows
    X = np.hstack([X, np.where(y >= 0, 10.0, -10.0)[:, None]])
    model = fitted(MTRLClassifier(lam=1e-3, ridge=1e-3), (X, y, task))
    assert model.score(X, y >= 0, task=task) == 1.0


def test_gaps_in_shared_rows_count_as_absent():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(9, 3)), rng.normal(size=(9, 2))
    Y[:3, 0] = np.nan
    columns = MTRL(tol=1e-11).fit(X, Y)
    stacked = np.vstack([X[3:], X]), np.append(Y[3:, 0], Y[:, 1])
    labelled = MTRL(tol=1e-11).fit(*stacked, task=np.repeat([0, 1], [6, 9]))
    np.testing.assert_allclose(columns.coef_, labelled.coef_, atol=1e-7)


# Ridge regression of coupled tasks.

KERNELS = {
    "full": np.eye(3) + 0.4,
    "singular": np.ones((3, 3)),
    "rank-two": np.diag([2.0, 0.0, 1.0]),
}
EVERY_KERNEL = pytest.mark.parametrize("A", KERNELS.values(), ids=KERNELS.keys())
EVERY_KIND = pytest.mark.parametrize("intercepts", ["free", "absent"])


def optimality(fit, A, W):
    """Gradient in V of fit(V √A) + ½ ‖V‖², zero at the optimum, in W's terms."""
    gradient = fit.evaluate(W).gradient
    return W + gradient @ A


@EVERY_KIND
@EVERY_KERNEL
def test_a_step_of_the_alternation_is_optimal_for_its_kernel(A, intercepts):
    data = random_tasks("wide", m=3, d=4)
    weight = np.random.default_rng(3).uniform(0.5, 2.0, data.weight.shape)
    fit = bind("squared", replace(data, weight=weight), intercepts)
    problem = Problem(fit, QuadraticPrior.none(4, 3), TaskKernel.of_matrix(A), 0.5)
    method = Alternation(A, lambda W: A)
    found = method.step(problem, method.start(problem, problem.null_point))
    W = found.point.coef
    np.testing.assert_allclose(optimality(fit, A, W), 0.0, atol=1e-11)
    np.testing.assert_allclose(W, W @ np.linalg.pinv(A) @ A, atol=1e-11)


def problem_of(layout, loss="squared"):
    fit = bind(loss, random_tasks(layout, m=3, d=4), "free")
    penalty = TaskKernel.of_matrix(np.eye(3))
    return Problem(fit, QuadraticPrior.none(4, 3), penalty, 0.5)


@pytest.mark.parametrize("layout", ["weighted", "wide", "shared"])
def test_a_kernel_that_stays_is_solved_in_one_step(layout):
    problem = problem_of(layout)
    A = np.eye(3) / (2.0 * problem.lam)
    solution = solve(problem, Alternation(A, lambda W: A), stop=[max_iter(1)])
    assert solution.certificate.gap <= 1e-12 * problem.null_objective


def test_eigenvalues_below_zero_count_as_zero():
    A = np.diag([4.0, -1e-18])
    np.testing.assert_allclose(map_eigenvalues(A, np.sqrt), np.diag([2.0, 0.0]))


def test_kernels_keep_singular_values_that_squares_lose():
    W = np.diag([1.0, 1e-12])
    np.testing.assert_allclose(kernel_from(W, lambda s: s), W, rtol=1e-10)
    P = random_coef((6, 3))
    np.testing.assert_allclose(kernel_from(P, np.square), P.T @ P, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 20])
def test_grids_fall_within_their_decades(n):
    values = decades(10.0, 5.0, n)
    assert len(values) == n
    assert np.all(np.diff(values) < 0)
    assert values[0] <= 10.0 * (1 + 1e-12)
    assert values[-1] >= 1e-4 * (1 - 1e-12)
