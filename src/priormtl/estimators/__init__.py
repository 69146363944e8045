"""How a user calls it: estimators by scikit-learn's conventions."""

from priormtl.estimators.base import MultiTaskEstimator
from priormtl.estimators.classifier import MultiTaskClassifier
from priormtl.estimators.copies import CopyFeatures
from priormtl.estimators.cross_validated import (
    MultiTaskClassifierCV,
    MultiTaskRegressorCV,
)
from priormtl.estimators.paths import RegularizationPath, regularization_path
from priormtl.estimators.regressor import MultiTaskRegressor
from priormtl.estimators.storage import load, save

__all__ = [
    "CopyFeatures",
    "MultiTaskClassifier",
    "MultiTaskClassifierCV",
    "MultiTaskEstimator",
    "MultiTaskRegressor",
    "MultiTaskRegressorCV",
    "RegularizationPath",
    "load",
    "regularization_path",
    "save",
]
