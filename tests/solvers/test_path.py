import numpy as np
import pytest

from instances import (
    build_problem,
    from_lists,
    random_tasks,
    sine_problem,
    with_counted_products,
    with_signs,
)
from priormtl.data import from_labels
from priormtl.losses import FreeIntercepts, Logistic, NoIntercepts, SumFit
from priormtl.penalties import L21, Nuclear, Robust, Schatten
from priormtl.problem import Problem, QuadraticPrior
from priormtl.solvers import (
    Fista,
    Ista,
    default_method,
    gap_below,
    lam_grid,
    max_iter,
    solve,
    solve_path,
    stalled,
)
from priormtl.solvers.solver import _screen, identifiable_features


def rules(method):
    return [gap_below(1e-10, method.check_every), stalled(), max_iter(20_000)]


def wide_problem(d=40, **parts):
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((15 + i, d)) for i in range(3)]
    y = [rows[:, :3] @ [3.0, -2.0, 1.0] + rng.standard_normal(len(rows)) for rows in X]
    data = from_lists(X, y)
    return build_problem(data, lam=1.0, theta=0.5, epsilon=0.5, **parts)


PROBLEMS = {
    "rows": sine_problem(intercepts=FreeIntercepts()),
    "weights": sine_problem(penalty=L21(np.array([0.5, 1.0, 2.0, 1.0, 0.3]))),
    "nuclear": sine_problem(penalty=Nuclear()),
    "many features": wide_problem(),
    "logistic": build_problem(
        with_signs(random_tasks("stacked", n=30)), lam=1.0, loss=Logistic()
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("n", [4, 25])
def test_each_solution_is_that_of_its_own_problem(name, n):
    problem = PROBLEMS[name]
    lams = lam_grid(problem, n)
    for lam, solution in zip(lams, solve_path(problem, lams, rules=rules), strict=True):
        alone = problem.with_strengths(lam=lam)
        method = default_method(alone)
        known = solve(alone, method, stop=rules(method)).certificate
        unit = problem.null_objective
        assert solution.certificate.gap <= 1e-10 * unit
        assert abs(solution.certificate.primal - known.primal) <= 1e-9 * unit
        # The certificate is that of the whole problem, whatever was screened.
        again = alone.certify(alone.at(solution.coef))
        assert again.gap == pytest.approx(solution.certificate.gap, abs=1e-12 * unit)


@pytest.mark.parametrize("order", ["rising", "zigzag", "repeated", "to zero"])
def test_any_order_is_right(order):
    problem = wide_problem()
    lams = lam_grid(problem, 6)
    chosen = {
        "rising": lams[::-1],
        "zigzag": lams[[0, 5, 1, 4, 2]],
        "repeated": lams[[2, 2, 3, 3]],
        "to zero": [*lams, 0.0],
    }[order]
    for lam, solution in zip(
        chosen, solve_path(problem, chosen, rules=rules), strict=True
    ):
        alone = problem.with_strengths(lam=lam)
        assert alone.certify(alone.at(solution.coef)).gap <= (
            1e-9 * problem.null_objective
        )


def test_wrong_screening_is_noticed(monkeypatch):
    # A rule that keeps one wrong feature only must not change the result.
    problem = wide_problem()
    lams = lam_grid(problem, 5)
    right = solve_path(problem, lams, rules=rules)
    monkeypatch.setattr(
        "priormtl.solvers.solver._screen", lambda *_: np.array([problem.shape[0] - 1])
    )
    wrong = solve_path(problem, lams, rules=rules)
    for a, b in zip(right, wrong, strict=True):
        assert b.certificate.gap <= 1e-10 * problem.null_objective
        np.testing.assert_allclose(a.coef, b.coef, atol=1e-4)


def test_strong_rule_keeps_what_is_nonzero_next():
    problem = wide_problem()
    lams = lam_grid(problem, 30)
    solutions = solve_path(problem, lams, rules=rules)
    kept_fewer = 0
    for k in range(1, 10):
        step = problem.with_strengths(lam=lams[k])
        kept = _screen(step, solutions[k - 1].point, lams[k - 1])
        if kept is not None:
            kept_fewer += 1
            assert set(np.flatnonzero(solutions[k].coef.any(axis=1))) <= set(kept)
    assert kept_fewer > 3


def test_solved_problems_cost_no_product():
    problem, counter = with_counted_products(sine_problem())
    lams = [2.0 * problem.lam_max, 1.5 * problem.lam_max, problem.lam_max]
    _ = problem.null_point
    before = counter.count
    solutions = solve_path(problem, lams, rules=rules)
    assert counter.count == before
    assert [solution.n_iter for solution in solutions] == [0, 0, 0]
    assert not any(solution.coef.any() for solution in solutions)


def test_a_point_spares_the_look_at_the_start():
    problem, counter = with_counted_products(sine_problem())
    method = Fista(restart=True)
    end = solve(problem, method, stop=rules(method)).point
    counts = []
    for start in (end, end.coef):
        before = counter.count
        assert solve(problem, method, coef=start, stop=rules(method)).n_iter == 0
        counts.append(counter.count - before)
    assert counts[0] == counts[1] - 1


def test_warm_starts_take_fewer_steps():
    problem = wide_problem()
    lams = lam_grid(problem, 8, 0.1)
    ista = {"choose": lambda _: Ista(), "rules": rules}
    warm = sum(s.n_iter for s in solve_path(problem, lams, **ista))
    cold = sum(
        solve(problem.with_strengths(lam=lam), Ista(), stop=rules(Ista())).n_iter
        for lam in lams
    )
    assert warm < 0.9 * cold


def test_grid_falls_geometrically_from_lam_max():
    problem = sine_problem()
    lams = lam_grid(problem, 5, 1e-2)
    assert lams[0] == problem.lam_max
    np.testing.assert_allclose(lams[1:] / lams[:-1], 10**-0.5)
    assert lam_grid(problem, 1) == pytest.approx([problem.lam_max])


def test_grid_exists_where_nothing_can_be_learned():
    data = from_lists([np.eye(4)], [np.zeros(4)])
    lams = lam_grid(build_problem(data, lam=1.0), 3)
    np.testing.assert_allclose(lams, [1.0, 10**-1.5, 1e-3])


IDENTIFIABLE = [0, 2, 3, 5]


def tasks(seed=0):
    """Features 1 and 4 differ between tasks only."""
    rng = np.random.default_rng(seed)
    task = np.arange(60) % 5
    X = rng.standard_normal((60, 6))
    X[:, 1], X[:, 4] = task / 3.0, 7.1
    return from_labels(X, X[:, 0] - X[:, 3] + rng.standard_normal(60), task)


def pose(penalty, intercepts=None, **parts):
    intercepts = intercepts or FreeIntercepts()
    return build_problem(
        tasks(), lam=1.0, penalty=penalty, intercepts=intercepts, **parts
    )


@pytest.mark.parametrize("penalty", [Nuclear(), Schatten(1.5)], ids=["norm", "power"])
def test_what_is_constant_within_tasks_is_found(penalty):
    np.testing.assert_array_equal(identifiable_features(pose(penalty)), IDENTIFIABLE)


def test_all_are_asked_where_intercepts_penalties_or_relations_need_them():
    assert identifiable_features(pose(Nuclear(), NoIntercepts())) is None
    assert identifiable_features(pose(L21())) is None
    assert identifiable_features(pose(Nuclear(), theta=1.0)) is None


@pytest.mark.parametrize("kind", ["nuclear", "robust"])
def test_paths_are_those_of_all_features(kind, monkeypatch):
    fit = pose(Nuclear()).fit
    fit, penalty = (SumFit(fit), Robust(1.4)) if kind == "robust" else (fit, Nuclear())
    problem = Problem(fit, QuadraticPrior.none(*fit.shape), penalty, 1.0)
    lams = lam_grid(problem, 4)
    found = solve_path(problem, lams, rules=rules)
    monkeypatch.setattr(
        "priormtl.solvers.solver.identifiable_features", lambda problem: None
    )
    for lam, ours, whole in zip(
        lams, found, solve_path(problem, lams, rules=rules), strict=True
    ):
        assert ours.coef.shape == problem.shape
        assert not ours.coef[[1, 4]].any()
        known = whole.certificate.primal
        assert ours.certificate.primal == pytest.approx(known, rel=1e-9)
        alone = problem.with_strengths(lam=lam)
        assert alone.certify(ours.point).gap <= 1e-10 * problem.null_objective
        np.testing.assert_allclose(ours.intercept, whole.intercept, atol=1e-3)
