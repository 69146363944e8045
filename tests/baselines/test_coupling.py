from dataclasses import replace

import numpy as np
import pytest

from golden import golden_tasks
from instances import bind, random_coef, random_tasks
from priormtl.baselines.coupling import (
    Alternation,
    KernelRidge,
    PrimalRidge,
    SharedRidge,
    check_alternation,
    coupled_ridge,
    decades,
    kernel_from,
    map_eigenvalues,
)
from priormtl.data import from_lists
from priormtl.penalties import TaskKernel
from priormtl.priors import QuadraticPrior
from priormtl.problem import Problem
from priormtl.solvers import max_iter, solve

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
def test_primal_and_kernel_form_agree_and_are_optimal(A, intercepts):
    data = random_tasks("wide", m=3, d=4)
    weight = np.random.default_rng(3).uniform(0.5, 2.0, data.weight.shape)
    fit = bind("squared", replace(data, weight=weight), intercepts)
    primal, kernel = PrimalRidge.of_fit(fit).solve(A), KernelRidge.of_fit(fit).solve(A)
    np.testing.assert_allclose(primal, kernel, atol=1e-12)
    np.testing.assert_allclose(optimality(fit, A, primal), 0.0, atol=1e-11)


@EVERY_KIND
@EVERY_KERNEL
@pytest.mark.parametrize("layout", ["shared", "shared-wide"])
def test_common_rows_need_no_system(layout, A, intercepts):
    fit = bind("squared", random_tasks(layout, m=3, d=4), intercepts)
    shared, primal = SharedRidge.of_fit(fit).solve(A), PrimalRidge.of_fit(fit).solve(A)
    np.testing.assert_allclose(shared, primal, atol=1e-12)


def problem_of(layout, loss="squared"):
    fit = bind(loss, random_tasks(layout, m=3, d=4), "free")
    penalty = TaskKernel.of_matrix(np.eye(3))
    return Problem(fit, QuadraticPrior.none(4, 3), penalty, 0.5)


def test_the_smallest_form_is_chosen_once():
    kinds = {"weighted": PrimalRidge, "wide": KernelRidge, "shared": SharedRidge}
    for layout, kind in kinds.items():
        problem = problem_of(layout)
        assert isinstance(coupled_ridge(problem), kind)
        again = problem.with_strengths(lam=2.0)
        assert coupled_ridge(again) is coupled_ridge(problem)


def test_no_system_for_logistic_loss_or_too_many_unknowns(monkeypatch):
    assert coupled_ridge(problem_of("wide", "logistic")) is None
    monkeypatch.setattr("priormtl.baselines.coupling.MOST_UNKNOWNS", 3)
    with pytest.raises(ValueError, match='Use solver="fista"'):
        check_alternation(problem_of("weighted"))


def test_ridge_with_the_identity_as_kernel():
    X, y = golden_tasks(3, 4)
    data = from_lists(X, y)
    fit = bind("squared", data)
    W = PrimalRidge.of_fit(fit).solve(np.eye(3) / 0.7)
    for i in range(3):
        ridge = np.linalg.solve(X[i].T @ X[i] + 0.7 * np.eye(4), X[i].T @ y[i])
        np.testing.assert_allclose(W[:, i], ridge, atol=1e-13)


def test_a_kernel_that_stays_is_solved_in_one_step():
    problem = problem_of("weighted")
    A = np.eye(3) / (2.0 * problem.lam)
    method = Alternation(check_alternation(problem), A, lambda W: A)
    solution = solve(problem, method, stop=[max_iter(1)])
    assert solution.certificate.gap <= 1e-13 * problem.null_objective


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
