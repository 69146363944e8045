"""ModelSummary: what a fitted model learned, as data that can be shown anywhere."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from priormtl._arrays import Array
from priormtl.data import build_frame, find_frame_library
from priormtl.estimators.coefficients import plain_labels
from priormtl.estimators.settings import check_choice
from priormtl.estimators.summary_tables import summary_tables
from priormtl.tables import Table, Tabled

__all__ = [
    "CertificateSummary",
    "FeaturePriorSummary",
    "FeatureSummary",
    "ModelSummary",
    "SearchSummary",
    "Strength",
    "TaskSummary",
]


@dataclass(frozen=True)
class Strength:
    """One of lam, theta and epsilon."""

    name: str
    value: float
    candidates: int  # how many were tried; 1: it was set by hand


@dataclass(frozen=True)
class CertificateSummary:
    """How near the optimum a fit is, proved by duality."""

    objective: float
    gap: float  # the optimum is lower by this, at most
    relative: float  # gap over objective
    n_iter: int


@dataclass(frozen=True)
class FeatureSummary:
    """A selected feature: its coefficient over the tasks, in the units of X."""

    name: str
    mean: float
    least: float
    most: float
    norm: float  # over tasks, of coefficients as they were penalised
    scale: float  # what the feature was divided by


@dataclass(frozen=True)
class TaskSummary:
    """One task."""

    task: Hashable
    weight: float  # rows: the sum of their weights
    r2: float | None  # on the training rows; None for classes and constant targets
    intercept: float
    norm: float  # of its coefficients as they were penalised
    is_outlier: bool


@dataclass(frozen=True)
class FeaturePriorSummary:
    """How far the coefficients are from what was known of the features."""

    n_relations: int
    violation: float  # ‖D P‖²
    cost: float  # theta/2 ‖D P‖²
    share: float  # of the objective
    words: str  # number and kind of the relations


@dataclass(frozen=True, eq=False)
class SearchSummary:
    """Cross-validated scores of all candidates on all splits."""

    metric: str
    is_error: bool  # smaller is better; then scores are errors
    strengths: Mapping[str, Array]  # of each candidate
    scores: Array  # (candidates, splits); NaN where a score is not defined
    best: int  # the chosen candidate

    @property
    def means(self) -> Array:
        """Mean of each candidate over the splits in which its score is defined."""
        known = ~np.isnan(self.scores)
        total = np.where(known, self.scores, 0.0).sum(axis=1)
        number = known.sum(axis=1)
        return np.where(number > 0, total / np.maximum(number, 1), np.nan)

    @property
    def standard_error(self) -> float:
        """Standard error of the chosen candidate's mean; NaN below two splits."""
        known = self.scores[self.best][~np.isnan(self.scores[self.best])]
        if len(known) < 2:
            return float("nan")
        return float(known.std(ddof=1) / np.sqrt(len(known)))


FRAMES = {"features": FeatureSummary, "tasks": TaskSummary, "strengths": Strength}


@dataclass(frozen=True, repr=False)
class ModelSummary(Tabled):
    """What a fitted model learned, in full; only the layouts cut long tables.

    Reports, figures and the command line show what is read here. For linear models
    other than this package's estimators, what they do not have is None.

    ``str`` is plain text, notebooks show HTML; see ``to_latex``, ``to_markdown``,
    ``to_html`` and ``to_frame`` for others.

    Examples
    --------
    >>> from priormtl import MultiTaskRegressor
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> summary = MultiTaskRegressor(lam=20.0).fit(X, y, task=task).summary()
    >>> summary.n_selected, summary.certificate.relative < 1e-5
    (3, True)
    """

    model: str
    loss: str
    penalty: str | None
    intercepts: str | None  # free, none, tied
    standardized: bool
    weight: float  # rows: the sum of their weights
    n_tasks: int
    n_features: int
    n_selected: int
    named: bool  # False: features without names are called x0, x1, …
    strengths: tuple[Strength, ...]
    chosen_by: str
    cv_score: float | None
    scoring: str | None
    certificate: CertificateSummary | None
    features: tuple[FeatureSummary, ...]  # selected ones, largest norm first
    tasks: tuple[TaskSummary, ...]
    outliers: tuple[Hashable, ...] | None  # None: not asked for
    feature_prior: FeaturePriorSummary | None
    task_prior: str | None
    outlier_strength: float | None
    feature_names: tuple[str, ...]  # of all features
    # Of all tasks together; None for classes, and without the statistics of the fit.
    target_variance: float | None = field(compare=False)
    coef: Array = field(compare=False)  # (tasks, features), in the units of X
    own_coef: Array | None = field(compare=False)  # task-specific part of it
    search: SearchSummary | None = field(compare=False)
    library: Any = field(default=None, compare=False)  # of frames

    def _tables(self) -> list[Table]:
        return summary_tables(self)

    def to_frame(self, table: str = "features", library: Any = None) -> Any:
        """One table in full, as a data frame of the user's library.

        Parameters
        ----------
        table : {"features", "tasks", "strengths"}
            Selected features, tasks, or strengths with the number of candidates.
        library : str, optional
            "pandas", "polars" or "pyarrow"; else as the data came, or the first of
            them that is installed.
        """
        rows = getattr(self, check_choice("table", table, tuple(FRAMES)))
        names = [field.name for field in fields(FRAMES[table])]
        columns = {name: [getattr(row, name) for row in rows] for name in names}
        if "task" in columns:
            columns["task"] = plain_labels(columns["task"])
        chosen = library or self.library or find_frame_library(None)
        return build_frame(columns, chosen)
