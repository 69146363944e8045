"""Scores of models on held-out data: from statistics alone, or from rows.

A score takes coefficients (l, m, d) and intercepts (l, m) of l models at once, in the
units of the data, and returns one number per model, larger for better ones.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.data import StackedRows, TaskData, TaskStatistics
from priormtl.losses import Family, Squared
from priormtl.metrics import task_aucs
from priormtl.reml import DriftingRows, Levels
from priormtl.selection.history import History, mix

Score = Callable[[Array, Array], Array]


def validation_errors(test: TaskStatistics, coefs: Array, intercepts: Array) -> Array:
    """Weighted sum of squared errors in each task (l, m), without a single row."""
    products = test.model_products(coefs)
    within = test.yy + np.einsum("lij,lij->li", coefs, products - 2.0 * test.xy)
    misses = test.y_mean - np.einsum("lij,ij->li", coefs, test.x_mean) - intercepts
    # Rounding can leave a perfect fit below zero.
    return np.maximum(within, 0.0) + test.weight * misses**2


@dataclass(frozen=True, eq=False)
class StatisticsError:
    """Negative mean squared error over all held-out rows, from their statistics."""

    test: TaskStatistics

    def __call__(self, coefs: Array, intercepts: Array) -> Array:
        errors = validation_errors(self.test, coefs, intercepts)
        return -errors.sum(axis=1) / self.test.weight.sum()


def row_error(test: TaskData, scores: Array) -> float:
    """Negative mean squared error of scores, one per sample of the held-out rows."""
    squares = test.weight * (scores - test.y) ** 2
    return -float(np.sum(squares) / test.weight.sum())


def mean_auc(test: TaskData, scores: Array) -> float:
    """Area under the ROC curve, averaged over tasks that show both classes.

    NaN where no task does. Targets are −1 and +1.
    """
    m = len(test.tasks)
    cells = np.broadcast_to(test.weight, test.y.shape) > 0
    task = np.broadcast_to(test.spread(np.arange(float(m))), test.y.shape)[cells]
    areas = task_aucs(
        scores[cells], test.y[cells] > 0, task.astype(np.intp), test.weight[cells], m
    )
    known = areas[~np.isnan(areas)]
    return float(known.mean()) if known.size else np.nan


@dataclass(frozen=True, eq=False)
class RowError:
    """Negative mean squared error over all held-out rows.

    Where these are later rows, ``train`` are the training rows of all tasks, and
    predictions are mixed with what the last ones say: so will forecasts be.
    """

    test: TaskData
    places: Index  # of its tasks among the model's
    train: StackedRows | None = None

    def __call__(self, coefs: Array, intercepts: Array) -> Array:
        test, places = self.test, self.places
        scores = _row_scores(test, coefs[:, places], intercepts[:, places])
        if self.train is not None:
            before = _row_scores(self.train, coefs, intercepts)
            scores = list(map(self._with_history, scores, before))
        return np.array([row_error(test, s) for s in scores])

    def _with_history(self, scores: Array, before: Array) -> Array:
        """Forecasts, given the scores of training rows."""
        train, test = self.train, self.test
        assert train is not None
        assert isinstance(test, StackedRows)
        assert train.time is not None
        assert test.time is not None
        # Rows of next to no weight only keep the place of a task.
        used = np.flatnonzero(train.weight > 1e-6 * train.weight.mean())
        rows = train.y[used], before[used], train.task_codes[used], train.time[used]
        history = History.of(*rows, train.weight[used], len(train.tasks))
        codes = self.places[test.task_codes]
        both = history.forecasts(scores, codes, test.time)
        weights, _ = mix(Squared(), test.y, scores, both, test.weight)
        return history._replace(weights=weights).add(scores, codes, test.time)

    def with_offsets(self, offset: Callable[[StackedRows, Index], Array]) -> "RowError":
        """The same with known parts of the scores of rows, given places of tasks."""
        test, train = self.test, self.train
        assert isinstance(test, StackedRows)
        if train is not None:
            train = _shifted(train, np.arange(len(train.tasks)), offset)
        return replace(self, test=_shifted(test, self.places, offset), train=train)


def _shifted(
    rows: StackedRows, places: Index, offset: Callable[[StackedRows, Index], Array]
) -> StackedRows:
    known = 0.0 if rows.offset is None else rows.offset
    added = offset(rows, places[rows.task_codes])
    return replace(rows, offset=known + added, crossed=None)


@dataclass(frozen=True, eq=False)
class FamilyLoss:
    """Negative mean deviance (log-loss of classes) over all held-out rows."""

    test: TaskData
    places: Index  # of its tasks among the model's
    family: Family

    def __call__(self, coefs: Array, intercepts: Array) -> Array:
        """Score of each model."""
        test, found = self.test, []
        for scores in _row_scores(
            test, coefs[:, self.places], intercepts[:, self.places]
        ):
            losses = test.weight * self.family.loss(scores, test.y)
            total = self.family.scoring[1] * float(np.sum(losses))
            found.append(-total / float(test.weight.sum()))
        return np.array(found)


@dataclass(frozen=True, eq=False)
class MeanAuc:
    """Area under the ROC curve, averaged over tasks that show both classes."""

    test: TaskData  # targets −1 and +1
    places: Index  # of its tasks among the model's

    def __call__(self, coefs: Array, intercepts: Array) -> Array:
        """Score of each model; NaN where no task shows both classes."""
        scores = _row_scores(
            self.test, coefs[:, self.places], intercepts[:, self.places]
        )
        return np.array([mean_auc(self.test, s) for s in scores])


def _row_scores(test: TaskData, coefs: Array, intercepts: Array) -> list[Array]:
    """x p_i + b_i + offset of every held-out sample, model by model."""
    known = test.offset
    return [
        test.forward(coef.T) + test.spread(b) + (0.0 if known is None else known)
        for coef, b in zip(coefs, intercepts, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class DriftingError:
    """Score of models whose levels drift, as the training rows of each leave them."""

    score: RowError
    train: DriftingRows

    def __call__(self, coefs: Array, intercepts: Array) -> Array:
        """Score of each model."""
        found = []
        for coef, intercept in zip(coefs, intercepts, strict=True):
            levels = self.train.levels(coef, intercept)
            there = self.score.with_offsets(partial(_levels_at, levels))
            found.append(there(coef[np.newaxis], intercept[np.newaxis])[0])
        return np.array(found)


def _levels_at(levels: Levels, rows: StackedRows, codes: Index) -> Array:
    assert rows.time is not None
    return levels.at(codes, rows.time)[0]


def score_drifting(score: Score, train: DriftingRows) -> Score:
    """Score of models whose levels drift in time."""
    if not isinstance(score, RowError):
        raise ValueError(
            "scoring must be None with levels that drift: other scorers do not see "
            "the times of rows."
        )
    return DriftingError(score, train)


def score_given(score: Score, names: tuple[str, ...], effects: Array) -> Score:
    """Score of models that have these effects of crossed factors."""
    if not isinstance(score, RowError | FamilyLoss | MeanAuc):
        raise ValueError(
            "scoring must be None with crossed factors: other scorers do not see their "
            "levels."
        )

    def offset(rows: StackedRows, codes: Index) -> Array:
        assert rows.crossed is not None
        levels = rows.crossed.only(names)
        assert levels is not None
        return levels.forward(effects)

    if isinstance(score, RowError):
        return score.with_offsets(offset)
    assert isinstance(score.test, StackedRows)
    return replace(score, test=_shifted(score.test, score.places, offset))
