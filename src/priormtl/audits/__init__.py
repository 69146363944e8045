"""Whether the data agree with the prior."""

from priormtl.audits.audit import audit_prior, describe_rows
from priormtl.audits.holdout import PRIORS, benefit_of_search
from priormtl.audits.results import PriorAudit, PriorBenefit, RelationAudit

__all__ = [
    "PRIORS",
    "PriorAudit",
    "PriorBenefit",
    "RelationAudit",
    "audit_prior",
    "benefit_of_search",
    "describe_rows",
]
