"""Ties between tasks estimated from the data, by restricted maximum likelihood."""

from priormtl.reml.ties import (
    COMMON,
    MOST_NUMBERS,
    Families,
    Ties,
    estimate_logistic_ties,
    estimate_ties,
)

__all__ = [
    "COMMON",
    "MOST_NUMBERS",
    "Families",
    "Ties",
    "estimate_logistic_ties",
    "estimate_ties",
]
