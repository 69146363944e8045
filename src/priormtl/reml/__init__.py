"""Ties between tasks estimated from the data, by restricted maximum likelihood."""

from priormtl.reml.logistic import estimate_logistic_ties
from priormtl.reml.rows import estimate_from_rows, suits_rows
from priormtl.reml.ties import (
    COMMON,
    CrossedEffects,
    Families,
    Precision,
    Ties,
    estimate_ties,
)

__all__ = [
    "COMMON",
    "CrossedEffects",
    "Families",
    "Precision",
    "Ties",
    "estimate_from_rows",
    "estimate_logistic_ties",
    "estimate_ties",
    "suits_rows",
]
