"""separate_tasks: true classes and scores of rows, task by task."""

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from priormtl._arrays import Array
from priormtl.estimators.classifier import ClassificationTasks
from priormtl.estimators.labels import code_classes, read_labels


class TaskScores(NamedTuple):
    """Rows of one task: which are of its second class, and how they score."""

    task: Hashable
    positive: np.ndarray  # (n,) bool
    scores: Array  # (n,) larger for the second class


def separate_tasks(model: Any, X: Any, y: Any, *, task: Any = None) -> list[TaskScores]:
    """Score rows by a fitted classifier, for each of its tasks that has any.

    Parameters
    ----------
    model : fitted classifier of tasks
        Such as ``MultiTaskClassifier``.
    X, y, task
        As in :meth:`MultiTaskClassifier.fit`; a missing label in (n, m) targets was
        not measured.

    Returns
    -------
    list of TaskScores
        In the order of ``tasks_``.
    """
    if not isinstance(model, ClassificationTasks):
        raise TypeError(
            "model must be a classifier of tasks, such as MultiTaskClassifier: got "
            f"{type(model).__name__}."
        )
    scores, codes = model._scores(X, task)
    labels = read_labels(y)
    labels = labels if codes is None else np.ravel(labels)
    if labels.shape != scores.shape:
        raise ValueError(
            f"y must have one label for each score: got shape {labels.shape} for "
            f"{scores.shape}."
        )
    coded = code_classes(labels, codes, model._classes)
    owner = np.arange(coded.shape[1]) if codes is None else codes
    return [
        TaskScores(label, coded[rows] > 0, scores[rows])
        for i, label in enumerate(model.tasks_.tolist())
        if (rows := (owner == i) & (coded != 0)).any()
    ]
