"""Partial statistics: they can be added although their columns and tasks differ.

A category that one side has not seen was 0 in all its rows, so its statistics are
extended by zeros. Missing values of a column are filled with the mean of its observed
values (over all tasks and folds), and marked by a missing indicator. When two sides are
merged, that mean moves, and the filled values move with it: x + (new − old) · indicator
is a linear map of the rows, hence of their statistics. So one pass over the data gives
what two passes would, without loss of digits.

``to_bytes`` and ``from_bytes`` serialise partial statistics for workers: versioned,
with a digest, checked on arrival, without pickle. Only the upper triangles of the
symmetric Gram matrices are sent.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Protocol

import numpy as np

from priormtl import data
from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.archive import Settings, pack_archive, unpack_archive
from priormtl.design import Design
from priormtl.engines.schema import Column, Layout, Schema, join_layouts
from priormtl.exceptions import FoldsError, ModelFileError

KIND = "partial statistics"
PLAIN = ("weight", "x_mean", "y_mean", "xy", "yy")


@dataclass(frozen=True, eq=False)
class Summary:
    """Statistics of a table, and what was read.

    ``parts`` contains the statistics of each fold, all for the same tasks; without
    folds, it has one entry. ``categories`` contains the values of each text column.
    """

    parts: tuple[data.TaskStatistics, ...]
    categories: Mapping[str, tuple[str, ...]]
    counts: Mapping[Hashable, int]  # rows of each task
    rows: int  # number of rows read
    dropped: int  # number of these that were dropped for missing values

    @cached_property
    def whole(self) -> data.TaskStatistics:
        return reduce(add, self.parts)

    def without_small(self, min_rows: int) -> "Summary":
        """Omit tasks with fewer rows, for example before sharing statistics.

        Names of categories and imputed means still refer to all rows.
        """
        tasks = self.parts[0].tasks
        kept = data.large_tasks(tasks, [self.counts[task] for task in tasks], min_rows)
        if len(kept) == len(tasks):
            return self
        return replace(
            self,
            parts=tuple(data.align_tasks(part, kept) for part in self.parts),
            counts={task: self.counts[task] for task in kept},
        )


@dataclass(frozen=True, eq=False)
class Partial:
    """Statistics of some rows by fold, over slots that a layout describes."""

    parts: tuple[data.TaskStatistics, ...]  # one per fold, all over the same tasks
    layout: Layout
    centre: Array  # value that fills the gaps of each slot, zero if there are none
    observed: Array  # weight of the rows that have a value, for each column
    counts: Index  # (m,) rows of each task
    rows: int
    dropped: int

    @property
    def tasks(self) -> tuple[Hashable, ...]:
        return self.parts[0].tasks

    @property
    def fold_weight(self) -> Array:
        return np.array([part.weight.sum() for part in self.parts])

    def __add__(self, other: "Partial") -> "Partial":
        if not isinstance(other, Partial):
            return NotImplemented
        if len(self.parts) != len(other.parts):
            raise ValueError(
                "statistics can only be added over the same folds: got "
                f"{len(self.parts)} and {len(other.parts)}."
            )
        # Both sides over the same slots, with the same filled values, then the sum.
        layout = join_layouts(self.layout, other.layout)
        a, b = _extend(self, layout), _extend(other, layout)
        # The mean of the observed values of both sides.
        slots, _, columns = layout.filled()
        one, two = a.observed[columns], b.observed[columns]
        sums = one * a.centre[slots] + two * b.centre[slots]
        centre = np.zeros_like(a.centre)
        centre[slots] = sums / np.where(one + two > 0, one + two, 1.0)
        a, b = _recentre(a, centre), _recentre(b, centre)
        parts = tuple(map(add, a.parts, b.parts))
        tasks = parts[0].tasks
        place = {task: i for i, task in enumerate(tasks)}
        counts = np.zeros(len(tasks), dtype=np.intp)
        for side in (a, b):
            counts[[place[task] for task in side.tasks]] += side.counts
        rows, dropped = a.rows + b.rows, a.dropped + b.dropped
        seen = a.observed + b.observed
        return Partial(parts, layout, centre, seen, counts, rows, dropped)

    def finish(self, schema: Schema | None = None) -> Summary:
        """Named statistics of the features, without missing indicators.

        With the schema by which rows were read, statistics know how columns became
        features, so that models can predict tables.
        """
        refuse_nothing(self)
        counts = dict(zip(self.tasks, self.counts.tolist(), strict=True))
        categories = self.layout.categories()
        parts = self.without_indicators(schema)
        data.refuse_tiny(*parts)
        return Summary(parts, categories, counts, self.rows, self.dropped)

    def refill(self, layout: Layout, centre: Array) -> "Partial":
        """Same rows in a larger layout, their missing values filled with ``centre``."""
        return _recentre(_extend(self, layout), centre)

    def without_indicators(
        self, schema: Schema | None = None
    ) -> tuple[data.TaskStatistics, ...]:
        kept = self.layout.kept()
        whole = len(kept) == len(self.centre)
        design = (
            Design.of_names(self.layout.features())
            if schema is None
            else self.layout.design(schema)
        )
        return tuple(
            (part if whole else part.restrict(kept)).derive(features=design)
            for part in self.parts
        )


def _extend(partial: Partial, layout: Layout) -> Partial:
    """Same statistics over more slots, which were zero in all rows."""
    if layout == partial.layout:
        return partial
    place = {slot: i for i, slot in enumerate(layout.slots())}
    new = np.array([place[slot] for slot in partial.layout.slots()], dtype=np.intp)
    d, parts = len(place), []
    for part in partial.parts:
        m = len(part.tasks)
        x_mean, xy, xx = np.zeros((m, d)), np.zeros((m, d)), np.zeros((m, d, d))
        x_mean[:, new], xy[:, new] = part.x_mean, part.xy
        xx[:, new[:, np.newaxis], new] = part.gram()
        parts.append(part.derive(x_mean=x_mean, xy=xy, xx=xx))
    centre = np.zeros(d)
    centre[new] = partial.centre
    # Columns without missing values so far: their mean fills those of the other side.
    filled = layout.filled()
    had = np.array([column.gaps for column in partial.layout.columns])
    fresh = filled.slots[~had[filled.columns]]
    total = partial.observed.max(initial=0.0)  # of a column without missing values
    if len(fresh) and total:
        sums = sum(part.weight @ part.x_mean[:, fresh] for part in parts)
        centre[fresh] = sums / total
    return replace(partial, parts=tuple(parts), layout=layout, centre=centre)


def _recentre(partial: Partial, centre: Array) -> Partial:
    """Fill gaps with other values: x[slots] += step · x[marks] in every row."""
    slots, marks, _ = partial.layout.filled()
    step = (centre - partial.centre)[slots]
    if not step.any():
        return partial
    parts = []
    for part in partial.parts:
        x_mean, xy, xx = part.x_mean.copy(), part.xy.copy(), part.gram().copy()
        x_mean[:, slots] += step * x_mean[:, marks]
        xy[:, slots] += step * xy[:, marks]
        xx[:, slots, :] += step[:, np.newaxis] * xx[:, marks, :]
        xx[:, :, slots] += step * xx[:, :, marks]
        parts.append(part.derive(x_mean=x_mean, xy=xy, xx=xx))
    return replace(partial, parts=tuple(parts), centre=centre)


class Read(Protocol):
    """What is known of all rows that were read: a Partial, or a survey of rows."""

    @property
    def tasks(self) -> tuple[Hashable, ...]: ...
    @property
    def layout(self) -> Layout: ...
    @property
    def observed(self) -> Array: ...
    @property
    def fold_weight(self) -> Array: ...
    @property
    def rows(self) -> int: ...
    @property
    def dropped(self) -> int: ...


def refuse_nothing(found: Read) -> None:
    """Fail if there are no rows, a fold has none, or a column has no values."""
    if not found.tasks:
        raise no_rows_left(found.rows, found.dropped)
    found.layout.refuse_unobserved(found.observed)
    empty = np.flatnonzero(found.fold_weight == 0)
    if len(empty):
        raise FoldsError(
            f"folds={len(found.fold_weight)} must leave rows for every fold: fold "
            f"{empty[0]} has none of {found.rows - found.dropped}; use fewer folds, or "
            "a key with more values."
        )


def no_rows_left(read: int, dropped: int) -> ValueError:
    others = read - dropped
    zero = f" and {others} have weight zero" if others else ""
    return ValueError(
        f"there must be rows to learn from: {read} were read, {dropped} of them "
        f"dropped for missing values{zero}."
    )


# Serialised form.


def to_bytes(partial: Partial) -> bytes:
    """Serialise partial statistics, to send them between processes or machines."""
    settings = {
        "columns": [list(column) for column in partial.layout.columns],
        **data.tasks_to_plain(partial.tasks),
        "rows": partial.rows,
        "dropped": partial.dropped,
    }
    arrays = {
        name: np.array([getattr(part, name) for part in partial.parts])
        for name in PLAIN
    }
    # Gram matrices are symmetric.
    upper = np.triu_indices(len(partial.centre))
    arrays["xx"] = np.array([part.gram()[:, *upper] for part in partial.parts])
    arrays["centre"], arrays["observed"] = partial.centre, partial.observed
    arrays["counts"] = partial.counts.astype(np.int64)
    return pack_archive(KIND, settings, arrays)


def from_bytes(content: bytes) -> Partial:
    """Read the result of ``to_bytes``; other contents raise an error."""
    try:
        return _build(*unpack_archive(bytes(content), KIND))
    except ModelFileError as error:
        raise ModelFileError(f"statistics did not arrive as sent: {error}") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise ModelFileError(
            "statistics did not arrive as sent: their parts do not fit together."
        ) from None


def _build(settings: Settings, arrays: dict[str, np.ndarray]) -> Partial:
    layout = Layout(tuple(_read_column(*values) for values in settings["columns"]))
    tasks, d = data.tasks_from_plain(settings), layout.starts()[-1]
    k, m = len(arrays["weight"]), len(tasks)
    expected = {
        "weight": (k, m),
        "x_mean": (k, m, d),
        "y_mean": (k, m),
        "xy": (k, m, d),
        "yy": (k, m),
        "xx": (k, m, d * (d + 1) // 2),
        "centre": (d,),
        "observed": (len(layout.columns),),
        "counts": (m,),
    }
    if k < 1 or {name: array.shape for name, array in arrays.items()} != expected:
        raise ValueError("arrays of wrong shape")
    rows, columns = np.triu_indices(d)
    xx = np.empty((k, m, d, d))
    xx[:, :, rows, columns] = arrays["xx"]
    xx[:, :, columns, rows] = arrays["xx"]
    parts = tuple(
        data.TaskStatistics(
            **{name: arrays[name][i] for name in PLAIN},
            xx=xx[i],
            tasks=tasks,
            check=False,
        )
        for i in range(k)
    )
    for part in parts:
        data.check_statistics(part, matrices=False)
    return Partial(
        parts,
        layout,
        arrays["centre"],
        arrays["observed"],
        arrays["counts"].astype(np.intp),
        int(settings["rows"]),
        int(settings["dropped"]),
    )


def _read_column(name: Any, values: Any, gaps: Any) -> Column:
    texts = [name, *(values or ())]
    if not all(isinstance(text, str) for text in texts) or type(gaps) is not bool:
        raise TypeError("not a column")
    return Column(name, None if values is None else tuple(values), gaps)
