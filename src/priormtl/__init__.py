"""Multi-task learning with prior information, certified and native to scikit-learn."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from priormtl import baselines
    from priormtl.audits import audit_prior
    from priormtl.baselines import compare
    from priormtl.reports import report

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
    "audit_prior",
    "baselines",
    "compare",
    "datasets",
    "load",
    "metrics",
    "one_vs_one",
    "one_vs_rest",
    "regularization_path",
    "report",
    "save",
    "stack_tasks",
    "summarize",
]


def __getattr__(name: str) -> Any:
    """Audits, other methods, engines and figures are loaded when first asked for."""
    if name in {"baselines", "engines", "plotting"}:
        return import_module(f"priormtl.{name}")
    if name == "audit_prior":
        return import_module("priormtl.audits").audit_prior
    if name == "compare":
        return import_module("priormtl.baselines").compare
    if name == "report":
        return import_module("priormtl.reports").report
    raise AttributeError(f"module 'priormtl' has no attribute {name!r}")
