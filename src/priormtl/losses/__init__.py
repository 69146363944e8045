"""Losses bound to data, with intercepts minimised out."""

from priormtl.losses.base import DataFit, Evaluation, Loss, NormalForm, SampleForm
from priormtl.losses.intercepts import (
    FreeIntercepts,
    Intercepts,
    NoIntercepts,
    TiedIntercepts,
)
from priormtl.losses.logistic import Logistic, LogisticEvaluation, LogisticFit
from priormtl.losses.outliers import OutlierEvaluation, OutlierFit
from priormtl.losses.squared import Squared, SquaredFit
from priormtl.losses.sums import SumFit
