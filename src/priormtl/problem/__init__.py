"""The objective fit + prior + lam · penalty, its certificate and its curvature."""

from priormtl.losses import NormalForm, SampleForm
from priormtl.problem.curvature import (
    Constants,
    Curvature,
    bound_constants,
    exact_constants,
    largest_curvature,
    paper_constants,
)
from priormtl.problem.newton_system import solve_along
from priormtl.problem.objective import Certificate, Point, Problem
from priormtl.problem.quadratic import QuadraticPrior, no_relations
