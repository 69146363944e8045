"""Nuclear norm: certified optima in few steps, and Newton's equations."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from instances import (
    INTERCEPTS,
    LAYOUTS,
    bind,
    build_problem,
    kind_of_intercepts,
    plain_rows,
    random_coef,
    random_tasks,
    sine_problem,
    sine_tasks,
    with_signs,
    write_out,
)
from priormtl.data import from_labels
from priormtl.losses import FreeIntercepts, Logistic, NoIntercepts, Squared
from priormtl.penalties import L21, Factors, Nuclear
from priormtl.priors import FeaturePrior, TaskPrior
from priormtl.problem import Problem, QuadraticPrior
from priormtl.solvers import (
    Fista,
    History,
    NuclearNewton,
    NuclearSplitting,
    ProximalNewton,
    StopReason,
    default_method,
    gap_below,
    max_iter,
    nuclear,
    solve,
)
from priormtl.solvers.kernels import nuclear as kernels

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
@pytest.mark.parametrize("seed", range(2))
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


def test_zero_is_left_by_the_best_step():
    problem = at_share(nuclear_problem(6, 5, epsilon=0.5), 0.4)
    state = nuclear._leave_zero(
        problem, NuclearNewton().start(problem, problem.null_point)
    )
    P, norm = state.point.coef, float(state.factors.s.sum())
    assert norm == pytest.approx(Nuclear().value(P))
    # Along P the objective has its minimum here.
    slope = float(np.vdot(state.point.gradient, P)) + problem.lam * norm
    assert abs(slope) <= 1e-10 * problem.lam * norm


def test_targets_of_zero_need_no_step():
    data = sine_tasks(4, 5)
    problem = build_problem(replace(data, y=0.0 * data.y), lam=0.5, penalty=Nuclear())
    solution = best(problem)
    assert solution.n_iter == 0
    assert not solution.coef.any()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("seed", range(3))
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


def plain_problem(fit, share):
    problem = Problem(fit, QuadraticPrior.none(*fit.shape), Nuclear(), 1.0)
    return problem.with_strengths(lam=share * problem.lam_max)


def minimise(problem, method, coef=None, tol=1e-11):
    return solve(problem, method, coef=coef, stop=[gap_below(tol, 1), max_iter(200)])


@pytest.mark.parametrize("layout", ["stacked", "wide", "shared", "gaps"])
@pytest.mark.parametrize("intercepts", ["free", "absent"])
@pytest.mark.parametrize("share", [0.9, 0.1, 1e-3])
def test_admm_and_newton_agree(layout, intercepts, share):
    problem = plain_problem(bind("squared", random_tasks(layout), intercepts), share)
    ours, newton = (minimise(problem, m()) for m in (NuclearSplitting, NuclearNewton))
    assert ours.reason is StopReason.GAP
    known = newton.certificate.primal
    assert ours.certificate.primal == pytest.approx(known, rel=1e-10)
    # What the iterations know of the norm is what singular values say.
    again = problem.certify(problem.at(ours.coef))
    assert again.primal == pytest.approx(ours.certificate.primal, rel=1e-12)


def test_newton_ends_what_admm_cannot():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5)) * np.geomspace(1.0, 1e-3, 5)
    data = from_labels(X, rng.standard_normal(60), np.arange(60) % 4)
    problem = plain_problem(Squared().bind(data, FreeIntercepts()), 1e-5)
    method = NuclearSplitting()
    state = method.start(problem, problem.null_point)
    for _ in range(200):
        if state.newton is not None:
            break
        state = method.step(problem, state)
    assert state.newton is not None
    assert minimise(problem, method).reason is StopReason.GAP


def test_known_starts_need_no_admm():
    problem = plain_problem(bind("squared", random_tasks("stacked"), "free"), 0.2)
    method, point = NuclearSplitting(), problem.at(random_coef(problem.shape))
    state = method.start(problem, point)
    assert state.rounds is None
    assert minimise(problem, method, point.coef).reason is StopReason.GAP


def test_only_plain_nuclear_norms_fit():
    assert NuclearSplitting.fits(
        plain_problem(bind("squared", random_tasks("wide"), "free"), 1)
    )
    assert not NuclearSplitting.fits(sine_problem(penalty=Nuclear()))
    assert not NuclearSplitting.fits(sine_problem(theta=0, epsilon=0, penalty=L21()))


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
def test_laid_out_products_are_the_problems(layout, intercepts):
    problem = any_problem(layout, intercepts)
    quadratic = nuclear.lay_out(problem)
    V = random_coef(problem.shape)
    np.testing.assert_allclose(quadratic.multiply(V), problem.majorant(V), atol=1e-11)
    largest = np.linalg.eigvalsh(write_out(problem.majorant, problem.shape))[-1]
    assert quadratic.curvature_bound >= largest


def test_groups_of_tasks_are_tied_too():
    problem = any_problem(ties=TaskPrior.mean())
    V = random_coef(problem.shape)
    product = nuclear.lay_out(problem).multiply(V)
    np.testing.assert_allclose(product, problem.majorant(V), atol=1e-11)


def tangent_hessian(problem, factors, lam, damping=0.0):
    """Compiled Hessian as a matrix over (Z, Y), Y projected; and its null space's."""
    d, r, m = len(factors.U), len(factors.s), len(factors.V)
    slope = problem.at(factors.product).gradient.T
    normal = nuclear._normal_part(factors, slope, np.inf)
    place = kernels.BasePoint(*factors, normal, lam, damping)
    layout = nuclear.lay_out(problem).layout

    def multiply(x):
        Z, Y = x[: r * d].reshape(r, d), x[r * d :].reshape(m, r)
        Y = Y - factors.V @ (factors.V.T @ Y)
        return np.concatenate(
            [a.ravel() for a in kernels.hessian_product(layout, place, Z, Y)]
        )

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
    monkeypatch.setattr(nuclear, "FINEST", 1e-12)
    monkeypatch.setattr(nuclear, "COARSEST", 1e-12)
    problem = any_problem(layout, intercepts, epsilon)
    factors = factors_of_rank(2, problem.shape)
    U, _, V = factors
    slope = problem.at(factors.product).gradient
    lam = 20.0 * np.linalg.norm(slope, 2)
    gradient = slope - lam * U @ V.T  # nearly at rest, so that nothing is clipped
    found = nuclear.find_direction(nuclear.lay_out(problem), factors, gradient, lam)
    damping = min(1.0, nuclear.DAMPING * found.slope)
    H = tangent_hessian(problem, factors, lam, damping)
    slope_Z, slope_Y = V.T @ slope.T, slope.T @ U
    slope_Y -= V @ (V.T @ slope_Y)
    rest = np.concatenate([slope_Z.ravel(), slope_Y.ravel()])
    x = np.concatenate([found.Z.ravel(), found.Y.ravel()])
    assert found.slope < nuclear.MOST_CLIPPED
    np.testing.assert_allclose(H @ x, -rest, atol=1e-6 * np.abs(rest).max())
    np.testing.assert_allclose(V.T @ found.Y, 0.0, atol=1e-10)
    assert found.decrease > 0


def test_values_that_would_turn_negative_are_left_out():
    factors = factors_of_rank(3, (4, 5))
    U, s, V = factors
    Z = -(U[:, [2]] @ U[:, [2]].T @ (U * s)).T * 1.5
    direction = nuclear.Direction(Z, np.zeros((5, 3)), 1.0, 1.0)
    half, whole = direction.move(factors, 0.5), direction.move(factors, 1.0)
    assert np.linalg.matrix_rank(half, tol=1e-10) == 3
    np.testing.assert_allclose(whole, (U[:, :2] * s[:2]) @ V[:, :2].T, atol=1e-12)


def test_normal_part_is_orthogonal_and_limited():
    factors = factors_of_rank(2, (4, 5))
    slope = np.random.default_rng(1).standard_normal((5, 4))
    normal = nuclear._normal_part(factors, slope, 0.3)
    np.testing.assert_allclose(normal @ factors.U, 0.0, atol=1e-14)
    np.testing.assert_allclose(factors.V.T @ normal, 0.0, atol=1e-14)
    assert np.linalg.norm(normal, 2) == pytest.approx(0.3)


def test_a_stage_that_ends_at_its_exact_optimum_is_followed_by_the_next():
    X = np.array([[1.522099830716407e-06], [-1.448327729355381e-06]])
    y = np.array([2.859999749805335e-06, -2.08513137692938e-06])
    fit = Squared().bind(from_labels(X, y, np.zeros(2, int)), FreeIntercepts())
    problem = Problem(fit, QuadraticPrior.none(1, 1), Nuclear(), 1.0)
    problem = problem.with_strengths(lam=1e-3 * problem.lam_max)
    solution = solve(problem, NuclearNewton(), stop=[gap_below(1e-9, 1), max_iter(20)])
    assert solution.reason is StopReason.GAP
