"""Predictions of a table, piece by piece."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from priormtl import engines, load
from priormtl.data import Encoding
from priormtl.estimators import ClassificationTasks
from priormtl.exceptions import DataFileError, unknown_name

__all__ = ["Predictor", "prepare"]

WRITTEN = ("prediction", "probability")  # names of what is added


class Predictor(NamedTuple):
    """A model, and which columns of tables it looks at."""

    model: Any
    encoding: Encoding
    task: str | None  # column
    kept: tuple[str, ...]  # columns that stand beside the predictions

    def wanted(self, names: list[str]) -> engines.Wanted:
        """Columns to read of a table with these columns."""
        texts = [c.name for c in self.encoding.columns if c.values is not None]
        for name in self.kept:
            if name not in names:
                raise unknown_name("column", name, names)
        used = dict.fromkeys([*self.kept, *self.encoding.used_columns(names)])
        return engines.Wanted(tuple(used), {*self.kept, *texts})

    def predict(self, table: pa.Table) -> pa.Table:
        """Predictions beside the columns that are kept; rows may be left out."""
        table = self._without_gaps(table)
        names = [_own_name(name) for name in self.kept]
        found = table.select(list(self.kept)).rename_columns(names)
        for name, values in self._columns(table).items():
            found = found.append_column(name, values)
        return found

    def _columns(self, table: pa.Table) -> dict[str, pa.Array]:
        model = self.model
        labels = None if self.task is None else table[self.task]
        if not hasattr(model, "encoding_"):
            table = table.select(list(self.encoding.features))
        prediction = _predict(model, table, labels)
        if not isinstance(model, ClassificationTasks):
            return {"prediction": pa.array(prediction)}
        texts = pa.array(prediction.tolist(), _label_type(model))
        columns = {"prediction": texts}
        if hasattr(model, "predict_proba"):
            shares = _predict(model, table, labels, "predict_proba")
            columns["probability"] = pa.array(shares[:, 1])
        return columns

    def _without_gaps(self, table: pa.Table) -> pa.Table:
        """Rows that the model can predict, where it was told to drop others."""
        if self.encoding.missing != "drop":
            return table
        gaps = self.encoding.gaps(table)
        if self.task is not None:
            gaps = gaps | table[self.task].is_null().to_numpy()
        return table.filter(pa.array(~gaps)) if gaps.any() else table


def _own_name(name: str) -> str:
    """Name of a column that is kept, other than those that are added."""
    return f"{name}_given" if name in WRITTEN else name


def prepare(
    path: Path, task: str | None, identity: str | None, unseen: str | None = None
) -> Predictor:
    """Load a model, and find out where tables hold what it needs."""
    model = load(path)
    encoding = getattr(model, "encoding_", None)
    if encoding is None:
        names = getattr(model, "feature_names_in_", None)
        if names is None:
            raise DataFileError(
                f"{path} must know the names of its features to find them in a table: "
                "it has none; fit it to a data frame."
            )
        encoding = Encoding.of_numbers(names.tolist())
    column = task or _task_column(model, path)
    model.set_params(task=None)  # labels are given
    if unseen is not None:
        model.set_params(unseen_tasks=unseen)
    kept = tuple(name for name in (identity, column) if name is not None)
    return Predictor(model, encoding, column, tuple(dict.fromkeys(kept)))


def _task_column(model: Any, path: Path) -> str | None:
    named = model.task if isinstance(model.task, str) else None
    column = getattr(model, "task_column_", None) or named
    if column is None and len(model.tasks_) > 1:
        raise ValueError(
            f"{path} does not say which column holds the tasks: give --task COL."
        )
    return column


def _predict(model: Any, table: Any, labels: Any, method: str = "predict") -> Any:
    if not table.num_rows:
        return np.empty((0, 2) if method == "predict_proba" else 0)
    if labels is None:  # of one task
        labels = [model.tasks_.tolist()[0]] * table.num_rows
    return getattr(model, method)(table, task=labels)


def _label_type(model: Any) -> pa.DataType:
    """Type of all class labels, which rows of a piece may not show."""
    return pa.array(np.ravel(model.classes_).tolist()).type
