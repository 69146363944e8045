"""Outlier tasks as users set them and read them."""

from numbers import Real
from typing import Any

import numpy as np

from priormtl._arrays import Array

__all__ = [
    "LEARNED",
    "check_outlier_strength",
    "check_outlier_strengths",
    "check_outlier_tasks",
    "check_own_strength",
    "own_strength",
    "publish_parts",
    "shared_coef",
]

LEARNED = ("shared_coef_", "own_coef_", "outlier_tasks_", "outlier_strength_")


def check_outlier_tasks(value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"outlier_tasks must be True or False: got {value!r}.")
    return bool(value)


def check_outlier_strength(name: str, value: Any) -> float:
    """Positive number; infinity means no outliers."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not value > 0:
        raise ValueError(
            f"{name} must be a positive number, or inf for no outliers: got {value!r}."
        )
    return float(value)


def check_own_strength(value: Any, m: int) -> float | Array:
    """One strength, or one for each of m tasks."""
    if not isinstance(value, np.ndarray):
        return check_outlier_strength("outlier_strength", value)
    if value.shape != (m,):
        raise ValueError(
            "outlier_strength must be one number or an array with one for each of "
            f"{m} tasks: got an array of shape {value.shape}."
        )
    name = "every one of outlier_strength"
    return np.array([check_outlier_strength(name, one) for one in value.tolist()])


def check_outlier_strengths(values: Any) -> Array | None:
    """Several strengths, at least one; None: those that the data suggest."""
    if values is None:
        return None
    listed: Any = values.tolist() if isinstance(values, np.ndarray) else values
    if not hasattr(listed, "__len__") or isinstance(listed, str) or not len(listed):
        raise ValueError(
            f"outlier_strengths must be None or list at least one: got {values!r}."
        )
    name = "every one of outlier_strengths"
    return np.array([check_outlier_strength(name, value) for value in listed])


def publish_parts(model: Any, parts: tuple[Array, Array] | None, gamma: float) -> None:
    """Set shared and own parts (m, d), or take away those of an earlier fit."""
    for name in LEARNED:
        vars(model).pop(name, None)
    if parts is not None:
        model.shared_coef_, model.own_coef_ = parts
        model.outlier_tasks_ = model.tasks_[model.own_coef_.any(axis=1)]
        model.outlier_strength_ = gamma


def own_strength(model: Any) -> float | Array:
    """Strength of own parts in a fit: one, or where the data have named tasks, theirs.

    With the latter no other task may have a part.
    """
    given = getattr(model, "outlier_strength", None)
    if given is not None:
        return check_own_strength(given, len(model.tasks_))
    if getattr(model, "outlier_strengths", None) is not None:
        return float(model.outlier_strength_)
    return np.where(model.own_coef_.any(axis=1), model.outlier_strength_, np.inf)


def shared_coef(model: Any) -> Array:
    """What the priors act on (m, d): coefficients without tasks' own parts."""
    return np.asarray(getattr(model, "shared_coef_", model.coef_))
