"""Rows in and results out: arrays, sparse matrices, data frames.

Data frames of any library that narwhals knows (pandas, polars, pyarrow, ...) are read
column by column into float64; no such library is imported here. ``task`` may be the
name of a column, which is taken out of the table. Results are built as frames of the
library that the user passed.

``stack_tasks``, ``one_vs_one`` and ``one_vs_rest`` make stacked rows ``X, y, task``, as
``fit`` takes them, from one table per task or from the classes of one table.
"""

from collections.abc import Hashable, Mapping, Sequence
from decimal import Decimal
from importlib.util import find_spec
from itertools import combinations
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from priormtl._arrays import Array, Index, Matrix
from priormtl.data.labels import (
    declares_order,
    find_task_columns,
    join_labels,
    mark_ordered,
)
from priormtl.exceptions import unknown_name

LARGEST_VALUE = 1e100  # squares of larger numbers, summed, leave the range of doubles
LIBRARIES = ("pandas", "polars", "pyarrow")


def as_frame(table: Any) -> nw.DataFrame[Any] | None:
    """View ``table`` as a narwhals data frame; None if it is not one."""
    try:
        frame = nw.from_native(table, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        twice = ", ".join(line.strip("- ") for line in str(error).splitlines()[1:])
        raise ValueError(
            f"columns of a table must have different names: got {twice}; rename them."
        ) from None
    if isinstance(frame, nw.LazyFrame):
        raise ValueError(
            f"a table such as X must be in memory: got a lazy {type(table).__name__}. "
            "Call its collect() or compute() first."
        )
    return frame if isinstance(frame, nw.DataFrame) else None


def column_names(table: Any) -> tuple[str, ...] | None:
    frame = as_frame(table)
    if frame is None or not all(isinstance(name, str) for name in frame.columns):
        return None
    return tuple(frame.columns)


def split_task_column(X: Any, task: Hashable) -> tuple[Any, Any]:
    """Take the column ``task`` (a name, or a position in an array) out of X.

    Several columns, from coarse to fine, become labels such as "district / school".
    """
    frame = as_frame(X)
    columns = find_task_columns(task, () if frame is None else frame.columns)
    if len(columns) > 1:
        labels = [split_task_column(X, column)[1] for column in columns]
        if frame is None:  # later positions first, so that the others stay
            columns = tuple(sorted(int(i) % X.shape[1] for i in columns)[::-1])
        for column in columns:
            X = split_task_column(X, column)[0]
        return X, join_labels(labels)
    (task,) = columns
    if frame is None:
        return _split_array_column(X, task)
    if task not in frame.columns:
        raise unknown_name("column of X for task", task, frame.columns)
    # By position: names of pandas columns need not be text.
    position = frame.columns.index(task)
    others = [j for j in range(len(frame.columns)) if j != position]
    labels = list(frame.iter_columns())[position].to_native()
    if frame.implementation.is_pyarrow() and declares_order(X.schema, task):
        labels = mark_ordered(labels)
    return frame.select(nw.nth(others)).to_native(), labels


def _split_array_column(X: Any, task: Hashable) -> tuple[Any, Any]:
    if isinstance(task, bool) or not isinstance(task, int | np.integer):
        raise ValueError(
            f"task={task!r} names a column, but X has no column names. Pass a data "
            "frame or the position of the column."
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
    names: list[str] | None = None
    if isinstance(X, np.ndarray) and X.dtype == np.float64:
        matrix: Matrix = X
    elif issparse(X):
        matrix = csr_array(X, dtype=np.float64)
    elif (frame := as_frame(X)) is not None:
        matrix, names = _frame_values(frame, "X"), frame.columns
    else:
        matrix = _array_values(X, "X")
    if matrix.ndim != 2:
        raise ValueError(f"X must have two dimensions: got shape {matrix.shape}.")
    values = matrix.data if issparse(matrix) else matrix
    if not np.max(np.abs(values), initial=0.0) <= LARGEST_VALUE:
        raise _not_finite(matrix, names)
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


def _column_values(column: Any, table: str) -> Array:
    kind = column.dtype
    if not (kind.is_numeric() or kind == nw.Boolean or _holds_numbers(column)):
        raise ValueError(
            f"{table} column {column.name!r} must be numeric: got {kind}. Encode it as "
            "numbers, drop it, or name it as the task column."
        )
    return _to_floats(column)


def column_floats(column: Any) -> Array:
    """Values of one column, NaN where missing; infinite values are an error."""
    if column.null_count() == len(column):  # its type may not be known
        return np.full(len(column), np.nan)
    values = _column_values(column, "X")
    refuse_infinite(values, column.name)
    return values


def refuse_infinite(values: Array, name: str) -> None:
    """Fail if a column has infinite values, or larger ones than can be squared."""
    known = np.where(np.isnan(values), 0.0, values)
    if not np.max(np.abs(known), initial=0.0) <= LARGEST_VALUE:
        raise _not_finite(known[:, np.newaxis], [name])


def _holds_numbers(column: Any) -> bool:
    """Whether a column of objects, or of a type narwhals lacks, holds only numbers."""
    if column.dtype == nw.Unknown:  # narwhals before 2.24 has no half floats
        return column.to_numpy().dtype == np.float16
    if column.dtype != nw.Object:
        return False
    return all(
        isinstance(v, int | float | Decimal | np.number) for v in column.to_list()
    )


def _to_floats(column: Any) -> Array:
    if column.dtype == nw.Object:
        try:
            return np.array(column.to_list(), dtype=np.float64)
        except OverflowError:  # integers of Python have no limit
            return np.full(len(column), 2.0 * LARGEST_VALUE)  # refused as too large
    # Arrow casts no integers beyond 2⁵³, and NumPy has none of 128 bits.
    if column.dtype.is_integer() and column.dtype not in (nw.Int128, nw.UInt128):
        values = column.fill_null(0).to_numpy().astype(np.float64)
        return np.where(column.is_null().to_numpy(), np.nan, values)
    return column.cast(nw.Float64).to_numpy().astype(np.float64, copy=False)


def _not_finite(X: Matrix, names: list[str] | None) -> ValueError:
    """Name the first column with NaN, infinity or numbers too large to square."""
    values = X.data if issparse(X) else X
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
    return ValueError(f"X must be finite: column {name} contains {what}; {way_out}.")


def read_targets(y: Any, name: str = "y") -> Array:
    frame = as_frame(y)
    if frame is not None:
        return _frame_values(frame, name)
    series = nw.from_native(y, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        if not (series.dtype.is_numeric() or series.dtype in (nw.Boolean, nw.Object)):
            raise ValueError(f"{name} must be numeric: got {series.dtype}.")
        y = series.to_list() if series.dtype == nw.Object else _to_floats(series)
    return _array_values(y, name)


def take_rows(values: Any, rows: Index) -> Any:
    """Rows by position, of the same type as ``values``; categories keep their order."""
    frame = as_frame(values)
    if frame is not None:
        return frame[rows].to_native()
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return series[rows].to_native()
    if hasattr(values, "to_pylist"):  # a bare array of pyarrow
        return values.take(rows)
    if issparse(values):
        return csr_array(values)[rows]
    return (values if hasattr(values, "shape") else np.asarray(values))[rows]


def fill_absent(y: Any, weight: Array | None) -> Any:
    """Targets in which rows of weight zero, which count as absent, repeat another one.

    So they may be missing, and add no class.
    """
    if weight is None or weight.ndim != 1 or np.all(weight) or not np.any(weight):
        return y
    rows = np.where(weight > 0, np.arange(len(weight)), np.argmax(weight > 0))
    return take_rows(y, rows) if len(y) == len(rows) else y


def find_frame_library(like: Any) -> str:
    """Name of the library of a frame; for other tables the first one installed."""
    frame = as_frame(like)
    if frame is not None:
        return str(frame.implementation.value)
    for name in LIBRARIES:
        if find_spec(name) is not None:
            return name
    raise ImportError(
        "results are a data frame: install pandas, polars or pyarrow, for example by "
        "pip install pandas."
    )


def build_frame(columns: Mapping[str, Any], library: Any) -> Any:
    return nw.from_dict(dict(columns), backend=library).to_native()


# Stacked rows.


def stack_tasks(
    X: Sequence[Any] | Mapping[Hashable, Any], y: Sequence[Any] | Mapping[Hashable, Any]
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Stack one table per task into ``X, y, task``, the arguments of ``fit``.

    Parameters
    ----------
    X : list of (n_i, d) tables, or mapping from tasks to tables
        Features of each task: arrays, sparse matrices or data frames, all of the same
        type and with the same columns.
    y : list of (n_i,) arrays, or mapping from tasks to arrays
        Targets of each task.

    Returns
    -------
    X, y, task
        Stacked rows, targets and task labels. The labels are the keys of the mapping
        or the positions in the list.

    Examples
    --------
    >>> X, y, task = stack_tasks([[[1.0], [2.0]], [[3.0]]], [[0, 1], [2]])
    >>> X.ravel().tolist(), y.tolist(), task.tolist()
    ([1.0, 2.0, 3.0], [0, 1, 2], [0, 0, 1])
    """
    if isinstance(X, Mapping) != isinstance(y, Mapping):
        raise ValueError("X and y must both be lists or both be dicts of tasks.")
    if not (isinstance(X, Mapping) and isinstance(y, Mapping)):
        X, y = dict(enumerate(X)), dict(enumerate(y))
    if not X or set(X) != set(y):
        raise ValueError(
            "X and y must hold the same tasks, at least one: got "
            f"{list(X)[:8]} and {list(y)[:8]}."
        )
    names, tables, targets = list(X), list(X.values()), [y[name] for name in X]
    for name, table, target in zip(names, tables, targets, strict=True):
        n = int(table.shape[0]) if hasattr(table, "shape") else len(table)
        if len(target) != n:
            raise ValueError(
                f"y of task {name!r} must have one value per row of its X: got "
                f"{len(target)} for {n} rows."
            )
    task = np.repeat(np.array(names), [len(target) for target in targets])
    return _stack(tables), np.concatenate([np.asarray(t) for t in targets]), task


def _stack(tables: list[Any]) -> Any:
    frames = [as_frame(table) for table in tables]
    known = [frame for frame in frames if frame is not None]
    if len(known) == len(tables):
        return nw.concat(known, how="vertical").to_native()
    if any(issparse(table) for table in tables):
        return csr_array(vstack([csr_array(table) for table in tables]))
    return np.concatenate([np.asarray(table) for table in tables])


def one_vs_one(X: Any, y: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """Convert a multi-class problem to one binary task per pair of classes.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or data frame
        Features.
    y : (n,) array
        Class labels. There must be at least two classes.

    Returns
    -------
    X, y, task
        Stacked rows, class labels and task labels such as "a vs b". Each row is
        repeated for all pairs that contain its class.

    Examples
    --------
    >>> X, y, task = one_vs_one([[0.0], [1.0], [2.0]], ["a", "b", "c"])
    >>> list(zip(task.tolist(), y.tolist()))[:2]
    [('a vs b', 'a'), ('a vs b', 'b')]
    """
    labels, classes = _classes(y)
    pairs = list(combinations(classes, 2))
    rows = [np.flatnonzero((labels == a) | (labels == b)) for a, b in pairs]
    names = [f"{a} vs {b}" for a, b in pairs]
    task = np.repeat(names, [len(part) for part in rows])
    index = np.concatenate(rows)
    return take_rows(X, index), labels[index], task


def one_vs_rest(X: Any, y: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """Convert a multi-class problem to one binary task per class.

    Parameters
    ----------
    X, y
        See :func:`one_vs_one`.

    Returns
    -------
    X, y, task
        Stacked rows, targets and task labels. Each task contains all rows and is named
        after its class. The target is True for rows of this class.

    Examples
    --------
    >>> X, y, task = one_vs_rest([[0.0], [1.0]], ["a", "b"])
    >>> task.tolist(), y.tolist()
    (['a', 'a', 'b', 'b'], [True, False, False, True])
    """
    labels, classes = _classes(y)
    n = len(labels)
    index = np.tile(np.arange(n), len(classes))
    task = np.repeat(classes, n)
    return take_rows(X, index), labels[index] == task, task


def _classes(y: Any) -> tuple[np.ndarray, np.ndarray]:
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(f"y must be one-dimensional: got shape {labels.shape}.")
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ValueError(f"y must hold at least two classes: got {classes.tolist()}.")
    return labels, classes
