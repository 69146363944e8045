"""Evidence: restricted likelihood of ties, with its slope and average information.

Rows of P, and tied intercepts before them, are Gaussian with precision L / τ_j² and
nothing known of what L does not see; the noise has variance σ². With t_j = σ² / τ_j²,
A = blockdiag(gram) + Σ t_j (row j) ⊗ L and the least penalised sum of squares r,
twice the negative log-likelihood is f log σ² + r / σ² + log |A| − rank(L) Σ log t_j,
where f counts the observations beyond the coefficients that L does not see.
"""

from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.graphs import Laplacian
from priormtl.losses import NormalForm
from priormtl.problem.elimination import Elimination, Factor

__all__ = ["Evidence", "GraphModel", "ModeModel", "RowModel"]

SINGULAR = 1e-8  # eigenvalues below this, of a Gram matrix with diagonal 1, are zero
LEAST_MISFIT = 1e-13  # of the sum of squared targets: rounding


class TiedFit(Protocol):
    """Rows at the least penalised sum of squares, for given ties."""

    @property
    def log_determinant(self) -> float:
        """Of A."""

    @property
    def rows(self) -> Array:
        """Fitted rows Q (k, m), in any orthonormal basis of the tasks."""

    @property
    def pulls(self) -> Array:
        """Q L (k, m), in that basis."""

    @property
    def coef(self) -> Array:
        """Q in tasks (k, m)."""

    @property
    def fitted(self) -> float:
        """Sum of squares that the fit takes off."""

    def spreads(self) -> Array:
        """Trace of L times the block of A⁻¹ that belongs to each row (k,)."""

    def responses(self, pulls: Array) -> Array:
        """Entry j, l: pull j times block j, l of A⁻¹ times pull l (k, k)."""


class RowModel(Protocol):
    """Squares of a problem, open for ties."""

    @property
    def rank(self) -> int:
        """Rank of L, as the determinant of A sees it."""

    @property
    def n_free(self) -> int:
        """Coefficients that no tie holds."""

    def fit(self, tie: Array) -> TiedFit:
        """Best rows under these ties; LinAlgError where A is singular."""


@dataclass(frozen=True, eq=False)
class GraphModel:
    """Tasks with Gram matrices of their own."""

    laplacian: Laplacian
    order: Elimination
    gram: Array  # (nodes, k, k): zero for means of groups, with a gauge at the roots
    linear: Array  # (k, m)
    n_free: int

    @classmethod
    def of(cls, form: NormalForm, laplacian: Laplacian, order: Elimination) -> Self:
        """Rows as in the normal form."""
        k, m = form.linear.shape
        parts = order.graph.parts
        gram = np.zeros((order.graph.n_nodes, k, k))
        gram[:m] = form.gram
        pooled = np.zeros((len(order.roots), k, k))
        np.add.at(pooled, parts[:m], gram[:m])
        gauges = [_gauge(block) for block in pooled]
        gram[order.roots] += gauges
        held = round(sum(float(np.trace(gauge)) for gauge in gauges))
        return cls(laplacian, order, gram, form.linear, k * len(gauges) - held)

    @property
    def rank(self) -> int:
        """Rank over all nodes: means of groups are unknowns of A too."""
        return self.order.graph.rank

    def fit(self, tie: Array) -> "GraphFit":
        """Best rows, by elimination of tasks."""
        return GraphFit(self, self.order.factorise(self.gram, tie))


@dataclass(frozen=True, eq=False)
class GraphFit:
    """Best rows of tasks with Gram matrices of their own."""

    model: GraphModel
    factor: Factor

    @property
    def log_determinant(self) -> float:
        """Of A."""
        return self.factor.log_determinant

    @cached_property
    def rows(self) -> Array:
        """Fitted rows (k, m)."""
        return self._solve(self.model.linear.T[:, :, np.newaxis])[:, :, 0].T

    @cached_property
    def pulls(self) -> Array:
        """Q L (k, m)."""
        return self.model.laplacian.times(self.rows)

    @property
    def coef(self) -> Array:
        """The rows themselves."""
        return self.rows

    @property
    def fitted(self) -> float:
        """Sum of squares that the fit takes off."""
        return float(np.vdot(self.model.linear, self.rows))

    def spreads(self) -> Array:
        """Trace of L times the block of A⁻¹ that belongs to each row (k,)."""
        return self.factor.spreads()

    def responses(self, pulls: Array) -> Array:
        """Entry j, l: pull j times block j, l of A⁻¹ times pull l (k, k)."""
        apart = pulls.T[:, :, np.newaxis] * np.eye(len(pulls))
        return np.einsum("ji,ijl->jl", pulls, self._solve(apart))

    def _solve(self, rhs: Array) -> Array:
        """A⁻¹ times one (k, r) block per task."""
        m, k, r = rhs.shape
        padded = np.zeros((len(self.model.gram), k, r))
        padded[:m] = rhs
        return self.factor.solve(padded)[:m]


@dataclass(frozen=True, eq=False)
class ModeModel:
    """Tasks with one Gram matrix, seen in the eigenvectors of L: each is alone."""

    gram: Array  # (k, k)
    linear: Array  # (k, m), per eigenvector
    values: Array  # (m,) eigenvalues of L
    vectors: Array  # (m, m)
    gauge: Array  # (k, k)

    @classmethod
    def of(cls, form: NormalForm, values: Array, vectors: Array) -> Self:
        """Rows as in the normal form, tasks turned into modes."""
        gram = form.gram[0]
        floor = 1e-10 * float(values.max())
        values = np.where(values > floor, values, 0.0)
        return cls(gram, form.linear @ vectors, values, vectors, _gauge(gram))

    @property
    def rank(self) -> int:
        """Rank of L."""
        return int(np.count_nonzero(self.values))

    @property
    def n_free(self) -> int:
        """Those of the modes that L does not see."""
        held = round(float(np.trace(self.gauge)))
        return (len(self.values) - self.rank) * (len(self.gram) - held)

    def fit(self, tie: Array) -> "ModeFit":
        """Best rows, mode by mode; equal eigenvalues share an inverse."""
        levels, level = np.unique(self.values, return_inverse=True)
        blocks = self.gram + levels[:, np.newaxis, np.newaxis] * np.diag(tie)
        blocks[levels == 0] += self.gauge
        diagonals = np.diagonal(np.linalg.cholesky(blocks), axis1=1, axis2=2)
        logs = 2.0 * np.log(diagonals).sum(axis=1)
        inverses = np.asarray(np.linalg.inv(blocks), dtype=np.float64)
        return ModeFit(self, inverses, level, float(logs[level].sum()))


@dataclass(frozen=True, eq=False)
class ModeFit:
    """Best rows of tasks with one Gram matrix."""

    model: ModeModel
    inverses: Array  # (u, k, k), one per distinct eigenvalue
    level: Index  # (m,) which of them a mode has
    log_determinant: float

    @cached_property
    def rows(self) -> Array:
        """Fitted rows (k, m), per eigenvector."""
        rows = np.empty_like(self.model.linear)
        for number, inverse in enumerate(self.inverses):
            here = self.level == number
            rows[:, here] = inverse @ self.model.linear[:, here]
        return rows

    @cached_property
    def pulls(self) -> Array:
        """Q L (k, m), per eigenvector."""
        return self.rows * self.model.values

    @property
    def coef(self) -> Array:
        """Rows turned back into tasks."""
        return self.rows @ self.model.vectors.T

    @property
    def fitted(self) -> float:
        """Sum of squares that the fit takes off."""
        return float(np.vdot(self.model.linear, self.rows))

    def spreads(self) -> Array:
        """Trace of L times the block of A⁻¹ that belongs to each row (k,)."""
        diagonals = np.diagonal(self.inverses, axis1=1, axis2=2)
        return self.model.values @ diagonals[self.level]

    def responses(self, pulls: Array) -> Array:
        """Entry j, l: pull j times block j, l of A⁻¹ times pull l (k, k)."""
        total = np.zeros_like(self.model.gram)
        for number, inverse in enumerate(self.inverses):
            here = pulls[:, self.level == number]
            total += inverse * (here @ here.T)
        return total


@dataclass(frozen=True, eq=False)
class Evidence:
    """Restricted likelihood at one set of ties; the noise is known or at its best."""

    model: RowModel
    squares: float  # of the targets
    freedom: float  # observations beyond free coefficients
    known_noise: float | None
    tie: Array  # (k,)

    def at(self, tie: Array) -> Self:
        """Same data, other ties."""
        return replace(self, tie=tie)

    @cached_property
    def fit(self) -> TiedFit:
        """Best rows."""
        return self.model.fit(self.tie)

    @cached_property
    def misfit(self) -> float:
        """Least penalised sum of squares."""
        return max(self.squares - self.fit.fitted, LEAST_MISFIT * self.squares)

    @property
    def noise_variance(self) -> float:
        """σ²."""
        return (
            self.misfit / self.freedom if self.known_noise is None else self.known_noise
        )

    @cached_property
    def value(self) -> float:
        """Twice the negative log-likelihood, but for a constant."""
        known = self.known_noise is not None
        data = self.misfit / self.noise_variance
        if not known:
            data = self.freedom * np.log(self.misfit)
        ties = self.model.rank * float(np.log(self.tie).sum())
        return float(data + self.fit.log_determinant - ties)

    @cached_property
    def strain(self) -> Array:
        """t_j q^j L q^jᵀ / σ² (k,)."""
        squares = np.sum(self.fit.rows * self.fit.pulls, axis=1)
        return self.tie * squares / self.noise_variance

    @cached_property
    def used(self) -> Array:
        """Degrees of freedom that each row takes, beyond what is free (k,)."""
        return self.model.rank - self.tie * self.fit.spreads()

    @property
    def slope(self) -> Array:
        """Derivative of the value in log t (k,); zero where strain equals use."""
        return self.strain - self.used

    @cached_property
    def information(self) -> Array:
        """Average information about log t, σ² at its best (k, k)."""
        pulls = self.tie[:, np.newaxis] * self.fit.pulls
        responses = self.fit.responses(pulls) / self.noise_variance
        information = np.diag(self.strain) - responses
        if self.known_noise is None:
            information -= np.outer(self.strain, self.strain) / self.freedom
        return information


def _gauge(gram: Array) -> Array:
    """Projector on what a Gram matrix does not see."""
    values, vectors = np.linalg.eigh(gram)
    blind = vectors[:, values <= SINGULAR * float(np.diag(gram).max())]
    return np.asarray(blind @ blind.T)
