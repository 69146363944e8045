"""Federated rounds: clients descend on their own rows, a server averages.

Each round every client finds, with the components it was sent, where its cells come
from and in which shares; then it makes some passes of stochastic gradient descent over
its rows. The server's components are the clients', averaged by weight. Rates are those
of squared error: the variance of the noise, where there is one, is learned beside.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.baselines.mixtures.components import LinearFamily, LinearParts
from priormtl.baselines.mixtures.mixture import (
    Expectation,
    Fitted,
    Mixture,
    expect,
    mixing_shares,
)

__all__ = ["Descent", "federated_round", "run_rounds", "start_at_random"]


@dataclass(frozen=True)
class Descent:
    """How a client descends."""

    rate: float
    epochs: int
    batch_size: int

    def slower(self, progress: float) -> "Descent":
        """A tenth of the rate after half of the rounds, again after three quarters."""
        rate = self.rate * 0.1 ** ((progress >= 0.5) + (progress >= 0.75))
        return Descent(rate, self.epochs, self.batch_size)


def start_at_random(
    family: LinearFamily, n_components: int, rng: np.random.Generator
) -> Mixture[LinearParts]:
    """Components as layers of networks begin, in even shares."""
    m, p = family.cells.n_tasks, len(family.features.penalised)
    coef = rng.uniform(-1.0, 1.0, (n_components, p)) / np.sqrt(p)
    shares = np.full((m, n_components), 1.0 / n_components)
    even = shares[family.cells.task].T
    return Mixture(family.learn_variance(family.at(coef), even), shares)


def run_rounds(
    family: LinearFamily,
    start: Mixture[LinearParts],
    descent: Descent,
    rounds: int,
    rng: np.random.Generator,
) -> Fitted[LinearParts]:
    """All rounds, at falling rates."""
    run = Fitted(start, expect(family, start), np.inf, 0)
    for n in range(rounds):
        pace = descent.slower(n / rounds)
        with np.errstate(over="ignore", invalid="ignore"):
            mixture = federated_round(family, run.mixture, run.expectation, pace, rng)
            expectation = expect(family, mixture)
        gain = run.expectation.objective - expectation.objective
        if not np.isfinite(expectation.objective):
            raise ValueError(
                f"learning_rate must be small enough to descend: {descent.rate:g} led "
                "to infinite components; lower it or set standardize=True."
            )
        run = Fitted(mixture, expectation, gain, n + 1)
    return run


def federated_round(
    family: LinearFamily,
    mixture: Mixture[LinearParts],
    expectation: Expectation,
    descent: Descent,
    rng: np.random.Generator,
) -> Mixture[LinearParts]:
    """One round: shares and descent of each client, then the server's average."""
    cells = family.cells
    weights = cells.task_weight / cells.total
    groups = _members(cells.task, cells.n_tasks)
    coef = np.zeros_like(mixture.parts.coef)
    for weight, members in zip(weights, groups, strict=True):
        client = _Client(family, members, expectation.part_of)
        coef += weight * client.descend(mixture.parts, descent, rng)
    parts = family.at(coef, mixture.parts.variance)
    shares = mixing_shares(cells, expectation.part_of)
    return Mixture(family.learn_variance(parts, expectation.part_of), shares)


@dataclass(frozen=True, eq=False)
class _Client:
    """A task that keeps its rows to itself."""

    family: LinearFamily
    members: Index  # its cells
    part_of: Array  # (M, N)

    def descend(
        self, parts: LinearParts, descent: Descent, rng: np.random.Generator
    ) -> Array:
        """Coefficients after some passes over its rows in random batches."""
        coef = parts.coef
        damping = self.family.damping(parts.variance) / self.family.cells.total
        for _ in range(descent.epochs):
            for batch in self._batches(descent.batch_size, rng):
                slope = self._gradient(coef, batch) + damping * coef
                coef = coef - descent.rate * slope
        return coef

    def _batches(self, size: int, rng: np.random.Generator) -> Iterator[Index]:
        if size >= len(self.members):
            yield self.members
            return
        order = rng.permutation(self.members)
        for begin in range(0, len(order), size):
            yield order[begin : begin + size]

    def _gradient(self, coef: Array, batch: Index) -> Array:
        """Mean of q ∇ℓ over a batch (M, p)."""
        cells, response = self.family.cells, self.family.response
        rows = self.family.features.matrix[cells.row[batch]]
        share = cells.weight[batch] / cells.weight[batch].sum()
        expected = response.mean(np.asarray(coef @ rows.T))
        pull = self.part_of[:, batch] * (expected - response.targets(cells)[batch])
        return np.asarray((pull * share) @ rows)


def _members(task: Index, n_tasks: int) -> list[Index]:
    """Cells of each task."""
    order = np.argsort(task, kind="stable")
    return np.split(order, np.searchsorted(task[order], np.arange(1, n_tasks)))
