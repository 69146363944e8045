import numpy as np
import pytest

from instances import (
    INTERCEPTS,
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
    sine_tasks,
    with_signs,
    write_out,
)
from priormtl.losses import Logistic, NoIntercepts, Squared
from priormtl.penalties import L21, Nuclear
from priormtl.problem import Problem, QuadraticPrior
from priormtl.solvers import Fista, gap_below, max_iter, solve

EVERY_LOSS = pytest.mark.parametrize("loss", LOSSES)
EVERY_KIND = pytest.mark.parametrize("intercepts", INTERCEPTS)
EVERY_PENALTY = pytest.mark.parametrize("penalty", PENALTIES)


def example(loss="squared", intercepts="absent", penalty="l21", lam=0.4, **parts):
    """Six random tasks over five features, all terms present."""
    data = random_tasks("weighted", m=6, d=5)
    return build_problem(
        with_signs(data) if loss == "logistic" else data,
        lam=lam,
        theta=0.5,
        epsilon=0.8,
        loss=LOSSES[loss],
        penalty=PENALTIES[penalty],
        intercepts=kind_of_intercepts(intercepts, 6),
        **parts,
    )


def plain_objective(data, P, lam, theta, epsilon):
    """The paper's formula, term by term, for the pairs (0, 1) and (2, 3)."""
    total = lam * sum(np.linalg.norm(row) for row in P)
    for i, (X, y, _) in enumerate(plain_rows(data)):
        total += 0.5 * np.sum((X @ P[:, i] - y) ** 2)
    for a, b in ((0, 1), (2, 3)):
        total += 0.5 * theta * np.sum((P[a] - P[b]) ** 2)
    for i in range(P.shape[1] - 1):
        total += 0.5 * epsilon * np.sum((P[:, i] - P[:, i + 1]) ** 2)
    return total


def test_objective_is_the_papers_formula():
    problem = sine_problem(lam=0.6, theta=0.5, epsilon=0.8)
    for seed in range(5):
        P = random_coef(problem.shape, seed)
        plain = plain_objective(sine_tasks(4, 5), P, 0.6, 0.5, 0.8)
        assert problem.objective(problem.at(P)) == pytest.approx(plain, rel=1e-12)


@EVERY_LOSS
@EVERY_KIND
def test_gradient_agrees_with_central_differences(loss, intercepts):
    problem = example(loss, intercepts)
    P, V = random_coef(problem.shape, 1), random_coef(problem.shape, 2)
    ends = [problem.at(P + sign * 1e-5 * V).value for sign in (1, -1)]
    slope = (ends[0] - ends[1]) / 2e-5
    assert np.vdot(problem.at(P).gradient, V) == pytest.approx(slope, rel=1e-6)


@EVERY_LOSS
@EVERY_KIND
def test_hessian_agrees_with_differences_of_gradients(loss, intercepts):
    problem = example(loss, intercepts)
    P, V = random_coef(problem.shape, 1), random_coef(problem.shape, 2)
    ends = [problem.at(P + sign * 1e-5 * V).gradient for sign in (1, -1)]
    product = problem.hessian(problem.at(P), V)
    np.testing.assert_allclose(product, (ends[0] - ends[1]) / 2e-5, rtol=1e-5)


@EVERY_LOSS
@EVERY_KIND
def test_majorant_is_nowhere_below_the_hessian(loss, intercepts):
    problem = example(loss, intercepts)
    at = problem.at(random_coef(problem.shape))
    majorant = write_out(problem.majorant, problem.shape)
    hessian = write_out(lambda V: problem.hessian(at, V), problem.shape)
    assert np.linalg.eigvalsh(majorant - hessian)[0] >= -1e-10


@EVERY_LOSS
@EVERY_KIND
def test_excess_is_the_value_above_the_tangent_plane(loss, intercepts):
    problem = example(loss, intercepts)
    base = problem.at(random_coef(problem.shape, 1))
    for scale in (1.0, 1e-2, 1e-4):
        V = random_coef(problem.shape, 2, scale)
        point = problem.at(base.coef + V)
        plain = point.value - base.value - np.vdot(base.gradient, V)
        noise = 1e-13 * base.value
        assert problem.excess(point, base) == pytest.approx(plain, rel=1e-6, abs=noise)


@EVERY_LOSS
def test_excess_of_tiny_moves_keeps_its_digits(loss):
    problem = example(loss)
    base = problem.at(random_coef(problem.shape, 1))
    V = random_coef(problem.shape, 2, scale=1e-9)
    excess = problem.excess(problem.at(base.coef + V), base)
    second_order = 0.5 * np.vdot(V, problem.hessian(base, V))
    assert excess == pytest.approx(second_order, rel=1e-4)


@EVERY_LOSS
def test_excess_of_no_move_is_nothing(loss):
    point = example(loss).at(random_coef((5, 6)))
    assert example(loss).excess(point, point) == 0.0


@EVERY_LOSS
@EVERY_KIND
def test_extrapolation_is_evaluation_there(loss, intercepts):
    problem = example(loss, intercepts)
    current, previous = (problem.at(random_coef(problem.shape, s)) for s in (1, 2))
    ahead = problem.extrapolate(current, previous, 0.6)
    there = problem.at(current.coef + 0.6 * (current.coef - previous.coef))
    np.testing.assert_allclose(ahead.coef, there.coef, atol=1e-14)
    assert ahead.value == pytest.approx(there.value, rel=1e-12)
    np.testing.assert_allclose(ahead.gradient, there.gradient, rtol=1e-9, atol=1e-9)


@EVERY_LOSS
@EVERY_PENALTY
def test_nothing_is_selected_at_lam_max_and_something_just_below(loss, penalty):
    problem = example(loss, "free", penalty)
    rules = [gap_below(1e-12, every=1), max_iter(5000)]
    at = problem.with_strengths(lam=problem.lam_max)
    assert at.certify(at.null_point).gap <= 1e-12 * at.null_objective
    assert not solve(at, Fista(restart=True), stop=rules).coef.any()
    below = problem.with_strengths(lam=0.999 * problem.lam_max)
    assert below.certify(below.null_point).gap > 1e-12 * below.null_objective
    assert solve(below, Fista(restart=True), stop=rules).coef.any()


@EVERY_LOSS
@EVERY_PENALTY
def test_restriction_holds_other_features_at_zero(loss, penalty):
    problem, features = example(loss, "tied", penalty), np.array([3, 0, 2])
    P = np.zeros(problem.shape)
    P[features] = random_coef((3, 6))
    whole, part = problem.at(P), problem.restrict(features).at(P[features])
    assert problem.restrict(features).objective(part) == pytest.approx(
        problem.objective(whole), rel=1e-12
    )
    np.testing.assert_allclose(part.gradient, whole.gradient[features], atol=1e-10)


def test_restriction_carries_tie_weights_along():
    weights = np.array([1.0, 0.0, 3.0, 0.5, 2.0])
    problem, features = example(tie_weights=weights), np.array([2, 4])
    P = np.zeros(problem.shape)
    P[features] = random_coef((2, 6))
    part = problem.restrict(features).at(P[features])
    assert part.value == pytest.approx(problem.at(P).value, rel=1e-12)


def test_strengths_multiply_their_terms():
    problem, P = example(), random_coef((5, 6))
    bare = problem.with_strengths(lam=0.0, theta=0.0, epsilon=0.0)
    fit = bare.objective(bare.at(P))
    for name, strength in (("theta", 2.0), ("epsilon", 3.0)):
        terms = []
        for factor in (1.0, 2.0):
            strengths = {"theta": 0.0, "epsilon": 0.0, name: factor * strength}
            part = problem.with_strengths(lam=0.0, **strengths)
            terms.append(part.objective(part.at(P)) - fit)
        assert terms[1] == pytest.approx(2.0 * terms[0], rel=1e-9)


def test_strengths_not_named_stay():
    problem = example().with_strengths(lam=7.0)
    assert (problem.lam, problem.prior.theta, problem.prior.epsilon) == (7.0, 0.5, 0.8)


def test_null_point_is_zero_and_costs_the_null_objective():
    problem = example("logistic", "free")
    assert not problem.null_point.coef.any()
    assert problem.objective(problem.null_point) == problem.null_objective


def test_prox_is_scaled_by_lam():
    problem, P = example(penalty="nuclear", lam=0.4), random_coef((5, 6))
    np.testing.assert_array_equal(problem.prox(P, 0.5), Nuclear().prox(P, 0.2))


@EVERY_LOSS
def test_newton_direction_solves_its_system(loss):
    problem = example(loss, "tied")
    point = problem.at(random_coef(problem.shape))
    V = problem.newton_step(point).direction
    np.testing.assert_allclose(problem.hessian(point, V), -point.gradient, atol=1e-9)


def test_larger_strengths_never_lower_the_optimum():
    problem = example()
    optima = [best_objective(problem.with_strengths(lam=lam)) for lam in (0.1, 1, 9)]
    assert optima == sorted(optima)


@pytest.mark.parametrize("loss", [Squared(), Logistic()])
def test_newton_steps_agree_with_and_without_elimination(loss, monkeypatch):
    data = sine_tasks(5, 4)
    data = with_signs(data) if isinstance(loss, Logistic) else data
    problem = build_problem(data, lam=0.0, theta=0.5, epsilon=0.8, loss=loss)
    P = np.full(problem.shape, 0.1)
    direct = problem.newton_step(problem.at(P))
    monkeypatch.setattr("priormtl.problem.newton_system.MOST_NUMBERS", 0)
    problem.memo.clear()
    iterated = problem.newton_step(problem.at(P))
    assert iterated.direction == pytest.approx(direct.direction, abs=1e-7)
    assert iterated.decrease == pytest.approx(direct.decrease, rel=1e-6)


@pytest.mark.parametrize(
    ("d", "rank", "uncertain"), [(80, 6, True), (90, 6, False), (5, 5, False)]
)
def test_only_small_singular_systems_call_for_the_rows(d, rank, uncertain):
    # Decompositions of rows take long for more than 250 unknowns, of three tasks here.
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(8, rank)) @ rng.normal(size=(rank, d)) for _ in range(3)]
    data = from_lists(X, [rng.normal(size=8) for _ in X])
    fit = Squared().bind(data, NoIntercepts())
    problem = Problem(fit, QuadraticPrior.none(d, 3), L21(), 0.0)
    point = problem.null_point
    found = problem.certify(point)
    assert not found.is_uncertain  # said only where a run ends
    assert problem.certify_rounded(point, found).is_uncertain == uncertain
