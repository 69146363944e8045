"""From rows to partial statistics: one batch at a time, then many batches.

**One batch** (``summarize_batch``, the map step). Columns become arrays, rows that lack
what they need are dropped, and the rest is sorted by fold and task. Features are
written to one matrix, categories one-hot, and missing values are filled with the mean
of the batch; ``partial`` explains how such means are corrected when batches are merged.

**Many batches** (``accumulate_batches``). A merge costs as much as the statistics are
large, so rows are summarised in pieces of many cells: 16 MB, or half of the statistics
if these are larger. Small batches are put together and large ones cut, so that memory
stays bounded for any input, also if text columns become many features.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from priormtl._arrays import Array, Index
from priormtl.data import (
    TaskStatistics,
    align_tasks,
    declares_order,
    from_codes,
    keep_tasks,
    summarize_tasks,
)
from priormtl.engines.columns import (
    Values,
    assign_folds,
    join_tasks,
    read_column,
    read_numbers,
    read_tasks,
    read_weights,
)
from priormtl.engines.partial import Partial
from priormtl.engines.schema import FOLD, Column, Layout, Schema, refuse_many

CELLS = 2**21  # numbers in a piece: 16 MB
FIRST_ROWS = 4096  # of the first piece, before the number of features is known
FEWEST_ROWS = 256


class SortedRows(NamedTuple):
    """Rows that count, sorted by fold and task."""

    order: Index  # positions in the batch
    folds: Index  # fold of each row
    codes: Index  # task of each row
    tasks: tuple[Any, ...]
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
            data = from_codes(X[a:b], y[a:b], codes, tasks, rows.weight[a:b])
            parts.append(align_tasks(summarize_tasks(data), rows.tasks))
        else:
            m, d = len(rows.tasks), X.shape[1]
            one, vector, matrix = np.zeros(m), np.zeros((m, d)), np.zeros((m, d, d))
            arrays = one, vector, one, matrix, vector, one
            parts.append(TaskStatistics(*arrays, rows.tasks, check=False))
    counts = rows.row_counts()
    return Partial(
        tuple(parts), layout, centre, observed, counts, batch.num_rows, dropped
    )


def read_batch(schema: Schema, batch: pa.RecordBatch | pa.Table) -> Reading:
    batch = join_tasks(batch, schema.task)
    names = schema.used_columns(batch.schema.names)
    table = {name: batch.column(name) for name in names}
    ordered = declares_order(batch.schema, schema.task)
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
    tasks = keep_tasks(labels, (labels[i] for i in used))
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
