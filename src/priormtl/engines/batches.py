"""summarize_batch: the map step, from one batch of rows to partial statistics.

Rows are sorted by fold and task inside the batch only. Columns are gathered in that
order one by one, so that no second copy of the features is made.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

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
    read_column,
    read_numbers,
    read_ordered_tasks,
    read_tasks,
    read_weights,
)
from priormtl.engines.filling import arrange_features, fill_slots, find_usable
from priormtl.engines.hashing import deal_folds
from priormtl.engines.layout import Layout
from priormtl.engines.partial import Partial, no_rows
from priormtl.engines.recipe import Recipe

__all__ = ["Reading", "Rows", "read_batch", "summarize_batch"]


class Rows(NamedTuple):
    """Rows that count, sorted by fold and task."""

    order: Index  # their places in the batch
    folds: Index  # of each
    codes: Index  # of each: its task
    tasks: tuple[Any, ...]
    weight: Array  # of each

    def row_counts(self) -> Index:
        """Rows of each task."""
        return np.bincount(self.codes, minlength=len(self.tasks)).astype(np.intp)


class Reading(NamedTuple):
    """What the rows of a batch hold, in their order."""

    rows: Rows
    target: Array
    features: tuple[Values, ...]
    layout: Layout  # of the features
    dropped: int  # rows, for missing values


class _Columns(NamedTuple):
    """All columns of a batch."""

    task: Values
    target: Values
    weight: Values | None
    features: Mapping[str, Values]


def summarize_batch(recipe: Recipe, batch: pa.RecordBatch | pa.Table) -> Partial:
    """Statistics of the rows of one batch.

    Parameters
    ----------
    recipe : Recipe
        What the columns mean.
    batch : pyarrow.RecordBatch or pyarrow.Table
        Some rows. Columns that the recipe does not use are ignored.

    Returns
    -------
    Partial
        Adds to those of other batches.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = pa.table({"x": [1.0, 3.0], "y": [0.0, 1.0], "t": ["u", "u"]})
    >>> summary = summarize_batch(Recipe("t", "y"), rows).finish()
    >>> summary.whole.tasks, summary.whole.x_mean
    (('u',), array([[2.]]))
    """
    rows, y, features, layout, dropped = read_batch(recipe, batch)
    X, centre, observed = fill_slots(layout, features, rows.weight)
    parts = tuple(_summarize_folds(recipe.folds or 1, X, y, rows))
    counts = rows.row_counts()
    return Partial(parts, layout, centre, observed, counts, batch.num_rows, dropped)


def read_batch(recipe: Recipe, batch: pa.RecordBatch | pa.Table) -> Reading:
    """Rows of one batch that count, checked."""
    names = recipe.used_columns(batch.schema.names)
    table = {name: batch.column(name) for name in names}
    tasks = _read_tasks(recipe.task, batch)
    columns = _read(recipe, tasks, table, recipe.feature_columns(batch.schema.names))
    special = zip(recipe.special, columns[:3], strict=True)
    usable = find_usable(recipe, special, columns.features, batch.num_rows)
    rows = _sort_rows(recipe, table, columns, usable)
    features, layout = arrange_features(recipe, columns.features, rows.order)
    y = columns.target.values[rows.order].astype(np.float64)
    dropped = batch.num_rows - int(np.count_nonzero(usable))
    return Reading(rows, y, features, layout, dropped)


def _read_tasks(name: str, batch: pa.RecordBatch | pa.Table) -> Values:
    if declares_order(batch.schema, name):
        return read_ordered_tasks(batch.column(name))
    return read_tasks(name, batch.column(name))


def _read(
    recipe: Recipe, tasks: Values, table: Mapping[str, Any], names: Sequence[str]
) -> _Columns:
    declared = recipe.categories or {}
    weight = recipe.weight
    return _Columns(
        tasks,
        read_numbers(recipe.target, table[recipe.target]),
        None if weight is None else read_weights(weight, table[weight]),
        {name: read_column(name, table[name], declared.get(name)) for name in names},
    )


def _sort_rows(
    recipe: Recipe,
    table: Mapping[str, Any],
    columns: _Columns,
    usable: NDArray[np.bool_],
) -> Rows:
    """Rows that count, those of one fold and task together."""
    weight = np.ones(len(usable))
    if columns.weight is not None:
        weight = columns.weight.values.astype(np.float64)
    rows = np.flatnonzero(usable & (weight != 0.0))
    used, codes = _compact(columns.task.values[rows])
    folds = np.zeros(len(rows), dtype=np.intp)
    if recipe.folds is not None:
        folds = _deal(recipe, table)[rows]
    group = folds * max(1, len(used)) + codes
    # Numbers of 16 bits are sorted by counting.
    small = group.astype(np.min_scalar_type(int(group.max(initial=0))))
    order = np.argsort(small, kind="stable")
    labels = columns.task.labels or ()
    tasks = keep_tasks(labels, (labels[i] for i in used))
    rows = rows[order]
    return Rows(rows, folds[order], codes[order], tasks, weight[rows])


def _compact(codes: Index) -> tuple[Index, Index]:
    """Codes that occur, and of each row the place of its code among them."""
    present = np.bincount(codes) > 0
    return np.flatnonzero(present), (np.cumsum(present) - 1)[codes]


def _deal(recipe: Recipe, table: Mapping[str, Any]) -> Index:
    """Fold of each row of the batch."""
    keys = table if recipe.key is None else {recipe.key: table[recipe.key]}
    return deal_folds(keys, recipe.folds or 1, recipe.seed)


def _summarize_folds(
    folds: int, X: Array, y: Array, rows: Rows
) -> list[TaskStatistics]:
    ends = np.searchsorted(rows.folds, np.arange(folds + 1)).tolist()
    return [
        _summarize_rows(X[a:b], y[a:b], rows.codes[a:b], rows.weight[a:b], rows.tasks)
        for a, b in pairwise(ends)
    ]


def _summarize_rows(
    X: Array, y: Array, codes: Index, weight: Array, tasks: tuple[Any, ...]
) -> TaskStatistics:
    """Statistics of one fold over all tasks of the batch."""
    if not len(y):
        return no_rows(tasks, X.shape[1])
    used, own = _compact(codes)
    data = from_codes(X, y, own, tuple(tasks[i] for i in used), weight)
    return align_tasks(summarize_tasks(data), tasks)
