"""Rows in and results out: arrays, sparse matrices, data frames.

Data frames of any library that narwhals knows (pandas, polars, pyarrow, ...) are read
column by column into float64; no such library is imported here. ``task`` may be the
name of a column, which is taken out of the table. Results are built as frames of the
library that the user passed.

``stack_tasks``, ``one_vs_one`` and ``one_vs_rest`` make stacked rows ``X, y, task``, as
``fit`` takes them, from one table per task or from the classes of one table.
"""

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from priormtl._arrays import Array, Index, Matrix
from priormtl._numerics import LARGEST
from priormtl.data.labels import (
    declares_order,
    find_task_columns,
    join_labels,
    mark_ordered,
)
from priormtl.design.frames import (
    as_frame,
    frame_values,
    not_finite,
    series_floats,
)
from priormtl.exceptions import unknown_name


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


def split_offset_columns(
    X: Any, exposure: Hashable, offset: Hashable
) -> tuple[Any, Array | None]:
    """Take the columns of exposure and offset out of X, and log exposure + offset (n,).

    Both are names in a frame, or positions in an array.
    """
    roles = {"exposure": exposure, "offset": offset}
    roles = {role: column for role, column in roles.items() if column is not None}
    if len(set(roles.values())) < len(roles):
        raise ValueError(f"exposure and offset must be two columns: got {offset!r}.")
    total: Array | None = None
    # Later positions first, so that the others stay.
    order = sorted(roles.items(), key=lambda one: str(one[1]).zfill(20), reverse=True)
    for role, column in order:
        frame = as_frame(X)
        if frame is None:
            X, values = _split_array_column(X, column, role)
        elif column not in frame.columns:
            raise ValueError(
                f"X must have the column {column!r} of {role}, in fit and predict: got "
                f"{', '.join(map(repr, frame.columns[:8]))}."
            )
        else:
            X, values = split_task_column(X, column)
        numbers = read_targets(values, role)
        if not np.all(np.isfinite(numbers)):
            raise ValueError(f"{role} must be finite in all rows of {column!r}.")
        if role == "exposure":
            if not np.all(numbers > 0):
                raise ValueError(
                    f"exposure must be above 0 in all rows of {column!r}: got "
                    f"{numbers[~(numbers > 0)][0]:g}. Drop these rows."
                )
            numbers = np.log(numbers)
        total = numbers if total is None else total + numbers
    return X, total


def _split_array_column(
    X: object, task: Hashable, role: str = "task"
) -> tuple[Any, Any]:
    if isinstance(task, bool) or not isinstance(task, int | np.integer):
        raise ValueError(
            f"{role}={task!r} names a column, but X has no column names. Pass a data "
            "frame or the position of the column."
        )
    table = csr_array(X) if issparse(X) else np.asarray(X)
    if table.ndim != 2 or not -table.shape[1] <= task < table.shape[1]:
        raise ValueError(
            f"{role}={task} must be a column of X: got shape {table.shape}."
        )
    position = int(task) % table.shape[1]
    others = np.delete(np.arange(table.shape[1]), position)
    column: Any = table[:, [position]]
    labels = column.toarray() if issparse(table) else column
    return table[:, others], np.ravel(labels)


def read_matrix(X: object) -> Matrix:
    names: list[str] | None = None
    if isinstance(X, np.ndarray) and X.dtype == np.float64:
        matrix: Matrix = X
    elif issparse(X):
        matrix = csr_array(X, dtype=np.float64)
    elif (frame := as_frame(X)) is not None:
        matrix, names = frame_values(frame, "X"), frame.columns
    else:
        matrix = _array_values(X, "X")
    if matrix.ndim != 2:
        raise ValueError(f"X must have two dimensions: got shape {matrix.shape}.")
    values = matrix.data if issparse(matrix) else matrix
    if not np.max(np.abs(values), initial=0.0) <= LARGEST:
        raise not_finite(matrix, names)
    return matrix


def _array_values(table: object, name: str) -> Array:
    try:
        values = np.asarray(table)
        if values.dtype.kind != "c":
            return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{name} must hold numbers: got {type(table).__name__}.")


def read_targets(y: object, name: str = "y") -> Array:
    frame = as_frame(y)
    if frame is not None:
        return frame_values(frame, name)
    series = nw.from_native(y, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        if not (series.dtype.is_numeric() or series.dtype in (nw.Boolean, nw.Object)):
            raise ValueError(f"{name} must be numeric: got {series.dtype}.")
        y = series.to_list() if series.dtype == nw.Object else series_floats(series)
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
    frames = [frame for frame in map(as_frame, tables) if frame is not None]
    stacked: Any
    if len(frames) == len(tables):
        stacked = nw.concat(frames, how="vertical").to_native()
    elif any(issparse(table) for table in tables):
        stacked = csr_array(vstack([csr_array(table) for table in tables]))
    else:
        stacked = np.concatenate([np.asarray(table) for table in tables])
    return stacked, np.concatenate([np.asarray(t) for t in targets]), task


def one_vs_one(X: object, y: object) -> tuple[Any, np.ndarray, np.ndarray]:
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


def one_vs_rest(X: object, y: object) -> tuple[Any, np.ndarray, np.ndarray]:
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


def _classes(y: object) -> tuple[np.ndarray, np.ndarray]:
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(f"y must be one-dimensional: got shape {labels.shape}.")
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ValueError(f"y must hold at least two classes: got {classes.tolist()}.")
    return labels, classes
