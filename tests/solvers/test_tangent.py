"""Newton's equations along matrices of one rank, against differences and dense ones."""

import numpy as np
import pytest

from instances import (
    INTERCEPTS,
    LAYOUTS,
    build_problem,
    kind_of_intercepts,
    random_coef,
    random_tasks,
    write_out,
)
from priormtl.penalties import Factors, Nuclear
from priormtl.priors import TaskPrior
from priormtl.solvers import tangent
from priormtl.solvers.kernels import tangent as kernels


def any_problem(layout="stacked", intercepts="free", epsilon=0.9, ties=None):
    return build_problem(
        random_tasks(layout, m=5, d=4),
        lam=0.5,
        theta=0.7,
        epsilon=epsilon,
        penalty=Nuclear(),
        intercepts=kind_of_intercepts(intercepts, 5),
        tie_weights=np.array([1.0, 0.0, 2.0, 0.5]),
        ties=ties,
    )


def factors_of_rank(r, shape, seed=3):
    d, m = shape
    rng = np.random.default_rng(seed)
    U, _ = np.linalg.qr(rng.standard_normal((d, r)))
    V, _ = np.linalg.qr(rng.standard_normal((m, r)))
    s = np.sort(rng.uniform(0.5, 2.0, r))[::-1].copy()
    return Factors(np.ascontiguousarray(U), s, np.ascontiguousarray(V))


@pytest.mark.parametrize("intercepts", INTERCEPTS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_written_out_products_are_the_problems(layout, intercepts):
    problem = any_problem(layout, intercepts)
    quadratic = tangent.write_out(problem)
    V = random_coef(problem.shape)
    np.testing.assert_allclose(quadratic.multiply(V), problem.majorant(V), atol=1e-11)
    largest = np.linalg.eigvalsh(write_out(problem.majorant, problem.shape))[-1]
    assert quadratic.steepest >= largest


def test_groups_of_tasks_are_tied_too():
    problem = any_problem(ties=TaskPrior.mean())
    V = random_coef(problem.shape)
    product = tangent.write_out(problem).multiply(V)
    np.testing.assert_allclose(product, problem.majorant(V), atol=1e-11)


def tangent_hessian(problem, factors, lam, damping=0.0):
    """Compiled Hessian as a matrix over (Z, Y), Y projected; and its null space's."""
    d, r, m = len(factors.U), len(factors.s), len(factors.V)
    slope = problem.at(factors.product).gradient.T
    normal = tangent._normal_part(factors, slope, np.inf)
    place = kernels.Place(*factors, normal, lam, damping)
    layout = tangent.write_out(problem).layout

    def multiply(x):
        Z, Y = x[: r * d].reshape(r, d), x[r * d :].reshape(m, r)
        Y = Y - factors.V @ (factors.V.T @ Y)
        return np.concatenate([a.ravel() for a in kernels.curve(layout, place, Z, Y)])

    return np.array([multiply(x) for x in np.eye(r * (d + m))])


@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("layout", ["stacked", "shared"])
def test_curvature_is_that_of_the_objective_along_the_rank(layout, rank):
    problem = any_problem(layout)
    factors = factors_of_rank(rank, problem.shape)
    U, s, V = factors
    H = tangent_hessian(problem, factors, problem.lam)
    np.testing.assert_allclose(H, H.T, atol=1e-10)
    rng = np.random.default_rng(0)
    Z, Y = rng.standard_normal((rank, 4)), rng.standard_normal((5, rank))
    Y -= V @ (V.T @ Y)
    x = np.concatenate([Z.ravel(), Y.ravel()])

    def value(size):
        moved = U * s + size * Z.T, V * s + size * (Y + V @ (U.T @ Z.T).T)
        core = np.linalg.inv(np.diag(s) + size * (U.T @ Z.T))
        P = moved[0] @ core @ moved[1].T  # rank kept, to second order Z Vᵀ + U Yᵀ
        assert np.linalg.matrix_rank(P, tol=1e-9) == rank
        return problem.objective(problem.at(P))

    h = 1e-3
    second = (value(h) - 2.0 * value(0.0) + value(-h)) / h**2
    assert x @ H @ x == pytest.approx(second, rel=1e-4)


@pytest.mark.parametrize("epsilon", [0.0, 0.9, 1e3])
@pytest.mark.parametrize("layout", ["stacked", "shared"])
@pytest.mark.parametrize("intercepts", INTERCEPTS)
def test_direction_solves_the_damped_equations(
    layout, intercepts, epsilon, monkeypatch
):
    monkeypatch.setattr(tangent, "FINEST", 1e-12)
    monkeypatch.setattr(tangent, "COARSEST", 1e-12)
    problem = any_problem(layout, intercepts, epsilon)
    factors = factors_of_rank(2, problem.shape)
    U, _, V = factors
    slope = problem.at(factors.product).gradient
    lam = 20.0 * np.linalg.norm(slope, 2)
    gradient = slope - lam * U @ V.T  # nearly at rest, so that nothing is clipped
    found = tangent.find_direction(tangent.write_out(problem), factors, gradient, lam)
    damping = min(1.0, tangent.DAMPING * found.force)
    H = tangent_hessian(problem, factors, lam, damping)
    slope_Z, slope_Y = V.T @ slope.T, slope.T @ U
    slope_Y -= V @ (V.T @ slope_Y)
    rest = np.concatenate([slope_Z.ravel(), slope_Y.ravel()])
    x = np.concatenate([found.Z.ravel(), found.Y.ravel()])
    assert found.force < tangent.MOST_CLIPPED
    np.testing.assert_allclose(H @ x, -rest, atol=1e-6 * np.abs(rest).max())
    np.testing.assert_allclose(V.T @ found.Y, 0.0, atol=1e-10)
    assert found.promise > 0


def test_values_that_would_turn_negative_are_left_out():
    factors = factors_of_rank(3, (4, 5))
    U, s, V = factors
    Z = -(U[:, [2]] @ U[:, [2]].T @ (U * s)).T * 1.5
    direction = tangent.Direction(Z, np.zeros((5, 3)), 1.0, 1.0)
    half, whole = direction.move(factors, 0.5), direction.move(factors, 1.0)
    assert np.linalg.matrix_rank(half, tol=1e-10) == 3
    np.testing.assert_allclose(whole, (U[:, :2] * s[:2]) @ V[:, :2].T, atol=1e-12)


def test_normal_part_is_orthogonal_and_limited():
    factors = factors_of_rank(2, (4, 5))
    slope = np.random.default_rng(1).standard_normal((5, 4))
    normal = tangent._normal_part(factors, slope, 0.3)
    np.testing.assert_allclose(normal @ factors.U, 0.0, atol=1e-14)
    np.testing.assert_allclose(factors.V.T @ normal, 0.0, atol=1e-14)
    assert np.linalg.norm(normal, 2) == pytest.approx(0.3)
