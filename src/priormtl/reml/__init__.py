"""Ties between tasks estimated from the data, by restricted maximum likelihood."""

from priormtl.reml.drift import Drift, DriftingRows, Levels
from priormtl.reml.laplace import estimate_family_ties, join_classes
from priormtl.reml.rows import estimate_from_rows, find_drift, suits_rows
from priormtl.reml.sums import (
    Estimate,
    SumModel,
    Survey,
    estimate_on_sums,
    sample,
    survey,
    turned,
    whitened,
)
from priormtl.reml.ties import (
    COMMON,
    SAMPLED_TASKS,
    TIGHTEST,
    CrossedEffects,
    Families,
    Precision,
    Ties,
    estimate_ties,
)

__all__ = [
    "COMMON",
    "SAMPLED_TASKS",
    "TIGHTEST",
    "CrossedEffects",
    "Drift",
    "DriftingRows",
    "Estimate",
    "Families",
    "Levels",
    "Precision",
    "SumModel",
    "Survey",
    "Ties",
    "estimate_family_ties",
    "estimate_from_rows",
    "estimate_on_sums",
    "estimate_ties",
    "find_drift",
    "join_classes",
    "sample",
    "suits_rows",
    "survey",
    "turned",
    "whitened",
]
