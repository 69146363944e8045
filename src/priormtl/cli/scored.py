"""Rows with known targets, as a model that is to be scored reads them."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from priormtl.cli.tables import read_table, split_table
from priormtl.exceptions import unknown_name

__all__ = ["read_known_rows"]


def read_known_rows(
    model: Any, data: Path, *, task: str | None, target: str | None
) -> dict[str, Any]:
    """X, y and task of a file, under those names."""
    column = _column_of_tasks(model) if task is None else task
    if column is None or target is None:
        raise ValueError("--data needs --task and --target: name both columns.")
    table = read_table(data)
    if hasattr(model, "encoding_"):
        return _raw_rows(table, column, target)
    rows = split_table(table, task=column, target=target)
    X = _in_order(model, rows.X)
    if getattr(model, "task", None) is None:
        return {"X": X, "y": rows.y, "task": rows.task}
    return {"X": X.append_column(str(model.task), rows.task), "y": rows.y}


def _column_of_tasks(model: Any) -> str | None:
    """Where the model itself found the tasks, if that was a named column."""
    column = getattr(model, "task_column_", None) or getattr(model, "task", None)
    return column if isinstance(column, str) else None


def _raw_rows(table: pa.Table, task: str, target: str) -> dict[str, Any]:
    """The table as it is: the model remembers what its columns mean."""
    for name in (task, target):
        if name not in table.column_names:
            raise unknown_name("column", name, table.column_names)
    return {"X": table.drop_columns([target]), "y": table[target], "task": table[task]}


def _in_order(model: Any, X: pa.Table) -> Any:
    """Features by the model's names, or all as they are."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return np.column_stack([column.to_numpy() for column in X.columns])
    for name in names:
        if name not in X.column_names:
            raise unknown_name("column", name, X.column_names)
    return X.select(list(names))
