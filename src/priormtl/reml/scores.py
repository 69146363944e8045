"""Score tests of variances that are zero.

The derivative of −2 log L in the variance θ of a family with columns U is, at zero,

    tr(Uᵀ P U) − |Uᵀ P y|² / σ²,

and the average information is the same of P U Uᵀ P y. Where targets y* are drawn from
the model at σ = 1, P y* has the covariance P: the trace is the mean of |Uᵀ P y*|². A
round of tests takes products of rows with columns only, whatever the number of tasks.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array

from priormtl._arrays import Array, Index
from priormtl.reml.arrow import Term
from priormtl.reml.restricted import Data, Point
from priormtl.reml.ties import TINY

MOST_DRAWS, FEWEST_DRAWS = 256, 8  # of targets for a trace
DRAWN_TASKS, DRAWN_ROWS = 5_000, 2**25  # draws times tasks, or rows, that are enough
MANY_TASKS = 100  # per column: more are too many to go through one by one


class Scores(NamedTuple):
    """Families without a variance: what one would gain."""

    families: Index
    slope: Array  # derivative of −2 log L in θ at zero
    best: Array  # θ of a Newton step of each family alone
    gain: Array  # in −2 log L, which its quadratic model promises


def score_varying(point: Point) -> Scores:
    """Score tests of all families that have variance zero, by passes over the rows."""
    data = point.likelihood.data
    families = np.flatnonzero(point.theta == 0)
    tested = Tested.of(data, families)
    noise = point.noise_variance
    pulls = tested.pulls(point.project(data.y[:, np.newaxis] / np.sqrt(noise)))
    squares = tested.squares(pulls)[:, 0]
    traces, n_draws = np.zeros(len(families)), _n_draws(data)
    rng = np.random.default_rng(0)
    most = max(len(data.y), data.n_tasks * len(tested.columns))
    batch_numbers = 2**22  # in targets that are drawn at once: 32 MB
    batch = max(1, batch_numbers // most)
    for first in range(0, n_draws, batch):
        drawn = _draw(point, rng, min(batch, n_draws - first))
        drawn_pulls = tested.pulls(point.project(drawn))
        traces += tested.squares(drawn_pulls).sum(axis=1) / n_draws
    slope = traces - squares
    best, rising = np.zeros(len(families)), np.flatnonzero(slope < 0)
    batch = max(FEWEST_DRAWS, batch_numbers // len(data.y))
    for first in range(0, len(rising), batch):
        some = rising[first : first + batch]
        moves = tested.combine(pulls, families[some])
        curvature = np.einsum("nf,nf->f", moves, point.project(moves))
        if data.known_noise is None:
            curvature -= squares[some] ** 2 / point.likelihood.freedom
        best[some] = -slope[some] / np.maximum(curvature, TINY - TINY * slope[some])
    return Scores(families, slope, best, 0.5 * best * np.abs(slope))


def _n_draws(data: Data) -> int:
    """As many targets as give the trace to two per cent."""
    enough = min(DRAWN_TASKS // max(data.n_tasks, 1), DRAWN_ROWS // len(data.y))
    return int(np.clip(enough, FEWEST_DRAWS, MOST_DRAWS))


def _draw(point: Point, rng: np.random.Generator, n: int) -> Array:
    """Targets (n, T) of the model with noise of variance 1."""
    likelihood, scales = point.likelihood, point.scales
    data = likelihood.data
    rows = np.empty((len(data.y), n))
    # Noise goes with targets, so that the order of rows does not matter.
    rows[np.lexsort([data.y, data.task])] = rng.standard_normal(rows.shape)
    common = np.where(data.fixed >= 0, scales.common, 0.0)[:, np.newaxis]
    rows += data.X @ (common * rng.standard_normal((len(common), n)))
    for scale, Z in zip(scales.terms, likelihood.matrices, strict=True):
        size = Z.shape[1]
        wide = np.tile(scale, size // len(scale))[:, np.newaxis]
        rows += Z @ (wide * rng.standard_normal((size, n)))
    return rows


@dataclass(frozen=True, eq=False)
class Tested:
    """Columns U of the families that are tested."""

    data: Data
    families: Index
    common: Index  # shrunken common columns
    columns: Index  # columns that may vary between tasks
    crossed: tuple[tuple[int, csr_array], ...]  # families and indicators of levels

    @classmethod
    def of(cls, data: Data, families: Index) -> Self:
        """Columns of the families."""
        crossed = tuple(
            (f, Term(*factor, data.root[:, np.newaxis]).matrix())
            for f, factor in enumerate(data.crossed.values(), data.first_crossed)
            if f in families
        )
        common = np.flatnonzero(np.isin(data.fixed, families))
        columns = np.flatnonzero(np.isin(data.deviations, families))
        return cls(data, families, common, columns, crossed)

    @property
    def by_columns(self) -> bool:
        """Whether products of tasks are taken column by column, or task by task."""
        return self.data.n_tasks > MANY_TASKS * len(self.columns)

    def pulls(self, rows: Array) -> tuple[Array, Array, list[Array]]:
        """Uᵀ times rows (n, T): of common columns, tasks (m, columns, T), levels."""
        data, columns = self.data, self.columns
        top = (data.X.T @ rows)[self.common]
        tasks = np.zeros((data.n_tasks, len(columns), rows.shape[1]))
        if self.by_columns:
            member = Term(data.task, data.n_tasks, np.ones((len(rows), 1))).matrix().T
            for j, column in enumerate(columns):
                tasks[:, j] = member @ (data.values([column]) * rows)
        else:
            mean = data.mean[columns, np.newaxis]
            for i in np.flatnonzero(np.diff(data.bounds)):
                here = slice(data.bounds[i], data.bounds[i + 1])
                centred = data.X[here].T @ rows[here]
                tasks[i] = centred[columns] + mean * centred[0]
        return top, tasks, [Z.T @ rows for _, Z in self.crossed]

    def squares(self, pulls: tuple[Array, Array, list[Array]]) -> Array:
        """Sums of squares by family (families, T)."""
        top, tasks, levels = pulls
        out = np.zeros((self.data.n_families, top.shape[1]))
        np.add.at(out, self.data.fixed[self.common], top**2)
        np.add.at(
            out,
            self.data.deviations[self.columns],
            np.einsum("mct,mct->ct", tasks, tasks),
        )
        for (f, _), part in zip(self.crossed, levels, strict=True):
            out[f] = np.sum(part**2, axis=0)
        return out[self.families]

    def combine(self, pulls: tuple[Array, Array, list[Array]], some: Index) -> Array:
        """U Uᵀ rows (n, some) for some families, from pulls of one column of rows."""
        top, tasks, levels = pulls
        data = self.data
        weights = np.zeros((len(data.mean), len(some)))
        weights[self.common] = top * (data.fixed[self.common, np.newaxis] == some)
        out = data.X @ weights
        own = data.deviations[self.columns, np.newaxis] == some
        if self.by_columns:
            known = slice(data.bounds[0], None)  # rows with a task
            for j, f in np.argwhere(own):
                values = data.values(self.columns[j : j + 1])[known, 0]
                out[known, f] += tasks[data.task[known], j, 0] * values
        else:
            weights[:] = 0.0
            for i in np.flatnonzero(np.diff(data.bounds)):
                here = slice(data.bounds[i], data.bounds[i + 1])
                weights[self.columns] = tasks[i] * own
                out[here] += data.X[here] @ weights
                out[here] += data.root[here, np.newaxis] * (data.mean @ weights)
        for (f, Z), part in zip(self.crossed, levels, strict=True):
            out[:, some == f] = Z @ part
        return out
