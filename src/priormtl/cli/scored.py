"""Rows with known targets, as a model that is to be scored reads them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from priormtl.engines import naming, open_source
from priormtl.exceptions import DataFileError, unknown_name

__all__ = ["read_known_rows"]

LARGEST_TARGET = 1e100  # as in fits


def read_known_rows(
    model: Any, data: Path, *, task: str | None, target: str | None
) -> dict[str, Any]:
    """X, y and task of a file, under those names; columns are the model's own."""
    task = _named("--task", "task", task, _column_of_tasks(model))
    target = _named("--target", "target", target, _column_of_targets(model))
    table = _read(data)
    with naming(str(data)):
        _refuse_absent(model, table.column_names, (task, target))
    table = _drop_unknown(model, table, task, target)
    if not table.num_rows:
        raise DataFileError(
            f"{data} must have rows with known {task!r} and {target!r}."
        )
    _refuse_texts(model, data, table, target)
    _refuse_huge(data, table, target)
    X, y, labels = _features(model, table, {task, target}), table[target], table[task]
    if getattr(model, "task", None) is None:
        return {"X": X, "y": y, "task": labels}
    if model.task not in X.column_names:
        X = X.append_column(model.task, labels)
    return {"X": X, "y": y}


def _refuse_absent(model: Any, present: list[str], named: Sequence[str]) -> None:
    """Fail where a table lacks what was named, or what the model needs."""
    encoding = getattr(model, "encoding_", None)
    if encoding is not None:
        encoding.used_columns(present)
    for name in (*named, *_names_of_features(model, encoding)):
        if name not in present:
            raise unknown_name("column", name, present)


def _names_of_features(model: Any, encoding: Any) -> Sequence[str]:
    """Columns that must be there as they are; an encoding knows better."""
    names = None if encoding else getattr(model, "feature_names_in_", None)
    return () if names is None else [str(name) for name in names]


def _drop_unknown(model: Any, table: pa.Table, task: str, target: str) -> pa.Table:
    """Rows that can be scored: with task and target, and features if gaps drop rows."""
    kept = pc.and_(table[task].is_valid(), table[target].is_valid())
    table = table.filter(kept)
    encoding = getattr(model, "encoding_", None)
    if encoding is None or encoding.missing != "drop":
        return table
    return table.filter(pa.array(~encoding.gaps(table)))


def _refuse_texts(model: Any, data: Path, table: pa.Table, target: str) -> None:
    texts = pa.types.is_string(table[target].type)
    if texts and not hasattr(model, "classes_"):
        raise DataFileError(
            f"{data}: column {target!r} must hold numbers: got text such as "
            f"{table[target][0].as_py()!r}."
        )


def _refuse_huge(data: Path, table: pa.Table, target: str) -> None:
    """Fail where scores would be infinite, or not be numbers."""
    if not pa.types.is_floating(table[target].type):
        return
    values = table[target].to_numpy()
    wrong = values[~(np.abs(values) <= LARGEST_TARGET)]
    if len(wrong):
        raise DataFileError(
            f"{data}: column {target!r} must hold finite numbers up to "
            f"{LARGEST_TARGET:g}: got {wrong[0]:g}; replace or drop such values."
        )


def _named(option: str, what: str, given: str | None, known: str | None) -> str:
    found = known if given is None else given
    if found is None:
        raise ValueError(
            f"--data needs {option} COL: this model does not remember its {what} "
            "column."
        )
    return found


def _column_of_tasks(model: Any) -> str | None:
    """Where the model itself found the tasks, if that was a named column."""
    column = getattr(model, "task_column_", None) or getattr(model, "task", None)
    return column if isinstance(column, str) else None


def _column_of_targets(model: Any) -> str | None:
    """Where the model itself found the targets, if it remembers columns."""
    encoding = getattr(model, "encoding_", None)
    return None if encoding is None else encoding.target


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
    return table.select(list(names))
