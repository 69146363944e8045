"""What a search needs from users' settings: splits, scorers, grids of strengths."""

import copy
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from scipy.sparse import csr_array, hstack, issparse
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv

from priormtl._arrays import Array, Index, Matrix
from priormtl.data import Table, TaskStatistics, check_statistics
from priormtl.estimators.linear import LinearMultiTask
from priormtl.exceptions import FoldsError
from priormtl.fitted import Fitted
from priormtl.selection import (
    Split,
    as_splits,
    deal_groups,
    deal_rows,
    most_forward_splits,
    split_by_fold,
    split_forward,
    strata_of,
    task_places,
)

__all__ = [
    "DEFAULT_FOLDS",
    "ScorerOnRows",
    "bind_scorer",
    "check_parts",
    "make_splits",
    "with_task_column",
]


DEFAULT_FOLDS = 5
# As TaskTimeSplit has them by default: the first of three trains on two fifths.
HORIZON, MOST_FORWARD = 0.2, 3


def make_splits(
    cv: object,
    table: Table,
    X: object,
    y: object,
    groups: object = None,
    *,
    by_class: bool,
    by_task: bool = False,
    whole_tasks: bool = False,
    n_classes: int = 2,
) -> list[Split]:
    """Rows of each split: our folds for a number, else as the splitter says.

    Our folds hold out whole tasks ``by_task``. With ``whole_tasks``, they may hold out
    all rows of a task. Where rows have times, our folds go forward. Each of more than
    two classes, whose numbers are the targets, always has rows to learn from.
    """
    n_folds = DEFAULT_FOLDS if cv is None else cv
    if isinstance(n_folds, bool) or not isinstance(n_folds, Integral):
        return as_splits(check_cv(cv).split(X, y, groups), int(table.X.shape[0]))
    if n_folds < 2:
        raise ValueError(f"cv must be at least 2 folds: got {n_folds}.")
    if groups is not None:
        raise ValueError(
            "groups needs a group-aware splitter such as cv=GroupKFold(): got "
            f"cv={n_folds}."
        )
    if table.time is not None and table.codes is not None:
        used = np.flatnonzero(table.measured()[:, 0])
        known = table.codes[used], table.time[used]
        count = min(int(n_folds), MOST_FORWARD, most_forward_splits(*known, HORIZON))
        return [
            Split(used[train], used[test])
            for train, test in split_forward(*known, count, HORIZON)
        ]
    if by_task:
        assert table.codes is not None
        used = np.flatnonzero(table.measured()[:, 0])
        codes = np.unique(table.codes[used], return_inverse=True)[1]
        folds = deal_groups(codes, min(int(n_folds), int(codes.max()) + 1))
        return [Split(used[a], used[b]) for a, b in split_by_fold(folds)]
    strata = strata_of(table, by_class=by_class)
    kept = strata[:, :0] if whole_tasks else None
    if n_classes > 2:
        tasks = strata if kept is None else kept
        kept = np.column_stack([tasks, table.y.astype(np.intp)])
    # A table of four rows has four folds by default, not an error.
    fewest = 2 if n_folds == DEFAULT_FOLDS else int(n_folds)
    for count in range(int(n_folds), fewest, -1):
        with suppress(FoldsError):
            return split_by_fold(deal_rows(strata, count, kept=kept))
    return split_by_fold(deal_rows(strata, fewest, kept=kept))


def check_parts(parts: Any) -> None:
    """Fail unless there are several statistics, to be held out in turn."""
    known = [isinstance(part, TaskStatistics) for part in parts]
    if len(known) < 2 or not all(known):
        raise TypeError(
            "parts must be two or more TaskStatistics, each held out once: got "
            f"{[type(part).__name__ for part in parts][:8]}; make them with "
            "summarize(X, y, task)."
        )
    for part in parts:
        check_statistics(part, matrices=part.is_mapped)


# Scorers of scikit-learn as scores of held-out rows.


@dataclass(frozen=True, eq=False)
class ScorerOnRows:
    """A scorer, asked with plain models that find the task in a column of X.

    So every scorer works, since it needs no argument but X and y.
    """

    scorer: Any  # called with model, X, y
    model: LinearMultiTask  # fitted but for coefficients and intercepts
    X: Matrix
    y: np.ndarray

    def __call__(self, coefs: Array, intercepts: Array) -> Array:
        """Score of each model."""
        return np.array(
            [self._score(*parts) for parts in zip(coefs, intercepts, strict=True)]
        )

    def _score(self, coef: Array, intercept: Array) -> float:
        # A copy: other threads score other models.
        model = copy.copy(self.model)
        m, *K, d = model.fitted_.coef.shape
        if K:  # class after class
            coef = coef.reshape(*K, m, d).swapaxes(0, 1)
            intercept = intercept.reshape(*K, m).T
        model.fitted_ = replace(model.fitted_, coef=coef, intercept=intercept)
        return float(self.scorer(model, self.X, self.y))


def with_task_column(X: Matrix, places: Index) -> Matrix:
    """X with the position of each row's task as its last column."""
    column = places[:, np.newaxis].astype(np.float64)
    if issparse(X):
        return csr_array(hstack([X, csr_array(column)], format="csr"))
    return np.hstack([X, column])


def bind_scorer(
    scoring: object,
    shell: LinearMultiTask,
    test: Table,
    tasks: Sequence[Hashable],
    targets: np.ndarray,
) -> ScorerOnRows:
    """Scorer of this name on held-out rows; ``shell`` is an unfitted estimator.

    It becomes fitted but for numbers, with the task in a last column of X.
    """
    if test.offset is not None:
        raise ValueError(
            f"scoring={scoring!r} must be None with exposure or offset: held-out rows "
            "are scored by their deviance."
        )
    m, d, labels = len(tasks), int(test.X.shape[1]), np.arange(len(tasks))
    name, model = type(shell).__name__, shell._model()
    own = (model.n_classes,) if model.n_classes > 2 else ()
    zero = np.zeros((m, *own, d)), np.zeros((m, *own))
    shell.fitted_ = Fitted(name, model, labels, *zero)
    shell.n_features_in_ = d
    shell._targets_are_columns = test.codes is None
    shell.task = None if test.codes is None else shell.n_features_in_
    scorer = check_scoring(shell, scoring=scoring)
    if test.codes is not None:
        places = task_places(test.tasks, tasks)[test.codes]
        X = with_task_column(test.X, places)
        return ScorerOnRows(scorer, shell, X, targets)
    if len(test.tasks) < len(tasks) or not test.measured().all():
        raise ValueError(
            f"scoring={scoring!r} needs every target of the held-out rows. Where some "
            "were not measured, use scoring=None."
        )
    return ScorerOnRows(scorer, shell, test.X, targets)
