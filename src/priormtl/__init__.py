"""Multi-task learning with prior information, certified and native to scikit-learn."""

from priormtl import datasets, metrics
from priormtl.data import (
    TaskStatistics,
    one_vs_one,
    one_vs_rest,
    stack_tasks,
    summarize,
)
from priormtl.estimators import (
    CopyFeatures,
    MultiTaskClassifier,
    MultiTaskClassifierCV,
    MultiTaskRegressor,
    MultiTaskRegressorCV,
    load,
    regularization_path,
    save,
)
from priormtl.priors import FeaturePrior, TaskPrior

__version__ = "0.1.0"

__all__ = [
    "CopyFeatures",
    "FeaturePrior",
    "MultiTaskClassifier",
    "MultiTaskClassifierCV",
    "MultiTaskRegressor",
    "MultiTaskRegressorCV",
    "TaskPrior",
    "TaskStatistics",
    "__version__",
    "datasets",
    "load",
    "metrics",
    "one_vs_one",
    "one_vs_rest",
    "regularization_path",
    "save",
    "stack_tasks",
    "summarize",
]
