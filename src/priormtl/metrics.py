"""Metrics of predictions, and intervals of their differences between methods.

Variance explained and the normalised squared error compare the squared error with that
of predicting the mean target: ``average="pooled"`` takes one mean over all rows,
``"tasks"`` takes each task's own and averages. AUC is computed within tasks.

Splits of one data set share rows, so that differences between methods are correlated
and the ordinary t interval is too short. Nadeau & Bengio (2003) multiply the variance
of the k differences by 1/k + r, r = n_test/n_train, in place of 1/k: a correlation
n_test/(n_test + n_train) between splits, the expected overlap of their test sets.
"""

from collections.abc import Hashable, Sequence
from math import inf, sqrt
from typing import Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax, stdtr, stdtrit

from priormtl._arrays import Array, Index

LEVEL = 0.95  # coverage of intervals

Average = Literal["pooled", "tasks"] | None
Labels = Sequence[Hashable] | np.ndarray


class Reliability(NamedTuple):
    """Rows in ten parts by their prediction, lowest first (parts,).

    With K > 2 classes (K, parts), by the probability of each class. In a good model,
    means of predictions and of targets agree in all parts.
    """

    predicted: Array  # means: targets, or probabilities of the (second) class
    actual: Array  # means: targets, or shares of the (second) class
    rows: Array
    low: Array  # 5 % and 95 % quantiles of residuals; NaN for classes
    high: Array
    log_loss: Array  # (1,) over all rows; NaN for numbers

    @classmethod
    def of(cls, predicted: Array, actual: Array) -> Self:
        """Of numbers; rows without prediction or target are left out."""
        known = ~(np.isnan(predicted) | np.isnan(actual))
        predicted, actual = predicted[known], actual[known]
        order, parts = np.argsort(predicted, kind="stable"), list[tuple[float, ...]]()
        for part in np.array_split(order, 10):
            if len(part):
                x, y = predicted[part], actual[part]
                parts.append(
                    (x.mean(), y.mean(), len(part), *np.quantile(y - x, [0.05, 0.95]))
                )
        x, y, rows, low, high = np.array(parts, np.float64).reshape(-1, 5).T.copy()
        return cls(x, y, rows, low, high, np.array([np.nan]))

    @classmethod
    def of_scores(cls, scores: Array, positive: Array) -> Self:
        """Of log-odds; targets are above zero in the second class.

        Or of scores (n, K) of K classes, whose numbers are the targets: parts (K, 10).
        """
        if scores.ndim == 2:
            known = ~(np.isnan(scores).any(axis=1) | np.isnan(positive))
            scores, codes = scores[known], positive[known].astype(np.intp)
            logs = log_softmax(scores, axis=1)
            loss = -np.mean(logs[np.arange(len(codes)), codes])
            of_class = [
                cls.of(np.exp(logs[:, k]), np.equal(codes, k).astype(np.float64))
                for k in range(scores.shape[1])
            ]
            parts = cls(*map(np.stack, zip(*of_class, strict=True)))
            unknown = np.full(parts.rows.shape, np.nan)
            return parts._replace(low=unknown, high=unknown, log_loss=np.array([loss]))
        known = ~(np.isnan(scores) | np.isnan(positive))
        scores, second = scores[known], positive[known] > 0
        loss = np.mean(np.logaddexp(0.0, np.where(second, -scores, scores)))
        chances = 1.0 / (1.0 + np.exp(-np.clip(scores, -700.0, 700.0)))
        parts = cls.of(chances, second.astype(np.float64))
        none = np.full(len(parts.rows), np.nan)
        return parts._replace(low=none, high=none, log_loss=np.array([loss]))


def nmse(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    task: Labels | None = None,
    average: Average = "pooled",
) -> float | Array:
    """Normalised mean squared error: squared error divided by the variance of y.

    Parameters
    ----------
    y_true : (n,) or (n, m) array
        Targets. NaN marks targets that were not measured.
    y_pred : (n,) or (n, m) array
        Predictions.
    task : sequence of labels, optional
        Task of each row. With (n, m) targets, the columns are the tasks.
    average : {"pooled", "tasks"} or None, default="pooled"
        "pooled" compares with the mean of all rows. "tasks" compares with the mean of
        each task and returns the mean over tasks. None returns one value per task,
        sorted by label; it is NaN for tasks with constant targets.

    Returns
    -------
    float or (m,) array

    Examples
    --------
    >>> nmse([1.0, 2.0, 3.0], [1.0, 2.0, 2.0])
    0.5
    """
    groups = _task_groups(y_true, y_pred, task)
    if average == "pooled":
        target, prediction = map(np.concatenate, zip(*groups, strict=True))
        return _normalised_error(target, prediction)
    if average not in ("tasks", None):
        raise ValueError(f'average must be "pooled", "tasks" or None: got {average!r}.')
    values = np.array([_normalised_error(*group) for group in groups])
    if average is None:
        return values
    return _mean_of_known(values)


def variance_explained(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    task: Labels | None = None,
    average: Average = "pooled",
) -> float | Array:
    """Fraction of the variance that is explained: one minus :func:`nmse`.

    Parameters
    ----------
    y_true, y_pred, task, average
        See :func:`nmse`.

    Returns
    -------
    float or (m,) array

    Examples
    --------
    >>> variance_explained([1.0, 2.0, 3.0], [1.0, 2.0, 2.0])
    0.5
    """
    return 1.0 - nmse(y_true, y_pred, task=task, average=average)


def auc(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    task: Labels | None = None,
    average: Literal["tasks"] | None = "tasks",
) -> float | Array:
    """Area under the ROC curve, computed within tasks.

    Parameters
    ----------
    y_true : (n,) or (n, m) array
        Classes: True or positive numbers for the positive class. NaN marks targets
        that were not measured.
    y_score : array of the same shape
        Scores, larger for the positive class.
    task : sequence of labels, optional
        Task of each row. With (n, m) targets, the columns are the tasks.
    average : {"tasks"} or None, default="tasks"
        "tasks" returns the mean over all tasks that have both classes. None returns
        one value per task, sorted by label; it is NaN for tasks with one class.

    Returns
    -------
    float or (m,) array

    Examples
    --------
    >>> auc([-1, 1, -1, 1], [0.1, 0.9, 0.8, 0.3], task=["a", "a", "b", "b"])
    0.5
    """
    if average not in ("tasks", None):
        raise ValueError(f'average must be "tasks" or None: got {average!r}.')
    groups = _task_groups(y_true, y_score, task)
    target, scores = map(np.concatenate, zip(*groups, strict=True))
    code = np.repeat(np.arange(len(groups)), [len(group[0]) for group in groups])
    values = task_aucs(scores, target > 0, code, np.ones(len(scores)), len(groups))
    return values if average is None else _mean_of_known(values)


def task_aucs(
    scores: Array, positive: np.ndarray, task: Index, weight: Array, m: int
) -> Array:
    """Area under each task's ROC curve (m,); NaN where a task shows one class only.

    That is the weighted share of pairs, one of each class, in the right order; ties
    count half.
    """
    order = np.lexsort((scores, task))
    scores, task = scores[order], task[order]
    up = np.where(positive[order], weight[order], 0.0)
    down = weight[order] - up
    new = np.ones(len(order), dtype=bool)
    new[1:] = (scores[1:] != scores[:-1]) | (task[1:] != task[:-1])
    starts = np.flatnonzero(new)
    tied_up, tied_down = np.add.reduceat(up, starts), np.add.reduceat(down, starts)
    owner = task[starts]
    all_up = np.bincount(owner, tied_up, m)
    all_down = np.bincount(owner, tied_down, m)
    # Weight of negatives below each group of ties, counted from its task's first.
    first = np.concatenate([[0.0], np.cumsum(all_down)])[owner]
    below = np.cumsum(tied_down) - tied_down - first
    right = np.bincount(owner, tied_up * (below + 0.5 * tied_down), m)
    pairs = all_up * all_down
    return np.where(pairs > 0, right / np.where(pairs > 0, pairs, 1.0), np.nan)


def _mean_of_known(values: Array) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")


def _normalised_error(target: Array, prediction: Array) -> float:
    spread = float(np.sum((target - target.mean()) ** 2))
    error = float(np.sum((target - prediction) ** 2))
    return error / spread if spread > 0 else float("nan")


def _task_groups(
    y_true: ArrayLike, y_pred: ArrayLike, task: Labels | None
) -> list[tuple[Array, Array]]:
    """Measured targets and their predictions, task by task."""
    target = np.asarray(y_true, dtype=np.float64)
    prediction = np.asarray(y_pred, dtype=np.float64)
    if target.shape != prediction.shape:
        raise ValueError(
            "y_true and y_pred must have the same shape: "
            f"got {target.shape} and {prediction.shape}."
        )
    measured, owned = ~np.isnan(target), [np.ones(target.shape, dtype=bool)]
    if target.ndim == 2:
        owned = list(np.eye(target.shape[1], dtype=bool))
    elif task is not None:
        labels = np.asarray(task)
        if labels.shape != target.shape:
            raise ValueError(
                "task must have one label per row of y_true: "
                f"got {len(labels)} labels for {len(target)} rows."
            )
        owned = [labels == label for label in np.unique(labels)]
    groups = [(target[measured & own], prediction[measured & own]) for own in owned]
    if not all(len(known) for known, _ in groups):
        raise ValueError("y_true must hold at least one measured target per task.")
    return groups


class Interval(NamedTuple):
    """Ends of an interval, and the p value of no difference."""

    low: float
    high: float
    p_value: float


def corrected_interval(
    differences: Array, test_to_train: float, level: float = LEVEL
) -> Interval:
    """Corrected resampled t interval of the mean of two or more differences."""
    if not test_to_train >= 0:
        raise ValueError(
            "test_to_train must be the test rows divided by the training rows, "
            f"0 for no correction: got {test_to_train}."
        )
    k = len(differences)
    mean = float(differences.mean())
    error = sqrt(float(differences.var(ddof=1)) * (1.0 / k + test_to_train))
    reach = float(stdtrit(k - 1, (1.0 + level) / 2.0)) * error
    statistic = abs(mean) / error if error > 0 else (inf if mean else 0.0)
    return Interval(mean - reach, mean + reach, 2.0 * float(stdtr(k - 1, -statistic)))
