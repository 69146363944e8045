"""From files to statistics or rows: the reading part of ``fit_source``.

The command ``priormtl`` reads its tables by the same two functions.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from priormtl.data import TaskStatistics, join_names, refuse_crossed
from priormtl.design import Encoded
from priormtl.estimators.base import unchanged_on_error
from priormtl.estimators.progress import show_progress
from priormtl.exceptions import FoldsError
from priormtl.selection import align_parts

if TYPE_CHECKING:
    from priormtl.engines import Schema, Source, SourceRows, Summary


def read_source(
    source: object,
    schema: "Schema | None" = None,
    *,
    where: object = None,
    shards: str | os.PathLike[str] | None = None,
    model: object = None,
    **columns: object,
) -> "Summary":
    """Summarise files in one pass, with a progress bar.

    Parameters are those of ``engines.summarize``; with ``shards``, a folder, those of
    ``engines.summarize_sharded``. The task column may be that of ``model``.
    """
    from priormtl import engines  # noqa: PLC0415

    schema = _complete(model, schema, columns)
    # Tables that are small enough are dealt evenly to folds; see engines.columns.
    opened = replace(engines.open_source(source, where), even=True)
    if opened.holds_text(schema.target):
        raise ValueError(
            f"{opened.name}: column {schema.target!r} must hold numbers to be a "
            "target: it holds text; for two classes use a classifier ('priormtl fit "
            "--classify')."
        )
    with reading(model, opened) as advance:
        if shards is None:
            return engines.summarize(opened, schema, advance=advance)
        return engines.summarize_sharded(opened, shards, schema, advance=advance)


def read_source_rows(
    source: object,
    schema: "Schema | None" = None,
    *,
    where: object = None,
    model: object = None,
    **columns: object,
) -> "SourceRows":
    """Read all rows of files into memory, with a progress bar.

    Parameters are those of ``engines.read_rows``. The task column may be that of
    ``model``.
    """
    from priormtl import engines  # noqa: PLC0415

    schema = _complete(model, schema, columns)
    opened = engines.open_source(source, where)
    with reading(model, opened) as advance:
        return engines.read_rows(opened, schema, advance=advance)


def _complete(
    model: object, schema: "Schema | None", columns: dict[str, object]
) -> "Schema":
    """Return the schema, with the task column of the model if it has none."""
    from priormtl import engines  # noqa: PLC0415

    if schema is None:
        task = columns.get("task")
        task = getattr(model, "task", None) if task is None else task
        if not isinstance(join_names(task), str):
            raise ValueError(f"task must name the column of the tasks: got {task!r}.")
        columns = columns | {"task": task}
    return engines.Schema.of(schema, **columns)


def reading(model: object, source: "Source") -> Any:
    """Progress bar of a pass over files; see ``show_progress``."""
    name = "reading" if model is None else f"{type(model).__name__}, reading"
    return show_progress(model, None, name, source.size, "bytes")


def fit_rows(model: Any, rows: "SourceRows") -> Any:
    """Fit a model to rows that were read from files, and keep how they are encoded."""
    with unchanged_on_error(model):
        X = Encoded(rows.design, rows.X, rows.task)
        model.fit(X, rows.y, sample_weight=rows.weight)
    return model


def count_folds(cv: object) -> int:
    """Number of folds to which rows are assigned as they are read."""
    if isinstance(cv, bool) or not isinstance(cv, int | np.integer) or cv < 2:
        raise ValueError(
            f"cv must be a number of folds, from 2 on, for fit_source: got {cv!r}; "
            "rows are assigned to folds as they are read."
        )
    return int(cv)


def hold_back(parts: Sequence[TaskStatistics]) -> list[TaskStatistics]:
    """Parts to be held out, and last what is always trained on.

    The latter are the tasks whose rows are all in one part: without it, they would have
    no rows to be learned from.
    """
    *aligned, nothing = align_parts(parts)
    weight = np.sum([part.weight for part in aligned], axis=0)
    refuse_crossed(aligned[0].tasks, weight, parts[0].task_columns)
    lone = np.sum([part.weight > 0 for part in aligned], axis=0) == 1
    if not lone.any():
        return [*aligned, nothing]
    always = reduce(add, (part.only(lone) for part in aligned))
    tests = [part.only(~lone) for part in aligned]
    if not all(part.weight.any() for part in tests):
        raise FoldsError(
            f"each of {len(parts)} parts must hold rows of tasks that other parts hold "
            "too, because a task is learned before it is scored: use fewer folds, more "
            "rows, or parts that share tasks."
        )
    return [*tests, always]
