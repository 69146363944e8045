"""PriorAudit: how well data and prior agree, as frozen values."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from priormtl._arrays import Array
from priormtl.audits.layouts import (
    as_html,
    as_latex,
    as_markdown,
    as_text,
    audit_tables,
)
from priormtl.data import build_frame, find_frame_library
from priormtl.tables import Table, Tabled

__all__ = ["PriorAudit", "PriorBenefit", "RelationAudit", "TaskBenefit"]


@dataclass(frozen=True)
class RelationAudit:
    """One relation of the prior, and what the data say about it.

    ``kind`` is "feature" for rows of D, "task" for ties between tasks; ``sign`` is
    "similar", "opposite" or "combination" (any other row of D).
    """

    kind: str
    relation: str  # in words
    first: str | None  # None for combinations
    second: str | None
    sign: str
    weight: float
    violation_before: float  # 0 … 1, without this kind of prior
    violation_after: float  # 0 … 1, in the model
    share: float  # of the kind's penalty
    sensitivity: float  # d objective / d log weight
    statistic: float  # squared disagreement over its expectation; NaN: unknown
    p_value: float  # of the statistic, if the relation holds; NaN: unknown
    verdict: str  # "agrees", "disagrees" or "cannot be judged"


@dataclass(frozen=True)
class TaskBenefit:
    """What the prior did for the held-out rows of one task."""

    task: str
    with_prior: float  # mean error over splits
    without_prior: float
    change: float  # relative; below zero: the prior helped
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class PriorBenefit:
    """Errors on held-out rows with the prior and without it, split by split."""

    metric: str  # what the errors are; smaller is better
    with_prior: Array  # (k,)
    without_prior: Array  # (k,)
    lams_with: Array  # (k,) strength of the row penalty in each split
    lams_without: Array
    change: float  # relative; below zero: the prior helped
    low: float
    high: float
    level: float  # of the interval
    p_value: float
    verdict: str  # "helped", "no difference" or "harmed"
    sentence: str  # the verdict in words
    method: str  # how it was found
    by_task: tuple[TaskBenefit, ...]  # empty where only scores of all tasks are known

    def __str__(self) -> str:
        """Say it."""
        return self.sentence


@dataclass(frozen=True, eq=False, repr=False)
class PriorAudit(Tabled):
    """Whether the data agree with what was said beforehand; see ``audit_prior``.

    Relations between features come first, then ties between tasks, each kind with the
    strongest disagreement at the top.
    """

    relations: tuple[RelationAudit, ...]
    helped: PriorBenefit | None  # both at the model's lam
    helped_tuned: PriorBenefit | None  # each with the lam that is best for it
    reason: str | None  # why ``helped`` is None
    lam: float
    theta: float
    epsilon: float
    dual_gap_with: float  # certificates of the model, and of its twin without prior
    dual_gap_without: float
    library: Any = None  # of frames, as the data came

    @property
    def disagreeing(self) -> tuple[RelationAudit, ...]:
        """Relations that the data speak against."""
        return tuple(r for r in self.relations if r.verdict == "disagrees")

    def to_frame(self, library: Any = None) -> Any:
        """One row per relation, as a frame of the library that the data came in.

        Parameters
        ----------
        library : str, optional
            "pandas", "polars" or "pyarrow"; else as the data came, or the first of
            them that is installed.
        """
        names = [field.name for field in fields(RelationAudit)]
        columns = {name: [getattr(r, name) for r in self.relations] for name in names}
        chosen = library or self.library or find_frame_library(None)
        return build_frame(columns, chosen)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; None in place of what is not a finite number."""
        values = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in ("relations", "library", "helped", "helped_tuned")
        }
        values["relations"] = [asdict(relation) for relation in self.relations]
        for name in ("helped", "helped_tuned"):
            benefit = getattr(self, name)
            values[name] = None if benefit is None else asdict(benefit)
        return {name: _plain(value) for name, value in values.items()}

    def to_json(self) -> str:
        """All values as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    def _tables(self) -> list[Table]:
        return audit_tables(self)

    def to_text(self) -> str:
        """Sentences, then plain tables, for terminals."""
        return as_text(self, super().to_text())

    def to_html(self) -> str:
        """Sentences, then tables, for any page."""
        return as_html(self, super().to_html())

    def to_latex(self) -> str:
        r"""Sentences, then floats; see ``ModelSummary.to_latex`` for what they need."""
        return as_latex(self, super().to_latex())

    def to_markdown(self) -> str:
        """The audit as a page of Markdown."""
        return as_markdown(self, super().to_markdown())

    def _repr_html_(self) -> str:
        return as_html(self, super()._repr_html_())

    json, markdown = to_json, to_markdown  # older names


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
