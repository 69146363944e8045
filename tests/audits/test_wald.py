import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csr_array

from priormtl.audits.evidence import Curvature, Evidence
from priormtl.audits.statements import list_ties
from priormtl.audits.tension import (
    UNKNOWN,
    Tension,
    feature_tensions,
    tie_tensions,
    verdicts,
)
from priormtl.graphs import Laplacian
from priormtl.priors import QuadraticPrior


def evidence(coef, gram, noise=1.0, ridge=1e-9):
    d, m = coef.shape
    curvature = Curvature(gram, np.zeros(d), np.zeros(m), np.eye(m), np.full(d, ridge))
    return Evidence(np.arange(d), coef, noise, curvature)


def test_without_ties_and_ridge_it_is_the_wald_test():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3))
    gram, coef, row = X.T @ X, rng.standard_normal((3, 4)), np.array([1.0, -1.0, 0.0])
    (found,) = feature_tensions(csr_array([row]), evidence(coef, gram, 2.0))
    variance = 2.0 * row @ np.linalg.solve(gram, row)
    statistic = np.sum((row @ coef) ** 2) / variance
    assert found.ratio == pytest.approx(statistic / 4)
    assert found.p_value == pytest.approx(stats.chi2.sf(statistic, 4))


def test_weights_of_relations_play_no_part():
    rng = np.random.default_rng(1)
    coef, row = rng.standard_normal((2, 3)), np.array([[1.0, 1.0]])
    known = evidence(coef, np.diag([5.0, 9.0]))
    (once,), (heavy,) = (feature_tensions(csr_array(f * row), known) for f in (1, 30))
    assert heavy == pytest.approx(once)


def test_what_rows_do_not_determine_is_not_judged():
    flat = np.diag([1.0, 0.0])
    found = feature_tensions(
        csr_array([[1.0, -1.0], [0, 0]]), evidence(np.ones((2, 2)), flat, 1, 1.0)
    )
    assert all(np.isnan(tension.p_value) for tension in found)


def test_ties_are_a_test_of_equal_coefficients():
    rng = np.random.default_rng(2)
    samples = rng.standard_normal((2, 20, 3))
    grams = np.einsum("ina,inb->iab", samples, samples)
    coef = rng.standard_normal((3, 2))
    graph = Laplacian.from_edges(2, np.array([0]), np.array([1]), np.ones(1))
    prior = QuadraticPrior(csr_array((0, 3)), graph, 0.0, 1e12)
    (found,) = tie_tensions(
        list_ties(graph, "ab"), evidence(coef, grams.mean(0)), grams, prior
    )
    u, S = coef[:, 0] - coef[:, 1], sum(np.linalg.inv(gram) for gram in grams)
    statistic = u @ np.linalg.solve(S, u)
    assert found.p_value == pytest.approx(stats.chi2.sf(statistic, 3), rel=1e-5)
    loose = QuadraticPrior(csr_array((0, 3)), graph, 0.0, 1e-3)
    (allowed,) = tie_tensions(
        list_ties(graph, "ab"), evidence(coef, grams.mean(0)), grams, loose
    )
    assert allowed.p_value > 0.99


def test_verdicts_follow_benjamini_and_hochberg():
    tensions = [Tension(1.0, p) for p in (0.001, 0.012, 0.04, 0.9)]
    assert verdicts(tensions) == ["disagrees", "disagrees", "agrees", "agrees"]
    assert verdicts([UNKNOWN, Tension(9.0, 0.03)]) == ["cannot be judged", "disagrees"]
    assert verdicts([]) == []
    p = np.random.default_rng(3).uniform(size=50) ** 3
    expected = stats.false_discovery_control(p) <= 0.05
    found = verdicts([Tension(1.0, float(value)) for value in p])
    assert [word == "disagrees" for word in found] == expected.tolist()
