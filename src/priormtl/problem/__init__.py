"""What is minimised: fit + prior + lam · penalty, its certificate and constants."""

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
    "Point",
    "Problem",
    "bound_constants",
    "exact_constants",
    "largest_curvature",
    "paper_constants",
]
