"""Evidence: the restricted likelihood that the covariance of y defines."""

import numpy as np
import pytest
from scipy.linalg import null_space

from instances import kind_of_intercepts, plain_rows, random_tasks
from priormtl.data import condense
from priormtl.losses import FreeIntercepts, NoIntercepts, SquaredFit, TiedIntercepts
from priormtl.priors import TaskPrior, laplacian
from priormtl.problem.elimination import Elimination, TieGraph
from priormtl.reml import Evidence, GraphModel, ModeModel

PRIORS = {
    "mean": TaskPrior.mean(),
    "chain": TaskPrior.chain(weight=0.5),
    "in pieces": TaskPrior.from_graph([(0, 1), (1, 2), (3, 4)]),
}
KINDS = ("free", "absent", "tied")


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


def evidence_of(data, L, kind, tie, noise=None):
    moments = condense(data)
    intercepts = {
        "free": FreeIntercepts(),
        "absent": NoIntercepts(),
        "tied": TiedIntercepts(L, 1.0),
    }[kind]
    fit = SquaredFit(moments, intercepts)
    form = fit.normal_form()
    if len(form.gram) == 1 and len(moments.tasks) > 1:
        model = ModeModel.of(form, *L.modes)
    else:
        model = GraphModel.of(form, L, Elimination.plan(TieGraph.of(L), 10**6))
    lost = len(moments.tasks) if kind == "free" else 0
    freedom = moments.weight.sum() - lost - model.n_free
    return Evidence(model, 2.0 * fit.magnitude, freedom, noise, tie)


def some_ties(kind, seed):
    k = 3 + (kind == "tied")
    return np.exp(np.random.default_rng(seed).normal(size=k))


@pytest.mark.parametrize("layout", ["stacked", "sparse", "shared", "gaps", "wide"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prior", PRIORS)
def test_differences_are_those_of_the_covariance_of_y(prior, kind, layout):
    data = random_tasks(layout, m=5, d=3, n=9)
    L = laplacian(PRIORS[prior], data.tasks)
    values, expected = [], []
    for seed in range(3):
        tie = some_ties(kind, seed)
        values.append(evidence_of(data, L, kind, tie, noise=0.7).value)
        expected.append(covariance_likelihood(data, L.dense(), kind, tie, 0.7))
    assert np.allclose(np.diff(values), np.diff(expected), rtol=1e-7, atol=1e-8)


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
    for j in range(4):
        step = 1e-4 * np.eye(4)[j]
        ahead, behind = (
            evidence.at(evidence.tie * np.exp(sign * step)).value for sign in (1, -1)
        )
        assert evidence.slope[j] == pytest.approx((ahead - behind) / 2e-4, abs=1e-6)


@pytest.mark.parametrize("layout", ["stacked", "shared"])
def test_information_is_symmetric_and_not_negative(layout):
    data = random_tasks(layout, m=5, d=3, n=9)
    L = laplacian(PRIORS["chain"], data.tasks)
    information = evidence_of(data, L, "tied", some_ties("tied", 1)).information
    assert np.allclose(information, information.T, atol=1e-12)
    assert np.linalg.eigvalsh(information).min() > -1e-12


def test_shared_gram_and_copies_of_it_say_the_same():
    data = random_tasks("shared", m=5, d=3, n=9)
    L = laplacian(PRIORS["chain"], data.tasks)
    form = SquaredFit(condense(data), kind_of_intercepts("absent", 5)).normal_form()
    copies = form._replace(gram=np.tile(form.gram, (5, 1, 1)))
    order = Elimination.plan(TieGraph.of(L), 10**6)
    models = ModeModel.of(form, *L.modes), GraphModel.of(copies, L, order)
    ties = some_ties("absent", 0), some_ties("absent", 1)
    pairs = [[Evidence(m, 90.0, 30.0, None, t) for t in ties] for m in models]
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
    ties = [some_ties("free", seed) for seed in range(2)]
    evidence = [evidence_of(data, L, "free", tie, noise=0.7) for tie in ties]
    expected = [covariance_likelihood(data, L.dense(), "free", t, 0.7) for t in ties]
    assert evidence[0].model.n_free == 2
    gain = evidence[0].value - evidence[1].value
    assert gain == pytest.approx(expected[0] - expected[1], rel=1e-6)
