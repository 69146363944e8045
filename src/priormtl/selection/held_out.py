"""Prediction intervals from held-out residuals: CV+ with noise scales.

Each row i was held out once, by the model μ_k of its fold. With noise scales s of
tasks and of the size of predictions, s(x) = s_t · g(μ(x)), with residuals
R_i = |y_i − μ_k(i)(x_i)| / s(x_i), and with μ fitted to all rows, the interval of a row
x of task t is made of quantiles of

    μ(x) + (μ_k(x) − mean of all μ_k(x)) ± c s(x) R_i

over folds k and residuals i (CV+: Barber, Candès, Ramdas, Tibshirani, "Predictive
inference with the jackknife+", Annals of Statistics 2021). Two things differ from the
paper. Residuals are pooled over folds, and the fold models are moved to the prediction
of the final one. The factor c corrects for their smaller training parts: the squared
error of a model of K − 1 of K folds exceeds that of the final model by v / (K − 1),
where v is the jackknife variance, which the differences between fold models tell.

**Scales.** First g: rows are divided into eight groups by their prediction, and the
scale of a group is its mean absolute residual; between groups g is interpolated. Then
the same for tasks, on residuals that are divided by g. Scales of groups are shrunk
towards the common one, on a logarithmic axis, as if d more rows with the common one had
been seen. For a linear Bayes estimate (Bühlmann's credibility), d is the relative
variance of absolute residuals within groups over that of scales between groups. The
latter is replaced by its lower 95 % limit, from a jackknife over groups, and d is
doubled: scales that differ for no reason make intervals wide. Where groups do not
differ for certain, d is infinite, and all have the common scale. R_i uses scales
without i.

**Small tasks.** Before all that, residuals are divided by what the model says: with
posterior variances v σ² of predictions, (1 + v)^(1/2) for v of the task in the model of
the fold; the scale of a task has the v of the final model. So a task of three rows has
wider intervals than one of two hundred, whose residuals are most of all. Where
residuals contradict, smaller shares of v are used, down to none.

**Counts and amounts.** Targets of other families than normal have residuals on the
scale of normal scores: Φ⁻¹ of the chance of y at its held-out mean, with a dispersion
that held-out rows tell (`Family.residual`). Scales and quantiles are as above; ends are
quantiles of the family, whole numbers for counts. Fold models are not used.

Tasks that were not seen get quantiles of leave-one-task-out residuals: those of the
mean of the other tasks in the model of the fold; or, where whole tasks were held out,
of the residuals of these.

**Later rows.** Where folds go forward in time, residuals grow with the horizon h, the
time since the last training row of the task: s² is multiplied by 1 + r hᵖ, with p = 1,
as for a level that drifts, or p = 2, as for a wrong slope, and r ≥ 0, whichever are
most likely. Models of such folds end at different times, so that their differences say
nothing of the final one: intervals are made of residuals alone. They are wider or
narrower as the last origins say, and wider where scales of origins differ.
"""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from priormtl._arrays import Array, Index, Matrix
from priormtl.data import Table, TaskStatistics, score_by_task, task_errors
from priormtl.design import Crossed
from priormtl.losses import Family, Squared
from priormtl.model import Solver
from priormtl.reml import Levels
from priormtl.selection.folds import Split, fill_missing
from priormtl.selection.history import History, combine
from priormtl.selection.outliers import fit_outliers
from priormtl.selection.search import Candidate, Trial
from priormtl.uncertainty import prediction_variances

__all__ = [
    "QUESTIONS",
    "Calibration",
    "FoldModels",
    "HeldOut",
    "Residuals",
    "Spread",
    "check_coverage",
    "codes_among",
    "from_errors",
    "hold_out",
    "normal_calibration",
    "refit_folds",
    "score_folds",
]


class FoldModels(NamedTuple):
    """Models of the folds, in the units of the data."""

    coef: Array  # (folds, m, d)
    intercept: Array  # (folds, m)
    effects: Array  # (folds, levels) of crossed factors; may be none

    def by_class(self, m: int) -> "list[FoldModels]":
        """Models of each class, of m tasks, where there are more than two."""
        ends = range(0, self.coef.shape[1], m)
        return [
            FoldModels(self.coef[:, a : a + m], self.intercept[:, a : a + m], empty)
            for empty in (self.effects[:, :0],)
            for a in ends
        ]


# CAUTION, MIXED and the numbers inside functions were chosen on the tables and folds of
# docs/benchmarks/intervals.md and on 26 others. Those of grids and steps bound time.
MOST_KNOTS = 400  # of a distribution that is kept
BINS = 4096  # of a distribution, where it is looked up
CAUTION = 2.0  # factor of the rows that the common scale counts for
MIXED = 1.25  # times the correction for smaller training parts
# Of intervals of later rows: the power of the scale of the last origin over that of
# all, and the widening per standard deviation of the logarithms of scales of origins,
# beside that of few origins. Chosen on 52 forecasts of 38 panels, none of them a judge
# of ``benchmarks.questions``: coverage of 90 % intervals is 0.90 in the mean, and
# within 0.05 of it on 0.63 of them; with 1 + 0.8 / origins it was 0.92 and 0.54.
LAST_ORIGIN, UNSTEADY, FEW_ORIGINS = 0.5, 0.5, 1.1


QUESTIONS = ("rows", "later", "tasks")


class HeldOut(NamedTuple):
    """Predictions of rows by models that were not fitted to them, and these models."""

    models: FoldModels  # those of more than two classes have K m tasks
    # (folds, m) of their predictions, over that of the noise; none for classes
    variances: Array
    final_variances: Array | float = 0.0  # (m,) of those of the final model
    # (n,) scores, or (n, K) of more than two classes; NaN for rows that were never held
    # out; None without rows
    prediction: Array | None = None
    folds: Index | None = None  # (n,) fold in which each row was held out, or −1
    splits: Sequence[Split] = ()
    # Of the models, where levels drift in time; None for folds in which REML finds none
    levels: Sequence[Levels | None] = ()
    # (n,) time since the last training row of the task in the fold of the row, zero
    # without time; NaN where no row of the task trains.
    horizon: Array | None = None
    # (folds, n) of all fold models for all rows, and of the mean of all tasks
    scores: tuple[Array, Array] | None = None
    history: Array = np.zeros(4)  # weights of what the last rows of tasks say
    # Models of other folds than those of the search, where intervals hold for another
    # question than it.
    others: "HeldOut | None" = None

    def on_rows(
        self,
        table: Table,
        splits: Sequence[Split],
        tasks: Sequence[Hashable],
        family: Family | Squared,
        noise: float | None = None,
    ) -> "tuple[HeldOut, Residuals | None]":
        """The same with predictions of rows, and residuals where targets are numbers.

        ``tasks`` are those of the models. ``noise`` is estimated unless given. Targets
        in several columns have no single prediction of a row.
        """
        n, m = len(table), len(tasks)
        folds, prediction = np.full(n, -1, np.intp), np.full(n, np.nan)
        for k, split in enumerate(splits):
            folds[split.test] = k
        codes, known = codes_among(table, tasks)
        dealt = np.where(known, folds, -1)
        held_out = self._replace(
            folds=folds,
            splits=splits,
            horizon=_horizons(table, codes, splits, len(tasks)),
        )
        if self.models.coef.shape[1] > m:
            assert codes is not None
            place = np.maximum(dealt, 0), np.arange(n)
            classes = [
                score_folds(table.X, codes, part)[0][place]
                for part in self.models.by_class(m)
            ]
            scores = np.where(dealt >= 0, classes, np.nan).T
            return held_out._replace(prediction=scores), None
        own, shared = score_folds(table.X, codes, self.models, table.crossed)
        if table.offset is not None:
            repeats = own.shape[1] // n
            added = np.repeat(table.offset, repeats)
            own, shared = own + added, shared + added
        for k, levels in enumerate(self.levels):
            if levels is not None and table.time is not None:
                assert codes is not None
                own[k] += levels.at(np.where(known, codes, -1), table.time)[0]
        weights = np.zeros(4)
        is_plain = table.offset is None and isinstance(family, Squared)
        if table.time is not None and is_plain and self.variances.size:
            assert codes is not None
            coef = self.models.coef
            own, weights = _with_history(table, codes, splits, own, coef)
        if codes is not None:
            held = own[np.maximum(dealt, 0), np.arange(n)]
            prediction = np.where(dealt >= 0, held, np.nan)
        held_out = held_out._replace(
            prediction=prediction, scores=(own, shared), history=weights
        )
        if not self.variances.size:
            return held_out, None
        return held_out, hold_out(table, codes, held_out, dealt, own, shared, family)


def refit_folds(
    trials: Sequence[Trial],
    candidate: Candidate,
    solver: Solver,
    *,
    told: bool,
    variances: bool,
) -> HeldOut:
    """Models of the chosen candidate on the training part of each split.

    ``told`` says whether the threshold of outlier tasks was given; else the data say
    which tasks may differ. ``variances`` are those of predictions.
    """
    own = candidate.outlier_strength
    coefs, intercepts, found = list[Array](), list[Array](), list[Array]()
    effects, levels = list[Array](), list[Levels | None]()
    for trial in trials:
        known = None
        if candidate.lam == 0 and candidate.epsilon == 1.0 and np.isinf(own):
            known = trial.posed.estimated()
        posed = candidate.at(trial.posed)
        if known is None:
            if trial.train is None:
                solution = solver.solve(posed.problem, posed.start)
            else:
                posed, solution = posed.fit(solver.rough(), trial.train)
            coef = solution.coef
            if np.isfinite(own):
                strength = own if told else None
                posed, solution = fit_outliers(posed, solution, solver, strength)
                coef = solution.point.total
            known = coef.T / posed.scale, solution.intercept
        known = fill_missing(*known, trial.missing)
        coefs.append(known[0])
        intercepts.append(known[1])
        effects.append(posed.effects)
        levels.append(None if posed.drift is None else posed.drift.levels(*known))
        if variances:
            scale = np.where(np.isfinite(posed.scale), posed.scale, 0.0)
            found.append(prediction_variances(posed, (known[0] * scale).T))
    models = FoldModels(*map(np.stack, (coefs, intercepts, effects)))
    return HeldOut(models, np.array(found), levels=levels)


class Residuals(NamedTuple):
    """Held-out rows: residuals of fold models, and what goes with them."""

    codes: Index  # (n,) tasks
    weight: Array  # (n,)
    prediction: Array  # (n,) of the model without the fold of the row
    residual: Array  # (n,) of the same
    unseen: Array  # (n,) of the mean of the other tasks in that model
    # (n,) mean squared difference to the other fold models; 0 in other units
    spread: Array
    variance: Any = 0.0  # (n,) of the prediction, over that of the noise, by the model
    horizon: Array | None = None  # (n,) see ``HeldOut``
    is_later: bool = False  # whether folds go forward in time
    noise: float = 1.0  # dispersion of the family
    is_additive: bool = True  # whether residuals are in units of predictions
    fold: Any = 0  # (n,) in which rows were held out


class Calibration(NamedTuple):
    """How far targets are from predictions, as learned from held-out rows."""

    kind: str  # "cv+", or "normal" where only statistics were at hand
    scale: Array  # (m,) noise scale of each task
    places: Array  # predictions where their factor of the scale is known; may be none
    factors: Array  # these factors
    knots: Array  # quantiles of scaled absolute residuals
    unseen: Array  # quantiles of absolute residuals of tasks that are not seen
    coef: Array  # (folds, m, d) of fold models, minus their mean
    intercept: Array  # (folds, m) likewise
    effects: Array  # (folds, levels) likewise
    growth: Array = np.zeros(0)  # r and p of later rows; may be none
    # For which rows intervals hold: those like the ones of the fit, later ones, or
    # those of new tasks that were held out as a whole.
    question: str = "rows"
    noise: Any = 1.0  # dispersion of the family
    # (groups, 4) of later rows: longest horizon, root mean squared error, share of
    # rows in intervals of 90 %, number of rows; may be none
    horizons: Array = np.zeros((0, 4))
    # Root mean squared error for tasks that are not seen.
    new_error: float | None = None

    @classmethod
    def of(
        cls,
        rows: Residuals,
        models: FoldModels | None,
        n_tasks: int,
        n_folds: int,
        variances: Any = 0.0,
    ) -> Self:
        """Learn from held-out rows; ``models`` are those of folds, if they are kept.

        ``variances`` (m,) are those of predictions of the final model, over the noise.
        """
        used = ~np.isnan(rows.residual) & (rows.weight > 0)
        apart = np.zeros(len(used), bool)  # rows of tasks that were held out whole
        if rows.horizon is not None:
            apart = np.isnan(rows.horizon)
        whole_tasks = bool(apart[used].all())
        used &= whole_tasks | ~apart
        codes, weight, spread = (rows.codes[used], rows.weight[used], rows.spread[used])
        size, unseen = np.abs(rows.residual[used]), np.abs(rows.unseen[used])
        if weight.sum() == 0:
            raise ValueError(
                "intervals need held-out rows: got none; use a cv that holds rows out."
            )
        weight = weight / weight.mean()  # they are relative, and count rows
        prediction = rows.prediction[used]
        by_row = np.broadcast_to(rows.variance, rows.weight.shape)[used]
        by_task = np.broadcast_to(variances, n_tasks)
        by_model, of_task = _scale_by_model(size, weight, codes, by_row, by_task)
        plain = size / by_model
        places, factors, by_size = _scale_by_size(prediction, plain, weight)
        scale, by_task = _scales(plain / by_size, weight, codes, n_tasks)
        scale, own = scale * of_task, by_model * by_size * by_task
        growth, table = np.zeros(0), np.zeros((0, 4))
        question = "tasks" if whole_tasks else "rows"
        if rows.is_later:
            assert rows.horizon is not None
            spread, question = np.zeros(len(spread)), "later"
            growth = _growth(size / own, weight, rows.horizon[used])
            own = own * _widening(growth, rows.horizon[used])
            table = _by_horizon(rows.horizon[used], size, size / own, weight)
        # (K − 1)² / 2K times the mean squared difference of two fold models is the
        # jackknife variance v. Their differences at x widen intervals, too. Models that
        # fit their rows closely differ less at new rows, hence the bound.
        excess = MIXED * (n_folds - 1) / (2 * n_folds) * float(weight @ spread)
        squares = float(weight @ size**2)
        most_correction = 0.3  # of squared residuals; see ``Calibration.of``
        share = min(excess / squares, most_correction) if squares > 0 else 0.0
        scaled = np.sqrt(1.0 - share) * size / own
        # Models of more than ten folds hardly differ.
        d = 0 if models is None else models.coef.shape[2]
        kept = FoldModels(
            np.zeros((0, n_tasks, d)), np.zeros((0, n_tasks)), np.zeros((0, 0))
        )
        alone = rows.is_later or not rows.is_additive  # made of residuals
        if models is not None and len(models.coef) <= 10 and not alone:
            kept = models
        # Few tasks say little of others: with m of them, their mean is off by 1/m of
        # the variance between tasks, and the next may be further away than all.
        wider = 1.0 + 1.0 / max(n_tasks, 2)
        # Rows of counts and amounts that their dispersion, and scales, cost: 90 %
        # intervals cover 0.878 with 48 rows, 0.900 with 100 and with 220 on parts of 17
        # tables of counts (none of ``benchmarks.counts``), and 0.898, 0.908 and 0.903
        # with it.
        lost = 0.0 if rows.is_additive else 10.0
        beyond = wider * _quantiles(unseen, weight, lost)
        knots = _quantiles(scaled, weight, lost)
        if rows.is_later:
            knots = knots * _next_origin(scaled, weight, rows.fold[used])
        return cls(
            "cv+",
            scale,
            places,
            factors,
            knots,
            beyond,
            *(_compact(kept.coef), _compact(kept.intercept), _compact(kept.effects)),
            growth,
            question,
            rows.noise,
            table,
            float(np.sqrt(np.average(unseen**2, weights=weight))),
        )

    def with_tasks(self, variances: Array) -> Self:
        """The same with further tasks.

        They have a usual scale, and the variances of their predictions over the noise.
        """
        count = len(variances)
        scale = float(np.median(self.scale)) * np.sqrt(1.0 + variances)
        folds, _, d = self.coef.shape
        more = np.zeros((folds, count, d), self.coef.dtype)
        none = np.zeros((folds, count), self.intercept.dtype)
        return self._replace(
            scale=np.concatenate([self.scale, scale]),
            coef=np.concatenate([self.coef, more], axis=1),
            intercept=np.concatenate([self.intercept, none], axis=1),
        )

    def fits(self, m: int, d: int) -> bool:
        """Whether it is one of m tasks and d features, as files must be."""
        parts, folds = (*self[1:-4], self.horizons), len(self.coef)
        fits = self.question in QUESTIONS and self.growth.shape in ((0,), (2,))
        fits &= self.kind in ("cv+", "normal") and self.scale.shape == (m,)
        fits &= self.knots.ndim == self.unseen.ndim == 1
        fits &= len(self.knots) > 1 and len(self.unseen) > 1
        fits &= self.places.ndim == 1 and self.places.shape == self.factors.shape
        fits &= self.coef.shape == (folds, m, d) and self.intercept.shape == (folds, m)
        fits &= self.effects.ndim == 2 and len(self.effects) in (0, folds)
        fits &= all(part.dtype.kind == "f" for part in parts)
        fits = fits and all(bool(np.isfinite(part).all()) for part in parts)
        fits = fits and bool(np.all(self.scale > 0) and np.all(self.factors > 0))
        return fits and isinstance(self.noise, float) and self.noise > 0

    @classmethod
    def normal(cls, scale: Array, unseen: float, d: int) -> Self:
        """Normal distributions with these deviations, of tasks and of new ones."""
        knots = norm.ppf(0.5 + 0.5 * _levels(MOST_KNOTS))
        m, empty = len(scale), np.zeros(0)
        coef, intercept, effects = (
            np.zeros((0, m, d)),
            np.zeros((0, m)),
            np.zeros((0, 0)),
        )
        return cls(
            "normal",
            scale,
            empty,
            empty,
            knots,
            unseen * knots,
            *(_compact(coef), _compact(intercept), _compact(effects)),
        )

    def with_new_tasks(self, size: Array, weight: Array) -> Self:
        """The same, with absolute residuals of tasks that were held out as a whole."""
        wider = 1.0 + 1.0 / max(len(self.scale), 2)  # see ``of``
        known = ~np.isnan(size) & (weight > 0)
        unseen = wider * _quantiles(size[known], weight[known])
        error = np.sqrt(np.average(size[known] ** 2, weights=weight[known]))
        return self._replace(unseen=unseen, question="tasks", new_error=float(error))

    def half_widths(
        self,
        prediction: Array,
        deviations: Array,
        codes: Index,
        unseen: Any,
        horizon: Any,
        coverage: float,
    ) -> Array:
        """How far lower and upper ends are from the prediction (n, 2), at least zero.

        ``deviations`` (folds, n) are predictions of fold models minus their mean,
        ``horizon`` (n,) is the time since the last training row of the task.
        """
        half = np.empty((len(prediction), 2))
        scale = self.scale[codes]
        if len(self.places):
            scale = scale * np.interp(prediction, self.places, self.factors)
        scale = scale * _widening(self.growth, horizon)
        q = _quantile(self.knots, coverage)
        half[:] = q
        if len(deviations) and q > 0:
            offsets = deviations / scale
            half[:, 0] = self._mix(-offsets, coverage, q)
            half[:, 1] = self._mix(offsets, coverage, q)
        half *= scale[:, np.newaxis]
        if np.any(unseen):
            half[unseen] = _quantile(self.unseen, coverage)
        return half

    def _mix(self, offsets: Array, coverage: float, q: float) -> Array:
        """Quantile of residuals plus offsets (folds, n), by bisection.

        Differences of fold models bound how far it is from that of residuals, q.
        """
        high = 4.0 * q
        levels = np.interp(
            np.linspace(0.0, high, BINS + 1), self.knots, _levels(len(self.knots))
        )
        low, up = q + offsets.min(axis=0), q + offsets.max(axis=0)
        for _ in range(9):  # bisects differences between fold models
            middle = 0.5 * (low + up)
            places = (middle - offsets) * (BINS / high)
            np.clip(places, 0, BINS, out=places)
            below = levels[places.astype(np.intp)].mean(axis=0) < coverage
            low = np.where(below, middle, low)
            up = np.where(below, up, middle)
        return np.maximum(0.5 * (low + up), 0.0)


def _compact(parts: Array) -> Array:
    """Deviations from the mean over folds, in single precision where its range does."""
    apart = parts - parts.mean(axis=0) if len(parts) else parts
    largest = np.abs(apart).max(initial=0.0)
    is_large = not (1e-30 < largest < 1e30) and len(parts)
    return np.asarray(apart, np.float64 if is_large else np.float32)


def _scale_by_model(
    size: Array, weight: Array, codes: Index, by_row: Array, by_task: Array
) -> tuple[Array, Array]:
    """Scales of rows in the models of their folds (n,), and of tasks in the final one.

    They are relative to the mean of all rows, in which the correction for smaller
    training parts is already.
    """
    # With a flat prior on their standard deviation, the variance between m tasks has
    # the mean (m − 1) / (m − 4) times its estimate (Gelman, Bayesian Analysis 2006).
    m = len(by_task)
    unsure = (m - 1) / max(m - 4, 1)

    def scale(share: float, variance: Array, place: Any = slice(None)) -> Array:
        squares = 1.0 + share * unsure * variance
        return np.sqrt(squares / np.average(squares[place], weights=weight))

    def fits(share: float) -> float:
        """Log-likelihood of exponential sizes, with their common scale at its best."""
        s = scale(share, by_row)
        common = np.average(size / s, weights=weight)
        return -float(weight @ np.log(s) + weight.sum() * np.log(max(common, 1e-300)))

    shares = (0.0, 0.03, 0.1, 0.3, 1.0)  # of variances that the model states
    best = max(shares, key=fits)
    contradiction = 2.0  # log-likelihood of residuals that outweighs the model
    share = best if fits(best) > fits(1.0) + contradiction else 1.0
    return scale(share, by_row), scale(share, by_task, codes)


def _scale_by_size(
    prediction: Array, size: Array, weight: Array
) -> tuple[Array, Array, Array]:
    """Factors of the scale at some predictions, and of rows without themselves."""
    most_groups = 8  # of rows by their prediction
    least_rows = 5  # of such a group
    number, one = min(most_groups, len(size) // least_rows), np.ones(len(size))
    if number < 3:
        return np.zeros(0), np.zeros(0), one
    edges = np.quantile(prediction, np.arange(1, number) / number)
    groups = np.searchsorted(edges, prediction)
    scale, own = _scales(size, weight, groups, number)
    if np.ptp(scale) == 0:
        return np.zeros(0), np.zeros(0), one
    used = np.unique(groups)
    places = np.array([np.median(prediction[groups == k]) for k in used])
    factors = scale[used] / np.average(scale[groups], weights=weight)
    here = np.interp(prediction, places, factors)
    return places, factors, here * own / scale[groups]


def _widening(growth: Array, horizon: Any) -> Any:
    """Factor of the scale at each horizon: (1 + r hᵖ)^½."""
    if not len(growth):
        return 1.0
    rate, power = growth.tolist()
    return np.sqrt(1.0 + rate * np.maximum(horizon, 0.0) ** power)


def _growth(size: Array, weight: Array, horizon: Array) -> Array:
    """Rate and power by which variances grow with the horizon; the rate may be zero."""
    unit = float(np.average(horizon, weights=weight))
    if not unit > 0:
        return np.array([0.0, 1.0])

    def fits(growth: Array) -> float:
        """Log-likelihood of exponential sizes, with their common scale at its best."""
        s = np.broadcast_to(_widening(growth, horizon), size.shape)
        common = np.average(size / s, weights=weight)
        return -float(weight @ np.log(s) + weight.sum() * np.log(max(common, 1e-300)))

    shares = np.array([0.0, *np.geomspace(0.1, 100.0, 13)])  # at the mean horizon
    grid = [
        np.array([share / unit**power, power])
        for power in (1.0, 2.0)
        for share in shares
    ]
    return max(grid, key=fits)


def _next_origin(size: Array, weight: Array, fold: Index) -> float:
    """Scale of the next origin, over that of rows of all origins.

    Errors shrink or grow from origin to origin. The next one is taken to be half way
    to the last, and as much further off as those so far differ.
    """
    count = np.bincount(fold, weight)
    sums = np.bincount(fold, weight * size)
    seen = (count > 0) & (sums > 0)
    logs = np.log(sums[seen] / count[seen] * count.sum() / max(sums.sum(), 1e-300))
    if not len(logs):  # all errors are zero
        return 1.0
    usual = 0.2  # deviation, of the same panels
    deviation = float(logs.std(ddof=1)) if len(logs) > 1 else usual
    widening = FEW_ORIGINS + UNSTEADY * deviation
    return float(np.exp(LAST_ORIGIN * logs[-1]) * widening)


def _by_horizon(horizon: Array, size: Array, scaled: Array, weight: Array) -> Array:
    """Errors and coverage of held-out rows in up to four groups by their horizon."""
    edges = np.unique(np.quantile(horizon, [0.25, 0.5, 0.75, 1.0]))
    groups = np.searchsorted(edges, horizon)
    inside = scaled <= _quantile(_quantiles(scaled, weight), 0.9)
    found = []
    for k, edge in enumerate(edges):
        w = weight * (groups == k)
        if w.any():
            error = np.sqrt(np.average(size**2, weights=w))
            found.append((edge, error, np.average(inside, weights=w), (w > 0).sum()))
    return np.array(found, dtype=np.float64)


def _with_history(
    table: Table, codes: Index, splits: Sequence[Split], own: Array, coef: Array
) -> tuple[Array, Array]:
    """Scores (folds, n) mixed with what the last rows of tasks say, and weights."""
    assert table.time is not None
    time, y, n = table.time, table.y, len(table)
    weight = np.ones(n) if table.weight is None else table.weight
    columns = table.trend()
    histories, others = list[History](), np.empty((4, n))
    held, origin, deltas = np.empty(n), np.full(n, -1, np.intp), np.empty(own.shape)
    for k, (train, test) in enumerate(splits):
        known = y[train], own[k, train], codes[train], time[train], weight[train]
        history = History.of(*known, coef.shape[1])
        history = history.with_trend(table.X[train], time[train], columns)
        deltas[k] = history.growth(table.X, codes, time, coef[k])
        given = own[k, test], codes[test], time[test], deltas[k, test]
        others[:, test] = history.forecasts(*given)
        held[test], origin[test] = own[k, test], k
        histories.append(history)
    tests = np.flatnonzero(origin >= 0)
    parts = y[tests], held[tests], others[:, tests], weight[tests], origin[tests]
    weights = combine(*parts)
    mixed = [
        one._replace(weights=weights).add(scores, codes, time, delta)
        for one, scores, delta in zip(histories, own, deltas, strict=True)
    ]
    return np.stack(mixed), weights


def _horizons(
    table: Table, codes: Index | None, splits: Sequence[Split], m: int
) -> Array:
    """Time since the last training row of each row's task, in the fold of the row."""
    horizon = np.zeros(len(table))
    if codes is None:
        return horizon
    time = np.zeros(len(table)) if table.time is None else table.time
    for train, test in splits:
        ends = np.full(m, -np.inf)
        np.maximum.at(ends, codes[train], time[train])
        since = time[test] - ends[codes[test]]
        horizon[test] = np.where(np.isfinite(since), since, np.nan)
    return horizon


def _scales(size: Array, weight: Array, codes: Index, m: int) -> tuple[Array, Array]:
    """Scales of groups (m,), and of the group of each row without the row itself."""
    count = np.asarray(np.bincount(codes, weight, m), np.float64)
    sums = np.asarray(np.bincount(codes, weight * size, m), np.float64)
    common = sums.sum() / count.sum() or 1.0
    extra = _prior_rows(size, weight, codes, m)
    rest = sums[codes] - weight * size, count[codes] - weight
    return _shrink(sums, count, common, extra), _shrink(*rest, common, extra)


def _prior_rows(size: Array, weight: Array, codes: Index, m: int) -> float:
    """Rows that the common scale counts for; infinite where scales do not differ.

    Products of two rows of a group tell the mean of squared scales, squares of single
    rows tell the same times 1 + the relative variance within a group.
    """
    count, sums, squares, weights = (
        np.bincount(codes, part, m)
        for part in (weight, weight * size, (weight * size) ** 2, weight**2)
    )
    inner = np.bincount(codes, weight * (count[codes] - weight) * size**2, m)
    parts = np.stack([sums**2 - squares, count**2 - weights, sums, count])
    total = parts.sum(axis=1)
    if total[0] <= 0 or total[1] <= 0:
        return np.inf
    # Delete one group after the other: a jackknife of the variance between scales.
    products, pairs, summed, rows = total[:, np.newaxis] - parts
    known = (products > 0) & (pairs > 0) & (count > 0)
    if known.sum() < 3:
        return np.inf
    without = products[known] / pairs[known] / (summed[known] / rows[known]) ** 2
    k = len(without)
    error = np.sqrt((k - 1) / k * np.sum((without - without.mean()) ** 2))
    within = float(inner.sum()) / total[0] - 1.0
    limit = 1.645  # standard errors below the estimated variance between scales
    between = total[0] / total[1] / (total[2] / total[3]) ** 2 - 1.0 - limit * error
    return CAUTION * max(within, 0.0) / between if between > 1e-9 else np.inf


def _shrink(sums: Array, count: Array, common: float, extra: float) -> Array:
    """Mean of each task, moved towards the common one by ratios."""
    if np.isinf(extra):
        return np.full(len(sums), common)
    known = count > 1e-9 * (extra + 1.0)
    means = np.divide(sums, count, where=known, out=np.full(len(sums), common))
    least_scale = 1e-3  # of a task, relative to the common one
    logs = np.log(np.maximum(means / common, least_scale))
    return np.asarray(common * np.exp(logs * count / (count + extra)))


def normal_calibration(
    tests: Sequence[TaskStatistics], models: FoldModels
) -> Calibration:
    """Normal residuals, with variances from the statistics of held-out rows."""
    _, m, d = models.coef.shape
    count, sums, unseen = np.zeros(m), np.zeros(m), np.zeros(m)
    for test, coef, intercept in zip(tests, *models[:2], strict=True):
        count += test.weight
        sums += task_errors(test, coef, intercept)
        others = max(m - 1, 1)
        rest = coef + (coef.mean(axis=0) - coef) * m / others
        level = intercept + (intercept.mean() - intercept) * m / others
        unseen += task_errors(test, rest, level)
    return from_errors(count, sums, unseen, d)


def from_errors(count: Array, sums: Array, unseen: Array, d: int) -> Calibration:
    """Normal residuals, given rows and squared errors of each task."""
    total = float(count.sum())
    common = float(sums.sum()) / total or 1.0
    # Means of squares of n normal variables have the relative variance 2 / n.
    seen = count > 0
    means = sums[seen] / count[seen] / common
    between = float(count[seen] @ (means - 1.0) ** 2 - 2.0 * seen.sum()) / total
    extra = 2.0 * CAUTION * 2.0 / between if between > 1e-9 else np.inf
    scale = _shrink(sums, count, common, extra)
    wider = 1.0 + 1.0 / max(len(count), 2)
    deviation = np.sqrt(float(unseen.sum()) / total)
    return Calibration.normal(np.sqrt(scale), wider * deviation, d)


def _levels(count: int) -> Array:
    """Levels of the quantiles that are kept: dense near one, where they are asked."""
    return np.asarray(1.0 - (1.0 - np.arange(1, count + 1) / (count + 1)) ** 2)


def _quantiles(size: Array, weight: Array, lost: float = 0.0) -> Array:
    """Quantiles of weighted sizes: at most a few hundred.

    The share of new rows beyond each is larger as if so many rows were ``lost``.
    """
    order = np.argsort(size, kind="stable")
    size, weight = size[order], weight[order]
    # The i-th of n sizes is the quantile at i / (n + 1): a new row may lie beyond all.
    levels = np.cumsum(weight) / (weight.sum() + weight.mean())
    levels = 1.0 - (1.0 - levels) / (1.0 - min(lost / len(size), 0.5))
    return np.interp(_levels(min(MOST_KNOTS, max(len(size), 2))), levels, size)


def _quantile(knots: Array, level: float) -> float:
    return float(np.interp(level, _levels(len(knots)), knots))


def check_coverage(coverage: object, name: str = "coverage") -> float:
    """A share of rows between 0 and 1."""
    if not isinstance(coverage, float | np.floating) or not 0.0 < coverage < 1.0:
        raise ValueError(
            f"{name} must be a number between 0 and 1, such as 0.9: got {coverage!r}."
        )
    return float(coverage)


def score_folds(
    X: Matrix, codes: Index | None, models: FoldModels, crossed: Crossed | None = None
) -> tuple[Array, Array]:
    """Predictions of fold models for known tasks, and for tasks that are not seen.

    Both are (folds, n); the second is the mean over all tasks. Without codes every row
    belongs to every task, and there are n · m columns.
    """
    coef, intercept, effects = models
    folds, m, d = coef.shape
    level = intercept.mean(axis=1)
    shared = (np.asarray(X @ coef.mean(axis=1).T) + level).T
    if codes is None:
        own = np.asarray(X @ coef.reshape(-1, d).T) + intercept.ravel()
        own = own.reshape(-1, folds, m).swapaxes(0, 1).reshape(folds, -1)
        return own, np.repeat(shared, m, axis=1)

    def score(part: Matrix, i: int) -> Array:
        return np.asarray(part @ coef[:, i].T) + intercept[:, i]

    own = score_by_task(X, codes, score, folds).T
    if crossed is None or not effects.size:
        return own, shared
    added = np.stack([crossed.forward(each) for each in effects])
    return own + added, shared + added


def hold_out(
    table: Table,
    codes: Index | None,
    held_out: HeldOut,
    folds: Index,
    own: Array,
    shared: Array,
    family: Family | Squared,
    noise: float | None = None,
) -> Residuals:
    """Residuals of held-out rows, given scores (folds, n) of all fold models.

    ``folds`` (n,) are those of rows that count, else −1.
    """
    variances, horizon = held_out.variances, held_out.horizon
    m = variances.shape[1]
    y, weight = table.y, np.ones(1) if table.weight is None else table.weight
    if codes is None:
        weight = weight if weight.ndim == 2 else weight[:, np.newaxis]
        codes, folds = np.tile(np.arange(m), len(y)), np.repeat(folds, m)
        horizon = None if horizon is None else np.repeat(horizon, m)
    weight = np.broadcast_to(weight, y.shape).ravel() * (folds >= 0)
    place = np.maximum(folds, 0), np.arange(len(folds))
    held, shared = own[place], shared[place]
    spread = np.sum((own - held) ** 2, axis=0) / max(len(own) - 1, 1)
    if m > 1:
        shared = (m * shared - held) / (m - 1)
    y, used = np.where(weight > 0, y.ravel(), 1.0), (weight > 0) & ~np.isnan(y.ravel())
    if noise is None:
        noise = family.estimate_noise(held[used], y[used], weight[used])
    of_held, of_shared = (family.residual(eta, y, noise) for eta in (held, shared))
    additive = family.has_additive_noise
    return Residuals(
        codes,
        weight,
        held,
        of_held,
        of_shared,
        spread if additive else np.zeros(len(spread)),
        variances[place[0], codes],
        horizon,
        table.time is not None,
        noise,
        additive,
        folds,
    )


class Spread(NamedTuple):
    """Predictions of rows, and how those of fold models differ."""

    prediction: Array  # (n,)
    deviations: Array  # (folds, n) of fold models from their mean
    codes: Index  # (n,) known tasks; of unseen ones the first of those averaged
    unseen: Any  # (n,) bool
    horizon: Any = 0.0  # (n,) time since the last training row of the task

    def interval(
        self, calibration: Calibration, coverage: float, family: Family | Squared
    ) -> Array:
        """Lower and upper ends (n, 2)."""
        half = calibration.half_widths(*self, coverage)
        return family.ends(self.prediction, half, calibration.noise)


def codes_among(
    table: Table, tasks: Sequence[Hashable]
) -> tuple[Index | None, NDArray[np.bool_]]:
    """Codes of rows among the tasks of a model, and which rows have one of them."""
    if table.codes is None:
        return None, np.ones(len(table), dtype=bool)
    position = {task: i for i, task in enumerate(tasks)}
    codes = np.array([position.get(task, -1) for task in table.tasks])[table.codes]
    return np.maximum(codes, 0), codes >= 0
