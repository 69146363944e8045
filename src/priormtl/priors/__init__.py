"""What is known beforehand about features and about tasks."""

from priormtl.priors.features import (
    FeaturePrior,
    as_feature_prior,
    curves_of,
    difference_matrix,
    measure_violations,
)
from priormtl.priors.files import PriorFile, read_prior_file
from priormtl.priors.relations import Grid, Pairs, Part, Ridge, Rows, Targets
from priormtl.priors.statements import Common, Constraint, Near, Signs
from priormtl.priors.tasks import (
    TaskPrior,
    as_task_prior,
    given_prior,
    has_nesting,
    has_order,
    laplacian,
)
