"""Multi-task learning with prior information, certified and native to scikit-learn."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from priormtl import baselines, datasets, metrics
    from priormtl.audits import audit_prior
    from priormtl.baselines import compare
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
        SplineFeatures,
        TaskGroupKFold,
        TaskKFold,
        TaskTimeSplit,
        regularization_path,
        tabular_model,
    )
    from priormtl.priors import FeaturePrior, TaskPrior
    from priormtl.reports import report
    from priormtl.storage import load, save

__version__ = "0.2.0"

__all__ = [
    "CopyFeatures",
    "FeaturePrior",
    "MultiTaskClassifier",
    "MultiTaskClassifierCV",
    "MultiTaskRegressor",
    "MultiTaskRegressorCV",
    "SplineFeatures",
    "TaskGroupKFold",
    "TaskKFold",
    "TaskPrior",
    "TaskStatistics",
    "TaskTimeSplit",
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
    "tabular_model",
]

# Packages are loaded at the first access, so that commands start quickly.
_ROOMS = [
    "audits",
    "baselines",
    "datasets",
    "engines",
    "export",
    "metrics",
    "plotting",
    "reports",
]
_FACES = {
    "audits": "audit_prior",
    "baselines": "compare",
    "data": "TaskStatistics one_vs_one one_vs_rest stack_tasks summarize",
    "estimators": "CopyFeatures MultiTaskClassifier MultiTaskClassifierCV "
    "MultiTaskRegressor MultiTaskRegressorCV SplineFeatures TaskGroupKFold "
    "TaskKFold TaskTimeSplit regularization_path tabular_model",
    "priors": "FeaturePrior TaskPrior",
    "reports": "report",
    "storage": "load save",
}
_HOMES = {name: room for room, names in _FACES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Load what is asked for; names that were found once are at hand."""
    if name in _ROOMS:
        return import_module(f"priormtl.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'priormtl' has no attribute {name!r}")
    value = getattr(import_module(f"priormtl.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
