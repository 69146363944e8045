"""What is known beforehand: relations between features and ties between tasks."""

from priormtl.priors.features import (
    FeaturePrior,
    Ridge,
    as_feature_prior,
    category_column,
    difference_matrix,
    measure_violations,
)
from priormtl.priors.files import PriorFile, read_prior_file
from priormtl.priors.tasks import (
    Neighbourhood,
    TaskPrior,
    as_task_prior,
    given_prior,
    has_nesting,
    has_order,
    laplacian,
    task_prior_of,
)
