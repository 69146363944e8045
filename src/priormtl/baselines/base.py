"""Baseline: what the compared methods share, from a table to a published model.

A method is three steps. ``_bind`` makes of the data what no strength changes (moments,
Gram matrices, kernels). ``_follow`` fits along one strength, each fit starting where
the last ended if that is safe. ``_suggest`` names settings worth trying. One fit and a
search over folds are both made of them, so that no method needs a loop of its own.
"""

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from priormtl._arrays import Array, Matrix
from priormtl.baselines.models import LinearModel, TaskModel, to_user_units
from priormtl.data import TaskData, TaskStatistics, condense, pooled_scale
from priormtl.estimators import MultiTaskEstimator, check_choice, task_array

__all__ = ["Baseline", "Outcome", "Prepared", "Settings", "crossed"]

Settings = Mapping[str, Any]

TASK_WEIGHTS = ("sum", "mean")


class Outcome(NamedTuple):
    """What one fit has come to, on prepared data."""

    model: TaskModel
    objective: float
    n_iter: int
    learned: Mapping[str, Any]  # further attributes, by name: dual_gap_ and the like
    shortfall: str | None = None  # why it is not as exact as was asked; None: it is
    parts: Mapping[str, Array] = MappingProxyType({})  # further coefficients (m, d)


class Prepared(NamedTuple):
    """Data as the methods see them."""

    data: TaskData  # features scaled, tasks weighed
    scale: Array  # (d,) what features were divided by


class Baseline(MultiTaskEstimator):
    """A compared method; subclasses hold its settings and its three steps."""

    followed: ClassVar[str]  # the setting along which fits follow each other
    loss: str
    task_weight: str
    standardize: bool
    objective_: float
    n_iter_: int

    @abstractmethod
    def _bind(self, data: TaskData) -> Any:
        """What is made of the data once, for all settings of ``_suggest``."""

    @abstractmethod
    def _follow(self, bound: Any, strengths: Sequence[float]) -> Iterable[Outcome]:
        """One fit per value of the followed setting, in their order."""

    @abstractmethod
    def _suggest(self, bound: Any, n: int) -> list[Settings]:
        """At most ``n`` settings worth trying, the most regular ones first."""

    def _fit_tasks(self, data: TaskData | TaskStatistics) -> None:
        if not isinstance(data, TaskData):
            raise TypeError(f"{type(self).__name__} needs rows, got statistics.")
        prepared = self._prepare(data)
        self._fit_bound(self._bind(prepared.data), prepared)

    def _fit_bound(self, bound: Any, prepared: Prepared) -> None:
        """Fit with the settings as they are, and publish."""
        (outcome,) = self._follow(bound, [getattr(self, self.followed)])
        if outcome.shortfall is not None:
            message = f"not converged, {outcome.shortfall}"
            warnings.warn(message, ConvergenceWarning, stacklevel=4)
        self._publish(outcome, prepared)

    def _prepare(self, data: TaskData) -> Prepared:
        """Divide features and weigh tasks, as the settings say."""
        scale = np.ones(data.shape[0])
        if self.standardize:
            scale = pooled_scale(condense(data))
            data = data.rescale(scale)
        if check_choice("task_weight", self.task_weight, TASK_WEIGHTS) == "mean":
            share = data.weight / data.spread(data.task_weight)
            data = replace(data, weight=share)
        return Prepared(data, scale)

    def _publish(self, outcome: Outcome, prepared: Prepared) -> None:
        model = to_user_units(outcome.model, prepared.scale)
        if isinstance(model, LinearModel):
            self.coef_, self.intercept_ = model.coef, model.intercept
        self._model = model
        self.tasks_ = task_array(prepared.data.tasks)
        self.objective_ = outcome.objective
        self.n_iter_ = outcome.n_iter
        for name, value in outcome.learned.items():
            setattr(self, name, value)
        for name, part in outcome.parts.items():
            setattr(self, name, part / prepared.scale)

    def _task_scores(self, X: Matrix, i: int) -> Array:
        return self._model.scores(X, i)


def crossed(
    outer: Iterable[Settings], name: str, strengths: Iterable[float]
) -> Iterator[Settings]:
    """Every outer setting with every strength, the strengths changing fastest."""
    values = [float(value) for value in strengths]
    return ({**part, name: value} for part in outer for value in values)
