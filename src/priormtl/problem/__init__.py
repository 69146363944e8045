"""What is minimised: fit + prior + lam · penalty, its certificate and constants."""

from priormtl.losses import NormalForm, SampleForm
from priormtl.problem.blocks import BlockQuadratic
from priormtl.problem.certificate import Certificate
from priormtl.problem.curvature import (
    Constants,
    Curvature,
    bound_constants,
    exact_constants,
    largest_curvature,
    paper_constants,
)
from priormtl.problem.objective import Point, Problem

__all__ = [
    "BlockQuadratic",
    "Certificate",
    "Constants",
    "Curvature",
    "NormalForm",
    "Point",
    "Problem",
    "SampleForm",
    "bound_constants",
    "exact_constants",
    "largest_curvature",
    "paper_constants",
]
