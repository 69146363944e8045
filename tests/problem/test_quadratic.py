"""QuadraticPrior: value, gradient, spectra and restriction of both terms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from priormtl.data import from_labels, summarize_tasks
from priormtl.priors import (
    FeaturePrior,
    TaskPrior,
    difference_matrix,
    laplacian,
)
from priormtl.priors.graphs import Laplacian
from priormtl.problem import QuadraticPrior, quadratic

LAW = settings(max_examples=40, deadline=None, derandomize=True, database=None)
SEEDS = st.integers(0, 10**6)
STRENGTHS = st.sampled_from([0.0, 0.3, 7.0])


def random_prior(seed, theta=0.7, epsilon=1.3, weighted=True, wide_rows=False):
    """Prior over five features and four tasks."""
    rng = np.random.default_rng(seed)
    D = rng.normal(size=(6, 5))
    D = D if wide_rows else np.where(rng.random(D.shape) < 0.4, D, 0.0)
    graph = laplacian(TaskPrior.chain() + TaskPrior.mean(0.5), range(4))
    weights = rng.uniform(0.0, 2.0, 5) if weighted else None
    return QuadraticPrior(csr_array(D), graph, theta, epsilon, weights)


def random_coef(seed):
    return np.random.default_rng(seed).normal(size=(5, 4))


def naive_value(prior, P):
    """θ/2 ‖D P‖² + ε/2 Σ_j t_j p^j L p^jᵀ, term by term."""
    L, D = prior.laplacian.dense(), prior.D.toarray()
    t = np.ones(len(P)) if prior.tie_weights is None else prior.tie_weights
    ties = sum(t[j] * P[j] @ L @ P[j] for j in range(len(P)))
    return 0.5 * prior.theta * np.sum((D @ P) ** 2) + 0.5 * prior.epsilon * ties


@LAW
@given(SEEDS, STRENGTHS, STRENGTHS, st.booleans(), st.booleans())
def test_the_value_is_the_sum_of_both_terms(seed, theta, epsilon, weighted, wide):
    prior, P = random_prior(seed, theta, epsilon, weighted, wide), random_coef(seed)
    assert prior.value(P) == pytest.approx(naive_value(prior, P), abs=1e-12)


@LAW
@given(SEEDS, st.booleans(), st.booleans())
def test_the_gradient_agrees_with_differences(seed, weighted, wide):
    prior = random_prior(seed, weighted=weighted, wide_rows=wide)
    P, direction = random_coef(seed), random_coef(seed + 1)
    step = 1e-4
    ahead, behind = prior.value(P + step * direction), prior.value(P - step * direction)
    slope = (ahead - behind) / (2 * step)
    assert np.vdot(prior.gradient(P), direction) == pytest.approx(
        slope, rel=1e-6, abs=1e-6
    )


@LAW
@given(SEEDS)
def test_the_gradient_is_linear(seed):
    prior, P, Q = random_prior(seed), random_coef(seed), random_coef(seed + 1)
    sum_of_both = 2.0 * prior.gradient(P) - 3.0 * prior.gradient(Q)
    np.testing.assert_allclose(
        prior.gradient(2.0 * P - 3.0 * Q), sum_of_both, atol=1e-11
    )


@LAW
@given(SEEDS)
def test_the_value_is_never_negative(seed):
    assert random_prior(seed).value(random_coef(seed)) >= -1e-12


def test_agreeing_coefficients_cost_nothing():
    moments = summarize_tasks(from_labels(np.eye(4), np.zeros(4), [0] * 4))
    D = difference_matrix(FeaturePrior.similar([(0, 1), (2, 3)]), moments)
    prior = QuadraticPrior(D, laplacian(TaskPrior.chain(), range(3)), 5.0, 7.0)
    P = np.repeat([[2.0], [2.0], [-1.0], [-1.0]], 3, axis=1)
    assert prior.value(P) == 0.0
    assert not prior.gradient(P).any()


@LAW
@given(SEEDS, st.booleans())
def test_restricting_equals_zeros_elsewhere(seed, weighted):
    prior, kept = random_prior(seed, weighted=weighted), np.array([4, 1, 2])
    Q = random_coef(seed)[:3]
    P = np.zeros((5, 4))
    P[kept] = Q
    small = prior.restrict(kept)
    assert small.value(Q) == pytest.approx(prior.value(P), abs=1e-12)
    np.testing.assert_allclose(small.gradient(Q), prior.gradient(P)[kept], atol=1e-12)


@pytest.mark.parametrize("wide", [True, False])
def test_relations_of_many_features_are_not_multiplied_out(wide):
    prior = random_prior(0, theta=1.0, epsilon=0.0, wide_rows=wide)
    P = random_coef(0)
    D = prior.D.toarray()
    np.testing.assert_allclose(prior.gradient(P), D.T @ (D @ P), atol=1e-12)
    assert (prior._gram is None) == wide


def test_nothing_known_costs_nothing():
    prior = QuadraticPrior.none(5, 4)
    assert prior.value(random_coef(0)) == 0.0
    assert not prior.gradient(random_coef(0)).any()
    assert prior.relation_spectrum() == (0.0, 0.0)
    assert prior.largest_tie() == 0.0


def test_strength_zero_switches_a_term_off():
    P = random_coef(3)
    both, ties = random_prior(3), random_prior(3, theta=0.0)
    relations = random_prior(3, epsilon=0.0)
    np.testing.assert_allclose(
        both.gradient(P), ties.gradient(P) + relations.gradient(P), atol=1e-12
    )


@LAW
@given(SEEDS)
def test_spectra_bound_both_terms(seed):
    prior, P = random_prior(seed), random_coef(seed)
    low, high = prior.relation_spectrum()
    size = np.sum(P**2)
    relations = np.sum((prior.D @ P) ** 2)
    assert low * size - 1e-9 <= relations <= high * size + 1e-9
    ties = random_prior(seed, theta=0.0, epsilon=2.0)
    assert ties.value(P) <= ties.largest_tie() * size + 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_the_relation_spectrum_is_that_of_the_dense_matrix(seed):
    prior = random_prior(seed)
    values = np.linalg.eigvalsh((prior.D.T @ prior.D).toarray())
    expected = values[[0, -1]]
    np.testing.assert_allclose(prior.relation_spectrum(), expected, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_the_relation_spectrum_needs_no_dense_matrix(seed, monkeypatch):
    lowest, highest = random_prior(seed).relation_spectrum()
    monkeypatch.setattr(quadratic, "DENSE_SIZE", 2)
    bound, found = random_prior(seed).relation_spectrum()
    assert found == pytest.approx(highest, rel=1e-9)
    assert bound <= lowest + 1e-12


def large_prior(prior, d):
    moments = summarize_tasks(from_labels(csr_array((1, d)), np.zeros(1), [0]))
    return QuadraticPrior(
        prior.parts[0].resolve(moments).matrix(d), Laplacian.empty(1), 1.0, 0.0
    )


def test_the_relation_spectrum_of_a_large_grid():
    prior = large_prior(FeaturePrior.grid(40, 30), 1200)
    expected = 4 + 2 * np.cos(np.pi / 40) + 2 * np.cos(np.pi / 30)
    assert prior.relation_spectrum()[1] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("count", [1, 2])
def test_the_relation_spectrum_of_few_relations_among_many_features(count):
    pairs = [(2 * k, 2 * k + 1) for k in range(count)]
    prior = large_prior(FeaturePrior.similar(pairs), 1200)
    assert prior.relation_spectrum() == pytest.approx((0.0, 2.0))


def test_the_largest_tie_carries_the_largest_weight():
    graph = laplacian(TaskPrior.mean(), range(4))
    weights = np.array([0.0, 0.5, 3.0, 1.0, 1.0])
    prior = QuadraticPrior(csr_array((0, 5)), graph, 0.0, 1.0, weights)
    assert prior.largest_tie() == pytest.approx(3.0)


def test_weight_zero_unties_a_row():
    graph = laplacian(TaskPrior.mean(), range(4))
    weights = np.array([0.0, 1.0, 1.0, 1.0, 1.0])
    prior = QuadraticPrior(csr_array((0, 5)), graph, 0.0, 2.0, weights)
    gradient = prior.gradient(random_coef(0))
    assert not gradient[0].any()
    assert gradient[1].any()


@pytest.mark.parametrize("wide", [False, True])
def test_relations_written_out_are_those_of_the_gradient(wide):
    prior = random_prior(0, epsilon=0.0, wide_rows=wide)
    P = random_coef(1)
    np.testing.assert_allclose(prior.relation @ P, prior.gradient(P), atol=1e-12)
