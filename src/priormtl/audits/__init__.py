"""Whether the data agree with the prior."""

from priormtl.audits.audit import audit_prior, describe_rows
from priormtl.audits.refits import (
    CoefficientBand,
    ResampledCoefficients,
    resample_coefficients,
)
from priormtl.audits.results import PriorAudit, PriorBenefit, RelationAudit, TaskBenefit

__all__ = [
    "CoefficientBand",
    "PriorAudit",
    "PriorBenefit",
    "RelationAudit",
    "ResampledCoefficients",
    "TaskBenefit",
    "audit_prior",
    "describe_rows",
    "resample_coefficients",
]
