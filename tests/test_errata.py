"""What is wrong with the paper's constants, and what is not: T1 … T15 of the errata.

The last tests are on School and Yale; without their files they are skipped.
"""

from itertools import islice
from math import cos, pi, sqrt

import numpy as np
import pytest

from instances import (
    build_problem,
    from_lists,
    plain_rows,
    sine_problem,
    sine_tasks,
    write_out,
)
from priormtl.data import pooled_scale, summarize_tasks, to_tasks
from priormtl.datasets import load_school, load_yale
from priormtl.losses import FreeIntercepts, Squared
from priormtl.penalties import L21
from priormtl.priors import FeaturePrior, TaskPrior, difference_matrix, laplacian
from priormtl.problem import (
    Curvature,
    Problem,
    QuadraticPrior,
    bound_constants,
    exact_constants,
    paper_constants,
)
from priormtl.solvers import (
    Fista,
    Gd,
    IstaReverse,
    Linear,
    gap_below,
    iterate,
    max_iter,
    solve,
)

pytestmark = pytest.mark.slow  # thousands of steps each
NO_PAIRS = FeaturePrior.similar([])


def fixed(sigma, largest):
    """Constants that are given, not found."""
    return lambda problem: Curvature(sigma, largest)


def optimum(problem):
    rules = [gap_below(1e-14), max_iter(50_000)]
    return solve(problem, Fista(restart=True), stop=rules).certificate.primal


def smooth_optimum(problem):
    """Optimal value for lam = 0, by one linear system."""
    H = write_out(problem.majorant, problem.shape)
    P = -np.linalg.lstsq(H, problem.null_point.gradient.ravel(), rcond=None)[0]
    return problem.objective(problem.at(P.reshape(problem.shape)))


def objectives(problem, method, steps):
    """Objective before each step; it ends early beyond all bounds."""
    return _until_lost(
        problem, (p.objective for p in islice(iterate(problem, method), steps + 1))
    )


def fixed_step_objectives(problem, largest, steps, momentum):
    """Accelerated proximal gradient with steps 1/L, outside the library."""
    return _until_lost(
        problem, islice(_fixed_steps(problem, largest, momentum), steps + 1)
    )


def _fixed_steps(problem, largest, momentum):
    before = point = ahead = problem.null_point
    while True:
        yield problem.objective(point)
        target = ahead.coef - ahead.gradient / largest
        before, point = point, problem.at(problem.prox(target, 1.0 / largest))
        wrong_way = np.vdot(ahead.coef - point.coef, point.coef - before.coef) > 0
        amount = momentum.send(wrong_way)
        ahead = problem.at(point.coef + amount * (point.coef - before.coef))


def fista_momentum(restart=False):
    """Beck and Teboulle's sequence, as a generator that is told of wrong ways."""
    t, amount = 1.0, None
    while True:
        wrong_way = yield amount
        if restart and wrong_way:
            t, amount = 1.0, 0.0
        else:
            t, amount = _next_t(t)


def _next_t(t):
    following = (1.0 + sqrt(1.0 + 4.0 * t * t)) / 2.0
    return following, (t - 1.0) / following


def constant_momentum(amount):
    while True:
        yield amount


def primed(momentum):
    next(momentum)
    return momentum


def fista(problem, largest, steps, restart=False):
    return fixed_step_objectives(
        problem, largest, steps, primed(fista_momentum(restart))
    )


def _until_lost(problem, values):
    kept = []
    with np.errstate(over="ignore", invalid="ignore"):
        for value in values:
            kept.append(value)
            if not value < 1e25 * problem.null_objective:
                break
    return np.array(kept)


def steps_to(values, best, tol=1e-8):
    """First step within ``tol`` of the optimum, relatively."""
    return int(np.argmax(values - best <= tol * best))


def scalar_tasks(m):
    """One feature, one row of 0.1 per task, targets of changing sign."""
    y = [np.array([(-1.0) ** i]) for i in range(m)]
    data = from_lists([np.array([[0.1]])] * m, y)
    return build_problem(data, lam=0.0, epsilon=1.0, pairs=NO_PAIRS)


def aligned_tasks(m, epsilon, ties=None):
    """Two features, only the first one measured, targets of changing sign."""
    y = [np.array([(-1.0) ** i, 0.0]) for i in range(m)]
    data = from_lists([np.diag([1.0, 0.0])] * m, y)
    return build_problem(data, lam=0.0, epsilon=epsilon, pairs=NO_PAIRS, ties=ties)


def consensus_curvature(data, theta):
    """μ, the smallest eigenvalue of H among equal columns (no pairs beyond ours)."""
    mean = sum(X.T @ X for X, _, _ in plain_rows(data)) / len(data.tasks)
    D = np.zeros((2, data.shape[0]))
    D[0, :2] = D[1, 2:4] = [1.0, -1.0]
    return np.linalg.eigvalsh(mean + theta * D.T @ D)[0]


def lower_bound(data, theta, epsilon):
    """σ_lb, a closed-form positive lower bound of the smallest eigenvalue."""
    m = len(data.tasks)
    D = np.zeros((2, data.shape[0]))
    D[0, :2] = D[1, 2:4] = [1.0, -1.0]
    blocks = [X.T @ X + theta * D.T @ D for X, _, _ in plain_rows(data)]
    top = max(np.linalg.eigvalsh(block)[-1] for block in blocks)
    mu, g = consensus_curvature(data, theta), epsilon * (2 - 2 * cos(pi / m))
    total = mu + top + g
    return 2 * mu * g / (total + sqrt(total**2 - 4 * mu * g))


def test_t01_chain_eigenvalues_are_the_closed_forms():
    for m in range(2, 51):
        values = np.linalg.eigvalsh(laplacian(TaskPrior.chain(), range(m)).dense())
        assert values[-1] == pytest.approx(2 + 2 * cos(pi / m), abs=1e-12)
        assert values[1] == pytest.approx(2 - 2 * cos(pi / m), abs=1e-12)
        assert values[0] == pytest.approx(0.0, abs=1e-12)
    assert laplacian(TaskPrior.chain(), range(1)).largest_eigenvalue == 0.0


def test_t02_papers_smoothness_is_too_small_for_aligned_blocks():
    data = from_lists([np.diag([1.0, 0.5, 0.25])] * 6, [np.ones(3)] * 6)
    problem = build_problem(data, lam=0.0, epsilon=1.0, pairs=NO_PAIRS)
    assert exact_constants(problem).smoothness == pytest.approx(4.7320508, abs=1e-7)
    assert bound_constants(problem).smoothness == pytest.approx(4.7320508, abs=1e-7)
    assert paper_constants(problem).smoothness == pytest.approx(3.0)


@pytest.mark.parametrize("m", [4, 5])
def test_t03_acceleration_blows_up_on_scalar_tasks(m):
    problem = scalar_tasks(m)
    best, start = smooth_optimum(problem), problem.null_objective
    wrong = paper_constants(problem)
    plain = objectives(problem, Gd(paper_constants), 2000)
    assert (plain[-1] - best) / best < 1e-8
    assert fista(problem, wrong.smoothness, 2000).max() > 1e20 * start
    linear = objectives(problem, Linear(paper_constants), 2000)
    if m < 5:
        assert (linear[-1] - best) / best < 1e-8
    else:
        assert linear.max() > 1e20 * start


@pytest.mark.parametrize("m", [4, 5])
def test_t03_the_right_smoothness_cures_it(m):
    problem = scalar_tasks(m)
    best = smooth_optimum(problem)
    largest = exact_constants(problem).smoothness
    sigma = paper_constants(problem).strong_convexity
    linear = objectives(problem, Linear(fixed(sigma, largest)), 2000)
    assert (linear[-1] - best) / best < 1e-7
    assert (fista(problem, largest, 2000)[-1] - best) / best < 1e-7


@pytest.mark.parametrize(
    ("m", "bounded", "diverging"), [(8, 1.25, 1.35), (20, 0.93, 0.98)]
)
def test_t04_linear_with_papers_constants_diverges_beyond_a_threshold(
    m, bounded, diverging
):
    method = Linear(paper_constants)
    lost = objectives(aligned_tasks(m, diverging), method, 20_000)
    assert lost.max() > 1e20 * lost[0]
    # As many steps as it takes to diverge on the other side of the threshold.
    kept = objectives(aligned_tasks(m, bounded), method, len(lost))
    assert kept.max() <= 10 * kept[0]


def test_t04_linear_never_diverges_for_four_tasks():
    values = objectives(aligned_tasks(4, 1000.0), Linear(paper_constants), 3_000)
    assert values.max() <= 10 * values[0]


@pytest.mark.parametrize(
    ("m", "bounded", "diverging"), [(3, 0.9, 1.1), (20, 0.24, 0.27)]
)
def test_t04_fista_with_papers_step_diverges_beyond_a_threshold(m, bounded, diverging):
    for epsilon, lost in ((bounded, False), (diverging, True)):
        problem = aligned_tasks(m, epsilon)
        values = fista(problem, paper_constants(problem).smoothness, 5_000)
        assert (values.max() > 1e20 * values[0]) == lost
        assert lost or values.max() <= 10 * values[0]


@pytest.mark.parametrize(("epsilon", "lost"), [(0.45, False), (0.55, True)])
def test_even_gd_diverges_with_papers_step_where_all_tasks_are_tied(epsilon, lost):
    complete = TaskPrior.mean(weight=6.0)
    values = objectives(aligned_tasks(6, epsilon, complete), Gd(paper_constants), 5000)
    assert (values.max() > 1e20 * values[0]) == lost
    assert lost or values.max() <= values[0]


def test_t05_accelerated_methods_diverge_with_papers_constants_on_eight_tasks():
    problem = sine_problem(m=8, d=5, lam=0.05, epsilon=50.0)
    start, best = problem.null_objective, optimum(problem)
    exact, bound = exact_constants(problem), bound_constants(problem)
    wrong = paper_constants(problem).smoothness
    assert start == pytest.approx(201.726377141, abs=1e-8)
    assert best == pytest.approx(42.130942286, abs=1e-8)
    assert wrong == pytest.approx(111.840059, abs=1e-5)
    assert bound.smoothness == pytest.approx(204.228013, abs=1e-5)
    assert exact == pytest.approx((1.625117, 197.845473), abs=1e-5)
    assert objectives(problem, Linear(paper_constants), 5000).max() > 1e6 * start
    for restart in (False, True):
        assert fista(problem, wrong, 5000, restart=restart).max() > 1e6 * start
    plain = objectives(problem, Gd(paper_constants), 700)
    assert np.all(np.diff(plain) <= 1e-12 * start)
    assert 0 < steps_to(plain, best) < 700


def test_t06_repairing_only_the_strong_convexity_makes_it_worse():
    problem = sine_problem(m=4, d=5, lam=0.05, epsilon=50.0)
    best, start = optimum(problem), problem.null_objective
    wrong, bound = paper_constants(problem), bound_constants(problem)
    sigma = exact_constants(problem).strong_convexity
    assert best == pytest.approx(10.611407457, abs=1e-8)
    papers = objectives(problem, Linear(paper_constants), 3000)
    assert steps_to(papers, best) > 0
    half = objectives(problem, Linear(fixed(sigma, wrong.smoothness)), 5000)
    assert half.max() > 1e6 * start
    right = objectives(problem, Linear(fixed(sigma, bound.smoothness)), 400)
    assert 0 < steps_to(right, best) <= 260
    slow = fixed(wrong.strong_convexity, bound.smoothness)
    assert steps_to(objectives(problem, Linear(slow), 4000), best) >= 1500


def test_t07_claimed_rate_is_false_with_papers_strong_convexity():
    problem = sine_problem(m=4, d=5, lam=0.05, epsilon=50.0)
    rules = [gap_below(1e-14), max_iter(50_000)]
    solution = solve(problem, Fista(restart=True), stop=rules)
    largest = bound_constants(problem).smoothness
    size = np.sum(solution.coef**2)

    def excess_and_claim(sigma):
        values = objectives(problem, Linear(fixed(sigma, largest)), 300)
        excess = values - solution.certificate.primal
        rate = 1 - sqrt(sigma / largest)
        return excess, rate ** np.arange(301) * (excess[0] + 0.5 * sigma * size)

    excess, claim = excess_and_claim(paper_constants(problem).strong_convexity)
    assert excess[50] > 1
    assert claim[50] < 1e-10
    excess, claim = excess_and_claim(exact_constants(problem).strong_convexity)
    assert np.all(excess <= claim + 1e-12 * problem.null_objective)


def test_t08_smallest_eigenvalue_does_not_grow_with_the_ties():
    data, found = sine_tasks(4, 5), []
    mu = consensus_curvature(data, 0.5)
    assert mu == pytest.approx(0.391969, abs=1e-6)
    for epsilon in np.geomspace(1e-2, 1e4, 7):
        problem = sine_problem(m=4, d=5, epsilon=epsilon)
        found.append(exact_constants(problem).strong_convexity)
        assert lower_bound(data, 0.5, epsilon) <= found[-1] <= mu
    assert found == sorted(found)


@pytest.mark.parametrize(("d", "rank"), [(5, 5), (40, 13)])
def test_t09_strong_convexity_needs_full_rank_of_all_rows_together(d, rank):
    X = np.vstack([rows for rows, _, _ in plain_rows(sine_tasks(4, d))])
    sigma = exact_constants(sine_problem(m=4, d=d, epsilon=5.0)).strong_convexity
    assert np.linalg.matrix_rank(X, tol=1e-8) == rank
    assert (sigma > 1e-10) == (rank == d)


def test_t10_papers_strong_convexity_can_also_be_too_small():
    X = [np.array([[x]]) for x in (sqrt(10), 1.0, sqrt(10))]
    problem = build_problem(
        from_lists(X, [np.ones(1)] * 3), lam=0.0, epsilon=1.0, pairs=NO_PAIRS
    )
    sigma = exact_constants(problem).strong_convexity
    assert sigma == pytest.approx(7 - sqrt(18))
    assert paper_constants(problem).strong_convexity == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("m", "choice", "steps"),
    [(8, "paper", 3000), (4, "exact", 1500), (4, "huge", 4000)],
)
def test_t11_any_strong_convexity_converges_with_a_valid_smoothness(m, choice, steps):
    problem = sine_problem(m=m, d=5, lam=0.05, epsilon=50.0)
    largest = bound_constants(problem).smoothness
    sigma = {
        "paper": paper_constants(problem).strong_convexity,
        "exact": exact_constants(problem).strong_convexity,
        "huge": 0.9 * largest,
    }[choice]
    run = islice(iterate(problem, Linear(fixed(sigma, largest))), steps)
    values, energies, before = [], [], problem.null_point
    for progress in run:
        move = progress.state.point.coef - before.coef
        values.append(progress.objective)
        energies.append(values[-1] + 0.5 * largest * np.sum(move**2))
        before = progress.state.point
    assert np.all(np.diff(energies) <= 1e-9)
    best = optimum(problem)
    assert max(values[-1000:]) - best <= 1e-6 * best


def test_t12_restart_is_fast_where_strong_convexity_is_absent():
    problem = sine_problem(m=8, d=40, lam=2.0, epsilon=5.0)
    best, largest = optimum(problem), bound_constants(problem).smoothness
    assert best == pytest.approx(39.317959908, abs=1e-8)
    restarted = fista(problem, largest, 400, restart=True)
    assert 0 < steps_to(restarted, best) <= 250
    fallback = objectives(problem, Linear(fixed(0.0, largest)), 400)
    assert 0 < steps_to(fallback, best) <= 250
    drifting = fixed_step_objectives(
        problem, largest, 1500, primed(constant_momentum(1.0))
    )
    assert np.all(drifting - best > 1e-8 * best)


def test_t13_only_unbalanced_signs_bound_the_relations_from_below():
    balanced = FeaturePrior.similar([(0, 1), (1, 2), (0, 2)])
    unbalanced = FeaturePrior.similar([(0, 1), (1, 2)])
    unbalanced = unbalanced + FeaturePrior.opposite([(0, 2)])
    data = from_lists([np.eye(3)], [np.ones(3)])
    spectra = [
        build_problem(data, lam=0.0, theta=1.0, pairs=pairs).prior.relation_spectrum()
        for pairs in (balanced, unbalanced)
    ]
    assert spectra[0][0] == pytest.approx(0.0, abs=1e-12)
    assert spectra[1][0] == pytest.approx(1.0)


def test_t14_papers_smoothness_can_be_large_enough():
    problem = sine_problem(m=4, d=5, lam=0.6, epsilon=0.8)
    exact, wrong = exact_constants(problem), paper_constants(problem)
    assert optimum(problem) == pytest.approx(13.6109503031, abs=1e-9)
    assert wrong.smoothness == pytest.approx(8.97088308, abs=1e-7)
    assert exact == pytest.approx((0.27500189, 8.81384860), abs=1e-7)
    bound = lower_bound(sine_tasks(4, 5), 0.5, 0.8)
    assert bound == pytest.approx(0.02348335, abs=1e-7)


@pytest.mark.parametrize(
    ("constants", "fails"), [(paper_constants, True), (bound_constants, False)]
)
def test_t15_reversed_search_has_no_admissible_start_with_papers_step(constants, fails):
    problem = sine_problem(m=4, d=5, lam=0.05, epsilon=50.0)
    method = IstaReverse(shrink=0.8, constants=constants)
    values, failures = [], 0
    for progress in islice(iterate(problem, method), 1000):
        values.append(progress.objective)
        failures += progress.state.curvature > progress.state.largest
    assert (failures > 0) == fails
    assert np.all(np.diff(values) <= 1e-12 * values[0])


# The paper's own data.


def school_problem(data_home, *, rows=None, theta=0.0, epsilon=10.0):
    """School as in Figure 1: features of variance one, free intercepts."""
    X, y, task = load_school(data_home=data_home)
    rng = np.random.default_rng(0)
    drawn = [
        rng.permutation(np.flatnonzero(task == name))[:rows] for name in np.unique(task)
    ]
    chosen = np.concatenate(drawn)
    statistics = summarize_tasks(to_tasks(X[chosen], y[chosen], task[chosen]))
    statistics = statistics.rescale(pooled_scale(statistics))
    prior = FeaturePrior.from_correlation(strongest=X.shape[1])
    D = difference_matrix(prior, statistics)
    graph = laplacian(TaskPrior.chain(), statistics.tasks)
    fit = Squared().bind(statistics, FreeIntercepts())
    problem = Problem(fit, QuadraticPrior(D, graph, theta, epsilon), L21(), 1.0)
    return problem.with_strengths(lam=0.1 * problem.lam_max)


def test_school_has_no_strong_convexity_unless_a_prior_adds_it(data_home):
    X, _, task = load_school(data_home=data_home)
    centred = np.vstack(
        [X[task == t] - X[task == t].mean(axis=0) for t in np.unique(task)]
    )
    rank = np.linalg.matrix_rank(centred)
    assert rank < X.shape[1] == 27
    for epsilon in (1.0, 10.0, 1e3):
        sigma, largest = exact_constants(school_problem(data_home, epsilon=epsilon))
        assert sigma <= 1e-9 * largest
    # The relations of Figure 1 tie what the data leave open.
    sigma, _ = exact_constants(school_problem(data_home, rows=20, theta=10.0))
    assert 1e-3 < sigma < 1.0
    wrong = paper_constants(school_problem(data_home, rows=20, theta=10.0))
    assert wrong.strong_convexity == pytest.approx(10.0)


def test_on_school_algorithm_3_diverges_with_papers_constants_at_strong_ties(data_home):
    problem = school_problem(data_home, rows=20, theta=10.0, epsilon=5000.0)
    start = problem.null_objective
    assert exact_constants(problem).smoothness > 1.7 * paper_constants(problem)[1]
    assert objectives(problem, Linear(paper_constants), 2000).max() > 1e20 * start
    assert objectives(problem, Linear(exact_constants), 200).max() <= start


def test_on_yale_algorithm_3_diverges_within_the_papers_range_of_ties(data_home):
    X, y, task = load_yale(data_home=data_home)
    # Every second pixel both ways, to be quick; images of norm one.
    X = X.reshape(-1, 32, 32)[:, ::2, ::2].reshape(len(X), -1)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    names = np.unique(task)
    data = from_lists(
        [X[task == t][::2] for t in names], [y[task == t][::2] for t in names]
    )
    pair = FeaturePrior.similar([(0, 1)])
    problem = build_problem(data, lam=0.1, theta=1.0, epsilon=100.0, pairs=pair)
    start = problem.null_objective
    assert objectives(problem, Linear(paper_constants), 90).max() > 1e6 * start
    assert objectives(problem, Linear(bound_constants), 90).max() <= start
