"""What is known beforehand: relations between features and ties between tasks."""

from typing import Any

import numpy as np
from scipy.sparse import issparse

from priormtl.data import as_frame
from priormtl.exceptions import suggest
from priormtl.priors.features import FeaturePrior, difference_matrix
from priormtl.priors.files import PriorFile, read_prior_file
from priormtl.priors.neighbours import Neighbourhood
from priormtl.priors.quadratic import QuadraticPrior
from priormtl.priors.tasks import TaskPrior, laplacian
from priormtl.priors.violations import measure_violations
from priormtl.priors.words import name_mean

__all__ = [
    "FeaturePrior",
    "Neighbourhood",
    "PriorFile",
    "QuadraticPrior",
    "TaskPrior",
    "as_feature_prior",
    "as_task_prior",
    "difference_matrix",
    "laplacian",
    "measure_violations",
    "name_mean",
    "read_prior_file",
]


TASK_WORDS = ("chain", "mean")


def as_feature_prior(prior: Any) -> FeaturePrior | None:
    """Take a FeaturePrior, a bare matrix or data frame D, or None."""
    if prior is None or isinstance(prior, FeaturePrior):
        return prior
    is_matrix = issparse(prior) or isinstance(prior, np.ndarray | list)
    if is_matrix or as_frame(prior) is not None:
        return FeaturePrior.from_matrix(prior)
    raise TypeError(
        "feature_prior must be a FeaturePrior, a matrix D or None: got "
        f"{type(prior).__name__}."
    )


def as_task_prior(prior: Any) -> TaskPrior | None:
    """Take a TaskPrior, "chain", "mean", or None."""
    if prior is None or isinstance(prior, TaskPrior):
        return prior
    if isinstance(prior, str) and prior in TASK_WORDS:
        return TaskPrior.chain() if prior == "chain" else TaskPrior.mean()
    near = suggest([prior], TASK_WORDS) if isinstance(prior, str) else ""
    raise ValueError(
        f'task_prior must be a TaskPrior, "chain", "mean" or None: got {prior!r}.{near}'
    )
