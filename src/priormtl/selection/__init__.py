"""How strong: strengths and ties chosen from the data, on statistics of folds."""

from priormtl.selection.ties import Ties, estimate_logistic_ties, estimate_ties

__all__ = ["Ties", "estimate_logistic_ties", "estimate_ties"]
