"""What is known beforehand: relations between features and ties between tasks."""

from priormtl.priors.features import (
    FeaturePrior,
    as_feature_prior,
    difference_matrix,
    measure_violations,
)
from priormtl.priors.files import PriorFile, read_prior_file
from priormtl.priors.tasks import (
    Neighbourhood,
    TaskPrior,
    as_task_prior,
    laplacian,
    name_mean,
)
