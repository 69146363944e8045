"""Partial: statistics of some rows, which merge though columns and tasks differ.

A category that one side has not seen was 0 in all its rows, so that its statistics
are extended by zeros. Gaps of a column are filled with the mean of its observed values
(of all tasks and folds) and marked in a slot of their own; where that mean moves, as
sides are merged, what was filled in moves along: x + (new − old) · mark, a linear map
of the statistics. So one pass gives what two would, without a loss of digits.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Protocol

import numpy as np

from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.data import TaskStatistics, align_tasks, large_tasks, refuse_tiny
from priormtl.engines.layout import Layout, join_layouts
from priormtl.engines.recipe import Recipe
from priormtl.exceptions import FoldsError

__all__ = ["Partial", "Summary", "no_rows", "nothing_to_learn", "refuse_nothing"]


@dataclass(frozen=True, eq=False)
class Summary:
    """What a pass over rows found.

    ``parts`` are the statistics of each fold (one, of all rows, without folds), over
    the tasks of all; ``categories`` the values of each column of text.
    """

    parts: tuple[TaskStatistics, ...]
    categories: Mapping[str, tuple[str, ...]]
    counts: Mapping[Hashable, int]  # rows of each task
    rows: int  # read
    dropped: int  # of these, for missing values

    @cached_property
    def whole(self) -> TaskStatistics:
        """Statistics of all rows."""
        return reduce(add, self.parts)

    def without_small(self, min_rows: int) -> "Summary":
        """Only tasks of so many rows, for statistics that leave a house.

        Names of categories, and means that fill gaps, stay those of all rows.
        """
        tasks = self.parts[0].tasks
        kept = large_tasks(tasks, [self.counts[task] for task in tasks], min_rows)
        if len(kept) == len(tasks):
            return self
        return replace(
            self,
            parts=tuple(align_tasks(part, kept) for part in self.parts),
            counts={task: self.counts[task] for task in kept},
        )


@dataclass(frozen=True, eq=False)
class Partial:
    """Statistics of some rows by fold, over slots that a layout explains."""

    parts: tuple[TaskStatistics, ...]  # of each fold, all over the same tasks
    layout: Layout
    centre: Array  # of each slot: what fills its gaps, zero where there are none
    observed: Array  # of each column: weight of the rows that have its value
    counts: Index  # (m,) rows of each task
    rows: int
    dropped: int

    @property
    def tasks(self) -> tuple[Hashable, ...]:
        """Tasks seen so far, sorted."""
        return self.parts[0].tasks

    @property
    def fold_weight(self) -> Array:
        """Weight of the rows of each fold (k,)."""
        return np.array([part.weight.sum() for part in self.parts])

    def __add__(self, other: "Partial") -> "Partial":
        """Statistics of both sets of rows."""
        if not isinstance(other, Partial):
            return NotImplemented
        if len(self.parts) != len(other.parts):
            raise ValueError(
                "statistics can only be added over the same folds: got "
                f"{len(self.parts)} and {len(other.parts)}."
            )
        layout = join_layouts(self.layout, other.layout)
        a, b = _extend(self, layout), _extend(other, layout)
        centre = _joint_centre(a, b)
        a, b = _recentre(a, centre), _recentre(b, centre)
        parts = tuple(map(add, a.parts, b.parts))
        counts = _add_counts(a, b, parts[0].tasks)
        rows, dropped = a.rows + b.rows, a.dropped + b.dropped
        seen = a.observed + b.observed
        return Partial(parts, layout, centre, seen, counts, rows, dropped)

    def finish(self, recipe: Recipe | None = None) -> Summary:
        """Statistics of the features alone, named; marks of gaps have done their work.

        With the recipe by which rows were read, statistics remember how the columns
        became features, so that models can predict tables.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from priormtl.engines import Recipe, summarize_batch
        >>> rows = {"t": ["u", "u"], "y": [1.0, 0.0], "colour": ["red", "blue"]}
        >>> partial = summarize_batch(Recipe("t", "y"), pa.table(rows))
        >>> partial.finish().whole.features
        ('colour=blue', 'colour=red')
        """
        refuse_nothing(self)
        counts = dict(zip(self.tasks, self.counts.tolist(), strict=True))
        categories = self.layout.categories()
        parts = self.without_marks(recipe)
        refuse_tiny(*parts)
        return Summary(parts, categories, counts, self.rows, self.dropped)

    def refill(self, layout: Layout, centre: Array) -> "Partial":
        """Same rows in a larger layout, their gaps filled with these values."""
        return _recentre(_extend(self, layout), centre)

    def without_marks(self, recipe: Recipe | None = None) -> tuple[TaskStatistics, ...]:
        """Statistics of the features alone, named."""
        names, kept = self.layout.features(), self.layout.kept()
        whole = len(kept) == len(self.centre)
        encoding = None if recipe is None else self.layout.encoding(recipe)
        return tuple(
            replace(
                part if whole else part.restrict(kept),
                features=names,
                encoding=encoding,
            )
            for part in self.parts
        )


class Read(Protocol):
    """What is known of all rows that were read."""

    @property
    def tasks(self) -> tuple[Hashable, ...]:
        """Tasks of the rows that count."""

    @property
    def layout(self) -> Layout:
        """Columns of features."""

    @property
    def observed(self) -> Array:
        """Of each column: weight of the rows that have its value."""

    @property
    def fold_weight(self) -> Array:
        """Weight of the rows of each fold (k,)."""

    @property
    def rows(self) -> int:
        """Number of rows read."""

    @property
    def dropped(self) -> int:
        """Number of these that were dropped for missing values."""


def nothing_to_learn(read: int, dropped: int) -> ValueError:
    """Build the error for rows of which none is left."""
    others = read - dropped
    zero = f" and {others} of weight zero" if others else ""
    return ValueError(
        f"there must be rows to learn from: {read} were read, {dropped} of them "
        f"dropped for missing values{zero}."
    )


def refuse_nothing(found: Read) -> None:
    """Fail where rows, those of a fold, or all values of a column are absent."""
    if not found.tasks:
        raise nothing_to_learn(found.rows, found.dropped)
    found.layout.refuse_unobserved(found.observed)
    empty = np.flatnonzero(found.fold_weight == 0)
    if len(empty):
        raise FoldsError(
            f"folds={len(found.fold_weight)} must leave rows for every fold: fold "
            f"{empty[0]} has none of {found.rows - found.dropped}; use fewer folds, or "
            "a key of more values."
        )


def no_rows(tasks: tuple[Hashable, ...], d: int) -> TaskStatistics:
    """Statistics of no rows."""
    m = len(tasks)
    one, vector, matrix = np.zeros(m), np.zeros((m, d)), np.zeros((m, d, d))
    return TaskStatistics(one, vector, one, matrix, vector, one, tasks)


def _extend(partial: Partial, layout: Layout) -> Partial:
    """Same statistics over more slots, which were zero in all rows."""
    if layout == partial.layout:
        return partial
    place = {slot: i for i, slot in enumerate(layout.slots())}
    new = np.array([place[slot] for slot in partial.layout.slots()], dtype=np.intp)
    d = len(place)
    centre = np.zeros(d)
    centre[new] = partial.centre
    parts = tuple(_spread(part, new, d) for part in partial.parts)
    extended = replace(partial, parts=parts, layout=layout, centre=centre)
    return _first_centres(extended, partial.layout)


def _spread(part: TaskStatistics, new: Index, d: int) -> TaskStatistics:
    """Move slots to the places ``new`` among d."""
    m = len(part.tasks)
    x_mean, xy, xx = np.zeros((m, d)), np.zeros((m, d)), np.zeros((m, d, d))
    x_mean[:, new], xy[:, new] = part.x_mean, part.xy
    xx[:, new[:, np.newaxis], new] = part.gram()
    return replace(part, x_mean=x_mean, xy=xy, xx=xx)


def _first_centres(partial: Partial, before: Layout) -> Partial:
    """Mean of the columns that had no gaps so far."""
    filled = partial.layout.filled()
    had = np.array([column.gaps for column in before.columns])
    fresh = filled.slots[~had[filled.columns]]
    total = partial.observed.max(initial=0.0)  # of a column without gaps
    if not len(fresh) or not total:
        return partial
    sums = sum(part.weight @ part.x_mean[:, fresh] for part in partial.parts)
    centre = partial.centre.copy()
    centre[fresh] = sums / total
    return replace(partial, centre=centre)


def _joint_centre(a: Partial, b: Partial) -> Array:
    """Mean of the observed values of both sides."""
    slots, _, columns = a.layout.filled()
    one, other = a.observed[columns], b.observed[columns]
    total = one + other
    sums = one * a.centre[slots] + other * b.centre[slots]
    centre = np.zeros_like(a.centre)
    centre[slots] = sums / np.where(total > 0, total, 1.0)
    return centre


def _recentre(partial: Partial, centre: Array) -> Partial:
    """Fill gaps with other values."""
    slots, marks, _ = partial.layout.filled()
    step = (centre - partial.centre)[slots]
    if not step.any():
        return partial
    parts = tuple(_shift(part, slots, marks, step) for part in partial.parts)
    return replace(partial, parts=parts, centre=centre)


def _shift(
    part: TaskStatistics, slots: Index, marks: Index, step: Array
) -> TaskStatistics:
    """Statistics after x[slots] += step · x[marks] in every row."""
    x_mean, xy, xx = part.x_mean.copy(), part.xy.copy(), part.gram().copy()
    x_mean[:, slots] += step * x_mean[:, marks]
    xy[:, slots] += step * xy[:, marks]
    xx[:, slots, :] += step[:, np.newaxis] * xx[:, marks, :]
    xx[:, :, slots] += step * xx[:, :, marks]
    return replace(part, x_mean=x_mean, xy=xy, xx=xx)


def _add_counts(a: Partial, b: Partial, tasks: tuple[Hashable, ...]) -> Index:
    if a.tasks == b.tasks:
        return a.counts + b.counts
    place = {task: i for i, task in enumerate(tasks)}
    counts = np.zeros(len(tasks), dtype=np.intp)
    for side in (a, b):
        counts[[place[task] for task in side.tasks]] += side.counts
    return counts
