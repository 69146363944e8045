"""Coefficients with their names: as a tidy data frame, or one row per task."""

from collections.abc import Hashable, Sequence
from datetime import date
from typing import Any

import numpy as np

from priormtl.data import build_frame, find_frame_library, name_features

__all__ = ["INTERCEPT", "build_coef_frame", "feature_names", "plain_labels"]

INTERCEPT = "(intercept)"


def feature_names(model: Any) -> tuple[str, ...]:
    """Names of the features; x0, x1, … where the data had none."""
    names = getattr(model, "feature_names_in_", None)
    return name_features(names, model.n_features_in_)


def plain_labels(tasks: Sequence[Hashable]) -> list[Any]:
    """Task labels as every library of frames takes them."""
    plain = all(isinstance(task, str | int | float | date) for task in tasks)
    return list(tasks) if plain else [str(task) for task in tasks]


def build_coef_frame(model: Any, *, wide: bool) -> Any:
    """Coefficients and intercepts of a fitted model as a data frame."""
    names, tasks = feature_names(model), plain_labels(model.tasks_.tolist())
    columns = dict(zip(names, model.coef_.T, strict=True))
    if model.fit_intercept is not False:
        columns = {INTERCEPT: model.intercept_, **columns}
    library = getattr(model, "_frame_library", None) or find_frame_library(None)
    if wide:
        return build_frame(_wide(tasks, columns), library)
    return build_frame(_tidy(tasks, columns), library)


def _tidy(tasks: list[Any], columns: dict[str, Any]) -> dict[str, Any]:
    """One row per task and feature, task by task."""
    return {
        "task": [task for task in tasks for _ in columns],
        "feature": list(columns) * len(tasks),
        "coefficient": np.column_stack(list(columns.values())).ravel(),
    }


def _wide(tasks: list[Any], columns: dict[str, Any]) -> dict[str, Any]:
    """One row per task."""
    if "task" in columns:
        raise ValueError(
            "wide must be False where a feature is called 'task', which is the column "
            "of the tasks: got wide=True; rename the feature, or use the tidy layout."
        )
    return {"task": tasks} | columns
