"""Scores of models on held-out data: from statistics alone, or from rows.

A score takes coefficients (l, m, d) and intercepts (l, m) of l models at once, in the
units of the data, and returns one number per model, larger for better ones.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

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


# A known part of the scores of rows, given positions of their tasks in the model.
Offset = Callable[[StackedRows, Index], Array]


@dataclass(frozen=True, eq=False)
class RowScore(ABC):
    """A score of held-out rows, given x p_i + b_i + offset of each of them."""

    test: TaskData
    places: Index  # of its tasks among the model's

    @abstractmethod
    def of(self, scores: Array) -> float:
        """Score of one model, which gives rows these scores."""

    def __call__(self, coefs: Array, intercepts: Array) -> Array:
        """Score of each model."""
        return np.array([self.of(scores) for scores in self.scores(coefs, intercepts)])

    def scores(self, coefs: Array, intercepts: Array) -> list[Array]:
        """Scores of the held-out rows, model by model."""
        places = self.places
        return _row_scores(self.test, coefs[:, places], intercepts[:, places])

    def with_offsets(self, offset: Offset) -> Self:
        """The same with known parts of the scores of rows."""
        return replace(self, test=_shifted(self.test, self.places, offset))


@dataclass(frozen=True, eq=False)
class RowError(RowScore):
    """Negative mean squared error over all held-out rows.

    Where these are later rows, ``train`` are the training rows of all tasks, and
    predictions are mixed with what the last ones say: so will forecasts be.
    """

    train: StackedRows | None = None

    def of(self, scores: Array) -> float:
        squares = self.test.weight * (scores - self.test.y) ** 2
        return -float(np.sum(squares) / self.test.weight.sum())

    def scores(self, coefs: Array, intercepts: Array) -> list[Array]:
        scores = super().scores(coefs, intercepts)
        if self.train is None:
            return scores
        before = _row_scores(self.train, coefs, intercepts)
        return list(map(self._with_history, scores, before))

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
        given = scores, codes, test.time, np.zeros(len(scores))
        # Structures differ by their trend, so that none is damped here.
        both = history.forecasts(*given)[:2]
        weights, _ = mix(Squared(), test.y, scores, both, test.weight)
        return history._replace(weights=np.append(weights, [0.0, 0.0])).add(*given)

    def with_offsets(self, offset: Offset) -> Self:
        found, train = super().with_offsets(offset), self.train
        if train is None:
            return found
        every = np.arange(len(train.tasks))
        return replace(found, train=_shifted(train, every, offset))


@dataclass(frozen=True, eq=False)
class FamilyLoss(RowScore):
    """Negative mean deviance (log-loss of classes) over all held-out rows."""

    family: Family

    def of(self, scores: Array) -> float:
        losses = self.test.weight * self.family.loss(scores, self.test.y)
        total = self.family.scoring[1] * float(np.sum(losses))
        return -total / float(self.test.weight.sum())


@dataclass(frozen=True, eq=False)
class MeanAuc(RowScore):
    """Area under the ROC curve, averaged over tasks that show both classes.

    Targets are −1 and +1. NaN where no task shows both.
    """

    def of(self, scores: Array) -> float:
        test, m = self.test, len(self.test.tasks)
        cells = np.broadcast_to(test.weight, test.y.shape) > 0
        task = np.broadcast_to(test.spread(np.arange(float(m))), test.y.shape)[cells]
        codes, weight = task.astype(np.intp), test.weight[cells]
        areas = task_aucs(scores[cells], test.y[cells] > 0, codes, weight, m)
        known = areas[~np.isnan(areas)]
        return float(known.mean()) if known.size else np.nan


def _row_scores(test: TaskData, coefs: Array, intercepts: Array) -> list[Array]:
    """x p_i + b_i + offset of every sample, model by model."""
    known = 0.0 if test.offset is None else test.offset
    return [
        test.forward(coef.T) + test.spread(b) + known
        for coef, b in zip(coefs, intercepts, strict=True)
    ]


def _shifted(rows: TaskData, places: Index, offset: Offset) -> StackedRows:
    assert isinstance(rows, StackedRows)
    known = 0.0 if rows.offset is None else rows.offset
    added = offset(rows, places[rows.task_codes])
    return replace(rows, offset=known + added, crossed=None)


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

            def offset(rows: StackedRows, codes: Index, at: Levels = levels) -> Array:
                assert rows.time is not None
                return at.at(codes, rows.time)[0]

            there = self.score.with_offsets(offset)
            found.append(there(coef[np.newaxis], intercept[np.newaxis])[0])
        return np.array(found)


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
    if not isinstance(score, RowScore):
        raise ValueError(
            "scoring must be None with crossed factors: other scorers do not see their "
            "levels."
        )

    def offset(rows: StackedRows, codes: Index) -> Array:
        assert rows.crossed is not None
        levels = rows.crossed.only(names)
        assert levels is not None
        return levels.forward(effects)

    return score.with_offsets(offset)
