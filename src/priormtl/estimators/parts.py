"""Parts: what trains and what judges in each split, as rows or as statistics."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from priormtl._arrays import Index
from priormtl.data import Table, TaskData, TaskStatistics
from priormtl.selection import (
    Score,
    Split,
    leave_one_out,
    refuse_missing,
    summarize_parts,
    take_training,
)

__all__ = ["Parts", "check_parts", "merge_folds", "part_rows", "part_statistics"]


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
