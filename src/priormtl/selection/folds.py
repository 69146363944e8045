"""Folds: rows dealt out within tasks, forward in time, or by task; training parts.

``deal_rows`` deals the rows of each task to all folds, ``split_forward`` holds out
later stretches of every task, and ``deal_groups`` whole tasks. Tasks that a training
part lacks stay in the model, as ones of which nothing is known.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import accumulate, repeat
from operator import add
from typing import Any, NamedTuple

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.data import (
    Table,
    TaskData,
    TaskStatistics,
    align_tasks,
    summarize_tasks,
    to_device,
)
from priormtl.exceptions import FoldsError

ALWAYS = -1  # fold of rows that are never held out
SEED = 0


class Split(NamedTuple):
    """Rows to learn from and rows to judge by."""

    train: Index
    test: Index


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
        rows = np.flatnonzero(column >= 0)
        if len(rows):
            # First row of each stratum whose rows are all in one fold.
            rows = rows[np.argsort(column[rows], kind="stable")]
            _, starts = np.unique(column[rows], return_index=True)
            lowest = np.minimum.reduceat(folds[rows], starts)
            highest = np.maximum.reduceat(folds[rows], starts)
            folds[rows[starts[(lowest == highest) & (lowest != ALWAYS)]]] = ALWAYS
    dealt = folds[folds != ALWAYS]
    if len(folds) == 1:
        raise FoldsError(
            "X must have two rows at least (n_samples=1): strengths are chosen by rows "
            "that are held out."
        )
    if np.any(np.bincount(dealt, minlength=n_folds) == 0):
        raise FoldsError(
            f"cv must leave rows for every fold: got cv={n_folds} for {len(dealt)} "
            f"rows that can be held out (n_samples={len(folds)}; the only row of a "
            "task stays in training); use fewer folds or more rows."
        )
    return folds


def deal_groups(codes: Index, n_folds: int, *, seed: Any = SEED) -> Index:
    """Fold of each row (n,), the same for all rows of a group.

    Groups are shuffled, and each goes to the fold with the fewest rows so far, the
    largest ones first.
    """
    counts = np.bincount(codes)
    if len(counts) < n_folds:
        raise FoldsError(
            f"n_splits must be at most the number of tasks: got {n_folds} for "
            f"{len(counts)} tasks."
        )
    shuffled = np.random.default_rng(seed).permutation(len(counts))
    fold, size = np.empty(len(counts), np.intp), np.zeros(n_folds)
    for group in shuffled[np.argsort(-counts[shuffled], kind="stable")]:
        fold[group] = np.argmin(size)
        size[fold[group]] += counts[group]
    return fold[codes]


def split_forward(
    codes: Index, time: Array, n_splits: int, horizon: float
) -> list[Split]:
    """Splits whose test parts are later than their training parts, task by task.

    The last split holds out the last ``horizon`` of the distinct times of each task,
    the one before it the stretch before that, and so on; rows after a stretch do not
    train. A task sits a split out where nothing of it would train; with a single time,
    it always trains.
    """
    order = np.lexsort([time, codes])
    task, moment = codes[order], time[order]
    first = np.diff(task, prepend=-1) != 0
    is_new = first | (np.diff(moment, prepend=np.nan) != 0)
    running = np.cumsum(is_new)
    starts = running[first]  # of the first time of each task
    rank = np.empty(len(codes), np.intp)
    rank[order] = running - starts[np.cumsum(first) - 1]
    present = codes[order][first]
    times = np.zeros(codes.max() + 1, np.intp)  # distinct ones of each task
    times[present] = np.diff([*starts, running[-1] + 1])
    stretch = np.maximum(np.rint(horizon * times), 1).astype(np.intp)
    # Where all of a task would be held out, its first time trains.
    stretch = np.minimum(stretch, np.maximum(times - 1, 0))
    splits = list[Split]()
    for back in range(n_splits, 0, -1):
        cut = (times - back * stretch)[codes]
        known = cut > 0
        train = known & (rank < cut)
        test = known & ~train & (rank < cut + stretch[codes])
        if test.any():
            splits.append(Split(np.flatnonzero(train), np.flatnonzero(test)))
    if len(splits) < n_splits:
        most = int((times.max() - 1) // max(int(stretch.min()), 1))
        raise FoldsError(
            f"n_splits must leave earlier rows to train on in every split: got "
            f"{n_splits} splits of horizon {horizon:g} for tasks of at most "
            f"{times.max()} times; use at most {max(most, 0)} splits."
        )
    return splits


def most_forward_splits(codes: Index, time: Array, horizon: float) -> int:
    """How many splits half of the tasks can take part in, at least one."""
    pairs = np.unique(np.column_stack([codes, time]), axis=0)
    times = np.bincount(pairs[:, 0].astype(np.intp))
    typical = int(np.median(times[times > 1])) if np.any(times > 1) else 1
    return max((typical - 1) // max(round(horizon * typical), 1), 1)


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


def _rows(rows: object, n: int) -> Index:
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
    for k, split in enumerate(splits):
        if not np.array_equal(np.sort(split.train), np.flatnonzero(folds != k)):
            return None
    return folds


def summarize_parts(
    table: Table, folds: Index, device: object = None
) -> list[TaskStatistics]:
    """Statistics of each fold, and last those of the rows that always train.

    Each row is read once; tasks without rows in a fold have weight zero there.
    """
    numbers, found = [*range(folds.max() + 1), ALWAYS], dict[int, TaskStatistics]()
    for k in numbers:
        rows = np.flatnonzero(folds == k)
        part = table.take(rows) if len(rows) else None
        if part is not None and part.tasks:
            data = part.to_tasks()
            own = summarize_tasks(data) if device is None else to_device(data, device)
            found[k] = align_tasks(own, table.tasks)
    if len(found) < len(numbers):
        nothing = next(iter(found.values())).only(np.zeros(len(table.tasks), bool))
        for k in numbers:
            found.setdefault(k, nothing)
    return list(map(found.__getitem__, numbers))


def align_parts(parts: Sequence[TaskStatistics]) -> list[TaskStatistics]:
    """Parts over the tasks of all of them, and last a part without rows."""
    tasks = reduce(add, parts).tasks
    aligned = [align_tasks(part, tasks) for part in parts]
    return [*aligned, aligned[0].only(np.zeros(len(tasks), dtype=bool))]


def leave_one_out(
    parts: Sequence[TaskStatistics],
    always: TaskStatistics,
    *,
    whole_tasks: bool = False,
) -> tuple[list[TaskStatistics], TaskStatistics]:
    """Merge of all parts but one, for each of them, and the merge of all.

    ``always`` is part of every merge. All merges must hold every task, unless
    ``whole_tasks`` may be left out.
    """
    # Prefix and suffix merges only: subtracting a fold from the total loses digits.
    before = list(accumulate(parts, add, initial=always))
    after = list(accumulate(reversed(parts[1:]), add))[::-1]
    merged = [*map(add, before[:-2], after), before[-2]]
    for number, train in enumerate(merged):
        if not (whole_tasks or train.weight.all()):
            absent = np.flatnonzero(train.weight == 0)
            refuse_missing(number, [train.tasks[i] for i in absent])
    return merged, before[-1]


class Fold(NamedTuple):
    """One split: what trains, and what is known of the held-out rows."""

    train: TaskData | TaskStatistics
    split: Split
    missing: Index  # tasks of which no row trains
    test: TaskStatistics | None  # None where statistics were not computed


def divide(
    table: Table,
    data: TaskData,
    splits: Sequence[Split],
    *,
    by_rows: bool,
    whole_tasks: bool = False,
    device: object = None,
) -> tuple[TaskData | TaskStatistics, list[Fold]]:
    """All data, and the folds of a search.

    Where the splits hold out the parts of a partition, each row is read once into
    statistics, and those of the other parts train; otherwise, or ``by_rows``, rows do.
    """
    folds = None if by_rows else find_partition(splits, int(table.X.shape[0]))
    missing = [missing_tasks(table, split) for split in splits]
    if folds is None:
        rows = []
        for k, split in enumerate(splits):
            rows.append(take_training(table, split, k, whole_tasks=whole_tasks))
        return data, list(map(Fold, rows, splits, missing, repeat(None)))
    *tests, always = summarize_parts(table, folds, device)
    trains, whole = leave_one_out(tests, always, whole_tasks=whole_tasks)
    return whole, list(map(Fold, trains, splits, missing, tests))


def take_training(
    table: Table, split: Split, number: int, *, whole_tasks: bool = False
) -> TaskData:
    """Training rows of a split, which must hold every task.

    Where ``whole_tasks`` may be left out, one of their rows stays with next to no
    weight: ties weigh so much more that it says nothing.
    """
    missing = missing_tasks(table, split)
    if not len(missing) or not whole_tasks or table.codes is None:
        refuse_missing(number, [table.tasks[i] for i in missing])
        return table.take(split.train).to_tasks()
    measured = np.flatnonzero(table.measured()[:, 0])
    codes, first = np.unique(table.codes[measured], return_index=True)
    kept = measured[first[np.isin(codes, missing)]]
    weight = np.ones(len(table)) if table.weight is None else table.weight.copy()
    faint = 1e-8  # weight of a row that only keeps its task's place
    weight[kept] = faint * table.mean_weight()
    rows = np.union1d(split.train, kept)
    return replace(table, weight=weight).take(rows).to_tasks()


def missing_tasks(table: Table, split: Split) -> Index:
    """Positions of the tasks of which no row trains."""
    measured = table.measured()[split.train]
    if table.codes is None:
        return np.flatnonzero(~measured.any(axis=0))
    known = table.codes[split.train][measured[:, 0]]
    return np.flatnonzero(np.bincount(known, minlength=len(table.tasks)) == 0)


def fill_missing(coef: Array, intercept: Array, missing: Index) -> tuple[Array, Array]:
    """Coefficients (…, m, d) and intercepts (…, m), with the mean for missing tasks."""
    if not len(missing):
        return coef, intercept
    coef, intercept = coef.copy(), intercept.copy()
    known = np.setdiff1d(np.arange(coef.shape[-2]), missing)
    coef[..., missing, :] = coef[..., known, :].mean(axis=-2, keepdims=True)
    intercept[..., missing] = intercept[..., known].mean(axis=-1, keepdims=True)
    return coef, intercept


def take_test(table: Table, split: Split, number: int) -> Table:
    """Held-out rows of a split that were measured."""
    counted = np.asarray(table.measured().any(axis=1))
    rows = split.test[counted[split.test]]
    if not len(rows):
        raise ValueError(
            f"cv must hold out measured rows in every split: split {number} has none."
        )
    return table.take(rows)


def refuse_missing(number: int, missing: Sequence[object]) -> None:
    """Fail if a split trains without some tasks."""
    if missing:
        raise FoldsError(
            f"cv must leave rows of every task in every training part: split {number} "
            f"trains without {list(missing[:8])}; hold out some rows of a task, not "
            "all of them."
        )


def task_places(part: Sequence[object], tasks: Sequence[Hashable]) -> Index:
    """Position of each task of a part among all tasks."""
    position = {task: i for i, task in enumerate(tasks)}
    return np.array([position[task] for task in part], dtype=np.intp)
