"""TaskKFold: folds that are even within tasks, for scikit-learn's tools.

Tables are often sorted by task. ``KFold`` without shuffling then holds out whole tasks,
of which a model knows nothing, and ``cross_val_score`` returns NaN. ``TaskKFold`` deals
the rows of each task to all folds, as our own searches do.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils.multiclass import type_of_target

from priormtl._arrays import Index
from priormtl.checks import check_count
from priormtl.data import encode_labels, split_task_column
from priormtl.selection import deal_rows, split_by_fold


class TaskKFold(BaseCrossValidator):
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
        if check_count("n_splits", n_splits) < 2:
            raise ValueError(f"n_splits must be at least 2: got {n_splits}.")
        if task is None:
            raise ValueError(
                "task must be the name of a column of X, or one label per row: got "
                "None."
            )
        self.n_splits = int(n_splits)
        self.task = task
        self.random_state = random_state

    def split(
        self, X: object, y: object = None, groups: object = None
    ) -> Iterator[tuple[Index, Index]]:
        """Yield row numbers of the training and test part of each split.

        Parameters
        ----------
        X : (n, d) array, sparse matrix or data frame
            Features, with the task column unless ``task`` is an array of labels.
        y : (n,), optional
            Targets. If they are two classes, both are spread evenly over the folds.
        groups
            Ignored.

        Yields
        ------
        train, test : arrays of row numbers
        """
        for split in split_by_fold(self._folds(X, y)):
            yield split.train, split.test

    def get_n_splits(
        self, X: object = None, y: object = None, groups: object = None
    ) -> int:
        """Return the number of splits, whatever the data."""
        return self.n_splits

    def _folds(self, X: Any, y: object) -> Index:
        """Fold of each row; −1 for rows that always train."""
        labels, n = self.task, X.shape[0] if hasattr(X, "shape") else len(X)
        if isinstance(labels, str) or not np.iterable(labels):
            _, labels = split_task_column(X, labels)
        codes = encode_labels(labels, n)[0][:, np.newaxis]
        strata = codes
        if y is not None and type_of_target(y) == "binary":
            _, side = np.unique(np.asarray(y), return_inverse=True)
            # Classes of one task are neighbours, so that the task stays even.
            strata = 2 * codes + np.ravel(side)[:, np.newaxis]
        return deal_rows(strata, self.n_splits, seed=self.random_state, kept=codes)
