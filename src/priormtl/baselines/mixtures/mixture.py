"""Mixture: shared components, mixed by each task in its own shares; fitted by EM.

Maximises over components θ and shares π of the tasks::

    Σ w log Σ_k π_ik p(y | x, θ_k)  −  penalty(θ)

A family says what a component is; the steps here hold for all of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from priormtl._arrays import Array
from priormtl.baselines.mixtures.cells import Cells

__all__ = [
    "Expectation",
    "Family",
    "Fitted",
    "Mixture",
    "em_step",
    "expect",
    "fit_mixture",
    "log_shares",
    "mixing_shares",
    "start_mixtures",
]

SHORT = 10  # steps after which starts are compared

S = TypeVar("S")


class Family(Protocol[S]):
    """A kind of components, bound to cells; S holds M of them."""

    @property
    def cells(self) -> Cells:
        """What is fitted."""

    def log_density(self, parts: S) -> Array:
        """Log p(y | x, θ_k) of every cell (M, N)."""

    def penalty(self, parts: S) -> float:
        """What is taken off the log-likelihood."""

    def improve(self, parts: S, part_of: Array) -> S:
        """Components that fit the cells better, where (M, N) says whose they are."""

    def start(self, part_of: Array, rng: np.random.Generator) -> S:
        """First components, no two alike."""


@dataclass(frozen=True, eq=False)
class Mixture(Generic[S]):
    """Components and each task's shares of them."""

    parts: S
    shares: Array  # π (m, M), rows sum to one


class Expectation(NamedTuple):
    """Which components the cells may come from."""

    part_of: Array  # (M, N) posterior probabilities, columns sum to one
    log_likelihood: float
    objective: float  # penalised log-likelihood per weight, negative


class Fitted(NamedTuple, Generic[S]):
    """Where a run has come to."""

    mixture: Mixture[S]
    expectation: Expectation
    gain: float  # of the last step, in log-likelihood per weight
    n_iter: int


def log_shares(shares: Array) -> Array:
    """Logarithms; minus infinity for a component that a task does not have."""
    with np.errstate(divide="ignore"):
        return np.log(shares)


def expect(family: Family[S], mixture: Mixture[S]) -> Expectation:
    """The E-step, and with it the likelihood."""
    cells = family.cells
    joint = family.log_density(mixture.parts)
    joint = joint + log_shares(mixture.shares).T[:, cells.task]
    largest = joint.max(axis=0)
    part_of = np.exp(joint - largest)
    total = part_of.sum(axis=0)
    likelihood = float(cells.weight @ (largest + np.log(total)))
    objective = (family.penalty(mixture.parts) - likelihood) / cells.total
    return Expectation(part_of / total, likelihood, objective)


def mixing_shares(cells: Cells, part_of: Array) -> Array:
    """The M-step of π: each task's mean of its cells' probabilities (m, M)."""
    return (cells.per_task(part_of * cells.weight) / cells.task_weight).T


def em_step(
    family: Family[S], mixture: Mixture[S], expectation: Expectation
) -> Mixture[S]:
    """The M-step: shares and components, given what the E-step expects."""
    shares = mixing_shares(family.cells, expectation.part_of)
    return Mixture(family.improve(mixture.parts, expectation.part_of), shares)


def fit_mixture(
    family: Family[S], starts: Iterator[Mixture[S]], tol: float, max_iter: int
) -> Fitted[S]:
    """Go on from the best of several short runs."""
    short = min(SHORT, max_iter)
    runs = [_continue(family, _begin(family, start), tol, short) for start in starts]
    best = min(runs, key=lambda run: run.expectation.objective)
    return _continue(family, best, tol, max_iter)


def start_mixtures(
    family: Family[S], n_components: int, n_init: int, rng: np.random.Generator
) -> Iterator[Mixture[S]]:
    """Components of random parts of the tasks (halves, for two), in even shares."""
    m = family.cells.n_tasks
    shares = np.full((m, n_components), 1.0 / n_components)
    for _ in range(n_init if n_components > 1 else 1):
        dealt = _deal_tasks(n_components, m, rng)
        yield Mixture(family.start(dealt[:, family.cells.task], rng), shares)


def _deal_tasks(n_components: int, m: int, rng: np.random.Generator) -> Array:
    """Masks of tasks (M, m); some are the same where tasks are too few."""
    parts = min(n_components, m)
    hand = rng.permutation(m) % parts
    return (hand == np.arange(n_components)[:, np.newaxis] % parts).astype(float)


def _begin(family: Family[S], mixture: Mixture[S]) -> Fitted[S]:
    return Fitted(mixture, expect(family, mixture), np.inf, 0)


def _continue(
    family: Family[S], run: Fitted[S], tol: float, max_iter: int
) -> Fitted[S]:
    while run.n_iter < max_iter and abs(run.gain) > tol:
        mixture = em_step(family, run.mixture, run.expectation)
        expectation = expect(family, mixture)
        gain = run.expectation.objective - expectation.objective
        run = Fitted(mixture, expectation, gain, run.n_iter + 1)
    return run
