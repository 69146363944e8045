"""Every method against an independent solver, on hundreds of small random problems.

The reference is written in cvxpy from raw rows, with explicit intercepts and explicit
sums over relations and ties: it shares no matrix and no moment with the library.
"""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from warnings import catch_warnings, simplefilter

import cvxpy as cp
import numpy as np
import pytest
from scipy.sparse import csr_array, vstack
from sklearn.linear_model import MultiTaskLasso

from instances import from_lists
from priormtl.data import condense, from_columns
from priormtl.losses import (
    FreeIntercepts,
    Logistic,
    NoIntercepts,
    Squared,
    TiedIntercepts,
)
from priormtl.penalties import L21, Nuclear, RowConstraints
from priormtl.priors import FeaturePrior, TaskPrior, difference_matrix, laplacian
from priormtl.problem import Problem, QuadraticPrior
from priormtl.solvers import (
    METHODS,
    Fista,
    History,
    Solver,
    StopReason,
    gap_below,
    max_iter,
    solve,
)

SEEDS_PER_TEST = 10
# 10 problems in the quick tests, the other 190 in the slow ones.
BATCHES = [pytest.param(k, marks=pytest.mark.slow if k >= 1 else ()) for k in range(20)]
FEWEST_WITHOUT_PENALTY = 25  # rows of a task
LAM_RATIOS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.1)
INTERCEPT_STRENGTH = 1.5


@dataclass(frozen=True, eq=False)
class Case:
    """One random problem, in plain numbers."""

    rows: list  # (X, y, weight) of each task
    shared: tuple | None  # (X, Y with gaps, weight) where tasks share X
    logistic: bool
    intercepts: str
    penalty: str
    feature_weights: np.ndarray | None
    relations: list  # (a, b, sign, weight)
    edges: list  # (i, k, weight) between means of tasks i and of tasks k
    groups: list  # (members, weight) around their mean
    ties: TaskPrior = field(repr=False)
    tie_weights: np.ndarray | None
    theta: float
    epsilon: float
    lam_ratio: float
    values: list = ()  # (row of D, target (m,)): what is known about coefficients
    signs: np.ndarray | None = None
    common: np.ndarray | None = None

    @property
    def shape(self):
        return self.rows[0][0].shape[1], len(self.rows)


def draw_case(seed, fewest_rows=1):
    rng = np.random.default_rng(seed)
    d, m = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    logistic = bool(rng.integers(2))
    # Tied logistic intercepts take ten times as long per step: fewer, easier ones.
    shares = (0.35, 0.45, 0.2) if logistic else (0.3, 0.3, 0.4)
    intercepts = str(rng.choice(["free", "absent", "tied"], p=shares))
    hardest = {"free": 1, "absent": 0, "tied": 4}[intercepts] if logistic else 0
    shared, rows = draw_rows(rng, d, m, logistic, fewest_rows)
    if logistic and intercepts != "absent":
        show_both_classes(rows, shared, intercepts)
    ties, edges, groups = draw_ties(rng, m)
    return Case(
        rows=rows,
        shared=shared,
        logistic=logistic,
        intercepts=intercepts,
        penalty=str(rng.choice(["l21", "nuclear"])),
        feature_weights=rng.uniform(0.3, 3.0, d) if rng.random() < 0.4 else None,
        relations=draw_relations(rng, d),
        edges=edges,
        groups=groups,
        ties=ties,
        tie_weights=rng.uniform(0.0, 3.0, d) if rng.random() < 0.3 else None,
        theta=float(rng.choice([0.0, 0.3, 2.0])),
        epsilon=float(rng.choice([0.0, 0.3, 2.0])),
        lam_ratio=float(rng.choice(LAM_RATIOS[hardest:])),
    )


def draw_rows(rng, d, m, logistic, fewest):
    """Rows of each task, and the table they come from where tasks share X."""
    truth = rng.normal(size=(d, m)) * (rng.random((d, 1)) < 0.7)
    if rng.random() < 0.3:
        X = draw_matrix(rng, int(rng.integers(fewest + 1, fewest + 10)), d)
        Y = draw_targets(rng, X @ truth, logistic)
        weight = rng.uniform(0.3, 2.0, Y.shape) if rng.random() < 0.5 else None
        gaps = rng.random(Y.shape) < (0.3 if rng.random() < 0.6 else 0.0)
        gaps[:2] = False
        Y = np.where(gaps, np.nan, Y)
        return (X, Y, weight), [measured(X, Y, weight, i) for i in range(m)]
    rows = []
    weighted = rng.random() < 0.4
    for i in range(m):
        X = draw_matrix(rng, int(rng.integers(fewest, fewest + 10)), d)
        y = draw_targets(rng, X @ truth[:, i], logistic)
        rows.append(
            (X, y, rng.uniform(0.3, 2.0, len(y)) if weighted else np.ones(len(y)))
        )
    return None, rows


def draw_matrix(rng, n, d):
    """Gaussian columns; now and then one is constant, zero, or a copy."""
    X = rng.normal(size=(n, d)) + rng.normal(size=d) * (rng.random() < 0.5)
    special = rng.choice(["none", "none", "constant", "zero", "copy"])
    if special == "constant":
        X[:, -1] = 1.0
    if special == "zero":
        X[:, -1] = 0.0
    if special == "copy":
        X[:, -1] = X[:, 0]
    return X


def draw_targets(rng, scores, logistic):
    y = scores + 0.7 * rng.normal(size=scores.shape)
    if not logistic:
        return y + 1.0
    y = np.where(y >= 0, 1.0, -1.0)
    if len(y) >= FEWEST_WITHOUT_PENALTY:
        y[::5] *= -1.0  # separable tasks have no optimum without a penalty
    return y


def measured(X, Y, weight, i):
    kept = ~np.isnan(Y[:, i])
    weights = np.ones(len(Y)) if weight is None else weight[:, i]
    return X[kept], Y[kept, i], weights[kept]


def show_both_classes(rows, shared, intercepts):
    """Change targets so that intercepts are finite at the optimum."""
    if shared is not None:
        shared[1][0], shared[1][1] = 1.0, -1.0
        rows[:] = [measured(*shared, i) for i in range(len(rows))]
        return
    # Tied intercepts are finite as soon as one task has both classes.
    for i in range(len(rows)) if intercepts == "free" else (0,):
        X, y, weight = rows[i]
        if len(y) == 1:
            X, y, weight = np.vstack([X, 1 - X]), np.r_[y, -y], np.r_[weight, weight]
        y[0], y[-1] = 1.0, -1.0
        rows[i] = X, y, weight


def draw_relations(rng, d):
    """Pairs that are alike (+1) or opposite (−1), with weights."""
    if d < 2:
        return []
    found = []
    for _ in range(int(rng.integers(0, 4))):
        a, b = rng.choice(d, 2, replace=False)
        found.append((int(a), int(b), rng.choice([1.0, -1.0]), rng.uniform(0.5, 2.0)))
    return found


def draw_ties(rng, m):
    """A task prior, with the edges and groups that it stands for."""
    kind, weight = rng.choice(["chain", "order", "mean", "groups", "graph"]), 1.3
    everyone = list(range(m))
    if kind == "chain":
        return TaskPrior.chain(), [([i], [i + 1], 1.0) for i in range(m - 1)], []
    if kind == "order":
        walk = [int(i) for i in rng.permutation(m)]
        edges = [([i], [k], weight) for i, k in pairwise(walk)]
        return TaskPrior.chain(walk, weight), edges, []
    if kind == "mean":
        return TaskPrior.mean(weight), [], [(everyone, weight)]
    if kind == "groups":
        parts = {"a": everyone[: (m + 1) // 2], "b": everyone[m // 2 :]}
        groups = [(group, 1.0) for group in parts.values()]
        if m % 2:  # they overlap
            return TaskPrior.groups(parts), [], groups
        # Two nested groups: their means differ by three edges in series.
        between = 1.0 / (4.0 / m + 2.0 / weight)
        parents = {i: name for name, group in parts.items() for i in group}
        edges = [(*parts.values(), between)]
        return TaskPrior.nested(parents, between=weight), edges, groups
    edges = [(i, k, 0.5 + i + k) for i in everyone for k in range(i) if (i + k) % 3]
    plain = [([i], [k], weight) for i, k, weight in edges]
    return TaskPrior.from_graph(edges), plain, []


def draw_statements(case, seed):
    """The same with known values, signs and common effects."""
    rng = np.random.default_rng(10_000 + seed)
    d, m = case.shape
    values = [
        (rng.normal(size=d) * (rng.random(d) < 0.6), rng.normal(size=m))
        for _ in range(int(rng.integers(0, 3)))
    ]
    signs = rng.choice([-1.0, 0.0, 1.0], d) * (rng.random() < 0.8)
    common = (rng.random(d) < 0.4) & (rng.random() < 0.6)
    return replace(case, values=values, signs=signs, common=common, penalty="l21")


def library_problem(case):
    m = len(case.rows)
    data = from_lists(*zip(*case.rows, strict=True))
    if case.shared is not None:
        data = from_columns(*case.shared)
    pairs = FeaturePrior.similar([])
    for a, b, sign, weight in case.relations:
        make = FeaturePrior.similar if sign > 0 else FeaturePrior.opposite
        pairs = pairs + make([(a, b)], weight)
    D, target = difference_matrix(pairs, condense(data)), None
    if case.values:
        known, rights = map(np.array, zip(*case.values, strict=True))
        target = np.vstack([np.zeros((D.shape[0], m)), rights])
        D = csr_array(vstack([D, csr_array(known)]))
    graph = laplacian(case.ties, range(m))
    strengths = case.theta, case.epsilon
    prior = QuadraticPrior(D, graph, *strengths, case.tie_weights, target)
    kinds = {
        "free": FreeIntercepts(),
        "absent": NoIntercepts(),
        "tied": TiedIntercepts(
            laplacian(TaskPrior.mean(), range(m)), INTERCEPT_STRENGTH
        ),
    }
    fit = (Logistic() if case.logistic else Squared()).bind(
        data, kinds[case.intercepts]
    )
    penalty = L21(case.feature_weights) if case.penalty == "l21" else Nuclear()
    if case.signs is not None:
        penalty = L21(case.feature_weights, RowConstraints(case.signs, case.common))
    problem = Problem(fit, prior, penalty, 1.0)
    return problem.with_strengths(lam=case.lam_ratio * max(problem.lam_max, 0.01))


def plain_objective(case, lam, P, b):
    """What is minimised, term by term, in numpy."""
    norm = np.linalg.norm(P, "nuc")
    if case.penalty == "l21":
        weights = 1.0 if case.feature_weights is None else case.feature_weights
        norm = np.sum(weights * np.linalg.norm(P, axis=1))
    total = lam * norm + plain_prior(case, P)
    if case.intercepts == "tied":
        total += 0.5 * INTERCEPT_STRENGTH * np.sum((b - b.mean()) ** 2)
    for i, (X, y, weight) in enumerate(case.rows):
        scores = X @ P[:, i] + b[i]
        cost = np.logaddexp(0, -y * scores) if case.logistic else (scores - y) ** 2 / 2
        total += weight @ cost
    return total


def plain_prior(case, P):
    t = np.ones(len(P)) if case.tie_weights is None else case.tie_weights
    total = 0.0
    for a, b, sign, weight in case.relations:
        total += 0.5 * case.theta * weight * np.sum((P[a] - sign * P[b]) ** 2)
    for row, target in case.values:
        total += 0.5 * case.theta * np.sum((row @ P - target) ** 2)
    for i, k, weight in case.edges:
        gap = P[:, i].mean(axis=1) - P[:, k].mean(axis=1)
        total += 0.5 * case.epsilon * weight * t @ gap**2
    for members, weight in case.groups:
        spread = P[:, members] - P[:, members].mean(axis=1, keepdims=True)
        total += 0.5 * case.epsilon * weight * t @ np.sum(spread**2, axis=1)
    return total


def reference(case, lam):
    """Coefficients and intercepts by cvxpy."""
    d, m = case.shape
    P, b = cp.Variable((d, m)), cp.Variable(m)
    terms = [*misfit_terms(case, P, b), *prior_terms(case, P)]
    if case.penalty == "nuclear":
        terms.append(lam * cp.normNuc(P))
    else:
        weights = np.ones(d) if case.feature_weights is None else case.feature_weights
        terms += [lam * weights[j] * cp.norm(P[j], 2) for j in range(d)]
    limits = [b == 0] if case.intercepts == "absent" else []
    if case.intercepts == "tied":
        terms.append(0.5 * INTERCEPT_STRENGTH * cp.sum_squares(b - cp.sum(b) / m))
    if case.signs is not None:
        limits += [case.signs[j] * P[j] >= 0 for j in np.flatnonzero(case.signs)]
        limits += [P[j] == P[j, 0] for j in np.flatnonzero(case.common)]
    run(cp.Problem(cp.Minimize(cp.sum(terms)), limits))
    return P.value, b.value


def misfit_terms(case, P, b):
    for i, (X, y, weight) in enumerate(case.rows):
        scores = X @ P[:, i] + b[i]
        if case.logistic:
            yield weight @ cp.logistic(cp.multiply(-y, scores))
        else:
            yield 0.5 * cp.sum_squares(cp.multiply(np.sqrt(weight), scores - y))


def prior_terms(case, P):
    t = np.ones(P.shape[0]) if case.tie_weights is None else case.tie_weights
    if case.theta > 0:
        for a, b, sign, weight in case.relations:
            yield 0.5 * case.theta * weight * cp.sum_squares(P[a] - sign * P[b])
        for row, target in case.values:
            yield 0.5 * case.theta * cp.sum_squares(row @ P - target)
    if case.epsilon > 0:
        for i, k, weight in case.edges:
            means = [cp.sum(P[:, part], axis=1) / len(part) for part in (i, k)]
            gap = cp.multiply(np.sqrt(t), means[0] - means[1])
            yield 0.5 * case.epsilon * weight * cp.sum_squares(gap)
        for members, weight in case.groups:
            mean = cp.sum(P[:, members], axis=1) / len(members)
            for i in members:
                gap = cp.multiply(np.sqrt(t), P[:, i] - mean)
                yield 0.5 * case.epsilon * weight * cp.sum_squares(gap)


def run(problem):
    """Clarabel; SCS only where it fails."""
    with catch_warnings():
        simplefilter("ignore")
        try:
            problem.solve(solver=cp.CLARABEL)
        except cp.SolverError:
            problem.solve(solver=cp.SCS, eps=1e-9, max_iters=100_000)


def close_enough(progress):
    """Half of what is asked for, relative to the objective itself."""
    if progress.n_iter > 10 and progress.n_iter % 10:
        return None
    close = progress.certificate.gap <= 5e-7 * progress.objective
    return StopReason.GAP if close else None


def check_case(case, names, label):
    """Objectives agree, and no gap on the way is below the true distance."""
    problem, (d, m) = library_problem(case), case.shape
    unit = plain_objective(case, 0.0, np.zeros((d, m)), np.zeros(m))
    found, intercept = reference(case, problem.lam)
    if problem.constraints is not None:
        found = problem.constraints.project(found)
    best = plain_objective(case, problem.lam, found, intercept)
    seen = []
    for name in names:
        history = History(every=3)
        method = Solver(name).choose(problem)
        rules = [close_enough, max_iter(20_000)]
        solution = solve(problem, method, stop=rules, callbacks=[history])
        plain = plain_objective(case, problem.lam, solution.coef, solution.intercept)
        primal = solution.certificate.primal
        assert primal == pytest.approx(plain, rel=1e-9, abs=1e-12 * unit), (label, name)
        assert plain == pytest.approx(best, rel=1e-6, abs=1e-9 * unit), (label, name)
        if problem.constraints is not None:
            assert np.all(case.signs[:, np.newaxis] * solution.coef >= 0), (label, name)
            assert not np.ptp(solution.coef[case.common], axis=1).any(), (label, name)
        seen += history.rows
    lowest = min(best, *(row.objective for row in seen))
    for row in seen:
        assert row.gap >= row.objective - lowest - 1e-11 * unit, label


def turn(seed):
    """The default method, and two of the paper's five: they take turns."""
    names = list(METHODS)
    return "auto", names[seed % 5], names[(seed + 2) % 5]


@pytest.mark.parametrize("batch", BATCHES)
def test_all_methods_agree_with_an_independent_solver(batch):
    for seed in range(batch * SEEDS_PER_TEST, (batch + 1) * SEEDS_PER_TEST):
        check_case(draw_case(seed), turn(seed), seed)


@pytest.mark.parametrize(
    "batch", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2, 3))]
)
def test_without_a_penalty_newton_and_fista_agree_with_it_too(batch):
    for seed in range(1000 + batch * 10, 1010 + batch * 10):
        case = replace(draw_case(seed, FEWEST_WITHOUT_PENALTY), lam_ratio=0.0)
        check_case(case, ("auto", "fista"), seed)


@pytest.mark.parametrize("batch", BATCHES[:10])
def test_known_values_signs_and_common_effects_agree_with_it_too(batch):
    for seed in range(batch * SEEDS_PER_TEST, (batch + 1) * SEEDS_PER_TEST):
        case = draw_statements(draw_case(seed), seed)
        check_case(case, turn(seed), seed)


@pytest.mark.parametrize(
    "batch", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2, 3))]
)
def test_without_a_penalty_they_agree_as_well(batch):
    for seed in range(1000 + batch * 10, 1010 + batch * 10):
        case = draw_statements(draw_case(seed, FEWEST_WITHOUT_PENALTY), seed)
        check_case(replace(case, lam_ratio=0.0), ("auto", "fista"), seed)


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5])
def test_without_priors_it_is_scikit_learns_multi_task_lasso(alpha):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 12)) + 1.0
    Y = X[:, :4] @ rng.normal(size=(4, 5)) + rng.normal(size=(40, 5)) - 2.0
    theirs = MultiTaskLasso(alpha=alpha, tol=1e-12, max_iter=100_000).fit(X, Y)
    fit = Squared().bind(from_columns(X, Y), FreeIntercepts())
    problem = Problem(fit, QuadraticPrior.none(12, 5), L21(), alpha * len(X))
    ours = solve(
        problem, Fista(restart=True), stop=[gap_below(1e-13), max_iter(20_000)]
    )
    np.testing.assert_allclose(ours.coef.T, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.intercept, theirs.intercept_, atol=1e-6)
