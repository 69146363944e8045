"""Ties between tasks estimated from the data, by restricted maximum likelihood."""

from priormtl.reml.ties import (
    COMMON,
    Families,
    Ties,
    estimate_logistic_ties,
    estimate_ties,
)

__all__ = ["COMMON", "Families", "Ties", "estimate_logistic_ties", "estimate_ties"]
