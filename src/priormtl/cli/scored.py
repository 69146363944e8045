"""Rows with known targets, as a model that is to be scored reads them."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from priormtl.engines import open_source
from priormtl.exceptions import DataFileError, unknown_name

__all__ = ["read_known_rows"]


def read_known_rows(
    model: Any, data: Path, *, task: str | None, target: str | None
) -> dict[str, Any]:
    """X, y and task of a file, under those names."""
    column = _column_of_tasks(model) if task is None else task
    if column is None or target is None:
        raise ValueError("--data needs --task and --target: name both columns.")
    table = _read(data)
    for name in (column, target):
        if name not in table.column_names:
            raise unknown_name("column", name, table.column_names)
    X, y, labels = (
        _features(model, table, {column, target}),
        table[target],
        table[column],
    )
    if getattr(model, "task", None) is None:
        return {"X": X, "y": y, "task": labels}
    if model.task not in X.column_names:
        X = X.append_column(model.task, labels)
    return {"X": X, "y": y}


def _column_of_tasks(model: Any) -> str | None:
    """Where the model itself found the tasks, if that was a named column."""
    column = getattr(model, "task_column_", None) or getattr(model, "task", None)
    return column if isinstance(column, str) else None


def _read(data: Path) -> pa.Table:
    source = open_source(data)
    try:
        return source.dataset.to_table()
    except (pa.ArrowException, UnicodeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise DataFileError(f"{data} cannot be read: {reason}.") from None


def _features(model: Any, table: pa.Table, others: set[str]) -> Any:
    """Columns for the model, by its names; all but ``others`` where it has none."""
    if hasattr(model, "encoding_"):
        return table  # the model remembers what the columns mean
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        rest = [name for name in table.column_names if name not in others]
        return np.column_stack([table[name].to_numpy() for name in rest])
    columns = [_feature(table, str(name)) for name in names]
    return pa.table(columns, names=list(map(str, names)))


def _feature(table: pa.Table, name: str) -> Any:
    """A column, or whether another one has the value that the name tells."""
    if name in table.column_names:
        return table[name]
    column, equals, value = name.partition("=")
    if not equals or column not in table.column_names:
        raise unknown_name("column", name, table.column_names)
    return pc.equal(table[column].cast(pa.string()), value).cast(pa.float64())
