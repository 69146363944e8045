"""Learned: what a fitted model knows, as a report reads it."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse

from priormtl._arrays import Array, Matrix
from priormtl._lazy import cached_property
from priormtl.data import TaskStatistics, name_features, pooled_scale
from priormtl.reports.wording import spell_label

__all__ = ["Learned", "row_norms"]


@dataclass(frozen=True, eq=False)
class Learned:
    """Names and coefficients of a model, and the spread of its features if known."""

    model: Any
    features: tuple[str, ...]
    tasks: tuple[str, ...]
    coef: Array  # (m, d)
    scale: Array | None  # (d,) standard deviations

    @classmethod
    def read(cls, model: Any, X: Matrix | None = None) -> Self:
        """Look at a fitted linear model; rows of X tell the spread of features."""
        coef = getattr(model, "coef_", None)
        tasks = getattr(model, "tasks_", None)
        if coef is None or tasks is None or np.shape(coef)[:1] != np.shape(tasks)[:1]:
            raise TypeError(
                "model must be a fitted linear model of priormtl, with coef_ and "
                f"tasks_: got {type(model).__name__}; call fit before."
            )
        values = np.asarray(coef, dtype=np.float64)
        return cls(
            model,
            _feature_names(model, values.shape[1]),
            tuple(map(spell_label, np.asarray(tasks).tolist())),
            values,
            _find_scale(model, X),
        )

    @property
    def is_classifier(self) -> bool:
        """Whether targets are classes."""
        return hasattr(self.model, "classes_")

    @property
    def statistics(self) -> TaskStatistics | None:
        """What the model was fitted to, where it kept that."""
        return getattr(self.model, "statistics_", None)

    @cached_property
    def comparable(self) -> Array:
        """Coefficients per standard deviation of a feature, where that is known."""
        return self.coef if self.scale is None else self.coef * self.scale

    @cached_property
    def norms(self) -> Array:
        """Size of each feature's coefficients over all tasks (d,)."""
        return row_norms(self.coef.T)

    @cached_property
    def sizes(self) -> Array:
        """The same per standard deviation: how much a feature matters (d,)."""
        return self.norms if self.scale is None else self.norms * self.scale

    @cached_property
    def distances(self) -> Array:
        """How far each task's coefficients lie from the median task's (m,)."""
        middle = np.median(self.comparable, axis=0)
        return row_norms(self.comparable - middle)


def row_norms(rows: Array) -> Array:
    """Euclidean norms that neither overflow nor vanish."""
    with np.errstate(over="ignore"):
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    far = np.flatnonzero(~((norms > 1e-140) & (norms < 1e140)))
    norms[far] = _careful_norms(rows[far])
    return norms


def _careful_norms(rows: Array) -> Array:
    largest = np.abs(rows).max(axis=1, initial=0.0)
    used = largest > 0
    unit = rows[used] / largest[used, np.newaxis]
    largest[used] *= np.linalg.norm(unit, axis=1)
    return largest


def _feature_names(model: Any, d: int) -> tuple[str, ...]:
    names = getattr(model, "feature_names_in_", None)
    return tuple(map(spell_label, name_features(names, d)))


def _find_scale(model: Any, X: Matrix | None) -> Array | None:
    statistics = getattr(model, "statistics_", None)
    if statistics is not None:
        return pooled_scale(statistics)
    if getattr(model, "standardize", False) and hasattr(model, "feature_scale_"):
        return np.asarray(model.feature_scale_, dtype=np.float64)
    return None if X is None else _deviations(X)


def _deviations(X: Matrix) -> Array:
    """Standard deviation of each column; 1 where it is constant."""
    mean = np.asarray(X.mean(axis=0)).ravel()
    if issparse(X):
        squares = np.asarray(X.multiply(X).mean(axis=0)).ravel()
        deviation = np.sqrt(np.maximum(squares - mean**2, 0.0))
        noise = 1e-7 * np.sqrt(squares)
    else:
        deviation = np.sqrt(np.mean((X - mean) ** 2, axis=0))
        noise = 1e-14 * np.abs(mean)
    return np.where(deviation > noise, deviation, 1.0)
