"""Splitters for tables of many tasks, one for each question that folds can answer.

- ``TaskKFold``: what would this row have been? The rows of each task are dealt to all
  folds, as our own searches do. ``KFold`` without shuffling would hold out whole tasks
  of a table that is sorted by task.
- ``TaskTimeSplit``: what comes next? Each split holds out a later stretch of every
  task.
- ``TaskGroupKFold``: what about a task that is new? Each split holds out whole tasks.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils.multiclass import type_of_target

from priormtl._arrays import Array, Index
from priormtl.checks import check_count
from priormtl.data import encode_labels, split_task_column
from priormtl.design import Encoded, as_frame, read_times
from priormtl.exceptions import unknown_name
from priormtl.selection import (
    Split,
    deal_groups,
    deal_rows,
    split_by_fold,
    split_forward,
)

__all__ = ["TaskGroupKFold", "TaskKFold", "TaskTimeSplit", "column_times"]


class TaskSplitter(BaseCrossValidator):
    """What the splitters share: ``split`` and ``get_n_splits``."""

    n_splits: int

    @abstractmethod
    def _splits(self, X: Any, y: object) -> Iterable[Split]:
        """Rows of each split."""

    def split(
        self, X: object, y: object = None, groups: object = None
    ) -> Iterator[tuple[Index, Index]]:
        """Yield row numbers of the training and test part of each split.

        Parameters
        ----------
        X : (n, d) array, sparse matrix or data frame
            Features, with the columns of task and time unless these were given as
            arrays.
        y : (n,), optional
            Targets. ``TaskKFold`` spreads two classes evenly over the folds.
        groups
            Ignored.

        Yields
        ------
        train, test : arrays of row numbers
        """
        for split in self._splits(X, y):
            yield split.train, split.test

    def get_n_splits(
        self, X: object = None, y: object = None, groups: object = None
    ) -> int:
        """Return the number of splits, whatever the data."""
        return self.n_splits


class TaskKFold(TaskSplitter):
    """Cross-validation folds that are even within tasks.

    The rows of each task are shuffled and dealt to the folds in turn, so that the
    numbers of rows of a task in two folds differ by at most one, and so do the folds.
    If ``y`` has two classes, these are spread evenly, too. A task whose rows would all
    be in one fold, such as a task with a single row, keeps its first row in training in
    every split.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    task : str, int or (n,) labels
        Name of the task column of a data frame, its position in an array, or the task
        of each row. With a column, the splitter can be used for tables of any length,
        for example in nested cross-validation.
    random_state : int, Generator or None, default=0
        Seed of the shuffle. Folds are the same for the same integer, and differ from
        call to call for None.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.model_selection import cross_val_score
    >>> from priormtl import MultiTaskRegressor, TaskKFold
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=3, random_state=0)
    >>> table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(school=task)
    >>> model = MultiTaskRegressor(task="school")
    >>> cv = TaskKFold(task="school")
    >>> cross_val_score(model, table, y, cv=cv).shape
    (5,)
    """

    def __init__(
        self, n_splits: int = 5, *, task: object, random_state: object = 0
    ) -> None:
        self.n_splits = _check_splits(n_splits, 2)
        self.task = _check_given("task", task)
        self.random_state = random_state

    def _splits(self, X: Any, y: object) -> Iterable[Split]:
        codes = _read_tasks(self.task, X)[:, np.newaxis]
        strata = codes
        if y is not None and type_of_target(y) == "binary":
            _, side = np.unique(np.asarray(y), return_inverse=True)
            # Classes of one task are neighbours, so that the task stays even.
            strata = 2 * codes + np.ravel(side)[:, np.newaxis]
        folds = deal_rows(strata, self.n_splits, seed=self.random_state, kept=codes)
        return split_by_fold(folds)


class TaskTimeSplit(TaskSplitter):
    """Splits that go forward in time: each holds out a later stretch of every task.

    The last split holds out the last ``horizon`` of the times of each task and trains
    on what is before; the split before it holds out the stretch before that, and so on
    (expanding windows). Stretches are counted in distinct times of the task, and rows
    of one time stay together. A task with too few times for a split is absent from it;
    with a single time, it always trains.

    Parameters
    ----------
    n_splits : int, default=3
        Number of splits. The first one trains on 1 − n_splits · horizon of the times
        of each task.
    task : str, int or (n,) labels
        Name of the task column of a data frame, its position in an array, or the task
        of each row.
    time : str, int or (n,) array
        Column that orders the rows of each task, or the time of each row: numbers,
        dates (also as text) or months such as 202401.
    horizon : float, default=0.2
        Share of the times of each task that a split holds out.

    Examples
    --------
    >>> import numpy as np
    >>> from priormtl import TaskTimeSplit
    >>> task, year = np.repeat(["a", "b"], 5), np.tile(np.arange(2001, 2006), 2)
    >>> cv = TaskTimeSplit(2, task=task, time=year)
    >>> for train, test in cv.split(np.zeros((10, 1))):
    ...     print(year[train], year[test])
    [2001 2002 2003 2001 2002 2003] [2004 2004]
    [2001 2002 2003 2004 2001 2002 2003 2004] [2005 2005]
    """

    def __init__(
        self, n_splits: int = 3, *, task: object, time: object, horizon: float = 0.2
    ) -> None:
        self.n_splits = _check_splits(n_splits, 1)
        self.task, self.time = _check_given("task", task), _check_given("time", time)
        number = isinstance(horizon, float | np.floating)
        if not number or not 0.0 < horizon * self.n_splits < 1.0:
            raise ValueError(
                "horizon must be a share of times above 0, and n_splits · horizon "
                f"below 1: got {horizon!r} with n_splits={n_splits}."
            )
        self.horizon = horizon

    def _splits(self, X: Any, y: object) -> Iterable[Split]:
        codes, times = _read_tasks(self.task, X), self.time
        if isinstance(times, str) or not np.iterable(times):
            times = column_times(X, times)
        else:
            times = read_times(times)
        if len(times) != len(codes):
            raise ValueError(
                f"time must have one value per row of X: got {len(times)} for "
                f"{len(codes)} rows."
            )
        return split_forward(codes, times, self.n_splits, self.horizon)


class TaskGroupKFold(TaskSplitter):
    """Cross-validation folds that hold out whole tasks.

    Tasks are shuffled and dealt to the folds so that these have about equally many
    rows. Models predict the held-out tasks as ones that they have never seen.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    task : str, int or (n,) labels
        Name of the task column of a data frame, its position in an array, or the task
        of each row.
    random_state : int, Generator or None, default=0
        Seed of the shuffle. Folds are the same for the same integer, and differ from
        call to call for None.

    Examples
    --------
    >>> import numpy as np
    >>> from priormtl import TaskGroupKFold
    >>> task = np.repeat(["a", "b", "c", "d"], 3)
    >>> cv = TaskGroupKFold(2, task=task)
    >>> [sorted(set(task[test].tolist())) for _, test in cv.split(task)]
    [['b', 'c'], ['a', 'd']]
    """

    def __init__(
        self, n_splits: int = 5, *, task: object, random_state: object = 0
    ) -> None:
        self.n_splits = _check_splits(n_splits, 2)
        self.task = _check_given("task", task)
        self.random_state = random_state

    def _splits(self, X: Any, y: object) -> Iterable[Split]:
        codes = _read_tasks(self.task, X)
        folds = deal_groups(codes, self.n_splits, seed=self.random_state)
        return split_by_fold(folds)


def _check_splits(n_splits: object, fewest: int) -> int:
    if check_count("n_splits", n_splits) < fewest:
        raise ValueError(f"n_splits must be at least {fewest}: got {n_splits}.")
    return int(n_splits)  # type: ignore[call-overload]


def _check_given(name: str, value: object) -> object:
    if value is None:
        each = "label" if name == "task" else "value"
        raise ValueError(
            f"{name} must be the name of a column of X, or one {each} per row: got "
            "None."
        )
    return value


def _read_tasks(task: Any, X: Any) -> Index:
    """Position of the task of each row (n,)."""
    labels, n = task, X.shape[0] if hasattr(X, "shape") else len(X)
    is_named = isinstance(labels, str)
    if is_named and isinstance(X, Encoded) and labels == X.design.task:
        labels = X.task
    if isinstance(labels, str) or not np.iterable(labels):
        _, labels = split_task_column(X, labels)
    return encode_labels(labels, n)[0]


def column_times(X: Any, time: Any, wanted: str | None = None) -> Array:
    """Times of rows (n,) in a column of X, by name or by position in an array.

    ``wanted`` is what the column held in training.
    """
    if isinstance(X, Encoded) and X.time is not None and time == X.design.time:
        return X.time
    frame = as_frame(X)
    if frame is None:
        return read_times(split_task_column(X, time)[1])
    if time not in frame.columns:
        raise unknown_name("column of X for time", time, frame.columns)
    return read_times(frame.get_column(time), f"time column {time!r}", wanted)
