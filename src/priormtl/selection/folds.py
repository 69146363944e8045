"""Folds: rows dealt out evenly within tasks, and training parts by merging."""

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import accumulate
from operator import add
from typing import Any, NamedTuple

import numpy as np

from priormtl._arrays import Index
from priormtl.data import (
    Table,
    TaskData,
    TaskStatistics,
    align_tasks,
    summarize_tasks,
)
from priormtl.exceptions import FoldsError

__all__ = [
    "Split",
    "align_parts",
    "as_splits",
    "deal_rows",
    "find_partition",
    "leave_one_out",
    "refuse_missing",
    "split_by_fold",
    "strata_of",
    "summarize_parts",
    "take_test",
    "take_training",
    "task_places",
]

ALWAYS = -1  # fold of rows that are never held out
SEED = 0


class Split(NamedTuple):
    """Rows to learn from and rows to judge by."""

    train: Index
    test: Index


def strata_of(table: Table, *, by_class: bool) -> Index:
    """Task of every target (n, 1) or (n, m), by class also its sign; −1: not measured.

    Rows of one stratum are alike for dealing.
    """
    y = table.y if table.codes is None else table.y[:, np.newaxis]
    own = np.arange(y.shape[1]) if table.codes is None else table.codes[:, np.newaxis]
    strata = 2 * own + (y > 0) if by_class else np.broadcast_to(own, y.shape)
    return np.where(table.measured(), strata, -1).astype(np.intp)


def deal_rows(
    strata: Index, n_folds: int, *, seed: Any = SEED, kept: Index | None = None
) -> Index:
    """Fold of each row (n,); −1 for rows that are never held out.

    Rows are shuffled, always in the same way for one seed, and dealt out stratum after
    stratum, so that both strata and folds come out even. A stratum that would be held
    out as a whole keeps its first row in training; with ``kept`` (n, ·) this holds for
    the groups that these columns name instead of the strata.
    """
    used = np.flatnonzero((strata >= 0).any(axis=1))
    _, alike = np.unique(strata[used], axis=0, return_inverse=True)
    shuffled = np.random.default_rng(seed).permutation(len(used))
    order = np.argsort(np.ravel(alike)[shuffled], kind="stable")
    folds = np.full(len(strata), ALWAYS, dtype=np.intp)
    folds[used[shuffled[order]]] = np.arange(len(used)) % n_folds
    for column in (strata if kept is None else kept).T:
        folds[_lost_rows(column, folds)] = ALWAYS
    _refuse_empty_folds(folds, n_folds)
    return folds


def _lost_rows(strata: Index, folds: Index) -> Index:
    """First row of each stratum whose rows are all in one fold."""
    rows = np.flatnonzero(strata >= 0)
    if not len(rows):
        return rows
    rows = rows[np.argsort(strata[rows], kind="stable")]
    _, starts = np.unique(strata[rows], return_index=True)
    lowest = np.minimum.reduceat(folds[rows], starts)
    highest = np.maximum.reduceat(folds[rows], starts)
    return rows[starts[(lowest == highest) & (lowest != ALWAYS)]]


def _refuse_empty_folds(folds: Index, n_folds: int) -> None:
    dealt = folds[folds != ALWAYS]
    if np.any(np.bincount(dealt, minlength=n_folds) == 0):
        raise FoldsError(
            f"cv must leave rows for every fold: got cv={n_folds} for {len(dealt)} "
            f"rows that can be held out (n_samples={len(folds)}; the only row of a "
            "task stays in training); use fewer folds or more rows."
        )


def split_by_fold(folds: Index) -> list[Split]:
    """One split per fold that holds it out."""
    return [
        Split(np.flatnonzero(folds != k), np.flatnonzero(folds == k))
        for k in range(folds.max() + 1)
    ]


def as_splits(pairs: Iterable[Any], n: int) -> list[Split]:
    """Pairs of row numbers or masks, as users and splitters give them."""
    splits = [Split(_rows(train, n), _rows(test, n)) for train, test in pairs]
    if not splits:
        raise ValueError("cv must yield at least one pair (train, test): got none.")
    return splits


def _rows(rows: Any, n: int) -> Index:
    array = np.asarray(rows)
    if array.dtype == bool:
        array = np.flatnonzero(array)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError("cv must yield pairs (train, test) of row numbers or masks.")
    if array.size and not -n <= array.min() <= array.max() < n:
        raise ValueError(
            f"cv must yield row numbers below n_samples={n}: got {array.max()}."
        )
    return array.astype(np.intp) % max(n, 1)


def find_partition(splits: Sequence[Split], n: int) -> Index | None:
    """Fold of each row, where each split holds out one part and trains on the rest."""
    folds = np.full(n, ALWAYS, dtype=np.intp)
    for k, split in enumerate(splits):
        if np.any(folds[split.test] != ALWAYS):
            return None
        folds[split.test] = k
    whole = all(
        np.array_equal(np.sort(split.train), np.flatnonzero(folds != k))
        for k, split in enumerate(splits)
    )
    return folds if whole else None


def summarize_parts(table: Table, folds: Index) -> list[TaskStatistics]:
    """Statistics of each fold, and last those of the rows that always train.

    Each row is read once; tasks without rows in a fold have weight zero there.
    """
    numbers = [*range(folds.max() + 1), ALWAYS]
    parts = [table.take(np.flatnonzero(folds == k)) for k in numbers]
    found = [summarize_tasks(part.to_tasks()) if part.tasks else None for part in parts]
    nothing = _no_rows(next(part for part in found if part is not None), table.tasks)
    return [
        nothing if part is None else align_tasks(part, table.tasks) for part in found
    ]


def _no_rows(like: TaskStatistics, tasks: tuple[Any, ...]) -> TaskStatistics:
    """Statistics of no rows, over the features of others."""
    return align_tasks(like, tasks).only(np.zeros(len(tasks), dtype=bool))


def align_parts(parts: Sequence[TaskStatistics]) -> list[TaskStatistics]:
    """Parts over the tasks of all of them, and last a part without rows."""
    tasks = reduce(add, parts).tasks
    aligned = [align_tasks(part, tasks) for part in parts]
    return [*aligned, _no_rows(aligned[0], tasks)]


def leave_one_out(
    parts: Sequence[TaskStatistics], always: TaskStatistics
) -> tuple[list[TaskStatistics], TaskStatistics]:
    """Merge of all parts but one, for each of them, and the merge of all.

    ``always`` is part of every merge.
    """
    # Prefix and suffix merges only: subtracting a fold from the total loses digits.
    before = list(accumulate(parts, add, initial=always))
    after = list(accumulate(reversed(parts[1:]), add))[::-1]
    rest = [a + b for a, b in zip(before[:-2], after, strict=True)]
    return [*rest, before[-2]], before[-1]


def take_training(table: Table, split: Split, number: int) -> TaskData:
    """Training rows of a split, which must hold every task."""
    part = table.take(split.train)
    known = set(part.tasks)
    refuse_missing(number, [task for task in table.tasks if task not in known])
    return part.to_tasks()


def take_test(table: Table, split: Split, number: int) -> Table:
    """Held-out rows of a split that were measured."""
    counted = np.asarray(table.measured().any(axis=1))
    rows = split.test[counted[split.test]]
    if not len(rows):
        raise ValueError(
            f"cv must hold out measured rows in every split: split {number} has none."
        )
    return table.take(rows)


def refuse_missing(number: int, missing: Sequence[Any]) -> None:
    """Fail if a split trains without some tasks."""
    if missing:
        raise FoldsError(
            f"cv must leave rows of every task in every training part: split {number} "
            f"trains without {list(missing[:8])}; hold out some rows of a task, not "
            "all of them."
        )


def task_places(part: Sequence[Any], tasks: Sequence[Any]) -> Index:
    """Position of each task of a part among all tasks."""
    position = {task: i for i, task in enumerate(tasks)}
    return np.array([position[task] for task in part], dtype=np.intp)
