"""make_splits: which rows are held out, as users and splitters say it."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.sparse import csr_array, hstack, issparse
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv

from priormtl._arrays import Array, Index, Matrix
from priormtl.checks import check_count, check_strengths
from priormtl.data import Table, TaskData, TaskStatistics
from priormtl.estimators.linear import LinearMultiTask
from priormtl.problem import Problem
from priormtl.selection import (
    Grid,
    Score,
    Split,
    as_splits,
    deal_rows,
    leave_one_out,
    refuse_missing,
    split_by_fold,
    strata_of,
    summarize_parts,
    take_training,
    task_places,
)
from priormtl.solvers import lam_grid

__all__ = [
    "DEFAULT_FOLDS",
    "EPSILONS",
    "THETAS",
    "Parts",
    "ScorerOnRows",
    "bind_scorer",
    "check_parts",
    "make_splits",
    "merge_folds",
    "part_rows",
    "part_statistics",
    "read_grid",
    "read_lams",
    "with_task_column",
]


DEFAULT_FOLDS = 5


def make_splits(
    cv: Any, table: Table, X: Any, y: Any, groups: Any = None, *, by_class: bool
) -> list[Split]:
    """Rows of each split: our folds for a number, else as the splitter says."""
    n_folds = DEFAULT_FOLDS if cv is None else cv
    if isinstance(n_folds, bool) or not isinstance(n_folds, Integral):
        return as_splits(check_cv(cv).split(X, y, groups), len(table))
    if n_folds < 2:
        raise ValueError(f"cv must be at least 2 folds: got {n_folds}.")
    if groups is not None:
        raise ValueError(
            f"groups need a splitter that heeds them: got cv={n_folds}; use "
            "cv=GroupKFold() or LeaveOneGroupOut()."
        )
    return split_by_fold(deal_rows(strata_of(table, by_class=by_class), int(n_folds)))


# Parts: what trains and what judges in each split, as rows or as statistics.


class Parts(NamedTuple):
    """The data as a search needs them."""

    whole: TaskData | TaskStatistics
    folds: Sequence[tuple[TaskData | TaskStatistics, Score]]  # what trains, what judges


class Judge(Protocol):
    """Makes the score of a split's held-out rows."""

    def __call__(
        self, split: Split, number: int, part: TaskStatistics | None = None
    ) -> Score:
        """What judges models; ``part``: statistics of these rows, if known."""


def part_rows(
    table: Table,
    data: TaskData,
    splits: Sequence[Split],
    judge: Judge,
    check_training: Callable[[TaskData, int], None],
) -> Parts:
    """Rows of each split train."""
    trains = [take_training(table, *pair) for pair in _numbered(splits)]
    for number, train in enumerate(trains):
        check_training(train, number)
    scores = [judge(*pair) for pair in _numbered(splits)]
    return Parts(data, list(zip(trains, scores, strict=True)))


def part_statistics(
    table: Table, folds: Index, splits: Sequence[Split], judge: Judge
) -> Parts:
    """Merged statistics of the other folds train: rows are read once."""
    *parts, always = summarize_parts(table, folds)
    scores = [
        judge(*pair, part) for pair, part in zip(_numbered(splits), parts, strict=True)
    ]
    return merge_folds(parts, always, scores)


def merge_folds(
    parts: Sequence[TaskStatistics], always: TaskStatistics, scores: Sequence[Score]
) -> Parts:
    """Train on all parts but one, and judge on that one."""
    merged, whole = leave_one_out(parts, always)
    for number, train in enumerate(merged):
        absent = np.flatnonzero(train.weight == 0)
        refuse_missing(number, [train.tasks[i] for i in absent])
    return Parts(whole, list(zip(merged, scores, strict=True)))


def check_parts(parts: Any) -> None:
    """Fail unless there are several statistics, to be held out in turn."""
    known = [isinstance(part, TaskStatistics) for part in parts]
    if len(known) < 2 or not all(known):
        raise TypeError(
            "parts must be two or more TaskStatistics, each held out once: got "
            f"{[type(part).__name__ for part in parts][:8]}; make them with "
            "summarize(X, y, task)."
        )


def _numbered(splits: Sequence[Split]) -> list[tuple[Split, int]]:
    return [(split, number) for number, split in enumerate(splits)]


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
        model.coef_, model.intercept_ = coef, intercept
        return float(self.scorer(model, self.X, self.y))


def with_task_column(X: Matrix, places: Index) -> Matrix:
    """X with the position of each row's task as its last column."""
    column = places[:, np.newaxis].astype(np.float64)
    if issparse(X):
        return csr_array(hstack([X, csr_array(column)], format="csr"))
    return np.hstack([X, column])


def bind_scorer(
    scoring: Any,
    shell: LinearMultiTask,
    test: Table,
    tasks: Sequence[Any],
    targets: np.ndarray,
) -> ScorerOnRows:
    """Scorer of this name on held-out rows; ``shell`` is an unfitted estimator.

    It becomes fitted but for numbers, with the task in a last column of X.
    """
    shell.n_features_in_ = int(test.X.shape[1])
    shell.tasks_ = np.arange(len(tasks))
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


# Strengths that a search tries, as users list them.

DEFAULT_LAMS = 10
THETAS = (0.1, 1.0, 10.0, 100.0)
EPSILONS = (0.1, 1.0, 10.0, 100.0, 1000.0)


def read_grid(lams: Any, thetas: Any, epsilons: Any, problem: Problem) -> Grid:
    """All values with all others."""
    return Grid(
        read_lams(lams, problem),
        check_strengths("thetas", thetas),
        check_strengths("epsilons", epsilons),
    )


def read_lams(lams: Any, problem: Problem) -> Array:
    """Values of lam as given, or a grid from the problem's lam_max."""
    if lams is None:
        return lam_grid(problem, DEFAULT_LAMS)
    if isinstance(lams, Integral):
        return lam_grid(problem, check_count("lams as a number", lams))
    return check_strengths("lams", lams)
