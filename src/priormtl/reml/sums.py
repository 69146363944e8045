"""A mixed model of tasks tied to their mean, from sums over blocks of tasks.

Coefficients u_i of a task are q + deviations of variances σ² θ. With the rows F_i, f_i
of a task, V_i = I + F_i Θ F_iᵀ and Y_i = V_i^(-1/2) [F_i, f_i], a block of tasks tells
Σ Y_iᵀ Y_i and Σ log |V_i|; the former is the Schur complement of the arrow that is left
for q once tasks are eliminated. Given q and the root of its inverse, it tells the
derivatives of the restricted likelihood in θ, as in `models` (`StarModel`, in which all
tasks are at hand). Both are k × k numbers for k coefficients, whatever the tasks.

Steps take a matrix ``turn`` that changes columns of rows into the k + 1 ones in use:
chosen, centred and scaled, with targets less what is known of them.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.data import Block, Chunk, HeldTasks, Sums, Tasks, chosen_tasks
from priormtl.reml.models import NONE, ONE, Derivatives
from priormtl.reml.ties import (
    CONSTANT,
    SAMPLED_TASKS,
    SETTLED,
    STILL,
    Components,
    Evidence,
    maximise,
)

SINGULAR = 1e-8  # eigenvalues below this, of a Gram matrix with diagonal 1, are zero


def turned(chunk: Chunk, turn: Array) -> Array:
    """Rows in use (b, r, k + 1)."""
    rows = chunk.weighted()
    return np.asarray(rows.reshape(-1, len(turn)) @ turn).reshape(*rows.shape[:2], -1)


def whitened(rows: Array, theta: Array) -> tuple[Array, float]:
    """V_i^(-1/2) times rows (b, r, k + 1), and Σ log |V_i|."""
    from priormtl.reml.kernel import whiten  # noqa: PLC0415  (slow to import)

    varying = np.flatnonzero(theta)
    if len(varying) == 0:
        return rows, 0.0
    out = np.empty_like(rows)
    return out, float(whiten(rows, varying, theta[varying], out))


# Steps, which blocks take where they are.


def add_products(turn: Array, theta: Array, block: Block) -> Sums:
    """Σ Yᵀ Y (k + 1, k + 1) and Σ log |V|."""
    width = turn.shape[1]
    products, logs = np.zeros((width, width)), 0.0
    for chunk in block.chunks:
        white, log = whitened(turned(chunk, turn), theta)
        flat = white.reshape(-1, width)
        products += flat.T @ flat
        logs += log
    return products, logs


def add_scores(
    turn: Array, theta: Array, fixed: Array, half: Array, block: Block
) -> Sums:
    """Squares (k,), traces (k,), information and its products with q (k, k).

    ``half`` is H with Hᵀ H = (Σ Yᵀ Y)⁻¹; see `StarFit.derivatives`.
    """
    from priormtl.reml.kernel import add_traces  # noqa: PLC0415

    k = len(theta)
    squares, traces = np.zeros(k), np.zeros(k)
    information, crossed = np.zeros((k, k)), np.zeros((k, k))
    for chunk in block.chunks:
        white, _ = whitened(turned(chunk, turn), theta)
        flat = white.reshape(-1, k + 1)
        flat_x = np.ascontiguousarray(flat[:, :k])
        misses = (flat[:, k] - flat_x @ fixed).reshape(white.shape[:2])
        Y = flat_x.reshape(*white.shape[:2], k)
        pulls = np.matmul(misses[:, np.newaxis, :], Y)[:, 0]
        squares += np.einsum("bj,bj->j", pulls, pulls)
        add_traces(Y, (flat_x @ half.T).reshape(Y.shape), traces)
        moved = (Y * pulls[:, np.newaxis, :]).reshape(flat_x.shape)
        information += moved.T @ moved
        crossed += moved.T @ flat_x
    return squares, traces, information, crossed


class Survey(NamedTuple):
    """What blocks say of their rows, about given means."""

    n_tasks: float
    n_rows: float
    weight: float
    products: Array  # (d + 2, d + 2) of [1, x, y] about the means
    within: Array  # (d + 1,) squares of x and y about the means of tasks

    def is_still(self, mean: Array) -> np.ndarray:
        """Features (d,) that are constant within every task."""
        d = len(mean) - 1
        variance = self.products.diagonal()[1 : d + 1] / self.weight
        least = np.maximum(STILL * variance, (CONSTANT * mean[:d]) ** 2)
        return np.asarray(self.within[:d] / self.weight <= least)


def add_means(block: Block) -> Sums:
    """Weight, and weighted sums of x and y."""
    weight = block.means[:, 0]
    return float(weight.sum()), weight @ block.means[:, 1:]


def add_survey(centre: Array, block: Block) -> Sums:
    """The numbers of a `Survey` about means ``centre`` (d + 1,) of x and y."""
    width = block.means.shape[1]
    turn = np.eye(width)
    turn[0, 1:] = -centre
    products = np.zeros((width, width))
    for chunk in block.chunks:
        flat = turned(chunk, turn).reshape(-1, width)
        products += flat.T @ flat
    weight, apart = block.means[:, 0], block.means[:, 1:] - centre
    within = products.diagonal()[1:] - weight @ apart**2
    size = float(len(block.tasks)), float(block.counts.sum()), float(weight.sum())
    return *size, products, within


def survey(tasks: Tasks) -> tuple[Survey, Array]:
    """Sums over all rows about their means, and the means of x and y (d + 1,)."""
    weight, sums = tasks.add(add_means)
    centre = sums / weight
    found = tasks.add(partial(add_survey, centre))
    n_tasks, n_rows, total, products, within = found
    sizes = float(n_tasks), float(n_rows), float(total)
    return Survey(*sizes, products, within), centre


def pick(share: float, block: Block) -> Block:
    """A share of the tasks of a block."""
    return block.only(chosen_tasks(block.tasks, share))


def sample(tasks: Tasks, n_tasks: float) -> HeldTasks:
    """About `SAMPLED_TASKS` tasks, the same ones however they are divided."""
    found = tasks.collect(partial(pick, SAMPLED_TASKS / n_tasks))
    blocks = [block for block in found if len(block.tasks)]
    return HeldTasks(tuple(blocks))


# The model, for any variances.


@dataclass(frozen=True, eq=False)
class SumModel:
    """Least squares in k coefficients per task, for any variances."""

    tasks: Tasks
    turn: Array  # (d + 2, k + 1)
    gauge: Array  # (k, k) projector on what no data see
    n_free: int
    squares: float  # of the targets

    @classmethod
    def of(cls, tasks: Tasks, turn: Array, products: Array) -> "SumModel":
        """Model of tasks with products (k + 1, k + 1) of all their rows."""
        gram = products[:-1, :-1]
        values, vectors = np.linalg.eigh(gram)
        top = float(gram.diagonal().max(initial=0.0))
        blind = vectors[:, values <= SINGULAR * top]
        n_free, squares = len(gram) - blind.shape[1], float(products[-1, -1])
        return cls(tasks, turn, blind @ blind.T, n_free, squares)

    def fit(
        self, theta: Array, shrinkage: Array | None = None, spread: Array = ONE
    ) -> "SumFit":
        """Add up what tasks say of q."""
        products, logs = self.tasks.add(partial(add_products, self.turn, theta))
        return SumFit(self, theta, products, float(logs))


@dataclass(frozen=True, eq=False)
class SumFit:
    """Best coefficients for some variances."""

    model: SumModel
    theta: Array
    products: Array
    logs: float

    @cached_property
    def root(self) -> Array:
        """Lower triangular factor of Σ Yᵀ Y."""
        S = self.products[:-1, :-1] + self.model.gauge
        return np.asarray(np.linalg.cholesky(S))

    @property
    def log_determinant(self) -> float:
        """log |V| + log |Xᵀ V⁻¹ X|."""
        return self.logs + 2.0 * float(np.log(self.root.diagonal()).sum())

    @cached_property
    def fixed(self) -> Array:
        """q (k,)."""
        return np.asarray(cho_solve((self.root, True), self.products[:-1, -1]))

    @property
    def misfit(self) -> float:
        """yᵀ P y."""
        return float(self.products[-1, -1] - self.products[:-1, -1] @ self.fixed)

    @property
    def coef(self) -> Array:
        """Not here: blocks compute coefficients where their rows are."""
        raise NotImplementedError

    @property
    def half(self) -> Array:
        """H with Hᵀ H the inverse of Σ Yᵀ Y."""
        return np.asarray(np.linalg.inv(self.root))

    @cached_property
    def _scores(self) -> Derivatives:
        step = partial(add_scores, self.model.turn, self.theta, self.fixed, self.half)
        squares, traces, information, crossed = self.model.tasks.add(step)
        across = crossed @ self.half.T
        return Derivatives(squares, traces, information - across @ across.T)

    def derivatives(
        self, rows: Index, shrunken: Index = NONE, levels: Index = NONE
    ) -> Derivatives:
        """Derivatives for these coefficients, varying or not."""
        found = self._scores
        information = found.information[np.ix_(rows, rows)]
        return Derivatives(found.squares[rows], found.traces[rows], information)


class Estimate(NamedTuple):
    """Variances at the maximum of the restricted likelihood."""

    theta: Array  # (k,) in units of the noise
    noise_variance: float
    fit: SumFit
    criterion: float


def estimate_on_sums(
    model: SumModel,
    survey: Survey,
    allowed: Index,
    *,
    noise_variance: float | None = None,
    start: Array | None = None,
    tolerance: float = SETTLED,
) -> Estimate | None:
    """Maximise the restricted likelihood; None where data tell nothing.

    Columns are in units in which the mean curvature of a task is 1. Of many tasks, a
    sample gives the start.
    """
    k, n = model.turn.shape[1] - 1, survey.n_rows
    settled_per_task = 1e-6
    parts = Components(np.arange(k), np.full(k, -1), k, 1, False)
    theta = np.zeros(k)
    theta[allowed] = 1.0
    if start is not None:
        theta = start
    elif survey.n_tasks > 2 * SAMPLED_TASKS:
        some = sample(model.tasks, survey.n_tasks)
        share = sum(len(block.tasks) for block in some.blocks) / survey.n_tasks
        near = survey._replace(n_tasks=share * survey.n_tasks, n_rows=share * n)
        squares = share * model.squares
        smaller = SumModel(some, model.turn, model.gauge, model.n_free, squares)
        found = estimate_on_sums(
            smaller, near, allowed, noise_variance=noise_variance, start=theta
        )
        theta = theta if found is None else found.theta
    squares, freedom = model.squares, n - model.n_free
    if freedom <= 0 or not squares > 0:
        return None
    first = Evidence(model, parts, squares, freedom, noise_variance, theta)
    least = max(tolerance, settled_per_task * survey.n_tasks)
    best = maximise(first, 1.0, allowed, least)
    if noise_variance is None and best.is_saturated:
        best = maximise(best.without_zero_noise(), 1.0, allowed, least)
    fit = best.fit
    assert isinstance(fit, SumFit)
    return Estimate(best.theta, best.noise_variance, fit, best.value)
