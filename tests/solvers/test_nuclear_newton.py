"""NuclearNewton: the certified optimum, in few steps, whatever the structure."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from instances import (
    INTERCEPTS,
    LAYOUTS,
    build_problem,
    kind_of_intercepts,
    plain_rows,
    random_tasks,
    sine_problem,
    sine_tasks,
    with_signs,
)
from priormtl.data import from_labels
from priormtl.losses import Logistic, NoIntercepts, Squared
from priormtl.penalties import L21, Nuclear
from priormtl.priors import FeaturePrior, QuadraticPrior, TaskPrior
from priormtl.problem import Problem
from priormtl.solvers import (
    Fista,
    History,
    NuclearNewton,
    ProximalNewton,
    StopReason,
    default_method,
    gap_below,
    max_iter,
    solve,
)

NO_PAIRS = FeaturePrior.similar([])


def nuclear_problem(m=4, d=5, **parts):
    return sine_problem(m, d, penalty=Nuclear(), **parts)


def at_share(problem, share):
    return problem.with_strengths(lam=share * problem.lam_max)


def best(problem, tol=1e-10, steps=100, **options):
    rules = [gap_below(tol, every=1), max_iter(steps)]
    quadratic = problem.fit.is_quadratic
    method = NuclearNewton() if quadratic else ProximalNewton(default_method)
    return solve(problem, method, stop=rules, **options)


def agrees(problem, tol=1e-10):
    ours = best(problem, tol)
    rules = [gap_below(1e-9), max_iter(50_000)]
    reference = solve(problem, Fista(restart=True), stop=rules)
    unit = problem.null_objective
    assert ours.reason in {StopReason.GAP, StopReason.ROUNDING}
    distance = ours.certificate.primal - reference.certificate.primal
    assert abs(distance) <= 2e-9 * unit
    return ours


def reference_objective(data, lam, logistic):
    """Optimal value without priors and intercepts, by cvxpy from raw rows."""
    P = cp.Variable(data.shape)
    terms = [lam * cp.normNuc(P)]
    for i, (X, y, weight) in enumerate(plain_rows(data)):
        scores = X @ P[:, i]
        loss = cp.logistic(cp.multiply(-y, scores)) if logistic else (scores - y) ** 2
        terms.append((1.0 if logistic else 0.5) * (weight @ loss))
    problem = cp.Problem(cp.Minimize(cp.sum(terms)))
    return problem.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("loss", [Squared(), Logistic()])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_an_independent_solver(loss, share, seed):
    logistic = isinstance(loss, Logistic)
    d, m = np.random.default_rng(seed).integers(2, 6, 2)
    data = random_tasks("weighted", seed, m=m, d=d, n=9)
    data = with_signs(data) if logistic else data
    problem = build_problem(data, lam=1.0, loss=loss, penalty=Nuclear(), pairs=NO_PAIRS)
    problem = at_share(problem, share)
    expected = reference_objective(data, problem.lam, logistic)
    assert best(problem).certificate.primal == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("intercepts", INTERCEPTS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_and_intercept(layout, intercepts):
    data = random_tasks(layout, m=5, d=4)
    problem = build_problem(
        data,
        lam=1.0,
        theta=0.5,
        epsilon=0.7,
        penalty=Nuclear(),
        intercepts=kind_of_intercepts(intercepts, 5),
        tie_weights=np.array([1.0, 0.0, 3.0, 0.2]),
    )
    agrees(at_share(problem, 0.1))


@pytest.mark.parametrize("ties", [TaskPrior.chain(), TaskPrior.mean()])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 10.0, 1e4])
def test_any_strength_of_ties(ties, epsilon):
    agrees(at_share(nuclear_problem(6, 5, epsilon=epsilon, ties=ties), 0.1))


@pytest.mark.parametrize("shape", [(1, 6), (6, 1), (1, 1), (3, 12), (12, 3)])
@pytest.mark.parametrize("share", [1e-3, 0.05, 0.5, 0.999])
def test_any_shape_and_penalty(shape, share):
    m, d = shape
    data = random_tasks("stacked", m=m, d=d, n=6)
    problem = build_problem(
        data, lam=1.0, epsilon=0.3, penalty=Nuclear(), pairs=NO_PAIRS
    )
    agrees(at_share(problem, share))


@pytest.mark.parametrize("intercepts", INTERCEPTS)
@pytest.mark.parametrize("share", [0.01, 0.3])
def test_logistic_loss(intercepts, share):
    problem = build_problem(
        with_signs(sine_tasks(5, 6)),
        lam=1.0,
        theta=0.5,
        epsilon=0.8,
        loss=Logistic(),
        penalty=Nuclear(),
        intercepts=kind_of_intercepts(intercepts, 5),
    )
    assert agrees(at_share(problem, share)).n_iter <= 20


def test_one_task_has_the_euclidean_norm():
    problem = nuclear_problem(1, 6, theta=0.0, epsilon=0.0)
    problem = at_share(problem, 0.2)
    p = best(problem, 1e-13).coef
    gradient = problem.at(p).gradient
    np.testing.assert_allclose(
        gradient, -problem.lam * p / np.linalg.norm(p), atol=1e-6 * problem.lam
    )


def test_above_lam_max_nothing_is_left_and_just_below_one_direction():
    problem = nuclear_problem(5, 6)
    assert not best(at_share(problem, 1.0 + 1e-9)).coef.any()
    below = best(at_share(problem, 1.0 - 1e-6), 1e-13).coef
    assert np.linalg.matrix_rank(below, tol=1e-12) == 1


def test_targets_of_zero_need_no_step():
    data = sine_tasks(4, 5)
    problem = build_problem(replace(data, y=0.0 * data.y), lam=0.5, penalty=Nuclear())
    solution = best(problem)
    assert solution.n_iter == 0
    assert not solution.coef.any()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("seed", range(5))
def test_degenerate_columns_at_any_scale(scale, seed):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(4), rng.integers(1, 12, 4))
    X = rng.standard_normal((len(task), 7))
    y = X[:, 0] + rng.standard_normal(len(task))
    X[:, 1], X[:, 2], X[:, 3] = 0.0, X[:, 0], 2.5
    data = from_labels(scale * X, y, task)
    kind = kind_of_intercepts(INTERCEPTS[seed % 3], 4)
    prior = QuadraticPrior.none(7, 4)
    problem = Problem(Squared().bind(data, kind), prior, Nuclear(), 1.0)
    for share in (0.01, 0.3):
        agrees(at_share(problem, share))


def test_one_row_in_all():
    data = from_labels(np.array([[1.0, 2.0, -1.0]]), np.array([3.0]), [0])
    problem = Problem(
        Squared().bind(data, NoIntercepts()), QuadraticPrior.none(3, 1), Nuclear(), 1.0
    )
    agrees(at_share(problem, 0.4))


def test_gaps_bound_the_true_distance():
    problem, history = at_share(nuclear_problem(6, 8), 0.02), History()
    end = best(problem, 1e-13, callbacks=[history])
    for row in history.rows:
        distance = row.objective - end.certificate.primal
        assert row.gap >= distance - 1e-12 * problem.null_objective


def test_objective_never_rises_at_the_final_penalty():
    problem, history = at_share(nuclear_problem(8, 6), 0.2), History()
    best(problem, 1e-13, callbacks=[history])
    objectives = [row.objective for row in history.rows]
    assert np.all(np.diff(objectives) <= 1e-12 * objectives[0])


def test_few_steps_suffice_and_the_last_digits_are_cheap():
    problem = at_share(nuclear_problem(8, 6, epsilon=5.0), 0.05)
    coarse, fine = best(problem, 1e-6), best(problem, 1e-11)
    assert coarse.n_iter <= 10
    assert fine.n_iter <= coarse.n_iter + 3


def test_warm_starts_go_straight_to_the_penalty():
    problem = at_share(nuclear_problem(6, 8), 0.01)
    cold = best(problem, 1e-9)
    near = best(problem.with_strengths(lam=0.9 * problem.lam), 1e-9, coef=cold.coef)
    assert near.n_iter <= 8
    assert best(problem, 1e-9, coef=cold.coef).n_iter == 0


def test_other_penalties_are_refused():
    with pytest.raises(TypeError, match=r"needs penalties\.Nuclear .* got L21"):
        best(sine_problem(penalty=L21()))
    with pytest.raises(ValueError, match=r"needs lam > 0: got 0\.0"):
        solve(nuclear_problem(lam=0.0), NuclearNewton(), stop=[max_iter(1)])


def test_same_input_gives_the_same_bits():
    a, b = (best(at_share(nuclear_problem(6, 9), 0.05)) for _ in range(2))
    assert np.array_equal(a.coef, b.coef)
