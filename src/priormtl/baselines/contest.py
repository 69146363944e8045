"""Contest: the rows that methods learn from, and what judges them on the others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.data import Table, read_targets, split_task_column, take_rows
from priormtl.estimators import (
    MultiTaskClassifier,
    MultiTaskRegressor,
    make_splits,
)
from priormtl.metrics import auc, variance_explained
from priormtl.selection import Split, take_test, take_training, task_places

__all__ = ["Contest", "are_classes", "open_contest"]

REGRESSION = ("rmse", "variance_explained", "variance_explained_by_task")
CLASSIFICATION = ("auc", "accuracy")
SMALLER_IS_BETTER = ("rmse",)


@dataclass(frozen=True, eq=False)
class Contest:
    """Rows as users gave them, which of them are held out, and how models are judged.

    Methods see X, y and labels in the user's own kind (frames, categories), so that
    names in priors keep their meaning.
    """

    X: Any  # without the task's column
    y: Any
    labels: Any  # task of each row, or None
    table: Table
    splits: list[Split]
    classes: np.ndarray | None  # (m, 2) negative and positive; None for numbers

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of what ``judge`` returns, the most important first."""
        return REGRESSION if self.classes is None else CLASSIFICATION

    @property
    def rows_per_task(self) -> float:
        """Mean number of measured targets of a task."""
        return float(self.table.measured().sum()) / len(self.table.tasks)

    def fit(self, model: Any, number: int) -> Any:
        """Let a model learn from the training rows of a split."""
        rows = self.splits[number].train
        X, y = take_rows(self.X, rows), take_rows(self.y, rows)
        return model.fit(X, y, **self._task_argument(rows))

    def judge(self, model: Any, number: int) -> Array:
        """Metrics of a model on the held-out rows of a split."""
        rows = self._held_out_rows(number)
        test = take_test(self.table, self.splits[number], number)
        X, argument = take_rows(self.X, rows), self._task_argument(rows)

        def ask(method: Callable[..., Any]) -> np.ndarray:
            return self._match(method(X, **argument), test)

        if self.classes is None:
            return _judge_numbers(test, _finite(ask(model.predict)))
        classes = self.classes[self._columns(test)]
        predicted = ask(model.predict)
        scores = predicted == classes[..., 1]
        if hasattr(model, "decision_function"):
            scores = ask(model.decision_function)
        elif hasattr(model, "predict_proba"):
            scores = ask(self._positive_share(model))
        return _judge_classes(test, predicted, _finite(scores), classes)

    def _columns(self, test: Table) -> Index:
        """Task of each held-out target among all tasks."""
        places = task_places(test.tasks, self.table.tasks)
        return places if test.codes is None else places[test.codes]

    def _positive_share(self, model: Any) -> Callable[..., np.ndarray]:
        """Probabilities of the second class, by the customs of scikit-learn."""

        def share(X: Any, **argument: Any) -> np.ndarray:
            shares = np.asarray(model.predict_proba(X, **argument))
            return shares if self.table.codes is None else shares[:, 1]

        return share

    def _held_out_rows(self, number: int) -> Index:
        """Those that ``take_test`` takes."""
        rows = self.splits[number].test
        counted = np.asarray(self.table.measured().any(axis=1))
        return rows[counted[rows]]

    def _task_argument(self, rows: Index) -> Mapping[str, Any]:
        return {} if self.labels is None else {"task": take_rows(self.labels, rows)}

    def _match(self, answers: Any, test: Table) -> np.ndarray:
        """Answers in the shape of the held-out targets."""
        array = np.asarray(answers)
        columns = test.codes is None
        wanted = (len(test), len(self.table.tasks)) if columns else (len(test),)
        if wanted[1:] == (1,) and array.ndim == 1:
            array = array[:, np.newaxis]
        if array.shape != wanted:
            raise ValueError(
                f"predictions must have the shape of the targets, {wanted}: got "
                f"{array.shape}."
            )
        return array[:, self._columns(test)] if columns else array


def open_contest(X: Any, y: Any, task: Any, cv: Any, *, classify: bool) -> Contest:
    """Read rows and deal them out; every training part must hold every task."""
    labels = task
    if task is not None and (isinstance(task, str) or not np.iterable(task)):
        X, labels = split_task_column(X, task)
    # Squared loss bears tasks of one class: a method that does not says so itself.
    classifier = MultiTaskClassifier(loss="squared")
    reader = classifier if classify else MultiTaskRegressor()
    table = reader._read_table(X, y, labels, None, reset=True)
    splits = make_splits(cv, table, X, y, by_class=classify)
    for number, split in enumerate(splits):
        take_training(table, split, number)
        take_test(table, split, number)
    classes = classifier._classes if classify else None
    return Contest(X, y, labels, table, splits, classes)


def are_classes(y: Any) -> bool:
    """Whether targets look like classes: text, truth values, or two numbers."""
    try:
        numbers = read_targets(y)
    except ValueError:
        return True
    if np.asarray(y).dtype.kind in "bSTU":
        return True
    return len(np.unique(numbers[~np.isnan(numbers)])) == 2


def _judge_numbers(test: Table, prediction: Array) -> Array:
    error = (test.y - prediction)[~np.isnan(test.y)]
    task = test.codes
    pooled = variance_explained(test.y, prediction, task=task)
    by_task = variance_explained(test.y, prediction, task=task, average="tasks")
    return np.array([np.sqrt(np.mean(error**2)), pooled, by_task])


def _judge_classes(
    test: Table, predicted: np.ndarray, scores: Array, classes: np.ndarray
) -> Array:
    """``classes``: negative and positive one of each target, or of each column."""
    truth = np.where(test.y > 0, classes[..., 1], classes[..., 0])
    right = (predicted == truth)[~np.isnan(test.y)]
    return np.array([auc(test.y, scores, task=test.codes), right.mean()])


def _finite(values: np.ndarray) -> Array:
    numbers = np.asarray(values, dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError("predictions must be finite: some are NaN or inf.")
    return numbers
