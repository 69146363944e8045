"""Expectation maximisation of mixtures, by exact steps or in federated rounds.

Maximises over components θ and mixing weights π of the tasks::

    Σ w log Σ_k π_ik p(y | x, θ_k)  −  penalty(θ)

E-step: responsibilities q_k ∝ π_ik p(y | x, θ_k) of every sample. M-step: π_i is the
weighted mean of the responsibilities of task i; the family improves the components.

In a federated round every task (client) makes some epochs of stochastic gradient
descent on its own samples from the components it was sent; the server averages the
clients' components by weight. Learning rates are those of the squared error: the noise
variance is learned separately.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.baselines.fedem.components import LinearComponents, LinearFamily
from priormtl.baselines.fedem.samples import Samples

SHORT = 10  # steps after which starts are compared

S = TypeVar("S")


class Family(Protocol[S]):
    """A kind of components, bound to samples; S holds M of them."""

    @property
    def samples(self) -> Samples:
        """What is fitted."""

    def log_density(self, components: S) -> Array:
        """log p(y | x, θ_k) of every sample (M, N)."""

    def penalty(self, components: S) -> float:
        """Subtracted from the log-likelihood."""

    def improve(self, components: S, responsibility: Array) -> S:
        """M-step of the components at these responsibilities (M, N)."""

    def start(self, responsibility: Array, rng: np.random.Generator) -> S:
        """First components, no two alike."""


@dataclass(frozen=True, eq=False)
class Mixture(Generic[S]):
    """Components and each task's mixing weights."""

    components: S
    weights: Array  # π (m, M), rows sum to one


class Expectation(NamedTuple):
    """Result of the E-step."""

    responsibility: Array  # (M, N) posterior probabilities, columns sum to one
    log_likelihood: float
    objective: float  # negative penalised log-likelihood per weight


class Fitted(NamedTuple, Generic[S]):
    """State of a run."""

    mixture: Mixture[S]
    expectation: Expectation
    gain: float  # of the last step, in log-likelihood per weight
    n_iter: int


def log_weights(weights: Array) -> Array:
    """Logarithms; minus infinity for a weight of zero."""
    with np.errstate(divide="ignore"):
        return np.log(weights)


def e_step(family: Family[S], mixture: Mixture[S]) -> Expectation:
    """Responsibilities, and with them the likelihood (log-sum-exp over components)."""
    samples = family.samples
    # log π_ik + log p(y | x, θ_k), whose exponentials are proportional to q.
    joint = family.log_density(mixture.components)
    joint = joint + log_weights(mixture.weights).T[:, samples.task]
    # Relative to the largest component, so that no exponential overflows.
    largest = joint.max(axis=0)
    responsibility = np.exp(joint - largest)
    total = responsibility.sum(axis=0)
    likelihood = float(samples.weight @ (largest + np.log(total)))
    objective = (family.penalty(mixture.components) - likelihood) / samples.total
    return Expectation(responsibility / total, likelihood, objective)


def mixing_weights(samples: Samples, responsibility: Array) -> Array:
    """M-step of π: mean responsibilities of each task (m, M)."""
    sums = samples.sum_by_task(responsibility * samples.weight)
    return (sums / samples.task_weight).T


def m_step(
    family: Family[S], mixture: Mixture[S], expectation: Expectation
) -> Mixture[S]:
    """Mixing weights and components at the given responsibilities."""
    # For given responsibilities, π and θ are independent of one another.
    responsibility = expectation.responsibility
    weights = mixing_weights(family.samples, responsibility)
    return Mixture(family.improve(mixture.components, responsibility), weights)


def start_mixtures(
    family: Family[S], n_components: int, n_init: int, rng: np.random.Generator
) -> Iterator[Mixture[S]]:
    """Components of random parts of the tasks (halves, for two), in even shares."""
    m = family.samples.n_tasks
    weights = np.full((m, n_components), 1.0 / n_components)
    parts = min(n_components, m)  # some are the same where tasks are too few
    for _ in range(n_init if n_components > 1 else 1):
        dealt = rng.permutation(m) % parts
        masks = (dealt == np.arange(n_components)[:, np.newaxis] % parts).astype(float)
        yield Mixture(family.start(masks[:, family.samples.task], rng), weights)


def fit_mixture(
    family: Family[S], starts: Iterator[Mixture[S]], tol: float, max_iter: int
) -> Fitted[S]:
    """Run EM from the best of several short runs."""

    def run_em(run: Fitted[S], most: int) -> Fitted[S]:
        while run.n_iter < most and abs(run.gain) > tol:
            mixture = m_step(family, run.mixture, run.expectation)
            expectation = e_step(family, mixture)
            gain = run.expectation.objective - expectation.objective
            run = Fitted(mixture, expectation, gain, run.n_iter + 1)
        return run

    runs = [
        run_em(Fitted(start, e_step(family, start), np.inf, 0), min(SHORT, max_iter))
        for start in starts
    ]
    # The problem is not convex: only the most promising start is followed to the end.
    best = min(runs, key=lambda run: run.expectation.objective)
    return run_em(best, max_iter)


# Federated rounds


@dataclass(frozen=True)
class SGD:
    """Settings of a client's stochastic gradient descent."""

    rate: float
    epochs: int
    batch_size: int

    def decayed(self, progress: float) -> "SGD":
        """A tenth of the rate after half of the rounds, again after three quarters."""
        rate = self.rate * 0.1 ** ((progress >= 0.5) + (progress >= 0.75))
        return SGD(rate, self.epochs, self.batch_size)


def random_mixture(
    family: LinearFamily, n_components: int, rng: np.random.Generator
) -> Mixture[LinearComponents]:
    """Components initialised like layers of a network, in even shares."""
    m, p = family.samples.n_tasks, len(family.features.penalised)
    coef = rng.uniform(-1.0, 1.0, (n_components, p)) / np.sqrt(p)
    weights = np.full((m, n_components), 1.0 / n_components)
    even = weights[family.samples.task].T
    return Mixture(family.learn_variance(family.at(coef), even), weights)


def fit_federated(
    family: LinearFamily,
    start: Mixture[LinearComponents],
    sgd: SGD,
    rounds: int,
    rng: np.random.Generator,
) -> Fitted[LinearComponents]:
    run = Fitted(start, e_step(family, start), np.inf, 0)
    for n in range(rounds):
        decayed = sgd.decayed(n / rounds)
        with np.errstate(over="ignore", invalid="ignore"):
            mixture = federated_round(
                family, run.mixture, run.expectation, decayed, rng
            )
            expectation = e_step(family, mixture)
        gain = run.expectation.objective - expectation.objective
        if not np.isfinite(expectation.objective):
            raise ValueError(
                f"learning_rate={sgd.rate:g} is too large: gradient descent diverged. "
                "Lower it or set standardize=True."
            )
        run = Fitted(mixture, expectation, gain, n + 1)
    return run


def federated_round(
    family: LinearFamily,
    mixture: Mixture[LinearComponents],
    expectation: Expectation,
    sgd: SGD,
    rng: np.random.Generator,
) -> Mixture[LinearComponents]:
    """One round: mixing weights and descent of each client, then the average."""
    samples, responsibility = family.samples, expectation.responsibility
    order = np.argsort(samples.task, kind="stable")
    ends = np.searchsorted(samples.task[order], np.arange(1, samples.n_tasks))
    shares = samples.task_weight / samples.total
    coef = np.zeros_like(mixture.components.coef)
    for share, members in zip(shares, np.split(order, ends), strict=True):
        # The server averages the clients' components by their weight, as published.
        coef += share * _descend(
            family, mixture.components, responsibility, members, sgd, rng
        )
    components = family.at(coef, mixture.components.variance)
    weights = mixing_weights(samples, responsibility)
    return Mixture(family.learn_variance(components, responsibility), weights)


def _descend(
    family: LinearFamily,
    components: LinearComponents,
    responsibility: Array,
    members: Index,
    sgd: SGD,
    rng: np.random.Generator,
) -> Array:
    """Coefficients (M, p) after some epochs over a client's samples."""
    samples, response = family.samples, family.response
    coef = components.coef
    ridge = family.ridge_diagonal(components.variance) / samples.total
    targets, size = response.targets(samples), sgd.batch_size
    for _ in range(sgd.epochs):
        order = members if size >= len(members) else rng.permutation(members)
        for begin in range(0, len(order), size):
            batch = order[begin : begin + size]
            # Mean of q ∇ℓ over the batch.
            rows = family.features.matrix[samples.row[batch]]
            share = samples.weight[batch] / samples.weight[batch].sum()
            expected = response.mean(np.asarray(coef @ rows.T))
            slope = responsibility[:, batch] * (expected - targets[batch])
            gradient = np.asarray((slope * share) @ rows) + ridge * coef
            coef = coef - sgd.rate * gradient
    return coef
