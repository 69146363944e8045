"""How well a model fits: scores of each task, on rows or from statistics."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from priormtl._arrays import Array, Index, Matrix
from priormtl.data import TaskStatistics, find_labels
from priormtl.estimators import code_classes
from priormtl.metrics import task_aucs
from priormtl.reports.learned import Learned
from priormtl.selection import validation_errors

__all__ = ["Fits", "features_of", "score_fit", "score_rows"]

GIVEN = "the rows given"
FITTED = "the rows that the model was fitted to"


@dataclass(frozen=True, eq=False)
class Fits:
    """Scores of each task; NaN where a task has no rows or no spread."""

    metric: str  # "R²" or "AUC"
    where: str
    rows: Array  # (m,)
    scores: Array  # (m,)
    whole: float  # over all tasks; NaN where unknown
    second: str = ""  # name of another score, if there is one
    seconds: Array | None = None  # (m,)


@dataclass(frozen=True, eq=False)
class Measured:
    """Measured targets and their scores, task by task."""

    target: Array
    score: Array
    code: Index


def features_of(model: Any, X: Any) -> Matrix:
    """Features of a table as numbers, read as the model reads them."""
    features, _ = model._split_task(X, None)
    matrix: Matrix = model._read_features(features, reset=False)
    return matrix


def score_rows(learned: Learned, X: Any, y: Any, task: Any) -> Fits:
    """Scores on rows with known targets."""
    measured = _measure(learned, X, y, task)
    m = len(learned.tasks)
    rows = np.bincount(measured.code, minlength=m).astype(np.float64)
    if learned.is_classifier:
        return _score_classes(measured, rows)
    return _score_numbers(measured, rows)


def score_fit(learned: Learned) -> Fits | None:
    """Scores on the rows of the fit, where the model remembers them."""
    if learned.is_classifier:
        return None
    if learned.statistics is not None:
        return _score_statistics(learned, learned.statistics)
    scores = getattr(learned.model, "task_r2_", None)
    rows = getattr(learned.model, "task_weight_", None)
    if scores is None or rows is None:
        return None
    return Fits("R²", FITTED, np.asarray(rows), np.asarray(scores), float("nan"))


def _score_statistics(learned: Learned, statistics: TaskStatistics) -> Fits:
    intercept = np.asarray(learned.model.intercept_)[np.newaxis]
    errors = validation_errors(statistics, learned.coef[np.newaxis], intercept)[0]
    weight = statistics.weight
    total = float(statistics.yy.sum() + weight @ _between(statistics))
    return Fits(
        "R²",
        FITTED,
        weight,
        _explained(errors, statistics.yy),
        float(_explained(errors.sum(), np.float64(total))),
        "Root mean squared error",
        np.sqrt(_ratio(errors, weight)),
    )


def _between(statistics: TaskStatistics) -> Array:
    weight = statistics.weight
    return (statistics.y_mean - weight @ statistics.y_mean / weight.sum()) ** 2


def _measure(learned: Learned, X: Any, y: Any, task: Any) -> Measured:
    model = learned.model
    predict = model.decision_function if learned.is_classifier else model.predict
    scores = np.asarray(predict(X, task=task), dtype=np.float64)
    codes = None if scores.ndim == 2 else _task_codes(model, X, task, len(scores))
    target = _targets(learned, y, codes)
    if target.shape != scores.shape:
        raise ValueError(
            f"y must have one target per prediction: got shape {target.shape} for "
            f"predictions of shape {scores.shape}."
        )
    columns = np.arange(len(learned.tasks)) if codes is None else codes
    known = ~np.isnan(target)
    if not known.any():
        raise ValueError("y must hold at least one measured target: all are missing.")
    code = np.broadcast_to(columns, scores.shape)[known]
    return Measured(target[known], scores[known], code)


def _task_codes(model: Any, X: Any, task: Any, n: int) -> Index:
    _, labels = model._split_task(X, task)
    if labels is None:
        return np.zeros(n, dtype=np.intp)
    return find_labels(labels, model.tasks_.tolist(), n)


def _targets(learned: Learned, y: Any, codes: Index | None) -> Array:
    """Targets as numbers; classes are −1 and +1, NaN where not measured."""
    targets = learned.model._check_targets(y)
    if codes is not None and targets.ndim == 2 and targets.shape[1] == 1:
        targets = targets[:, 0]
    if not learned.is_classifier:
        return np.asarray(targets, dtype=np.float64)
    if codes is not None and len(targets) != len(codes):
        return np.empty(len(targets))  # told by its shape
    numbers = code_classes(targets, codes, learned.model._classes)
    if targets.ndim == 1 and np.any(numbers == 0):
        strange = targets[numbers == 0].tolist()[0]
        raise ValueError(
            f"y must hold the classes that the model knows: got {strange!r}."
        )
    return np.where(numbers == 0, np.nan, numbers)


def _score_numbers(measured: Measured, rows: Array) -> Fits:
    m = len(rows)
    sums = np.bincount(measured.code, measured.target, m)
    centre = _ratio(sums, rows)
    spread = (measured.target - centre[measured.code]) ** 2
    errors = (measured.target - measured.score) ** 2
    by_task = np.bincount(measured.code, errors, m)
    about_mean = np.bincount(measured.code, spread, m)
    overall = np.sum((measured.target - measured.target.mean()) ** 2)
    return Fits(
        "R²",
        GIVEN,
        rows,
        _explained(by_task, about_mean),
        float(_explained(errors.sum(), overall)),
        "Root mean squared error",
        np.sqrt(_ratio(by_task, rows)),
    )


def _score_classes(measured: Measured, rows: Array) -> Fits:
    m = len(rows)
    positive = measured.target > 0
    ones = np.ones(len(positive))
    areas = task_aucs(measured.score, positive, measured.code, ones, m)
    right = (measured.score > 0) == positive
    shares = _ratio(np.bincount(measured.code, right, m), rows)
    known = areas[~np.isnan(areas)]
    whole = float(known.mean()) if known.size else float("nan")
    return Fits("AUC", GIVEN, rows, areas, whole, "Accuracy", shares)


def _explained(errors: Any, total: Any) -> Any:
    return 1.0 - _ratio(errors, total)


def _ratio(above: Any, below: Any) -> Any:
    """Quotient; NaN where there is nothing to divide by."""
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), np.nan)
