"""Class labels of binary tasks: which two each task has, coded −1 and +1."""

import warnings
from collections.abc import Hashable
from itertools import pairwise
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from priormtl._arrays import Array, Index
from priormtl.data import TaskData
from priormtl.design import as_frame
from priormtl.exceptions import FoldsError


def read_labels(y: object) -> np.ndarray:
    """Labels as an array (n,) or (n, m); checked where there is one column."""
    frame = as_frame(y)
    series = nw.from_native(y, series_only=True, pass_through=True)
    if frame is not None:
        labels = np.column_stack([_values(column) for column in frame.iter_columns()])
    elif isinstance(series, nw.Series):
        labels = _values(series)
    else:
        labels = np.asarray(y)
    if labels.ndim not in (1, 2):
        raise ValueError(f"y must have one or two dimensions: got {labels.ndim}.")
    if labels.ndim == 1:
        assert_all_finite(labels, input_name="y")
        if _missing(labels).any():
            raise ValueError(
                "Input y contains missing labels: drop the rows without a class."
            )
        check_classification_targets(labels)
    return labels


def count_classes(y: object) -> int:
    """How many different labels there are, where rows without weight may lack one."""
    series = nw.from_native(y, series_only=True, pass_through=True)
    labels = _values(series) if isinstance(series, nw.Series) else np.asarray(y)
    known = labels.ravel()[~_missing(labels.ravel())]
    return len(set(known.tolist()))


def _values(column: Any) -> np.ndarray:
    """Labels of a column; NumPy alone would make text of what is missing."""
    items = column.to_list()
    if any(isinstance(item, str) for item in items):
        return np.array(items, dtype=object)
    return np.asarray(items)


def class_table(
    y: np.ndarray,
    codes: Index | None,
    tasks: tuple[Hashable, ...],
    *,
    lone_class: bool,
    several: bool = False,
) -> np.ndarray:
    """Negative and positive class of each task (m, 2).

    With ``several``, and one class in all or more than two in some task, all classes
    (m, K); also where ``lone_class`` allows tasks that lack classes: they may all lack
    some, unless each has a pair of its own.
    Where all tasks draw on the same two classes, a task may lack one of them if
    ``lone_class``; else each task must show its own two.
    """
    if codes is None:
        seen = [np.unique(column[~_missing(column)]) for column in y.T]
    else:
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(len(tasks) + 1))
        seen = [np.unique(y[order[a:b]]) for a, b in pairwise(ends)]
    union = np.unique(np.concatenate(seen))
    least = min(len(classes) for classes in seen)
    if len(union) == 2 and (least == 2 or (lone_class and least > 0)):
        return np.tile(union, (len(tasks), 1))
    if len(union) == 1:
        words = f"got {union.tolist()} in all rows; one class leaves nothing to learn"
        if not several:
            raise ValueError(f"y must have two classes: {words}.")
        warnings.warn(
            f"y should have two classes: {words}, and is predicted for every row.",
            UserWarning,
            stacklevel=4,
        )
        return np.tile(union, (len(tasks), 1))
    most = max(len(classes) for classes in seen)
    # As one_vs_one makes them: each task is about a pair of its own.
    are_pairs = least == most == 2 and len({*map(tuple, seen)}) == len(seen)
    if several and (most > 2 or (lone_class and least > 0 and not are_pairs)):
        for task, classes in zip(tasks, seen, strict=True):
            if len(classes) < len(union) and not lone_class:
                absent = np.setdiff1d(union, classes)[:5].tolist()
                raise ValueError(
                    f"every task must show all {len(union)} classes with free "
                    f"intercepts: task {task!r} has no rows of {absent}. Use "
                    'fit_intercept="tied".'
                )
        return np.tile(union, (len(tasks), 1))
    for task, classes in zip(tasks, seen, strict=True):
        shown = classes[:5].tolist()
        if len(classes) < 2:
            is_free = several and not lone_class and len(classes) == 1
            way = ' use fit_intercept="tied",' if is_free else ""
            raise ValueError(
                f"every task must have two classes: task {task!r} has one class or "
                f"none ({shown});{way} drop it, or join it with another task."
            )
        if len(classes) > 2:
            kind = type_of_target(y) if y.ndim == 1 else "multiclass"
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"{kind}. Task {task!r} has {len(classes)} classes ({shown}, …): use "
                "MultiTaskClassifier with logistic loss and task labels, or one_vs_one "
                "or one_vs_rest to make binary tasks."
            )
    return np.stack(seen)


def code_classes(y: np.ndarray, codes: Index | None, table: np.ndarray) -> Array:
    """−1 and +1 for the two classes of each row's task, 0 for anything else.

    A class that is the only one is −1.
    """
    classes = table[np.newaxis] if codes is None else table[codes]
    negative = y == classes[..., 0]
    return np.where(negative, -1.0, y == classes[..., -1])


def refuse_lone_classes(train: TaskData, number: int, n_classes: int = 2) -> None:
    """Fail if some task of a training part lacks a class.

    Labels are ±1, or numbers of more than two classes.
    """
    codes = [-1.0, 1.0] if n_classes == 2 else list(map(float, range(n_classes)))
    for code in codes:
        shown = train.task_sums(train.weight * (train.y == code))
        lone = [train.tasks[i] for i in np.flatnonzero(shown == 0)]
        if lone:
            raise FoldsError(
                "cv must leave all classes of every task in every training part with "
                f"free intercepts: split {number} trains without a class of "
                f'{lone[:8]}; use fit_intercept="tied", or stratify the splits by task '
                "and class."
            )


def _missing(labels: np.ndarray) -> np.ndarray:
    if labels.dtype == object:
        return np.array([v is None or v != v for v in labels.tolist()], dtype=bool)  # noqa: PLR0124
    return labels != labels  # noqa: PLR0124
