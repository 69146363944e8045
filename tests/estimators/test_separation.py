"""Scores by task: every measured row once, under its task."""

import numpy as np
import pytest

from priormtl import MultiTaskClassifier, MultiTaskRegressor
from priormtl.estimators import separate_tasks

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
TASK = np.repeat(["a", "b", "c"], 20)
LABELS = np.where(X[:, 0] + 0.5 * RNG.normal(size=60) > 0, "yes", "no")


def test_rows_come_once_with_their_scores():
    model = MultiTaskClassifier().fit(X, LABELS, task=TASK)
    shuffled = RNG.permutation(60)
    parts = separate_tasks(model, X[shuffled], LABELS[shuffled], task=TASK[shuffled])
    assert [part.task for part in parts] == ["a", "b", "c"]
    scores = model.decision_function(X, task=TASK)
    for part in parts:
        rows = part.task == TASK
        assert np.allclose(np.sort(part.scores), np.sort(scores[rows]))
        assert part.positive.sum() == (LABELS[rows] == "yes").sum()


def test_columns_are_tasks_and_missing_labels_are_left_out():
    Y = np.column_stack([X[:, 0] > 0, X[:, 1] > 0]).astype(float)
    model = MultiTaskClassifier().fit(X, Y)
    Y[:7, 1] = np.nan
    first, second = separate_tasks(model, X, Y)
    assert (len(first.scores), len(second.scores)) == (60, 53)
    assert np.array_equal(second.positive, X[7:, 1] > 0)
    assert np.array_equal(first.scores, model.decision_function(X)[:, 0])


def test_the_task_may_be_a_column():
    codes = np.unique(TASK, return_inverse=True)[1]
    rows = np.column_stack([X, codes])
    model = MultiTaskClassifier(task=3).fit(rows, LABELS)
    assert [part.task for part in separate_tasks(model, rows, LABELS)] == [0, 1, 2]


def test_absent_tasks_are_left_out():
    model = MultiTaskClassifier().fit(X, LABELS, task=TASK)
    (part,) = separate_tasks(model, X[:20], LABELS[:20], task=TASK[:20])
    assert part.task == "a"


def test_only_classifiers_are_asked():
    model = MultiTaskRegressor().fit(X, X[:, 0], task=TASK)
    with pytest.raises(TypeError, match="must be a classifier"):
        separate_tasks(model, X, LABELS, task=TASK)


def test_labels_must_fit_the_rows():
    model = MultiTaskClassifier().fit(X, LABELS, task=TASK)
    with pytest.raises(ValueError, match=r"got shape \(5,\) for \(60,\)"):
        separate_tasks(model, X, LABELS[:5], task=TASK)
