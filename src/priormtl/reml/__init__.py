"""Ties between tasks estimated from the data, by restricted maximum likelihood."""

from priormtl.reml.ties import Ties, estimate_logistic_ties, estimate_ties

__all__ = ["Ties", "estimate_logistic_ties", "estimate_ties"]
