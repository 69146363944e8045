"""REML: the likelihood that the covariance of y defines, and its most likely ties."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.optimize import minimize
from scipy.sparse import csr_array
from statsmodels.regression.mixed_linear_model import MixedLM

from instances import kind_of_intercepts, plain_rows, random_tasks, turns, with_signs
from priormtl import MultiTaskRegressor
from priormtl.data import condense, from_columns, from_labels, summarize_tasks
from priormtl.losses import (
    FreeIntercepts,
    Logistic,
    NoIntercepts,
    SquaredFit,
    TiedIntercepts,
)
from priormtl.priors import TaskPrior, laplacian
from priormtl.problem.elimination import Elimination, TieGraph
from priormtl.reml import (
    Families,
    Ties,
    estimate_family_ties,
    estimate_ties,
    models,
    ties,
)
from priormtl.reml.models import GraphModel, ModeModel, StarModel
from priormtl.reml.ties import Components, Evidence

SPREAD = np.array([0.7, 0.4, 0.1, 1.0])  # of intercepts and three slopes
KINDS = ("free", "absent", "tied")
PRIORS = {
    "mean": TaskPrior.mean(),
    "chain": TaskPrior.chain(weight=0.5),
    "in pieces": TaskPrior.from_graph([(0, 1), (1, 2), (3, 4)]),
    "groups": TaskPrior.groups({"a": [0, 1, 2], "b": [3]}, weight=2.0),
    "overlapping groups": TaskPrior.groups({"a": [0, 1, 2], "b": [2, 3, 4]}),
    "nested": TaskPrior.nested(
        dict(enumerate([("a", "x"), ("a", "x"), ("a", "y"), ("b", "x"), ("b", "x")])),
        between=(0.3, 2.0),
    ),
}


def intercepts_of(kind, L):
    kinds = {"free": FreeIntercepts(), "absent": NoIntercepts()}
    return kinds.get(kind) or TiedIntercepts(L, 1.0)


def design(data):
    """Rows of all tasks under each other: X, y, weights and a row's task."""
    parts = plain_rows(data)
    X, y, weight = (np.concatenate(part) for part in zip(*parts, strict=True))
    task = np.repeat(np.arange(len(parts)), [len(part[1]) for part in parts])
    return X, y, weight, task


def covariance_likelihood(data, L, kind, tie, noise):
    """Twice the negative restricted log-likelihood from the covariance of y."""
    X, y, weight, task = design(data)
    member = np.eye(len(L))[task]
    columns = np.column_stack([np.ones(len(y)), X]) if kind == "tied" else X
    spread, common = np.linalg.pinv(L), null_space(L)
    V = np.diag(noise / weight)
    fixed = [member] if kind == "free" else []
    for column, t in zip(columns.T, tie, strict=True):
        Z = column[:, None] * member
        V += noise / t * Z @ spread @ Z.T
        fixed.append(Z @ common)
    basis, values, _ = np.linalg.svd(np.hstack(fixed), full_matrices=True)
    contrasts = basis[:, np.sum(values > 1e-10 * values[0]) :]
    reduced = contrasts.T @ V @ contrasts
    seen = contrasts.T @ y
    return np.linalg.slogdet(reduced)[1] + seen @ np.linalg.solve(reduced, seen)


def model_of(gram, linear, squares, L, *, general=False, shrinks=None):
    stars = ties.stars_of(L)
    if shrinks is None:
        shrinks = np.zeros(len(linear), dtype=bool)
    if len(gram) == 1 and L.m > 1 and not L.between:
        return ModeModel.of(gram, linear, squares, L.modes, 1e-5, shrinks)
    if stars is not None and not general:
        return StarModel.of(gram, linear, squares, stars, shrinks)
    order = Elimination.plan(TieGraph.of(L).grounded().graph, 10**6)
    return GraphModel.of(gram, linear, squares, L, order, 1e-5, shrinks)


def each_alone(k, depth=0):
    """Every row has a variance of its own, and no fixed effect is shrunken."""
    return Components(
        np.arange(k), np.full(k, -1), k, 1, True, tuple(range(depth)), depth
    )


def evidence_of(data, L, kind, tie, noise=None, *, general=False):
    moments = condense(data)
    fit = SquaredFit(moments, intercepts_of(kind, L))
    form, squares = fit.normal_form(), 2.0 * fit.magnitude
    model = model_of(form.gram, form.linear, squares, L, general=general)
    lost = len(moments.tasks) if kind == "free" else 0
    freedom = moments.weight.sum() - lost - model.n_free
    between = L.between if isinstance(model, StarModel) else ()
    components = each_alone(len(tie), len(between))
    theta = 1.0 / np.concatenate([tie, between])
    return Evidence(model, components, squares, freedom, noise, theta)


def some_ties(kind, seed):
    k = 3 + (kind == "tied")
    return np.exp(np.random.default_rng(seed).normal(size=k))


@turns(
    3,
    prior=PRIORS,
    kind=KINDS,
    layout=["stacked", "sparse", "shared", "gaps", "wide"],
)
def test_differences_are_those_of_the_covariance_of_y(prior, kind, layout):
    data = random_tasks(layout, m=5, d=3, n=9)
    L = laplacian(PRIORS[prior], data.tasks)
    values, expected = [], []
    for seed in range(3):
        tie = some_ties(kind, seed)
        values.append(evidence_of(data, L, kind, tie, noise=0.7).value)
        expected.append(covariance_likelihood(data, L.dense(), kind, tie, 0.7))
    assert np.allclose(np.diff(values), np.diff(expected), rtol=1e-7, atol=1e-8)


def few_rows():
    """Ten tasks with one to three rows, fewer than coefficients."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(10), [1, 2, 3, 1, 2, 3, 1, 2, 3, 3])
    return from_labels(rng.normal(size=(21, 3)), rng.normal(size=21), task)


@pytest.mark.parametrize("kind", ["absent", "tied"])
@pytest.mark.parametrize("prior", [TaskPrior.mean(), TaskPrior.chain()])
def test_tasks_may_have_fewer_rows_than_coefficients(prior, kind):
    data = few_rows()
    L = laplacian(prior, data.tasks)
    values, expected = [], []
    for seed in range(3):
        tie = some_ties(kind, seed)
        values.append(evidence_of(data, L, kind, tie).value)
        best = evidence_of(data, L, kind, tie).noise_variance
        expected.append(covariance_likelihood(data, L.dense(), kind, tie, best))
    assert np.allclose(np.diff(values), np.diff(expected), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("prior", ["mean", "groups", "nested"])
@pytest.mark.parametrize("kind", KINDS)
def test_stars_and_elimination_say_the_same(prior, kind):
    data = random_tasks("stacked", m=5, d=3, n=9)
    L = laplacian(PRIORS[prior], data.tasks)
    pairs = [
        [evidence_of(data, L, kind, some_ties(kind, s), general=g) for s in (0, 1)]
        for g in (False, True)
    ]
    assert isinstance(pairs[0][0].model, StarModel)
    assert isinstance(pairs[1][0].model, GraphModel)
    for star, general in zip(*pairs, strict=True):
        k = len(general.slope)
        assert np.allclose(star.slope[:k], general.slope, rtol=1e-9)
        assert np.allclose(star.information[:k, :k], general.information, atol=1e-11)
        assert np.allclose(star.fit.coef, general.fit.coef, rtol=1e-9)
        assert star.misfit == pytest.approx(general.misfit)
    gains = [a.value - b.value for a, b in pairs]
    assert gains[0] == pytest.approx(gains[1])


@pytest.mark.parametrize("rows", ["many", "few"])
def test_compiled_loops_over_many_small_tasks_say_the_same(rows, monkeypatch):
    data = grouped_tasks() if rows == "many" else few_rows()
    L = laplacian(PRIORS["mean"], data.tasks)
    plain = evidence_of(data, L, "tied", some_ties("tied", 0))
    plain_value, plain_slope = plain.value, plain.slope
    monkeypatch.setattr(models, "MANY_BLOCKS", 1)
    compiled = evidence_of(data, L, "tied", some_ties("tied", 0))
    assert compiled.value == pytest.approx(plain_value, rel=1e-12)
    assert np.allclose(compiled.slope, plain_slope, rtol=1e-8)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("kind", KINDS)
def test_fixed_effects_are_the_limit_of_small_variances(prior, kind):
    data = random_tasks("stacked", m=5, d=3, n=9)
    L = laplacian(PRIORS[prior], data.tasks)
    tie = some_ties(kind, 0)
    small = evidence_of(data, L, kind, tie).theta
    small[1] = 1e-9
    near = evidence_of(data, L, kind, tie).at(small)
    fixed = near.at(np.where(small < 1e-6, 0.0, small))
    assert fixed.value == pytest.approx(near.value, abs=1e-5)
    assert np.allclose(fixed.fit.coef, near.fit.coef, atol=1e-5)
    assert len(fixed.slope) == len(small) - 1
    slope, _ = fixed._in_theta(fixed.fit.derivatives(np.array([1])))
    step = 1e-5
    ahead = fixed.at(np.where(small < 1e-6, step, small)).value
    twice = fixed.at(np.where(small < 1e-6, 2 * step, small)).value
    expected = (4 * ahead - twice - 3 * fixed.value) / (2 * step)
    assert slope[0] == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_noise_is_at_its_best(kind):
    data = random_tasks("stacked", m=5, d=3, n=9)
    L = laplacian(PRIORS["mean"], data.tasks)
    tie = some_ties(kind, 0)
    best = evidence_of(data, L, kind, tie).noise_variance
    around = [
        covariance_likelihood(data, L.dense(), kind, tie, best * factor)
        for factor in (0.99, 1.0, 1.01)
    ]
    assert around[1] < min(around[0], around[2])
    assert abs(around[0] - around[2]) < 0.1 * (around[0] - around[1])


@pytest.mark.parametrize("noise", [None, 0.7])
@pytest.mark.parametrize("layout", ["stacked", "shared"])
@pytest.mark.parametrize("prior", PRIORS)
def test_slope_is_the_derivative_in_log_ties(prior, layout, noise):
    data = random_tasks(layout, m=5, d=3, n=9)
    L = laplacian(PRIORS[prior], data.tasks)
    evidence = evidence_of(data, L, "tied", some_ties("tied", 3), noise)
    for j in range(len(evidence.theta)):
        step = 1e-4 * np.eye(len(evidence.theta))[j]
        ahead, behind = (
            evidence.at(evidence.theta * np.exp(-sign * step)).value for sign in (1, -1)
        )
        assert evidence.slope[j] == pytest.approx((ahead - behind) / 2e-4, abs=1e-6)


@pytest.mark.parametrize("prior", ["chain", "nested"])
@pytest.mark.parametrize("layout", ["stacked", "shared"])
def test_information_is_symmetric_and_not_negative(layout, prior):
    data = random_tasks(layout, m=5, d=3, n=9)
    L = laplacian(PRIORS[prior], data.tasks)
    information = evidence_of(data, L, "tied", some_ties("tied", 1)).information
    assert np.allclose(information, information.T, atol=1e-12)
    assert np.linalg.eigvalsh(information).min() > -1e-12


def test_shared_gram_and_copies_of_it_say_the_same():
    data = random_tasks("shared", m=5, d=3, n=9)
    L = laplacian(PRIORS["chain"], data.tasks)
    form = SquaredFit(condense(data), kind_of_intercepts("absent", 5)).normal_form()
    copies = np.tile(form.gram, (5, 1, 1))
    models = [model_of(gram, form.linear, 90.0, L) for gram in (form.gram, copies)]
    some = some_ties("absent", 0), some_ties("absent", 1)
    alone = each_alone(3)
    pairs = [
        [Evidence(m, alone, 90.0, 30.0, None, 1 / t) for t in some] for m in models
    ]
    for a, b in zip(*pairs, strict=True):
        assert np.allclose(a.slope, b.slope, rtol=1e-9)
        assert np.allclose(a.information, b.information, rtol=1e-9, atol=1e-12)
        assert np.allclose(a.fit.coef, b.fit.coef, rtol=1e-9)
    gains = [a.value - b.value for a, b in pairs]
    assert gains[0] == pytest.approx(gains[1])


def test_columns_that_say_the_same_leave_the_likelihood_finite():
    data = random_tasks("stacked", m=5, d=3, n=9)
    X = np.array(data.X)
    X[:, 2] = X[:, 0] - X[:, 1]
    data = data.with_matrix(X)
    L = laplacian(PRIORS["mean"], data.tasks)
    some = [some_ties("free", seed) for seed in range(2)]
    evidence = [evidence_of(data, L, "free", tie, noise=0.7) for tie in some]
    expected = [covariance_likelihood(data, L.dense(), "free", t, 0.7) for t in some]
    assert evidence[0].model.n_free == 2
    gain = evidence[0].value - evidence[1].value
    assert gain == pytest.approx(expected[0] - expected[1], rel=1e-6)


FAMILIES = Components(
    deviations=np.array([0, 1, 2, 2]),
    fixed=np.array([-1, -1, 3, 3]),
    n_deviations=3,
    n_parts=1,
    estimates_fixed=True,
)


def shrunken_likelihood(data, m, theta, noise, district=None):
    """The same from the covariance of y, where two slopes share both variances.

    Tasks deviate from the fixed effects, not from their own mean.
    """
    X, y, _, task = design(data)
    member = np.eye(m)[task]
    V = noise * np.eye(len(y))
    columns = np.column_stack([np.ones(len(y)), X])
    for column, one, other in zip(
        columns.T, FAMILIES.deviations, FAMILIES.fixed, strict=True
    ):
        Z = column[:, None] * member
        V += noise * theta[one] * Z @ Z.T
        if district is not None:
            together = Z @ np.equal.outer(district, district) @ Z.T
            V += noise * theta[one] * theta[-1] * together
        if other >= 0:
            V += noise * theta[other] * np.outer(column, column)
    contrasts = null_space(columns[:, :2].T)
    reduced, seen = contrasts.T @ V @ contrasts, contrasts.T @ y
    return np.linalg.slogdet(reduced)[1] + seen @ np.linalg.solve(reduced, seen)


def shrunken_evidence(data, L, theta, noise=None):
    fit = SquaredFit(condense(data), TiedIntercepts(L, 1.0))
    form, squares = fit.normal_form(), 2.0 * fit.magnitude
    shrinks = FAMILIES.fixed >= 0
    model = model_of(form.gram, form.linear, squares, L, shrinks=shrinks)
    freedom = fit.moments.weight.sum() - model.n_free
    return Evidence(model, FAMILIES, squares, freedom, noise, theta)


def test_shrunken_fixed_effects_have_the_likelihood_of_their_covariance():
    data = from_labels(*some_rows(m=6, n=5))
    L = laplacian(PRIORS["mean"], data.tasks)
    thetas = np.exp(np.random.default_rng(0).normal(size=(3, 4)))
    values = [shrunken_evidence(data, L, theta, 0.7).value for theta in thetas]
    expected = [shrunken_likelihood(data, 6, t, 0.7) for t in thetas]
    assert np.allclose(np.diff(values), np.diff(expected), rtol=1e-8)


@pytest.mark.parametrize("noise", [None, 0.7])
def test_districts_of_shrunken_effects_have_the_likelihood_of_their_covariance(noise):
    data = from_labels(*some_rows(m=6, n=5))
    district = np.array([0, 0, 0, 1, 1, 2])
    parents = dict(zip(data.tasks, district.tolist(), strict=True))
    L = laplacian(TaskPrior.nested(parents), data.tasks)
    components = replace(FAMILIES, levels=(0,), n_levels=1)
    thetas = np.exp(np.random.default_rng(0).normal(size=(3, 5)))
    evidence = [
        replace(shrunken_evidence(data, L, theta, noise), components=components)
        for theta in thetas
    ]
    if noise is not None:
        expected = [shrunken_likelihood(data, 6, t, noise, district) for t in thetas]
        values = [one.value for one in evidence]
        assert np.allclose(np.diff(values), np.diff(expected), rtol=1e-8)
    for j in range(5):
        step = 1e-4 * np.eye(5)[j]
        ahead, behind = (
            evidence[0].at(thetas[0] * np.exp(-sign * step)).value for sign in (1, -1)
        )
        slope = (ahead - behind) / 2e-4
        assert evidence[0].slope[j] == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize("noise", [None, 0.7])
def test_slope_of_families_is_the_derivative(noise):
    data = from_labels(*some_rows(m=6, n=5))
    L = laplacian(PRIORS["mean"], data.tasks)
    evidence = shrunken_evidence(data, L, np.array([0.5, 2.0, 0.3, 1.5]), noise)
    for j in range(4):
        step = 1e-4 * np.eye(4)[j]
        ends = [
            evidence.at(evidence.theta * np.exp(-sign * step)).value for sign in (1, -1)
        ]
        assert evidence.slope[j] == pytest.approx((ends[0] - ends[1]) / 2e-4, abs=1e-6)
    information = evidence.information
    assert np.allclose(information, information.T, atol=1e-12)
    assert np.linalg.eigvalsh(information).min() > -1e-12


def some_rows(m, n):
    rng = np.random.default_rng(3)
    X, task = rng.normal(size=(m * n, 3)) + 0.5, np.arange(m * n) % m
    return X, X.sum(axis=1) + rng.normal(size=m)[task] + rng.normal(size=m * n), task


def test_more_features_than_rows_are_estimated_where_they_are_shrunken():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(40, 60)), np.arange(40) % 8
    data = from_labels(X, 0.3 * X[:, :30].sum(axis=1) + rng.normal(size=8)[task], task)
    families = Families(np.arange(60), np.zeros(60, dtype=int))
    found = ties_of(data, families=families)
    assert found.noise_variance is not None
    assert np.all(found.shrinkage > 0)
    assert len(set(found.shrinkage.round(8))) == 1


# Estimates of ties.


def grouped_tasks(m=12, n=15, spread=SPREAD, noise=1.0, seed=0, walk=False):
    """Tasks whose coefficients vary about common ones, or walk from task to task."""
    rng = np.random.default_rng(seed)
    d = len(spread) - 1
    task = np.arange(m * n) % m
    X = rng.normal(size=(m * n, d)) + 0.3
    steps = spread[:, None] * rng.normal(size=(d + 1, m))
    Q = rng.normal(size=(d + 1, 1)) + (np.cumsum(steps, axis=1) if walk else steps)
    y = Q[0, task] + np.sum(X * Q[1:, task].T, axis=1)
    return from_labels(X, y + noise * rng.normal(size=m * n), task)


def ties_of(data, kind="tied", prior=None, **settings):
    L = laplacian(prior or TaskPrior.mean(), data.tasks)
    return estimate_ties(condense(data), L, intercepts_of(kind, L), **settings)


def all_weights(found):
    first = [] if found.intercept is None else [found.intercept]
    return np.concatenate([first, found.weights])


def assert_same(a, b, rtol=1e-3):
    assert np.allclose(all_weights(a), all_weights(b), rtol=rtol)
    assert a.noise_variance == pytest.approx(b.noise_variance, rel=rtol)


def covariance_parts(data, L, kind):
    """Contrasts of y free of common effects, and what each variance adds to them."""
    X, task = (
        np.asarray(data.X),
        np.repeat(np.arange(data.shape[1]), np.diff(data.starts)),
    )
    member = np.eye(data.shape[1])[task]
    columns = np.column_stack([np.ones(len(X)), X]) if kind == "tied" else X
    spread = np.linalg.pinv(L)
    values, vectors = np.linalg.eigh(L)
    common = vectors[:, values < 1e-9]
    Z = [column[:, None] * member for column in columns.T]
    fixed = np.hstack([z @ common for z in Z] + ([member] if kind == "free" else []))
    basis, sizes, _ = np.linalg.svd(fixed)
    contrasts = basis[:, np.sum(sizes > 1e-9) :]
    pulled = [contrasts.T @ z for z in Z]
    return contrasts.T @ data.y, [z @ spread @ z.T for z in pulled]


def minus_likelihood(logs, seen, parts):
    """Twice the negative restricted log-likelihood of the log variances."""
    V = np.exp(logs[0]) * np.eye(len(seen))
    V += sum(np.exp(s) * part for s, part in zip(logs[1:], parts, strict=True))
    return np.linalg.slogdet(V)[1] + seen @ np.linalg.solve(V, seen)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("walk", [False, True])
def test_the_most_likely_ties_are_found(kind, walk):
    data = grouped_tasks(seed=1, walk=walk)
    prior = TaskPrior.chain() if walk else TaskPrior.mean()
    found = ties_of(data, kind, prior)
    L = laplacian(prior, data.tasks).dense()
    seen, parts = covariance_parts(data, L, kind)
    start = np.zeros(1 + len(parts))
    best = minimize(minus_likelihood, start, (seen, parts), tol=1e-9)
    variances = found.noise_variance / all_weights(found)
    logs = np.log(np.concatenate([[found.noise_variance], variances]))
    # A variance at its bound goes on towards zero in the other search.
    ours, theirs = np.maximum(logs, -7), np.maximum(best.x, -7)
    assert minus_likelihood(logs, seen, parts) <= best.fun + 1e-4
    assert np.allclose(ours, theirs, atol=0.02)


def random_instance(seed):
    """Few tasks of unequal size, some coefficients the same in all of them."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(6, 20, 9)
    task = np.repeat(np.arange(9), sizes)
    X = rng.normal(size=(len(task), 3)) + rng.normal(size=3)
    spread = rng.choice([0.0, 0.3, 1.0], 4)
    Q = rng.normal(size=(4, 1)) + spread[:, None] * rng.normal(size=(4, 9))
    y = Q[0, task] + np.sum(X * Q[1:, task].T, axis=1)
    return from_labels(X, y + 0.7 * rng.normal(size=len(y)), task)


@turns(
    2,
    prior=["mean", "chain", "groups", "overlapping groups"],
    kind=KINDS,
    seed=range(3),
)
def test_no_other_variances_are_more_likely(prior, kind, seed):
    data = random_instance(seed)
    found = ties_of(data, kind, PRIORS[prior])
    L = laplacian(PRIORS[prior], data.tasks).dense()
    seen, parts = covariance_parts(data, L, kind)
    variances = found.noise_variance / all_weights(found)
    logs = np.log(np.concatenate([[found.noise_variance], variances]))
    value = minus_likelihood(logs, seen, parts)
    for start in (logs, np.zeros(len(logs)), np.r_[0.0, np.full(len(parts), -4.0)]):
        other = minimize(minus_likelihood, start, (seen, parts))
        assert value <= other.fun + 1e-3


def test_the_likelihood_is_flat_at_the_estimate():
    data = grouped_tasks(seed=2)
    found = ties_of(data)
    seen, parts = covariance_parts(data, np.eye(12) - 1 / 12, "tied")
    variances = found.noise_variance / all_weights(found)
    logs = np.log(np.concatenate([[found.noise_variance], variances]))
    for j in range(len(logs)):
        step = 0.05 * np.eye(len(logs))[j]
        ends = [minus_likelihood(logs + s * step, seen, parts) for s in (-1, 0, 1)]
        assert ends[1] <= min(ends[0], ends[2]) + 1e-6
        assert abs(ends[2] - ends[0]) < 0.1 * (ends[0] + ends[2] - 2 * ends[1]) + 1e-5


@pytest.mark.parametrize("walk", [False, True])
def test_planted_variances_come_back(walk):
    data = grouped_tasks(m=400, n=20, noise=0.8, seed=3, walk=walk)
    found = ties_of(data, prior=TaskPrior.chain() if walk else TaskPrior.mean())
    spread = np.sqrt(found.noise_variance / all_weights(found))
    # A spread from 400 tasks has a sampling error of about 4 %, small ones more.
    assert np.allclose(spread, SPREAD, rtol=0.12, atol=0.03)
    assert found.noise_variance == pytest.approx(0.64, rel=0.05)


def test_known_noise_is_believed():
    data = grouped_tasks(m=200, seed=4)
    found = ties_of(data, noise_variance=4.0)
    assert found.noise_variance == pytest.approx(4.0)
    assert np.all(all_weights(found) > all_weights(ties_of(data)))


def test_a_coefficient_that_does_not_vary_is_tied_tightly_and_finitely():
    spread = np.array([0.5, 0.0, 0.0, 0.0, 0.0, 0.6])
    found = ties_of(grouped_tasks(m=30, spread=spread, seed=5))
    curvature = 15.0
    tight = found.weights > 1e3 * curvature
    assert tight.any()
    assert found.weights[tight] == pytest.approx(1e5 * curvature, rel=1.0)
    assert found.weights[4] < 100.0


@pytest.mark.parametrize("kind", KINDS)
def test_the_unit_of_targets_changes_the_noise_only(kind):
    data = grouped_tasks()
    a, b = ties_of(data, kind), ties_of(replace(data, y=1e5 * data.y), kind)
    assert np.allclose(all_weights(a), all_weights(b), rtol=1e-3)
    assert b.noise_variance == pytest.approx(1e10 * a.noise_variance, rel=1e-5)


def test_the_unit_of_a_feature_enters_its_weight_squared():
    data = grouped_tasks()
    scale = np.array([1e-4, 1.0, 1e3])
    a, b = ties_of(data), ties_of(data.with_matrix(data.X * scale))
    assert np.allclose(b.weights, scale**2 * a.weights, rtol=1e-3)
    assert b.intercept == pytest.approx(a.intercept, rel=1e-3)


def test_the_weight_of_a_prior_goes_off_the_estimate():
    data = grouped_tasks()
    a, b = ties_of(data), ties_of(data, prior=TaskPrior.mean(weight=4.0))
    assert np.allclose(all_weights(b), 0.25 * all_weights(a), rtol=1e-3)


def test_order_of_tasks_and_features_does_not_matter():
    data = grouped_tasks()
    task = np.repeat(np.arange(12), 15)
    other = from_labels(data.X[:, [2, 0, 1]], data.y, (5 * task) % 12)
    a, b = ties_of(data), ties_of(other)
    assert np.allclose(a.weights[[2, 0, 1]], b.weights, rtol=1e-3)
    assert a.intercept == pytest.approx(b.intercept, rel=1e-3)


def test_a_chain_may_be_walked_from_either_end():
    data = grouped_tasks(walk=True)
    task = np.repeat(np.arange(12), 15)
    other = from_labels(data.X, data.y, 11 - task)
    chain = TaskPrior.chain()
    assert_same(ties_of(data, prior=chain), ties_of(other, prior=chain))


def test_statistics_of_any_split_give_the_same():
    data = grouped_tasks()
    task = np.repeat(np.arange(12), 15)
    part = np.random.default_rng(0).integers(0, 3, len(task))
    pieces = [
        summarize_tasks(
            from_labels(data.X[part == k], data.y[part == k], task[part == k])
        )
        for k in range(3)
    ]
    L = laplacian(TaskPrior.mean(), data.tasks)
    merged = estimate_ties(pieces[2] + pieces[0] + pieces[1], L, FreeIntercepts())
    assert_same(ties_of(data, "free"), merged)


def test_a_row_twice_is_a_row_of_weight_two():
    data = grouped_tasks()
    task = np.repeat(np.arange(12), 15)
    weight = 1.0 + (np.arange(len(task)) % 4 == 0)
    twice = np.repeat(np.arange(len(task)), weight.astype(int))
    a = ties_of(from_labels(data.X, data.y, task, weight))
    b = ties_of(from_labels(data.X[twice], data.y[twice], task[twice]))
    assert_same(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_sparse_rows_and_statistics_give_the_same(kind):
    data = grouped_tasks()
    sparse = data.with_matrix(csr_array(data.X))
    assert not isinstance(condense(sparse), type(condense(data)))
    assert_same(ties_of(data, kind), ties_of(sparse, kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prior", [TaskPrior.mean(), TaskPrior.chain()])
def test_shared_rows_and_their_copies_give_the_same(kind, prior):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3)) + 1.0
    Y = X @ rng.normal(size=(3, 6)) + rng.normal(size=(20, 6))
    shared = from_columns(X, Y)
    stacked = from_labels(np.tile(X, (6, 1)), Y.T.ravel(), np.repeat(np.arange(6), 20))
    assert len(condense(shared).gram()) == 1
    assert_same(ties_of(shared, kind, prior), ties_of(stacked, kind, prior))


def test_same_data_same_bits():
    a, b = ties_of(grouped_tasks()), ties_of(grouped_tasks())
    assert np.array_equal(all_weights(a), all_weights(b))


def test_columns_without_information_get_weight_one():
    data = grouped_tasks()
    X = np.column_stack([np.zeros(180), data.X, np.full(180, 7.0)])
    a, b = ties_of(data), ties_of(data.with_matrix(X))
    assert b.weights[0] == b.weights[4] == 1.0
    assert np.allclose(a.weights, b.weights[1:4], rtol=1e-3)


def test_a_column_of_ones_is_a_tied_intercept():
    data = grouped_tasks()
    ones = data.with_matrix(np.column_stack([np.ones(180), data.X]))
    a, b = ties_of(data, "tied"), ties_of(ones, "absent")
    assert np.allclose(all_weights(a), b.weights, rtol=1e-3)


# Starts, random intercepts, and columns that tell tasks apart.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prior", [TaskPrior.mean(), TaskPrior.chain()])
def test_the_start_does_not_matter(kind, prior):
    data, other = grouped_tasks(seed=2), grouped_tasks(seed=3)
    cold = ties_of(data, kind, prior)
    for start in (cold, ties_of(other, kind, prior)):
        assert_same(cold, ties_of(data, kind, prior, start=start), rtol=0.05)


def test_a_coefficient_that_was_common_at_the_start_may_vary_again():
    data = grouped_tasks(m=40)
    cold = ties_of(data)
    tight = replace(cold, weights=np.full(3, 1e9), intercept=1e9)
    assert_same(cold, ties_of(data, start=tight), rtol=0.05)


def test_starts_without_estimates_or_with_other_features_are_ignored():
    data = grouped_tasks()
    cold = ties_of(data)
    nothing = Ties(np.ones(3), 1.0, None, np.zeros((4, 12)), np.zeros(3))
    short = Ties(np.ones(1), 1.0, 1.0, np.zeros((2, 12)), np.zeros(3))
    for start in (nothing, short):
        assert np.array_equal(
            all_weights(ties_of(data, start=start)), all_weights(cold)
        )


def test_a_sample_of_many_tasks_gives_the_start_only(monkeypatch):
    data = grouped_tasks(m=60)
    whole = ties_of(data)
    monkeypatch.setattr(ties, "MANY_TASKS", 50)
    monkeypatch.setattr(ties, "SAMPLED_TASKS", 20)
    assert_same(whole, ties_of(data), rtol=0.02)


def test_random_intercepts_are_those_of_statsmodels():
    data = grouped_tasks(m=30)
    X, y, _, task = design(data)
    mixed = MixedLM(y, np.column_stack([np.ones(len(y)), X]), groups=task).fit()
    found = ties_of(data, slopes=False)
    assert found.noise_variance == pytest.approx(mixed.scale, rel=1e-3)
    variance = found.noise_variance / found.intercept
    assert variance == pytest.approx(mixed.cov_re[0, 0], rel=1e-2)
    assert np.all(found.weights > 1e5)


@pytest.mark.parametrize("kind", ["free", "absent"])
def test_without_slopes_and_tied_intercepts_nothing_varies(kind):
    found = ties_of(grouped_tasks(), kind, slopes=False)
    assert np.all(found.weights > 1e5)
    assert found.intercept is None


def with_traits(data, seed=0):
    """Two columns more that have one value per task."""
    traits = np.random.default_rng(seed).normal(size=(2, data.shape[1]))
    task = np.repeat(np.arange(data.shape[1]), np.diff(data.starts))
    return data.with_matrix(np.column_stack([data.X, *traits[:, task]]))


def test_columns_that_are_constant_within_tasks_leave_intercepts_their_variance():
    plain = grouped_tasks(m=80, spread=np.array([1.0, 0.0, 0.5]))
    found, without = ties_of(with_traits(plain)), ties_of(plain)
    assert np.all(found.weights[2:] > 1e5)
    assert found.intercept == pytest.approx(without.intercept, rel=0.1)
    assert np.ptp(found.rows[0]) > 1.0  # intercepts differ
    assert np.allclose(found.rows[3:], found.rows[3:, :1])  # traits have one slope


def test_free_intercepts_hide_columns_that_are_constant_within_tasks():
    plain = grouped_tasks(m=30)
    found, without = ties_of(with_traits(plain), "free"), ties_of(plain, "free")
    assert np.all(found.weights[3:] > 1e5)
    assert np.allclose(found.weights[:3], without.weights)


def test_tasks_of_one_row_tell_nothing_beside_free_intercepts():
    data = grouped_tasks(m=12)
    X, y, _, task = design(data)
    more = from_labels(np.vstack([X, X[:2]]), [*y, 5.0, -5.0], [*task, 20, 21])
    found, without = ties_of(more, "free"), ties_of(data, "free")
    assert_same(found, without, rtol=0.01)


def unknown(found: Ties):
    return np.all(all_weights(found) == 1.0) and found.noise_variance is None


@pytest.mark.parametrize("kind", KINDS)
def test_where_nothing_can_be_told_ties_have_weight_one(kind):
    data = grouped_tasks()
    one = from_labels(data.X, data.y, np.zeros(180, int))
    assert unknown(ties_of(one, kind))
    assert unknown(ties_of(data, kind, TaskPrior.from_graph([])))
    assert unknown(ties_of(replace(data, y=np.zeros(180)), kind))
    assert unknown(ties_of(data.with_matrix(0.0 * data.X), "free"))
    assert unknown(ties_of(replace(data, y=data.X @ np.ones(3)), kind))


def test_too_few_rows_are_named():
    rng = np.random.default_rng(0)
    data = from_labels(rng.normal(size=(6, 8)), rng.normal(size=6), [0, 0, 0, 1, 1, 1])
    with pytest.warns(UserWarning, match="more rows than the 4 coefficients.*got 4;"):
        found = ties_of(data, "free")
    assert unknown(found)


def degenerate_tables():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(40, 3)), np.arange(40) % 8
    codes = np.eye(4)[rng.integers(0, 4, 40)]
    P = rng.normal(size=(8, 3))
    exact = np.sum(X * P[task], axis=1)
    y = exact + rng.normal(size=40)
    return {
        "one-hot": from_labels(codes, y, task),
        "twins": from_labels(X[:, [0, 0, 1]], y, task),
        "one row per task": from_labels(X, y, np.arange(40)),
        "fitted exactly": from_labels(X, exact, task),
        "wide scales": from_labels(X * [1e-12, 1.0, 1e12], y, task),
        "tiny targets": from_labels(X, 1e-12 * y, task),
        "constant in tasks": from_labels(P[task], y, task),
        "offset": from_labels(X + 1e6, y, task),
        "two tasks": from_labels(X, y, task % 2),
        "unequal tasks": from_labels(X, y, np.minimum(task, np.arange(40) // 20)),
    }


TABLES = degenerate_tables()


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prior", [TaskPrior.mean(), TaskPrior.chain()])
def test_degenerate_tables_have_finite_positive_ties(table, kind, prior):
    weights = all_weights(ties_of(TABLES[table], kind, prior))
    assert np.all(np.isfinite(weights))
    assert np.all(weights > 0)


def test_exact_fits_are_hardly_tied():
    weights = ties_of(TABLES["fitted exactly"], "absent").weights
    assert np.all(weights < 1e-3)


def test_too_many_features_are_refused_with_a_way_out(monkeypatch):
    monkeypatch.setattr(ties, "MOST_NUMBERS", 100)
    with pytest.raises(ValueError, match=r"3 features and 12 ties.*give the weights"):
        ties_of(grouped_tasks())


def test_shared_rows_need_no_block_per_task(monkeypatch):
    rng = np.random.default_rng(0)
    X, P = rng.normal(size=(20, 3)), rng.normal(size=(3, 6))
    shared = from_columns(X, X @ P + rng.normal(size=(20, 6)))
    monkeypatch.setattr(ties, "MOST_NUMBERS", 2 * 4**2)
    assert not unknown(ties_of(shared))
    with pytest.raises(ValueError, match="too much for 3 features"):
        ties_of(shared, prior=TaskPrior.chain())


def test_too_dense_graphs_are_refused_with_a_way_out(monkeypatch):
    monkeypatch.setattr(ties, "MOST_BLOCK_STEPS", 100)
    pairs = [(a, b) for a in range(12) for b in range(a)]
    with pytest.raises(ValueError, match=r"66 ties between 12 tasks.*in a chain"):
        ties_of(grouped_tasks(), prior=TaskPrior.from_graph(pairs))


@pytest.mark.parametrize("kind", KINDS)
def test_logistic_ties_tell_what_varies(kind):
    spread = np.array([0.8, 0.0, 1.5])
    data = with_signs(grouped_tasks(m=60, n=60, spread=spread, seed=1))
    L = laplacian(TaskPrior.mean(), data.tasks)
    found = estimate_family_ties(Logistic().bind(data, intercepts_of(kind, L)), L)
    assert found.weights[0] > 10 * found.weights[1]
    assert 0.1 < found.weights[1] < 3.0
    assert (found.intercept is None) == (kind != "tied")


def test_logistic_ties_settle_where_quadratic_models_do():
    data = with_signs(grouped_tasks(m=60, n=60, seed=1))
    L = laplacian(TaskPrior.mean(), data.tasks)
    fit = Logistic().bind(data, FreeIntercepts())
    found = estimate_family_ties(fit, L)
    model = fit.quadratic_model(fit.evaluate(found.rows))
    again = estimate_ties(model.moments, L, FreeIntercepts(), noise_variance=1.0)
    assert np.allclose(again.weights, found.weights, rtol=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_logistic_ties_do_not_depend_on_the_start(kind):
    data = with_signs(grouped_tasks(m=60, n=30, seed=1))
    L = laplacian(TaskPrior.mean(), data.tasks)
    fit = Logistic().bind(data, intercepts_of(kind, L))
    cold = estimate_family_ties(fit, L)
    warm = estimate_family_ties(fit, L, start=cold)
    assert np.allclose(all_weights(cold), all_weights(warm), rtol=0.05)


def test_logistic_random_intercepts():
    data = with_signs(grouped_tasks(m=60, n=30, seed=1))
    L = laplacian(TaskPrior.mean(), data.tasks)
    fit = Logistic().bind(data, TiedIntercepts(L, 1.0))
    found = estimate_family_ties(fit, L, slopes=False)
    assert found.intercept < 10
    assert found.weights.min() > 1e4


def test_separable_classes_have_finite_ties():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(80, 2)), np.arange(80) % 8
    data = from_labels(X, np.sign(X[:, 0]), task)
    L = laplacian(TaskPrior.mean(), data.tasks)
    found = estimate_family_ties(Logistic().bind(data, TiedIntercepts(L, 1.0)), L)
    assert np.all(all_weights(found) > 0)
    assert np.all(np.isfinite(found.rows))


@pytest.mark.parametrize(("m", "n", "d"), [(30, 3, 12), (6, 12, 40)])
def test_noise_is_not_zero_where_coefficients_could_explain_all_rows(m, n, d):
    rng = np.random.default_rng(0)
    task, X = np.repeat(np.arange(m), n), rng.normal(size=(m * n, d))
    coef = 1.0 + 0.5 * rng.normal(size=(m, d))
    y = np.einsum("ij,ij->i", X, coef[task]) + 0.5 * rng.normal(size=m * n)
    settings = {"ties": "adaptive", "fit_intercept": "tied", "task_prior": "mean"}
    model = MultiTaskRegressor(0.0, **settings).fit(X, y, task=task)
    assert 0.2 < model.noise_sd_ < 1.0
