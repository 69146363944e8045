"""Scores of models on held-out data: from statistics alone, or from rows.

A score takes coefficients (l, m, d) and intercepts (l, m) of l models at once, in the
units of the data, and returns one number per model, larger for better ones.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.data import StackedRows, TaskData, TaskStatistics
from priormtl.losses import Family
from priormtl.metrics import task_aucs
from priormtl.reml import DriftingRows, Levels

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
    """Negative mean squared error over all held-out rows."""

    test: TaskData
    places: Index  # of its tasks among the model's

    def __call__(self, coefs: Array, intercepts: Array) -> Array:
        scores = _row_scores(
            self.test, coefs[:, self.places], intercepts[:, self.places]
        )
        return np.array([row_error(self.test, s) for s in scores])


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


def add_levels(test: StackedRows, places: Index, levels: Levels) -> StackedRows:
    """Rows with the levels of their tasks at their times as a part of their scores."""
    assert test.time is not None
    task = np.repeat(places, np.diff(test.starts))
    known = 0.0 if test.offset is None else test.offset
    return replace(test, offset=known + levels.at(task, test.time)[0])


@dataclass(frozen=True, eq=False)
class DriftingError:
    """Score of models whose levels drift, as the training rows of each leave them."""

    score: RowError
    train: DriftingRows

    def __call__(self, coefs: Array, intercepts: Array) -> Array:
        """Score of each model."""
        test, places, found = self.score.test, self.score.places, []
        assert isinstance(test, StackedRows)
        for coef, intercept in zip(coefs, intercepts, strict=True):
            levels = self.train.levels(coef, intercept)
            there = replace(self.score, test=add_levels(test, places, levels))
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
    if not isinstance(score, RowError | FamilyLoss | MeanAuc):
        raise ValueError(
            "scoring must be None with crossed factors: other scorers do not see their "
            "levels."
        )
    test = score.test
    assert isinstance(test, StackedRows)
    assert test.crossed is not None
    levels = test.crossed.only(names)
    assert levels is not None
    known = 0.0 if test.offset is None else test.offset
    offset = known + levels.forward(effects)
    return replace(score, test=replace(test, offset=offset, crossed=None))
