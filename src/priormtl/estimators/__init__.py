"""Estimators that follow the conventions of scikit-learn."""

from priormtl.estimators.base import MultiTaskEstimator, unchanged_on_error
from priormtl.estimators.classifier import (
    ClassificationTasks,
    MultiTaskClassifier,
    TaskScores,
    separate_tasks,
)
from priormtl.estimators.cross_validated import (
    MultiTaskClassifierCV,
    MultiTaskRegressorCV,
)
from priormtl.estimators.effects import ColumnEffect, read_effect
from priormtl.estimators.labels import code_classes, refuse_lone_classes
from priormtl.estimators.linear import (
    LinearMultiTask,
    own_strength,
    warn_unless_converged,
)
from priormtl.estimators.paths import (
    FitTrace,
    RegularizationPath,
    regularization_path,
    trace_fit,
)
from priormtl.estimators.progress import hide_progress, show_progress
from priormtl.estimators.regressor import MultiTaskRegressor, RegressionTasks
from priormtl.estimators.sources import fit_rows, read_source, read_source_rows
from priormtl.estimators.splitting import (
    DEFAULT_FOLDS,
    make_splits,
    with_task_column,
)
from priormtl.estimators.stacked import StackedClassifier, StackedRegressor
from priormtl.estimators.statements import read_statements
from priormtl.estimators.summary import (
    FeatureSummary,
    ModelSummary,
    SearchSummary,
    rank_effects,
    read_fitted,
    summarize_fitted,
    summarize_model,
)
from priormtl.estimators.tabular import (
    TableFeatures,
    TabularPipeline,
    linear_part,
    tabular_model,
)
from priormtl.estimators.task_folds import TaskGroupKFold, TaskKFold, TaskTimeSplit
from priormtl.estimators.transformers import CopyFeatures, SplineFeatures
