"""Whether the data agree with what was said beforehand."""

from priormtl.audits.audit import audit_prior
from priormtl.audits.resampling import (
    CoefficientBand,
    ResampledCoefficients,
    resample_coefficients,
)
from priormtl.audits.results import (
    PriorAudit,
    PriorBenefit,
    RelationAudit,
    TaskBenefit,
)
from priormtl.audits.statements import describe_rows

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
