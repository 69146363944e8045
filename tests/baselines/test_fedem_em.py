"""FedEM inside: EM steps and federated rounds."""

import numpy as np
import pytest
from scipy.special import expit

from drawn_tasks import family_of, mixed_classes, mixed_tasks, random_mixture
from instances import golden_rows
from priormtl.baselines.base import LinearModel
from priormtl.baselines.fedem import Descent, FedEM, FedEMClassifier
from priormtl.baselines.mixtures import MixtureModel

pytestmark = pytest.mark.slow  # test_methods.py has the laws of all methods

BOTH_LOSSES = pytest.mark.parametrize("loss", ["squared", "logistic"])


def rows_of(loss, **kwargs):
    return mixed_classes(**kwargs) if loss == "logistic" else mixed_tasks(**kwargs)[:3]


def test_noise_has_a_floor_relative_to_the_targets():
    """Components that fit exactly leave a millionth of the targets' variance."""
    X, y, task, *_ = mixed_tasks(m=2, n=10, noise=0.0)
    model = FedEM(2, 0.0).fit(X, y, task=task)
    assert model.noise_variance_ == pytest.approx(1e-6 * y.var(), rel=1e-9)


def e_step(family, mixture):
    return family.samples.e_step(mixture, family.penalty(mixture.components), None)


def m_step(family, run, *, learn=True):
    q, last = run.responsibility, run.mixture
    mixture = family.improve(last, q)._replace(weights=family.samples.mixing_weights(q))
    return mixture if learn else mixture._replace(variance=last.variance)


def run_steps(family, mixture, steps, **learn):
    objectives = []
    for _ in range(steps):
        run = e_step(family, mixture)
        objectives.append(run.objective)
        mixture = m_step(family, run, **learn)
    return mixture, np.array(objectives)


@pytest.mark.parametrize("plain", [True, False])
def test_likelihoods_of_two_components_are_golden(plain):
    family = family_of(*golden_rows(4, 5), ridge=1e-3 / 0.25, plain=plain)
    start = np.eye(5)[[0, 4]] if plain else family.basis[[0, 4]]
    mixture, found = family.at(start, np.full((4, 2), 0.5), 0.25), []
    for _ in range(51):
        run = e_step(family, mixture)
        found.append(run.log_likelihood)
        mixture = m_step(family, run, learn=False)
    np.testing.assert_allclose(found[:3], [-128.047565, -10.337308, -9.273237])
    assert found[50] == pytest.approx(-6.46235911, abs=5e-9)


@BOTH_LOSSES
@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("intercept", [True, False])
def test_likelihood_never_falls(loss, ridge, intercept):
    family = family_of(*rows_of(loss), loss=loss, ridge=ridge, intercept=intercept)
    _, objectives = run_steps(family, random_mixture(family, 3), 40)
    assert np.all(np.diff(objectives) <= 1e-12 * np.abs(objectives[1:]))
    assert objectives[-1] < objectives[0]


@BOTH_LOSSES
def test_order_of_components_does_not_matter(loss):
    family = family_of(*rows_of(loss), loss=loss, ridge=0.1, intercept=True)
    start, order = random_mixture(family, 3), [2, 0, 1]
    turned = family.at(start.components[order], start.weights[:, order], 0.7)
    end, objectives = run_steps(family, start, 15)
    other, same = run_steps(family, turned, 15)
    np.testing.assert_allclose(same, objectives, rtol=1e-6)
    np.testing.assert_allclose(other.weights, end.weights[:, order], atol=1e-3)


def test_identical_components_never_separate():
    family = family_of(*mixed_tasks()[:3])
    coef = random_mixture(family, 2).components[[0, 0]]
    end, _ = run_steps(family, family.at(coef, np.full((10, 2), 0.5), 0.7), 20)
    np.testing.assert_array_equal(end.components[0], end.components[1])


@BOTH_LOSSES
@pytest.mark.parametrize("m", [1, 2, 7])
def test_first_components_differ(loss, m):
    X, y, task, *_ = mixed_tasks(m=m)
    y = np.sign(y) if loss == "logistic" else y
    family = family_of(X, y, task, loss=loss, ridge=0.1, intercept=True)
    q, even = np.full((4, len(y)), 0.25), np.full((m, 4), 0.25)
    coef = family.start(q, even, np.random.default_rng(0)).components
    apart = np.abs(coef[:, np.newaxis] - coef).max(axis=2)
    assert np.all(apart[~np.eye(4, dtype=bool)] > 1e-3)


def test_assuming_too_much_noise_blurs_components():
    rng = np.random.default_rng(0)
    theta = np.array([[1.0, 0.0], [0.0, 1.0]])
    task, part = np.repeat(np.arange(20), 100), rng.integers(2, size=2000)
    X = rng.standard_normal((2000, 2))
    y = np.sum(X * theta[part], axis=1) + 0.3 * rng.standard_normal(2000)
    family = family_of(X, y, task, plain=True)

    def error(*, learn):
        start = family.at(theta, np.full((20, 2), 0.5))
        end, _ = run_steps(family, start, 100, learn=learn)
        return np.abs(end.components - theta).max()

    assert 3 * error(learn=True) < error(learn=False)


# Predictions


def test_probabilities_are_averaged_not_scores():
    linear = LinearModel(np.array([[1.0, 0.0], [0.0, -2.0]]), np.array([0.5, 0.0]))
    weights = np.array([[0.3, 0.7], [1.0, 0.0]])
    X = np.random.default_rng(0).standard_normal((6, 2))
    classes = MixtureModel(linear, weights)
    expected = 0.3 * expit(X[:, 0] + 0.5) + 0.7 * expit(-2 * X[:, 1])
    np.testing.assert_allclose(expit(classes.scores(X, 0)), expected)
    np.testing.assert_allclose(classes.scores(X, 1), X[:, 0] + 0.5)
    np.testing.assert_allclose(classes.scores(np.array([[1e4, 0.0]]), 1), 1e4 + 0.5)


# Federated rounds


@BOTH_LOSSES
def test_a_full_round_is_one_pooled_gradient_step(loss):
    X, y, task = rows_of(loss)
    family = family_of(X, y, task, loss=loss, ridge=0.3, plain=True)
    samples, mixture = family.samples, random_mixture(family, 3)
    run = e_step(family, mixture)
    coef, q = mixture.components, run.responsibility
    found = Descent(0.2, 1, 10**6).round(family, run, np.random.default_rng(0))
    mean = coef @ family.matrix.T
    mean = (expit(mean) if loss == "logistic" else mean)[:, samples.row]
    pooled = (q * (mean - samples.y)) @ family.matrix[samples.row] / len(y)
    pooled += 0.3 * mixture.variance * coef / len(y)
    np.testing.assert_allclose(found.components, coef - 0.2 * pooled, atol=1e-14)
    np.testing.assert_allclose(found.weights, samples.mixing_weights(q))


@pytest.mark.parametrize("batch", [3, 7, 10**6])
def test_one_federated_component_is_federated_averaging(batch):
    X, y, task, *_ = mixed_tasks(m=3, n=7)
    family = family_of(X, y, task, plain=True)
    run = e_step(family, random_mixture(family, 1))
    found = Descent(0.05, 4, batch).round(family, run, np.random.default_rng(0))
    twin, average = np.random.default_rng(0), np.zeros(5)
    for i in range(3):
        local, own = run.mixture.components[0], np.flatnonzero(task == i)
        for _ in range(4):
            order = twin.permutation(own) if batch < 7 else own
            for part in np.split(order, range(batch, 7, batch)):
                left = X[part] @ local - y[part]
                local = local - 0.05 * X[part].T @ left / len(part)
        average += local / 3
    np.testing.assert_allclose(found.components[0], average, rtol=1e-12)


def test_rates_fall_after_half_and_three_quarters(monkeypatch):
    rates, plain = [], Descent.round
    monkeypatch.setattr(
        Descent,
        "round",
        lambda self, *rest: rates.append(self.rate) or plain(self, *rest),
    )
    X, y, task, *_ = mixed_tasks(m=2, n=5)
    FedEM(mode="federated", learning_rate=0.1, max_iter=8).fit(X, y, task=task)
    np.testing.assert_allclose(rates, [0.1] * 4 + [0.01] * 2 + [0.001] * 2)


def test_federated_rounds_come_close_to_em():
    X, y, task, *_ = mixed_tasks(m=20, n=100)
    exact = FedEM(2, 1e-3, tol=1e-10).fit(X, y, task=task)
    settings = {"mode": "federated", "learning_rate": 0.3, "max_iter": 100}
    run = FedEM(2, 1e-3, **settings).fit(X, y, task=task)
    assert exact.objective_ - 1e-9 <= run.objective_ < exact.objective_ + 0.01
    assert run.n_iter_ == 100


def test_batches_are_drawn_from_the_seed():
    X, y, task = mixed_classes(m=3, n=40)
    settings = {"mode": "federated", "batch_size": 8, "max_iter": 20}
    first = FedEMClassifier(2, **settings).fit(X, y, task=task)
    again = FedEMClassifier(2, **settings).fit(X, y, task=task)
    other = FedEMClassifier(2, random_state=1, **settings).fit(X, y, task=task)
    np.testing.assert_array_equal(first.components_, again.components_)
    assert np.abs(first.components_ - other.components_).max() > 1e-3


def test_descent_that_diverges_says_so():
    X, y, task, *_ = mixed_tasks()
    model = FedEM(2, mode="federated", learning_rate=1e6)
    with pytest.raises(ValueError, match=r"learning_rate=1e\+06 is too large"):
        model.fit(X, y, task=task)
