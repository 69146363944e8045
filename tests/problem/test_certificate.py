import numpy as np
import pytest
from scipy.optimize import minimize

from instances import (
    INTERCEPTS,
    LAYOUTS,
    LOSSES,
    PENALTIES,
    best_objective,
    build_problem,
    from_lists,
    kind_of_intercepts,
    plain_rows,
    random_coef,
    random_tasks,
    sine_problem,
    turns,
    with_signs,
)
from priormtl.problem import Certificate
from priormtl.solvers import (
    Fista,
    Newton,
    StopReason,
    default_method,
    gap_below,
    max_iter,
    solve,
)

EVERY_LOSS = pytest.mark.parametrize("loss", LOSSES)
EVERY_KIND = pytest.mark.parametrize("intercepts", INTERCEPTS)
EVERY_PENALTY = pytest.mark.parametrize("penalty", PENALTIES)
EVERY_LAYOUT = pytest.mark.parametrize("layout", LAYOUTS)


def example(
    loss, layout="stacked", intercepts="absent", penalty="l21", n=8, **strengths
):
    data = random_tasks(layout, m=3, d=5, n=n)
    return build_problem(
        with_signs(data) if loss == "logistic" else data,
        loss=LOSSES[loss],
        penalty=PENALTIES[penalty],
        intercepts=kind_of_intercepts(intercepts, 3),
        **{"lam": 0.5, "theta": 0.5, "epsilon": 0.8} | strengths,
    )


def random_points(problem):
    """Points near and far from zero."""
    scales = (0.0, 0.01, 0.3, 1.0, 10.0)
    return [problem.at(random_coef(problem.shape, s, x)) for s, x in enumerate(scales)]


@turns(2, penalty=PENALTIES, loss=LOSSES, intercepts=INTERCEPTS)
def test_gap_is_never_below_the_true_distance(loss, penalty, intercepts):
    problem = example(loss, "stacked", intercepts, penalty)
    optimum = best_objective(problem)
    for point in random_points(problem):
        distance = problem.objective(point) - optimum
        assert problem.certify(point).gap >= distance - 1e-11 * problem.null_objective


@EVERY_LAYOUT
@EVERY_LOSS
def test_gap_bounds_the_distance_however_data_are_kept(loss, layout):
    problem = example(loss, layout, "tied")
    optimum = best_objective(problem)
    for point in random_points(problem):
        distance = problem.objective(point) - optimum
        assert problem.certify(point).gap >= distance - 1e-11 * problem.null_objective


@turns(2, penalty=PENALTIES, loss=LOSSES, intercepts=INTERCEPTS)
def test_gap_vanishes_at_the_optimum(loss, penalty, intercepts):
    problem = example(loss, "stacked", intercepts, penalty)
    rules = [gap_below(1e-12), max_iter(5000)]
    solution = solve(problem, Fista(restart=True), stop=rules)
    assert solution.reason is StopReason.GAP


@EVERY_LOSS
def test_gap_vanishes_without_any_prior(loss):
    problem = example(loss, theta=0.0, epsilon=0.0)
    rules = [gap_below(1e-12), max_iter(5000)]
    solution = solve(problem, Fista(restart=True), stop=rules)
    assert solution.reason is StopReason.GAP


@EVERY_KIND
@EVERY_LOSS
def test_gap_without_a_penalty_is_never_below_the_distance(loss, intercepts):
    problem = example(loss, "stacked", intercepts, lam=0.0, n=40)
    optimum = best_objective(problem)
    for point in random_points(problem):
        distance = problem.objective(point) - optimum
        assert problem.certify(point).gap >= distance - 1e-11 * problem.null_objective


@EVERY_KIND
@EVERY_LAYOUT
def test_squared_gap_closes_without_a_penalty(layout, intercepts):
    problem = example("squared", layout, intercepts, lam=0.0)
    rules = [gap_below(1e-10, every=1), max_iter(20)]
    solution = solve(problem, Newton(), stop=rules)
    assert solution.reason is StopReason.GAP


@EVERY_KIND
@pytest.mark.parametrize("layout", ["stacked", "weighted", "sparse", "gaps"])
def test_logistic_gap_closes_without_a_penalty(layout, intercepts):
    problem = example("logistic", layout, intercepts, lam=0.0, n=40)
    rules = [gap_below(1e-10, every=1), max_iter(50)]
    solution = solve(problem, Newton(), stop=rules)
    assert solution.reason is StopReason.GAP


@pytest.mark.parametrize("layout", ["wide", "shared-wide"])
@EVERY_KIND
def test_steps_beyond_the_solution_do_not_leave_it(layout, intercepts):
    problem = example("squared", layout, intercepts, lam=0.0)
    solutions = [
        solve(problem, Newton(), stop=[max_iter(n)]).certificate for n in (1, 2, 6)
    ]
    for certificate in solutions:
        assert certificate.primal == pytest.approx(solutions[0].primal, rel=1e-9)
        assert certificate.gap <= 1e-9 * problem.null_objective


def test_least_squares_without_strengths_is_numpys():
    data = random_tasks("stacked", m=3, d=4)
    problem = build_problem(data, lam=0.0)
    rules = [gap_below(1e-11, every=1), max_iter(20)]
    solution = solve(problem, default_method(problem), stop=rules)
    for i, (X, y, _) in enumerate(plain_rows(data)):
        expected = np.linalg.lstsq(X, y, rcond=None)[0]
        np.testing.assert_allclose(solution.coef[:, i], expected, atol=1e-8)


def test_least_squares_with_intercepts_is_numpys():
    data = random_tasks("weighted", m=3, d=4)
    problem = build_problem(data, lam=0.0, intercepts=kind_of_intercepts("free", 3))
    rules = [gap_below(1e-11, every=1), max_iter(20)]
    solution = solve(problem, default_method(problem), stop=rules)
    for i, (X, y, weight) in enumerate(plain_rows(data)):
        root = np.sqrt(weight)
        rows = np.column_stack([X, np.ones(len(X))]) * root[:, np.newaxis]
        expected = np.linalg.lstsq(rows, y * root, rcond=None)[0]
        np.testing.assert_allclose(solution.coef[:, i], expected[:-1], atol=1e-8)
        assert solution.intercept[i] == pytest.approx(expected[-1], abs=1e-8)


@pytest.mark.parametrize("layout", ["wide", "shared-wide"])
def test_fewer_rows_than_features_are_fitted_and_certified(layout):
    data = random_tasks(layout, m=3, d=7)
    problem = build_problem(data, lam=0.0)
    solution = solve(problem, Newton(), stop=[gap_below(1e-10, every=1), max_iter(20)])
    assert solution.certificate.gap <= 1e-10 * problem.null_objective
    for i, (X, y, _) in enumerate(plain_rows(data)):
        expected = np.linalg.lstsq(X, y, rcond=None)[0]  # the shortest of all solutions
        found = solution.coef[:, i]
        np.testing.assert_allclose(X @ found, X @ expected, atol=1e-6)
        assert np.linalg.norm(found) <= 10.0 * np.linalg.norm(expected)


def test_collinear_features_are_fitted_and_certified():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(12, 3))
    X = np.column_stack([X, X[:, 0], np.zeros(12), X @ [1.0, -1.0, 2.0]])
    y = X[:, 0] + rng.normal(size=12)
    problem = build_problem(from_lists([X], [y]), lam=0.0)
    solution = solve(problem, Newton(), stop=[gap_below(1e-10, every=1), max_iter(20)])
    expected = 0.5 * np.sum((X @ np.linalg.lstsq(X, y, rcond=None)[0] - y) ** 2)
    assert solution.certificate.primal == pytest.approx(expected, rel=1e-9)
    assert solution.certificate.gap <= 1e-10 * problem.null_objective


def test_logistic_without_a_penalty_is_scipys():
    problem = example("logistic", "stacked", "free", lam=0.0, n=40)

    def smooth(p):
        point = problem.at(p.reshape(problem.shape))
        return point.value, point.gradient.ravel()

    zero = np.zeros(problem.shape[0] * problem.shape[1])
    found = minimize(smooth, zero, jac=True, method="BFGS", options={"gtol": 1e-8})
    solution = solve(problem, Newton(), stop=[gap_below(1e-12, every=1), max_iter(50)])
    assert solution.certificate.primal == pytest.approx(found.fun, rel=1e-9)
    np.testing.assert_allclose(solution.coef.ravel(), found.x, atol=1e-4)


@pytest.mark.parametrize("lam", [0.0, 0.3])
def test_targets_that_are_all_zero_need_no_step(lam):
    X = random_coef((6, 4))
    problem = build_problem(from_lists([X, X], [np.zeros(6)] * 2), lam=lam, theta=1.0)
    rules = [gap_below(1e-10), max_iter(10)]
    solution = solve(problem, default_method(problem), stop=rules)
    assert solution.n_iter == 0
    assert solution.certificate == Certificate(0.0, 0.0)
    assert not solution.coef.any()


@EVERY_KIND
def test_squared_certificate_uses_the_best_admissible_multiple_of_the_residuals(
    intercepts,
):
    problem = example("squared", "stacked", intercepts)
    for point in random_points(problem):
        length = problem.penalty.dual_norm(point.gradient)
        scales = np.linspace(-1.0, 1.0, 2001) * problem.lam / length
        duals = [point.fit.dual_value(s) - s**2 * point.prior_value for s in scales]
        dual = problem.certify(point).dual
        assert dual >= max(duals) - 1e-12 * problem.null_objective


def test_gap_is_never_negative():
    assert Certificate(1.0, 1.0 + 1e-15).gap == 0.0
    assert Certificate(3.0, 1.0).gap == 2.0


def test_dual_value_is_never_below_zero():
    problem = sine_problem()
    far = problem.at(random_coef(problem.shape, scale=1e3))
    assert problem.certify(far).dual >= 0.0
