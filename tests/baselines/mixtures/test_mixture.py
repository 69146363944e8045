"""EM: golden likelihoods, monotone, blind to the order of components."""

import numpy as np
import pytest

from golden import golden_rows
from mixed_tasks import family_of, labelled, planted, random_mixture
from priormtl.baselines.fedem import FedEM
from priormtl.baselines.mixtures.mixture import (
    Mixture,
    em_step,
    expect,
    mixing_shares,
    start_mixtures,
)


def run_steps(family, mixture, steps):
    objectives = []
    for _ in range(steps):
        expectation = expect(family, mixture)
        objectives.append(expectation.objective)
        mixture = em_step(family, mixture, expectation)
    return mixture, np.array(objectives)


@pytest.mark.parametrize("plain", [True, False])
def test_likelihoods_of_two_components_are_golden(plain):
    family = family_of(*golden_rows(4, 5), ridge=1e-3 / 0.25, plain=plain)
    start = family.features.enter(np.eye(5)[[0, 4]], np.zeros(2))
    mixture = Mixture(family.at(start, 0.25), np.full((4, 2), 0.5))
    found = []
    for _ in range(51):
        part_of, likelihood, _ = expect(family, mixture)
        found.append(likelihood)
        shares = mixing_shares(family.cells, part_of)
        mixture = Mixture(family.solve(mixture.parts, part_of), shares)
    np.testing.assert_allclose(found[:3], [-128.047565, -10.337308, -9.273237])
    assert found[50] == pytest.approx(-6.46235911, abs=5e-9)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("intercept", [True, False])
def test_likelihood_never_falls(loss, ridge, intercept):
    X, y, task = labelled() if loss == "logistic" else planted()[:3]
    family = family_of(X, y, task, loss=loss, ridge=ridge, intercept=intercept)
    for seed in range(3):
        _, objectives = run_steps(family, random_mixture(family, 3, seed), 40)
        assert np.all(np.diff(objectives) <= 1e-12 * np.abs(objectives[1:]))
        assert objectives[-1] < objectives[0]


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_order_of_components_does_not_matter(loss):
    X, y, task = labelled() if loss == "logistic" else planted()[:3]
    family = family_of(X, y, task, loss=loss, ridge=0.1, intercept=True)
    start = random_mixture(family, 3)
    order = [2, 0, 1]
    other = Mixture(family.at(start.parts.coef[order], 0.7), start.shares[:, order])
    end, objectives = run_steps(family, start, 15)
    turned, same = run_steps(family, other, 15)
    np.testing.assert_allclose(same, objectives, rtol=1e-9)
    np.testing.assert_allclose(turned.shares, end.shares[:, order], atol=1e-6)


def test_identical_components_never_separate():
    family = family_of(*planted()[:3])
    mixture = random_mixture(family, 2)
    same = family.at(mixture.parts.coef[[0, 0]], 0.7)
    end, _ = run_steps(family, Mixture(same, np.full((10, 2), 0.5)), 20)
    np.testing.assert_array_equal(end.parts.coef[0], end.parts.coef[1])


@pytest.mark.parametrize("m", [1, 2, 7])
def test_first_components_differ(m):
    X, y, task, *_ = planted(m=m)
    for loss, targets in [("squared", y), ("logistic", np.sign(y))]:
        family = family_of(X, targets, task, loss=loss, ridge=0.1, intercept=True)
        rng = np.random.default_rng(0)
        for start in start_mixtures(family, 4, 2, rng):
            coef = start.parts.coef
            apart = np.abs(coef[:, np.newaxis] - coef).max(axis=2)
            assert np.all(apart[~np.eye(4, dtype=bool)] > 1e-3)


def test_a_known_task_finds_its_shares_from_components_alone():
    X, y, task, *_ = planted()
    model = FedEM(2, 1e-3, tol=1e-12, max_iter=5000).fit(X, y, task=task)
    rows = task == 3
    family = family_of(X[rows], y[rows], task[rows], intercept=True)
    coef = family.features.enter(model.components_, model.component_intercepts_)
    mixture = Mixture(family.at(coef, model.noise_variance_), np.full((1, 2), 0.5))
    for _ in range(1000):
        part_of = expect(family, mixture).part_of
        mixture = Mixture(mixture.parts, mixing_shares(family.cells, part_of))
    np.testing.assert_allclose(mixture.shares[0], model.mixture_[3], atol=1e-4)


def test_believing_in_too_much_noise_blurs_components():
    rng = np.random.default_rng(0)
    theta = np.array([[1.0, 0.0], [0.0, 1.0]])
    task, part = np.repeat(np.arange(20), 100), rng.integers(2, size=2000)
    X = rng.standard_normal((2000, 2))
    y = np.sum(X * theta[part], axis=1) + 0.3 * rng.standard_normal(2000)
    family = family_of(X, y, task, plain=True)

    def error(*, learn):
        mixture = Mixture(family.at(theta), np.full((20, 2), 0.5))
        for _ in range(100):
            part_of = expect(family, mixture).part_of
            parts = family.solve(mixture.parts, part_of)
            parts = family.learn_variance(parts, part_of) if learn else parts
            mixture = Mixture(parts, mixing_shares(family.cells, part_of))
        return np.abs(mixture.parts.coef - theta).max()

    assert 3 * error(learn=True) < error(learn=False)
