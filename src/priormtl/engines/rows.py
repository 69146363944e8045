"""read_rows: whole tables in memory, for what statistics cannot do."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from priormtl._arrays import Array
from priormtl.data import Encoding
from priormtl.engines.columns import Values, find_gaps, read_column, read_weights
from priormtl.engines.filling import arrange_features, fill_slots, find_usable
from priormtl.engines.layout import Layout
from priormtl.engines.partial import nothing_to_learn
from priormtl.engines.recipe import Recipe
from priormtl.engines.sources import Source, open_source
from priormtl.exceptions import DataFileError

__all__ = ["Rows", "read_rows"]

Advance = Callable[[int], None]


class Rows(NamedTuple):
    """Rows that count, in the order of the files."""

    X: pa.Table  # features, as numbers
    y: pa.ChunkedArray  # as in the table
    task: pa.ChunkedArray
    weight: Array | None
    encoding: Encoding  # with means
    read: int
    dropped: int  # of these, for missing values


def read_rows(
    source: Any,
    *,
    task: str,
    target: str,
    weight: str | None = None,
    features: Sequence[str] | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
    where: Any = None,
    missing: str = "error",
    advance: Advance | None = None,
) -> Rows:
    """Rows of tables in files, all of them in memory.

    Parameters
    ----------
    source, where
        Files and a filter of their rows; see ``open_source``.
    task, target, weight, features, categories, missing
        What columns mean; see ``Recipe``. Targets may be of any kind.
    advance : function, optional
        Called with the number of bytes that were read since its last call.

    Examples
    --------
    >>> table = pa.table({"x": [1, 3], "passed": ["no", "yes"], "school": ["u", "u"]})
    >>> rows = read_rows(table, task="school", target="passed")
    >>> rows.X.to_pydict(), rows.y.to_pylist()
    ({'x': [1.0, 3.0]}, ['no', 'yes'])
    """
    recipe = Recipe(task, target, weight, features, categories, missing)
    opened = open_source(source, where)
    table = _read_all(recipe, opened, advance)
    try:
        return _split(recipe, table)
    except ValueError as error:
        raise DataFileError(f"{opened.name}: {error}") from None


def _read_all(recipe: Recipe, source: Source, advance: Advance | None) -> pa.Table:
    wanted = source.wanted(recipe)
    tables = []
    for piece in source.read(wanted._replace(exact={*wanted.exact, recipe.target})):
        tables.append(piece.table)
        if advance is not None:
            advance(piece.size)
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataFileError(
            f"{source.name} must hold columns of one kind: {str(error).rstrip('.')}."
        ) from None


def _split(recipe: Recipe, table: pa.Table) -> Rows:
    declared = recipe.categories or {}
    columns = {
        name: read_column(name, table[name], declared.get(name))
        for name in recipe.feature_columns(table.column_names)
    }
    special = {name: _look(table, name) for name in recipe.special[:2]}
    weights = _read_weights(recipe, table)
    needed = [*special.items(), (recipe.weight, weights)]
    usable = find_usable(recipe, needed, columns, table.num_rows)
    weight = np.ones(len(usable)) if weights is None else weights.values
    order = np.flatnonzero(usable & (weight != 0.0))
    if not len(order):
        raise nothing_to_learn(len(usable), len(usable) - int(np.count_nonzero(usable)))
    own = weight[order].astype(np.float64)
    values, layout = arrange_features(recipe, columns, order)
    slots = fill_slots(layout, values, own)
    layout.refuse_unobserved(slots.observed)
    X, encoding = _features(recipe, layout, slots.X, own)
    y, labels = (table[name].take(pa.array(order)) for name in recipe.special[:2][::-1])
    dropped = len(usable) - int(np.count_nonzero(usable))
    kept = None if weights is None else own
    return Rows(X, y, labels, kept, encoding, len(usable), dropped)


def _look(table: pa.Table, name: str) -> Values:
    """Only where a column has gaps; its values stay as they are."""
    return Values(np.zeros(0), find_gaps(table[name]))


def _read_weights(recipe: Recipe, table: pa.Table) -> Values | None:
    name = recipe.weight
    return None if name is None else read_weights(name, table[name])


def _features(
    recipe: Recipe, layout: Layout, X: Array, weight: Array
) -> tuple[pa.Table, Encoding]:
    """Features without the marks of gaps, and how columns became them."""
    names = layout.features()
    columns = [X[:, j] for j in layout.kept()]
    means = np.array([np.average(column, weights=weight) for column in columns])
    encoding = layout.encoding(recipe).with_means(means)
    return pa.table(columns, names=list(names)), encoding
