"""Partial statistics: rows of one batch become some, which add up over all batches.

**One batch** (``summarize_batch``, the map step). Columns become arrays, rows that lack
what they need are dropped, and the rest is sorted by fold and task. Features are
written to one matrix, categories one-hot, and missing values are filled with the mean
of the batch.

**Sums** (``Partial``, the reduce step). Statistics can be added although their columns
and tasks differ. A category that one side has not seen was 0 in all its rows, so its
statistics are extended by zeros. Missing values of a column are filled with the mean of
its observed values (over all tasks and folds), and marked by a missing indicator. When
two sides are merged, that mean moves, and the filled values move with it: x + (new −
old) · indicator is a linear map of the rows, hence of their statistics. So one pass
over the data gives what two passes would, without loss of digits.

**Many batches** (``accumulate_batches``). A merge costs as much as the statistics are
large, so rows are summarised in pieces of many cells: 16 MB, or half of the statistics
if these are larger. Small batches are put together and large ones cut, so that memory
stays bounded for any input, also if text columns become many features.

``to_bytes`` and ``from_bytes`` serialise partial statistics for workers: versioned,
with a digest, checked on arrival, without pickle. Only the upper triangles of the
symmetric Gram matrices are sent.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from operator import add
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from priormtl import data
from priormtl._arrays import Array, Index
from priormtl._lazy import cached_property
from priormtl.archive import Settings, pack_archive, unpack_archive
from priormtl.data.statistics import PLAIN
from priormtl.design import Design
from priormtl.engines.columns import (
    Values,
    assign_folds,
    join_tasks,
    read_column,
    read_numbers,
    read_tasks,
    read_weights,
)
from priormtl.engines.schema import (
    FOLD,
    Column,
    Layout,
    Schema,
    join_layouts,
    refuse_many,
)
from priormtl.exceptions import FoldsError, ModelFileError

if TYPE_CHECKING:
    from priormtl.engines.shards import Survey

CELLS = 2**21  # numbers in a piece of rows: 16 MB
FIRST_ROWS = 4096  # of the first piece, before the number of features is known
FEWEST_ROWS = 256
KIND = "partial statistics"


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


def refuse_nothing(found: "Partial | Survey") -> None:
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


# One batch.


class SortedRows(NamedTuple):
    """Rows that count, sorted by fold and task."""

    order: Index  # positions in the batch
    folds: Index  # fold of each row
    codes: Index  # task of each row
    tasks: tuple[Hashable, ...]
    weight: Array  # of each row

    def row_counts(self) -> Index:
        return np.bincount(self.codes, minlength=len(self.tasks)).astype(np.intp)


class Reading(NamedTuple):
    """What the rows of a batch hold, in their sorted order."""

    rows: SortedRows
    target: Array
    features: tuple[Values, ...]
    layout: Layout  # of the features
    dropped: int  # number of rows with missing values


class Slots(NamedTuple):
    """Features of some rows, and their missing indicators."""

    X: Array  # (n, slots)
    centre: Array  # value that fills the gaps of each slot
    observed: Array  # weight of the rows that have a value, for each column


def summarize_batch(schema: Schema, batch: pa.RecordBatch | pa.Table) -> Partial:
    """Compute partial statistics of one batch, which can be added to others.

    Columns that the schema does not use are ignored.
    """
    rows, y, features, layout, dropped = read_batch(schema, batch)
    X, centre, observed = fill_slots(layout, features, rows.weight)
    ends = np.searchsorted(rows.folds, np.arange((schema.folds or 1) + 1)).tolist()
    parts = []
    for a, b in pairwise(ends):
        # Tasks without rows in this fold have statistics of weight zero.
        used, codes = _compact(rows.codes[a:b])
        if len(used):
            tasks = tuple(rows.tasks[i] for i in used)
            own = data.from_codes(X[a:b], y[a:b], codes, tasks, rows.weight[a:b])
            parts.append(data.align_tasks(data.summarize_tasks(own), rows.tasks))
        else:
            m, d = len(rows.tasks), X.shape[1]
            one, vector, matrix = np.zeros(m), np.zeros((m, d)), np.zeros((m, d, d))
            arrays = one, vector, one, matrix, vector, one
            parts.append(data.TaskStatistics(*arrays, rows.tasks, check=False))
    counts = rows.row_counts()
    return Partial(
        tuple(parts), layout, centre, observed, counts, batch.num_rows, dropped
    )


def read_batch(schema: Schema, batch: pa.RecordBatch | pa.Table) -> Reading:
    batch = join_tasks(batch, schema.task)
    names = schema.used_columns(batch.schema.names)
    table = {name: batch.column(name) for name in names}
    ordered = data.declares_order(batch.schema, schema.task)
    task = read_tasks(schema.task, table[schema.task], ordered=ordered)
    target = read_numbers(schema.target, table[schema.target])
    weights = None
    if schema.weight is not None:
        weights = read_weights(schema.weight, table[schema.weight])
    declared = schema.categories or {}
    columns = {
        name: read_column(name, table[name], declared.get(name))
        for name in schema.feature_columns(batch.schema.names)
    }
    special = {schema.task: task, schema.target: target, schema.weight: weights}
    usable = find_usable(schema, special, columns, batch.num_rows)
    weight = np.ones(len(usable))
    if weights is not None:
        weight = weights.values.astype(np.float64)
    # Rows of weight zero count as absent.
    rows = np.flatnonzero(usable & (weight != 0.0))
    used, codes = _compact(task.values[rows])
    folds = np.zeros(len(rows), dtype=np.intp)
    if schema.folds is not None and FOLD in batch.schema.names:
        folds = np.asarray(batch.column(FOLD)).astype(np.intp)[rows]
    elif schema.folds is not None:
        keys = table if schema.key is None else {schema.key: table[schema.key]}
        folds = assign_folds(keys, schema.folds, schema.seed)[rows]
    group = folds * max(1, len(used)) + codes
    # NumPy sorts integers of at most 16 bits by counting.
    small = group.astype(np.min_scalar_type(int(group.max(initial=0))))
    order = np.argsort(small, kind="stable")
    labels = task.labels or ()
    tasks = data.keep_tasks(labels, (labels[i] for i in used))
    rows = rows[order]
    sorted_rows = SortedRows(rows, folds[order], codes[order], tasks, weight[rows])
    features, layout = arrange_features(schema, columns, rows)
    y = target.values[rows].astype(np.float64)
    dropped = batch.num_rows - int(np.count_nonzero(usable))
    return Reading(sorted_rows, y, features, layout, dropped)


def _compact(codes: Index) -> tuple[Index, Index]:
    """Codes that occur, and for each row the position of its code among them."""
    present = np.bincount(codes) > 0
    return np.flatnonzero(present), (np.cumsum(present) - 1)[codes]


def find_usable(
    schema: Schema,
    special: Mapping[str | None, Values | None],
    features: Mapping[str, Values],
    n: int,
) -> NDArray[np.bool_]:
    """Whether each of n rows has all that it needs.

    ``special`` are the columns of tasks, targets and weights, which are never filled.
    """
    needed = [*special.items()]
    if schema.missing != "mean":
        needed += features.items()
    usable = np.ones(n, dtype=bool)
    for name, values in needed:
        if values is None or values.gaps is None or not values.missing:
            continue
        if schema.missing == "error":
            raise ValueError(
                f"column {name!r} lacks {values.missing} of {n} values: fill them, or "
                "set missing to 'drop' (drop such rows) or 'mean' (fill features with "
                "their means)."
            )
        usable &= ~values.gaps
    return usable


def arrange_features(
    schema: Schema, columns: Mapping[str, Values], order: Index
) -> tuple[tuple[Values, ...], Layout]:
    features, described = [], []
    for name, column in columns.items():
        gaps = None if column.gaps is None else column.gaps[order]
        if gaps is not None and not gaps.any():
            gaps = None
        # Positions are valid; checking them would take as long as the copy.
        codes = column.values.take(order, mode="clip")
        features.append(Values(codes, gaps, column.labels))
        values = None
        # Categories are those declared, or those that occur in these rows.
        if column.labels is not None:
            declared = (schema.categories or {}).get(name)
            if not declared:
                seen = np.unique(codes if gaps is None else codes[~gaps])
                values = tuple(sorted(column.labels[i] for i in seen))
                refuse_many(name, values, declared=declared is not None)
            else:
                values = tuple(declared)
        described.append(Column(name, values, gaps is not None))
    return tuple(features), Layout(tuple(described))


def fill_slots(layout: Layout, features: Sequence[Values], weight: Array) -> Slots:
    """Matrix of the features, with missing values filled, and their indicators."""
    starts = layout.starts()
    X = np.zeros((len(weight), starts[-1]), order="F")
    centre, observed = np.zeros(starts[-1]), np.full(len(features), weight.sum())
    for number, (values, gaps, labels) in enumerate(features):
        column = layout.columns[number]
        block = X[:, starts[number] : starts[number + 1]]
        if column.values is None or labels is None:
            block[:, 0] = values
        else:
            position = {value: i for i, value in enumerate(column.values)}
            place = np.array([position.get(label, -1) for label in labels] or [-1])
            rows = np.arange(len(block)) if gaps is None else np.flatnonzero(~gaps)
            block[rows, place[values[rows]]] = 1.0
        # Fill missing values with the weighted mean of the others, and mark them in the
        # last slot of the column.
        if gaps is not None:
            seen = weight[~gaps]
            observed[number] = total = seen.sum()
            inside = block[:, :-1]
            mean = np.zeros(column.width)
            if total > 0:
                mean = seen @ inside[~gaps] / total
            inside[gaps] = mean
            block[:, -1] = gaps
            centre[starts[number] : starts[number] + column.width] = mean
    return Slots(X, centre, observed)


# Many batches.


class HasRows(Protocol):
    """A table, or something around one."""

    @property
    def schema(self) -> pa.Schema: ...
    @property
    def num_rows(self) -> int: ...


TableLike = TypeVar("TableLike", bound=HasRows)


def accumulate_batches(
    schema: Schema, batches: Iterable[pa.RecordBatch]
) -> Partial | None:
    """Partial statistics of all batches of a partition; None if there is no batch."""
    total: Partial | None = None
    tables = (
        batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        for batch in batches
    )

    def enough() -> int:
        return enough_rows(total)

    for group in regroup(tables, enough):
        part = summarize_rows(schema, pa.concat_tables(group), total)
        total = part if total is None else total + part
    return total


def summarize_rows(
    schema: Schema,
    table: pa.Table,
    like: Partial | None = None,
    rows: int | None = None,
) -> Partial:
    begin, total = 0, None
    while total is None or begin < table.num_rows:
        count = rows or enough_rows(like, total)
        part = summarize_batch(schema, table.slice(begin, count))
        total = part if total is None else total + part
        begin += count
    return total


def choose_rows(columns: int, cells: int = 0) -> int:
    """Rows of a piece with this many columns and at least this many cells."""
    return max(FEWEST_ROWS, max(CELLS, cells) // max(1, columns))


def enough_rows(total: Partial | None, part: Partial | None = None) -> int:
    """Rows that are worth a merge: their cells are half of large statistics.

    ``part``, if given, is more recent and knows the number of columns better.
    """
    known = part or total
    if known is None:
        return FIRST_ROWS
    cells = 0 if total is None else sum(one.xx.size for one in total.parts)
    return choose_rows(len(known.centre), cells // 2)


def regroup(
    tables: Iterable[TableLike], enough: Callable[[], int]
) -> Iterator[list[TableLike]]:
    """Groups of tables of one schema; all but the last of each have enough rows."""
    waiting: list[TableLike] = []
    for table in tables:
        if waiting and table.schema != waiting[0].schema:
            yield waiting
            waiting = []
        waiting.append(table)
        if sum(one.num_rows for one in waiting) >= enough():
            yield waiting
            waiting = []
    if waiting:
        yield waiting


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
        name: np.array([vars(part)[name] for part in partial.parts]) for name in PLAIN
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
    layout = Layout(tuple(_read_column(values) for values in settings["columns"]))
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


def _read_column(plain: Sequence[object]) -> Column:
    name, values, gaps = plain
    if not isinstance(name, str) or not isinstance(gaps, bool):
        raise TypeError("not a column")
    if values is None:
        return Column(name, None, gaps)
    if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
        raise TypeError("not values")
    return Column(name, tuple(values), gaps)
