"""Tables in: arrays, sparse matrices and any data frame that narwhals knows."""

from collections.abc import Hashable
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np
from scipy.sparse import csr_array, issparse

from priormtl._arrays import Array, Matrix
from priormtl.data.labels import declares_order, mark_ordered
from priormtl.data.tasks import StackedRows, from_labels
from priormtl.exceptions import unknown_name

__all__ = [
    "as_frame",
    "column_floats",
    "column_names",
    "from_frame",
    "read_matrix",
    "read_targets",
    "split_task_column",
]


def as_frame(table: Any) -> nw.DataFrame[Any] | None:
    """See ``table`` as a data frame, if it is one."""
    try:
        frame = nw.from_native(table, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        twice = ", ".join(line.strip("- ") for line in str(error).splitlines()[1:])
        raise ValueError(
            f"columns of a table must have different names: got {twice}; rename them."
        ) from None
    if isinstance(frame, nw.LazyFrame):
        raise ValueError(
            f"a table such as X must hold its rows: got a lazy {type(table).__name__}; "
            "call its collect() or compute() before."
        )
    return frame if isinstance(frame, nw.DataFrame) else None


def column_names(table: Any) -> tuple[str, ...] | None:
    """Column names of a data frame, where all are text."""
    frame = as_frame(table)
    if frame is None or not all(isinstance(name, str) for name in frame.columns):
        return None
    return tuple(frame.columns)


def split_task_column(X: Any, task: Hashable) -> tuple[Any, Any]:
    """Take the column ``task`` (a name, or a position in an array) out of X."""
    frame = as_frame(X)
    if frame is not None:
        if task not in frame.columns:
            raise unknown_name("column of X for task", task, frame.columns)
        # By position: names of pandas columns need not be text.
        position = frame.columns.index(task)
        others = [j for j in range(len(frame.columns)) if j != position]
        labels = list(frame.iter_columns())[position].to_native()
        if frame.implementation.is_pyarrow() and declares_order(X.schema, task):
            labels = mark_ordered(labels)
        return frame.select(nw.nth(others)).to_native(), labels
    return _split_array_column(X, task)


def _split_array_column(X: Any, task: Hashable) -> tuple[Any, Any]:
    if isinstance(task, bool) or not isinstance(task, int | np.integer):
        raise ValueError(
            f"task={task!r} names a column, but X has no column names: pass a data "
            "frame, or the position of the column."
        )
    table = csr_array(X) if issparse(X) else np.asarray(X)
    if table.ndim != 2 or not -table.shape[1] <= task < table.shape[1]:
        raise ValueError(f"task={task} must be a column of X: got shape {table.shape}.")
    position = int(task) % table.shape[1]
    others = np.delete(np.arange(table.shape[1]), position)
    column: Any = table[:, [position]]
    labels = column.toarray() if issparse(table) else column
    return table[:, others], np.ravel(labels)


def read_matrix(X: Any) -> Matrix:
    """X as float64, dense or sparse by rows, finite; frames column by column."""
    frame = as_frame(X)
    if frame is not None:
        matrix: Matrix = _frame_values(frame, "X")
    elif issparse(X):
        matrix = csr_array(X, dtype=np.float64)
    else:
        matrix = _array_values(X, "X")
    if matrix.ndim != 2:
        raise ValueError(
            f"X must be a table of two dimensions: got shape {matrix.shape}."
        )
    _refuse_not_finite(matrix, None if frame is None else frame.columns)
    return matrix


def _array_values(table: Any, name: str) -> Array:
    try:
        values = np.asarray(table)
        if values.dtype.kind != "c":
            return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{name} must hold numbers: got {type(table).__name__}.")


def _frame_values(frame: nw.DataFrame[Any], table: str) -> Array:
    columns = [_column_values(column, table) for column in frame.iter_columns()]
    return np.column_stack(columns) if columns else np.empty((len(frame), 0))


def _column_values(column: nw.Series[Any], table: str) -> Array:
    kind = column.dtype
    if not (kind.is_numeric() or kind == nw.Boolean or _holds_numbers(column)):
        raise ValueError(
            f"{table} column {column.name!r} must be numeric: got {kind}; encode it as "
            "numbers, drop it, or name it as the task column."
        )
    return _to_floats(column)


def column_floats(column: nw.Series[Any]) -> Array:
    """Numbers of one column, NaN where they are missing; infinite ones are an error."""
    if column.null_count() == len(column):  # of no type, maybe
        return np.full(len(column), np.nan)
    values = _column_values(column, "X")
    known = np.where(np.isnan(values), 0.0, values)
    _refuse_not_finite(known[:, np.newaxis], [column.name])
    return values


def _holds_numbers(column: nw.Series[Any]) -> bool:
    """Whether a column of objects, or of a type without a name, holds numbers only."""
    if column.dtype == nw.Unknown:  # narwhals before 2.24 has no half floats
        return column.to_numpy().dtype == np.float16
    if column.dtype != nw.Object:
        return False
    return all(
        isinstance(v, int | float | Decimal | np.number) for v in column.to_list()
    )


def _to_floats(column: nw.Series[Any]) -> Array:
    if column.dtype == nw.Object:
        return np.array(column.to_list(), dtype=np.float64)
    if column.dtype.is_integer() and not column.null_count():
        return column.to_numpy().astype(np.float64)  # pyarrow refuses beyond 2⁵³
    return column.cast(nw.Float64).to_numpy().astype(np.float64, copy=False)


def _refuse_not_finite(X: Matrix, names: list[str] | None) -> None:
    """Name the first column that holds NaN, infinity or numbers too large to square."""
    values = X.data if issparse(X) else X
    largest = np.max(np.abs(values), initial=0.0)
    if largest <= LARGEST_VALUE:
        return
    columns = X.tocoo().col if issparse(X) else np.arange(X.shape[1])
    wrong = ~(np.abs(values) <= LARGEST_VALUE)
    first = int(columns[wrong][0] if issparse(X) else np.argmax(wrong.any(axis=0)))
    name = repr(names[first]) if names else str(first)
    values = X[:, [first]].toarray() if issparse(X) else X[:, first]
    if np.isnan(values).any():
        what, way_out = "NaN", "fill or drop the missing values"
    elif np.isinf(values).any():
        what, way_out = "inf", "replace or drop the infinite values"
    else:
        what, way_out = f"values beyond {LARGEST_VALUE:g}", "rescale it"
    raise ValueError(f"X must be finite: column {name} contains {what}; {way_out}.")


LARGEST_VALUE = 1e100  # squares of larger numbers, summed, leave the range of doubles


def read_targets(y: Any, name: str = "y") -> Array:
    """Targets or weights as float64, (n,) or (n, m); missing values become NaN."""
    frame = as_frame(y)
    if frame is not None:
        return _frame_values(frame, name)
    series = nw.from_native(y, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        if not (series.dtype.is_numeric() or series.dtype in (nw.Boolean, nw.Object)):
            raise ValueError(f"{name} must be numeric: got {series.dtype}.")
        y = series.to_list() if series.dtype == nw.Object else _to_floats(series)
    return _array_values(y, name)


def from_frame(
    frame: Any, *, target: str, task: str, weight: str | None = None
) -> StackedRows:
    """Long table: one row per sample, with a target and a task column.

    Parameters
    ----------
    frame : data frame
        pandas, polars, pyarrow or any other that narwhals reads.
    target, task, weight : str
        Names of the columns of targets, task labels and (optionally) weights; all
        other columns are features.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"x": [1.0, 2.0], "y": [0.0, 1.0], "school": ["a", "b"]})
    >>> from_frame(table, target="y", task="school").tasks
    ('a', 'b')
    """
    X, labels = split_task_column(frame, task)
    X, y = split_task_column(X, target)
    weights = None
    if weight is not None:
        X, column = split_task_column(X, weight)
        weights = read_targets(column, "weight")
    targets = read_targets(y)
    return from_labels(read_matrix(X), targets, labels, weights, column_names(X))
