"""Fitted: what a fit learned, as one value.

Estimators read data, pose a model, solve it and keep a ``Fitted`` as ``fitted_``; their
other fitted attributes are views of it. Summaries, reports, plots, audits, model files
and exports read the same value. ``to_arrays`` and ``from_arrays`` turn it into arrays
and back, without the statistics of the fit and without its rows.
"""

import json
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields, replace
from math import prod
from typing import Any, NamedTuple, Self

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.data import TaskStatistics, from_plain, name_features, to_plain
from priormtl.design import Design
from priormtl.metrics import Reliability
from priormtl.model import Model
from priormtl.priors import FeaturePrior, TaskPrior
from priormtl.selection import (
    Calibration,
    Grid,
    OutlierCandidate,
    OutlierResult,
    SearchResult,
    Structure,
    StructureSearch,
)
from priormtl.uncertainty import StandardErrors

PLAIN_DTYPE = re.compile(r"[<>|=](b1|[iu][1248]|f[48]|U[0-9]{1,6})")


class Certificate(NamedTuple):
    """How near the optimum a fit is, proved by duality."""

    objective: float
    gap: float  # the optimum is lower by this, at most
    n_iter: int


class Deviations(NamedTuple):
    """Standard deviations that REML estimates, in the units of X and y."""

    task: Array  # (d,) of effects between tasks
    intercept: float | None  # of intercepts; None where they are not tied
    noise: float | None  # None for classes


class Outliers(NamedTuple):
    """Task-specific components."""

    shared_coef: Array  # (m, d) without them
    strength: float


@dataclass(frozen=True, eq=False)
class Search:
    """Scores of all candidates of a search, and the chosen one."""

    result: SearchResult | OutlierResult  # without data
    best: int
    scoring: str  # as scikit-learn names it; "score" for functions
    rule: str  # "best" or "1se"
    structure: Structure  # the chosen one

    @property
    def n_splits(self) -> int:
        return int(self.result.scores.shape[1])


class HeldOut(NamedTuple):
    """Predictions of rows by the models that were not fitted to them."""

    prediction: Array  # (n,) scores; NaN for rows that were never held out
    folds: Index  # (n,) fold in which each row was held out, or −1


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a fit learned. Values that a model does not have are None."""

    estimator: str  # name of its class
    model: Model | None  # what was fitted, at its strengths; None for compared methods
    tasks: tuple[Hashable, ...]
    coef: Array  # (m, d) in the units of X
    intercept: Array  # (m,)
    certificate: Certificate | None = None
    design: Design | None = None
    feature_prior: FeaturePrior | None = None  # resolved, with estimated strengths
    tie_weights: Array | None = None  # (d,)
    intercept_strength: float | None = None
    between: tuple[float, ...] = ()  # coupling of groups of nested tasks
    scale: Array | None = None  # (d,) what features were divided by
    task_weight: Array | None = None  # (m,)
    task_effect: Array | None = None  # (m,)
    task_r2: Array | None = None  # (m,) on training rows
    target_variance: float | None = None
    deviations: Deviations | None = None
    classes: np.ndarray | None = None  # (m, 2)
    outliers: Outliers | None = None
    errors: StandardErrors | None = None
    search: Search | None = None
    calibration: Calibration | None = None
    reliability: Reliability | None = None
    targets_are_columns: bool = False
    library: str | None = None  # of the data frame that was fitted
    data_name: str | None = None  # of the file that was fitted
    # What stays in memory.
    statistics: TaskStatistics | None = None
    held_out: HeldOut | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Tasks and features."""
        return int(self.coef.shape[0]), int(self.coef.shape[1])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of features; x0, x1, … where the data had none."""
        return name_features(self.design, self.shape[1])

    @property
    def shared_coef(self) -> Array:
        """Coefficients (m, d) without task-specific components: what priors act on."""
        return self.coef if self.outliers is None else self.outliers.shared_coef

    @property
    def own_coef(self) -> Array | None:
        """Task-specific components (m, d)."""
        return None if self.outliers is None else self.coef - self.outliers.shared_coef

    @property
    def outlier_tasks(self) -> tuple[Hashable, ...] | None:
        """Tasks with a component of their own; None where they were not looked for."""
        own = self.own_coef
        if own is None:
            return None
        return tuple(self.tasks[i] for i in np.flatnonzero(own.any(axis=1)))

    @property
    def task_prior(self) -> TaskPrior | None:
        """Task prior of the fit, as given or chosen."""
        return None if self.model is None else self.model.task_prior

    @property
    def loss(self) -> str:
        """Loss of the model."""
        return "squared" if self.model is None else self.model.loss

    @property
    def is_classifier(self) -> bool:
        """Whether targets are classes."""
        return self.classes is not None

    @property
    def units(self) -> Array:
        """What features were divided by before the penalty saw them (d,)."""
        return np.ones(self.shape[1]) if self.scale is None else self.scale

    # Arrays.

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Arrays that say all but the statistics and rows of the fit."""
        arrays: dict[str, np.ndarray] = {"coef": self.coef, "intercept": self.intercept}
        plain: dict[str, Any] = {
            "estimator": self.estimator,
            "model": None if self.model is None else model_to_plain(self.model),
            "tasks": to_plain(list(self.tasks)),
            "design": None if self.design is None else self.design.to_plain(),
            "prior": None if self.feature_prior is None else self.feature_prior.to_plain(),
            "between": list(self.between),
        }
        for name in ("intercept_strength", "target_variance", "targets_are_columns"):
            plain[name] = self.__dict__[name]
        for name in ("library", "data_name"):
            plain[name] = self.__dict__[name]
        for name in ARRAYS:
            if self.__dict__[name] is not None:
                arrays[name] = self.__dict__[name]
        for name in PARTS:
            if self.__dict__[name] is not None:
                plain[name] = _put(arrays, name, self.__dict__[name]._asdict())
        if self.classes is not None:
            plain["classes"] = to_plain(self.classes.ravel().tolist())
            plain["class_dtype"] = self.classes.dtype.str
        if self.search is not None:
            plain["search"] = _put_search(arrays, self.search)
        text = json.dumps(plain, ensure_ascii=False).encode()
        return arrays | {"plain": np.frombuffer(text, np.uint8)}
