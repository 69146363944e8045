"""How well predictions match: variance explained and normalised squared error.

Both compare the squared error with that of predicting the mean target. ``pooled``
takes one mean over all rows; ``tasks`` takes each task's own and averages.
"""

from collections.abc import Hashable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from priormtl._arrays import Array

__all__ = ["nmse", "variance_explained"]

Average = Literal["pooled", "tasks"] | None


def nmse(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    task: Sequence[Hashable] | None = None,
    average: Average = "pooled",
) -> float | Array:
    """Squared error divided by the squared deviation from the mean target.

    Parameters
    ----------
    y_true, y_pred : array-like, (n,) or (n, m)
        Targets and predictions; NaN in ``y_true`` means not measured.
    task : sequence of labels, optional
        Task of each row; with (n, m) targets the columns are the tasks.
    average : {"pooled", "tasks"} or None
        One mean over all rows, the mean of the tasks' values, or one value per task
        in the order of the sorted labels (NaN where a task's targets are all equal).

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
    varying = values[~np.isnan(values)]
    return float(varying.mean()) if varying.size else float("nan")


def variance_explained(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    task: Sequence[Hashable] | None = None,
    average: Average = "pooled",
) -> float | Array:
    """One minus :func:`nmse`: the share of the variance that is predicted.

    Parameters are those of :func:`nmse`.

    Examples
    --------
    >>> variance_explained([1.0, 2.0, 3.0], [1.0, 2.0, 2.0])
    0.5
    """
    return 1.0 - nmse(y_true, y_pred, task=task, average=average)


def _normalised_error(target: Array, prediction: Array) -> float:
    spread = float(np.sum((target - target.mean()) ** 2))
    error = float(np.sum((target - prediction) ** 2))
    return error / spread if spread > 0 else float("nan")


def _task_groups(
    y_true: ArrayLike, y_pred: ArrayLike, task: Sequence[Hashable] | None
) -> list[tuple[Array, Array]]:
    """Measured targets and their predictions, task by task."""
    target = np.asarray(y_true, dtype=np.float64)
    prediction = np.asarray(y_pred, dtype=np.float64)
    if target.shape != prediction.shape:
        raise ValueError(
            "y_true and y_pred must have the same shape: "
            f"got {target.shape} and {prediction.shape}."
        )
    select = _task_masks(target, task)
    groups = [(target[rows], prediction[rows]) for rows in select]
    if not all(len(measured) for measured, _ in groups):
        raise ValueError("y_true must hold at least one measured target per task.")
    return groups


def _task_masks(
    target: Array, task: Sequence[Hashable] | None
) -> list[NDArray[np.bool_]]:
    measured = ~np.isnan(target)
    if target.ndim == 2:
        columns = np.eye(target.shape[1], dtype=bool)
        return [measured & column for column in columns]
    if task is None:
        return [measured]
    labels = np.asarray(task)
    if labels.shape != target.shape:
        raise ValueError(
            "task must have one label per row of y_true: "
            f"got {len(labels)} labels for {len(target)} rows."
        )
    return [measured & (labels == label) for label in np.unique(labels)]
