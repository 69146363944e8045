"""Levels of tasks that drift in time: an Ornstein-Uhlenbeck process per task.

Beside what `mixed` has, a row of task i at time t has the level u_i(t), with

    Cov(u_i(s), u_i(t)) = τ² exp(−|t − s| / ρ),    φ = τ² / σ²,

a random walk where ρ is long. Rows of a task then have the covariance σ² V with
V = diag(1 / weight) + φ exp(−|t − s| / ρ), and one-step predictions by Kalman's filter
give V^(-1/2) times any column in linear time (`kernel.innovate`), times of any distance
and ties included. Divided by V^(-1/2) 1, which is positive, these are again rows with
an intercept, and its square is their weight: **a drift changes rows and weights, and
nothing else**. Statistics, REML, problems, certificates and standard errors are those
of weighted rows; levels are eliminated exactly.

REML adds log |V| + Σ log weight to the criterion of the weighted rows. It is maximised
over (log φ, log ρ) by BFGS, with all other variances at their best, so that derivatives
in these two are differences of the criterion at fixed other variances.

**Forecasts.** Given the rest, levels are Gaussian and Markov: means and variances at
the times of rows come from a smoother, between them from a bridge, and beyond them

    E u(t + h) = a E u(t),   Var u(t + h) = τ² (1 − a²) + a² Var u(t),   a = exp(−h / ρ)

(Jones, Boadi-Boateng, "Unequally spaced longitudinal data with AR(1) serial
correlation", Biometrics 1991).
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.data import StackedRows
from priormtl.reml.mixed import ROUGH, Mixed, Variances, estimate_mixed, maximise
from priormtl.reml.restricted import Data, Likelihood, Point, Rows
from priormtl.reml.ties import LEAST_DAMPING, SETTLED, SHORTER, TINY, Families

LEAST_RATIO, MOST_RATIO = 1e-4, 1e4  # φ: next to no drift, next to no noise
STEP = 1e-4  # of log φ and log ρ, for differences
LONGEST = 2.0  # step in log φ and log ρ


class Clock(NamedTuple):
    """Times of rows, and their order within tasks."""

    order: Index  # (n,) rows in order of task and time
    starts: Index  # (m + 1,) where each task begins in this order
    time: Array  # (n,) in this order

    @classmethod
    def of(cls, time: Array, task: Index, n_tasks: int) -> Self:
        """Times of rows of tasks 0 … m − 1."""
        order = np.lexsort((time, task))
        starts = np.searchsorted(task[order], np.arange(n_tasks + 1))
        return cls(order, starts.astype(np.intp), np.asarray(time, np.float64)[order])

    @property
    def task(self) -> Index:
        """Task of rows (n,) in this order."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def gaps(self) -> Array:
        """Time since the row before of the same task (n,) in this order, or zero."""
        gap = np.diff(self.time, prepend=0.0)
        gap[np.diff(self.task, prepend=-1) != 0] = 0.0
        return gap

    def span(self) -> float:
        """Longest time between two rows of a task."""
        return float(np.bincount(self.task, self.gaps()).max(initial=0.0))


class Drift(NamedTuple):
    """How levels move."""

    ratio: float  # φ: variance of levels over that of the noise of a row of weight 1
    length: float  # ρ, in units of time: correlations fall by e

    def innovations(
        self, clock: Clock, weight: Array, rows: Array
    ) -> tuple[Array, Array, float]:
        """V^(-1/2) rows (n, k), V^(-1/2) 1 (n,), and log |V|."""
        from priormtl.reml.kernel import innovate  # noqa: PLC0415  (slow to import)

        out, ones = np.empty(rows.shape), np.empty(len(rows))
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        gap = clock.gaps() / self.length
        log = innovate(
            clock.starts, clock.order, gap, weight, self.ratio, rows, out, ones
        )
        return out, ones, float(log)

    def whiten(self, clock: Clock, rows: Rows) -> tuple[Rows, float]:
        """Weighted rows without drift, and what they lack of −2 log L."""
        weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
        both = np.column_stack([rows.X, rows.y])
        out, ones, log = self.innovations(clock, weight, both)
        out /= ones[:, np.newaxis]
        white = rows._replace(X=out[:, :-1], y=out[:, -1], weight=ones**2)
        return white, log + 2.0 * float(np.log(ones).sum())

    def whiten_data(self, data: StackedRows, clock: Clock) -> StackedRows:
        """Weighted samples whose squared loss is that of samples with best levels."""
        data = data.without_offset()
        # Means of tasks are taken out first, which keeps digits of large numbers.
        y_mean = data.task_sums(data.weight * data.y) / data.task_weight
        centre = np.column_stack([data.feature_means, y_mean])[clock.task]
        both = np.column_stack([np.asarray(data.X), data.y]) - centre
        out, ones, _ = self.innovations(clock, data.weight, both)
        out /= ones[:, np.newaxis]
        out += centre
        return replace(data, X=out[:, :-1], y=out[:, -1], weight=ones**2)

    def smooth(self, clock: Clock, weight: Array, residual: Array) -> Array:
        """Levels of rows given residuals (n,): their mean, variance and link (3, n)."""
        from priormtl.reml.kernel import smooth  # noqa: PLC0415  (slow to import)

        out, gap = np.zeros((3, len(residual))), clock.gaps() / self.length
        rows = np.asarray(residual, np.float64)
        smooth(clock.starts, clock.order, gap, weight, self.ratio, rows, out)
        return out

    def levels(self, clock: Clock, weight: Array, residual: Array) -> "Levels":
        """Levels given what the rest of the model leaves of rows (n,)."""
        # Of the rows of one time the last, whose link is to the next time.
        task = clock.task
        last = np.diff(clock.time, append=np.nan) != 0
        last |= np.diff(task, append=-1) != 0
        starts = np.searchsorted(task[last], np.arange(len(clock.starts)))
        smoothed = self.smooth(clock, weight, residual)[:, clock.order[last]]
        parts = starts.astype(np.intp), clock.time[last], *smoothed
        return Levels(*self, *parts)


class Levels(NamedTuple):
    """Levels of tasks at the times of their rows, and between and beyond these."""

    ratio: float
    length: float
    starts: Index  # (m + 1,) where each task begins
    time: Array  # (k,) in ascending order within tasks
    mean: Array  # (k,) of the level then
    variance: Array  # (k,) over that of the noise
    link: Array  # (k,) covariance with the level at the next time, over the same
    sd: float = float("nan")  # τ, where it was estimated

    @property
    def half_life(self) -> float:
        """Time in which half of a level is forgotten."""
        return float(np.log(2.0) * self.length)

    def to_dict(self, tasks: Sequence[Hashable]) -> dict[str, Any]:
        """Deviation and half-life, and the last level of each task."""
        last = np.append(self.mean, 0.0)[self.starts[1:] - 1]
        last[np.diff(self.starts) == 0] = 0.0
        return {
            "sd": self.sd,
            "half_life": self.half_life,
            "last": dict(zip(tasks, last.tolist(), strict=True)),
        }

    def fits(self, m: int) -> bool:
        """Whether these are levels of m tasks, as files must have them."""
        k, parts = len(self.time), (self.time, self.mean, self.variance, self.link)
        fits = self.starts.shape == (m + 1,) and self.starts.dtype.kind == "i"
        fits &= all(part.shape == (k,) and part.dtype == np.float64 for part in parts)
        fits = fits and all(bool(np.isfinite(part).all()) for part in parts)
        bounds = [0, *self.starts.tolist(), k] if fits else [1, 0]
        return bounds == sorted(bounds) and self.ratio > 0 and self.length > 0

    def at(self, task: Index, time: Array) -> tuple[Array, Array]:
        """Means and variances over that of the noise (n,), at any times.

        Tasks without rows, and those numbered −1, have the mean zero.
        """
        known = task >= 0
        place = np.where(known, task, 0)
        first, end = self.starts[place], self.starts[place + 1]
        known &= (first < end) & ~np.isnan(time)
        # Position of the last time that is not later, by a search in all tasks at once.
        owner = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        both = np.lexsort(
            (
                np.concatenate([np.zeros(len(self.time)), np.ones(len(time))]),
                np.concatenate([self.time, np.where(known, time, 0.0)]),
                np.concatenate([owner, place]),
            )
        )
        position = np.empty(len(both), np.intp)
        position[both] = np.cumsum(both < len(self.time)) - 1
        before = position[len(self.time) :]
        has_before = known & (before >= first)
        has_after = known & (before + 1 < end)
        ratio, length = self.ratio, self.length
        most = max(len(self.time) - 1, 0)
        a, b = np.clip(before, 0, most), np.clip(before + 1, 0, most)
        h = np.where(has_before, time - self.time[a], np.inf) / length
        g = np.where(has_after, self.time[b] - time, np.inf) / length
        # Weights of both neighbours; one without a neighbour has an infinite distance.
        with np.errstate(invalid="ignore", divide="ignore"):
            whole = -np.expm1(-2.0 * (h + g))
            left = np.exp(-h) * np.expm1(-2.0 * g) / -whole
            right = np.exp(-g) * np.expm1(-2.0 * h) / -whole
            own = ratio * np.expm1(-2.0 * h) * np.expm1(-2.0 * g) / whole
        left, right = np.where(has_before, left, 0.0), np.where(has_after, right, 0.0)
        own = np.where(known, own, ratio)
        mean = left * self.mean[a] + right * self.mean[b]
        variance = left**2 * self.variance[a] + right**2 * self.variance[b]
        variance += 2.0 * left * right * self.link[a] + own
        return mean, variance


class DriftingRows(NamedTuple):
    """Rows with levels that drift, and the same as weighted rows without drift."""

    drift: Drift
    sd: float  # τ
    clock: Clock
    rows: StackedRows
    white: StackedRows

    @classmethod
    def of(cls, drift: Drift, sd: float, rows: StackedRows) -> Self:
        """Whiten rows, which have times."""
        assert rows.time is not None
        clock = Clock.of(rows.time, rows.task_codes, len(rows.tasks))
        return cls(drift, sd, clock, rows, drift.whiten_data(rows, clock))

    def levels(self, coef: Array, intercept: Array) -> Levels:
        """Levels beside coefficients (m, d) and intercepts (m,) in units of rows."""
        rows = self.rows.without_offset()
        scores = rows.forward(coef.T) + rows.spread(intercept)
        found = self.drift.levels(self.clock, rows.weight, rows.y - scores)
        return found._replace(sd=self.sd)


class Drifting(NamedTuple):
    """Maximum of the restricted likelihood with a drift."""

    drift: Drift
    mixed: Mixed  # of the weighted rows
    criterion: float  # −2 log L
    gain: float  # in −2 log L, over the model without drift; inf if not estimated

    @property
    def sd(self) -> float:
        """τ, standard deviation of levels."""
        return float(np.sqrt(self.drift.ratio * self.mixed.noise_variance))


class _Model(NamedTuple):
    """Rows, their times, and what is estimated."""

    rows: Rows
    clock: Clock
    families: Families
    intercepts: bool
    slopes: bool
    noise_variance: float | None

    def at(self, place: Array, theta: Array) -> "_Place":
        """The likelihood at (log φ, log ρ) and variances of effects."""
        rows, lacks = Drift(*np.exp(place).tolist()).whiten(self.clock, self.rows)
        data = Data.of(rows, *self[2:])
        return _Place(place, Likelihood.of(data, theta).at(theta), lacks)

    def box(self) -> tuple[Array, Array]:
        """Least and largest (log φ, log ρ): between noise and a random walk."""
        unit = 1.0 if self.rows.weight is None else float(self.rows.weight.mean())
        # Levels that are forgotten before the next row are noise; those that hold for
        # many times the span of the data walk at random.
        gaps = self.clock.gaps()
        shortest = 0.2 * float(np.quantile(gaps[gaps > 0], 0.1))
        longest = 100.0 * self.clock.span()
        low, high = (LEAST_RATIO / unit, shortest), (MOST_RATIO / unit, longest)
        return np.log(low), np.log(high)


class _Place(NamedTuple):
    """The likelihood at some drift and variances."""

    place: Array  # (2,) log φ, log ρ
    point: Point
    lacks: float

    @property
    def value(self) -> float:
        """−2 log L."""
        return self.point.value + self.lacks

    def settled(self, tolerance: float) -> Self:
        """Same drift, variances of effects at their best."""
        return self._replace(point=maximise(self.point, tolerance))


def estimate_drift(  # noqa: PLR0913  (as `estimate_mixed`)
    rows: Rows,
    time: Array,
    families: Families,
    *,
    intercepts: bool = True,
    slopes: bool = True,
    noise_variance: float | None = None,
    drift: Drift | None = None,
    start: Variances | None = None,
    ratio: float | None = None,
    tolerance: float = SETTLED,
) -> Drifting | None:
    """Maximise the restricted likelihood over the drift and all variances.

    Parameters
    ----------
    rows : Rows
        Data, without crossed factors.
    time : array of shape (n,)
        When each row was measured, in any unit.
    families, intercepts, slopes, noise_variance, tolerance
        As in `estimate_mixed`.
    drift, start : Drift, Variances, optional
        Those of similar data.
    ratio : float, optional
        φ where it is given. A large one leaves no noise beside the drift.

    Returns
    -------
    Drifting or None
        None where no task has rows at two times.
    """
    if rows.weight is not None:
        used = np.flatnonzero(rows.weight > 0)
        parts = rows.X[used], rows.y[used], rows.task[used], rows.n_tasks
        rows, time = Rows(*parts, rows.weight[used]), time[used]
    clock = Clock.of(time, rows.task, rows.n_tasks)
    if not clock.gaps().any():
        return None
    model = _Model(rows, clock, families, intercepts, slopes, noise_variance)

    def fit(rows: Rows, start: Variances | None, slopes: bool = slopes) -> Mixed:
        return estimate_mixed(
            rows,
            families,
            intercepts=intercepts,
            slopes=slopes,
            noise_variance=noise_variance,
            start=start,
            tolerance=max(tolerance, ROUGH),
        )

    free, none = np.array([ratio is None, True]), np.inf

    def climb(drift: Drift, start: Variances | None) -> Drifting:
        most_rounds = 3  # of variances that come or go
        for _ in range(most_rounds):
            mixed = fit(drift.whiten(clock, rows)[0], start)
            best = _climb(model, np.log(drift), mixed.point.theta, free, tolerance)
            drift = Drift(*np.exp(best.place).tolist())
            before, mixed = set(mixed.varying), Mixed.at(best.point.trimmed())
            start = mixed.variances
            if before == set(mixed.varying):
                break
        return Drifting(drift, mixed, best.value, none - best.value)

    if drift is not None:
        return climb(drift, start)
    # There may be two maxima: with slopes that vary and noise, or with less of either.
    plain, level = fit(rows, start), fit(rows, None, slopes=False)
    none = plain.criterion
    unit = 1.0 if rows.weight is None else float(rows.weight.mean())
    few, many = 10.0 ** np.arange(-1.0, 2.0, 0.5), 10.0 ** np.arange(0.0, 3.5, 0.5)
    if ratio is not None:
        few = many = np.array([ratio * unit])
    first = climb(_first(model, plain, few / unit), plain.variances)
    second = climb(_first(model, level, many / unit), None)
    return min(first, second, key=lambda found: found.criterion)


def _residuals(rows: Rows, mixed: Mixed) -> Array:
    """What common and task effects leave of rows (n,)."""
    left = rows.y - mixed.common[0] - rows.X @ mixed.common[1:]
    for column, effects in zip(mixed.varying, mixed.task_effects.T, strict=True):
        left -= effects[rows.task] * (rows.X[:, column - 1] if column else 1.0)
    return left


def _first(model: _Model, plain: Mixed, ratios: Array) -> Drift:
    """Most likely drift of the residuals of a model without, on a grid."""
    rows, (low, high) = model.rows, model.box()
    weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
    left = _residuals(rows, plain)[:, np.newaxis]
    lengths = np.exp(np.linspace(low[1], high[1] - np.log(30.0), 9)).tolist()

    def value(drift: Drift) -> float:
        out, _, log = drift.innovations(model.clock, weight, left)
        return log + len(left) * float(np.log(np.sum(out**2)))

    grid = (Drift(r, length) for r in ratios.tolist() for length in lengths)
    return min(grid, key=value)


def _climb(
    model: _Model, place: Array, theta: Array, free: Any, tolerance: float
) -> _Place:
    """BFGS on (log φ, log ρ), with all other variances at their best."""
    low, high = model.box()
    low, high = np.where(free, low, place), np.where(free, high, place)
    # One-sided differences are enough for models that are there to be scored.
    sides = (1.0, 0.0) if tolerance > SETTLED else (1.0, -1.0)

    def slope(here: _Place) -> Array:
        gradient = np.zeros(2)
        for c in np.flatnonzero(free):
            moved = here.place + STEP * np.outer(sides, np.arange(2) == c)
            values = [model.at(place, here.point.theta).value for place in moved]
            gradient[c] = (values[0] - values[1]) / (STEP * (sides[0] - sides[1]))
        return gradient

    here = model.at(np.clip(place, low, high), theta).settled(tolerance)
    # Curvatures per row are this large or larger, so that first steps are long ones.
    metric = 0.01 * len(model.rows.y) * np.eye(2)
    gradient, damping, most_steps = slope(here), 1e-3, 50
    for _ in range(most_steps):
        open_ = free & ((gradient <= 0) | (here.place > low))
        open_ &= (gradient >= 0) | (here.place < high)
        size = np.maximum(np.diag(metric), 0.0) + np.abs(gradient)
        matrix = metric + np.diag(damping * size + TINY)
        step = np.zeros(2)
        step[open_] = np.linalg.lstsq(
            matrix[np.ix_(open_, open_)], -gradient[open_], rcond=None
        )[0]
        promise = -float(gradient @ step)
        if promise <= tolerance * 0.1:
            break
        target = here.place + np.clip(step, -LONGEST, LONGEST)
        trial = model.at(np.clip(target, low, high), here.point.theta)
        trial = trial.settled(tolerance)
        gain = here.value - trial.value
        damping *= 0.1 if gain > SHORTER * promise else 1.0 if gain > 0 else 10.0
        damping = max(damping, LEAST_DAMPING)
        if not gain > 0:
            continue
        moved, before = trial.place - here.place, gradient
        here, gradient = trial, slope(trial)
        change, seen = gradient - before, metric @ moved
        if change @ moved > 0:
            metric = metric + np.outer(change, change) / (change @ moved)
            metric -= np.outer(seen, seen) / (seen @ moved)
    return here
