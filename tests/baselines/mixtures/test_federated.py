"""Federated rounds: pooled gradient steps, averages, rates."""

import numpy as np
import pytest

from mixed_tasks import family_of, labelled, planted, random_mixture
from priormtl.baselines.fedem import FedEM, FedEMClassifier
from priormtl.baselines.mixtures.federated import Descent, federated_round, run_rounds
from priormtl.baselines.mixtures.mixture import expect, mixing_shares


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_full_round_is_one_pooled_gradient_step(loss):
    X, y, task = labelled() if loss == "logistic" else planted()[:3]
    family = family_of(X, y, task, loss=loss, ridge=0.3, plain=True)
    mixture = random_mixture(family, 3)
    expectation = expect(family, mixture)
    rng = np.random.default_rng(0)
    descent = Descent(0.2, epochs=1, batch_size=10**6)
    found = federated_round(family, mixture, expectation, descent, rng)
    coef, q = mixture.parts.coef, expectation.part_of
    surprise = family.response.mean(coef @ X.T) - family.response.targets(family.cells)
    noise = mixture.parts.variance
    pooled = (q * surprise) @ X / len(y) + 0.3 * noise * coef / len(y)
    np.testing.assert_allclose(found.parts.coef, coef - 0.2 * pooled, atol=1e-14)
    np.testing.assert_allclose(found.shares, mixing_shares(family.cells, q))


def test_one_federated_component_is_federated_averaging():
    X, y, task, *_ = planted(m=3, n=7)
    family = family_of(X, y, task, plain=True)
    start = random_mixture(family, 1)
    rng = np.random.default_rng(0)
    run = run_rounds(family, start, Descent(0.05, 4, 10**6), 1, rng)
    average = np.zeros(5)
    for i in range(3):
        local, rows = start.parts.coef[0], task == i
        for _ in range(4):
            local = local - 0.05 * X[rows].T @ (X[rows] @ local - y[rows]) / 7
        average += local / 3
    np.testing.assert_allclose(run.mixture.parts.coef[0], average, rtol=1e-12)


def test_rates_fall_after_half_and_three_quarters():
    rates = [Descent(1.0, 1, 1).slower(p).rate for p in (0, 0.49, 0.5, 0.75)]
    np.testing.assert_allclose(rates, [1, 1, 0.1, 0.01])


def test_federated_rounds_come_close_to_em():
    X, y, task, *_ = planted(m=20, n=100)
    exact = FedEM(2, 1e-3, tol=1e-10).fit(X, y, task=task)
    settings = {"mode": "federated", "learning_rate": 0.3, "max_iter": 200}
    runs = [
        FedEM(2, 1e-3, random_state=seed, **settings).fit(X, y, task=task)
        for seed in range(2)
    ]
    best = min(run.objective_ for run in runs)
    assert exact.objective_ - 1e-9 <= best < exact.objective_ + 0.01
    assert runs[0].n_iter_ == 200


def test_batches_are_drawn_from_the_seed():
    X, y, task = labelled(m=3, n=40)
    settings = {"mode": "federated", "batch_size": 8, "max_iter": 20}
    first = FedEMClassifier(2, **settings).fit(X, y, task=task)
    again = FedEMClassifier(2, **settings).fit(X, y, task=task)
    other = FedEMClassifier(2, random_state=1, **settings).fit(X, y, task=task)
    np.testing.assert_array_equal(first.components_, again.components_)
    assert np.abs(first.components_ - other.components_).max() > 1e-3


def test_descent_that_diverges_says_so():
    X, y, task, *_ = planted()
    model = FedEM(2, mode="federated", learning_rate=1e6)
    with pytest.raises(ValueError, match="learning_rate must be small enough"):
        model.fit(X, y, task=task)
