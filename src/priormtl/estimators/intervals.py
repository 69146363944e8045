"""predict_interval: prediction intervals of regressors, from held-out residuals.

See ``priormtl.selection.held_out``.
"""

import warnings
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from priormtl._arrays import Array
from priormtl.selection import FoldModels, Spread, check_coverage, score_folds

if TYPE_CHECKING:
    from priormtl.estimators.linear import LinearMultiTask

__all__ = ["predict_interval", "spread_of"]


def predict_interval(
    self: "LinearMultiTask", X: object, *, task: object = None, coverage: float = 0.9
) -> Array:
    """Predict intervals that contain a given share of new targets.

    Parameters
    ----------
    X : (n, d) array, sparse matrix or data frame
        Features, as in ``predict``.
    task : (n,) labels, or a single label, optional
        Task of each row, as in ``predict``.
    coverage : float, default=0.9
        Share of new rows whose target lies within its interval.

    Returns
    -------
    (n, 2) array
        Lower and upper end of the interval of each row. If the model was fitted on
        (n, m) targets and ``task`` is None, the shape is (n, m, 2).

    Notes
    -----
    Intervals are made of residuals of held-out rows (CV+), with a noise scale for
    each task; tasks that were not seen get wider intervals. They hold on average
    over rows like those of the fit or, with ``time``, over later rows: then they widen
    with the time since the last row of the task. After a fit to statistics there are
    no rows: then intervals are normal, which a warning says; see
    ``calibration_.kind``. Ends of intervals of counts are whole numbers, and both
    belong to the interval.
    """
    coverage = check_coverage(coverage)
    check_is_fitted(self)
    found, calibration = spread_of(self, X, task), self.fitted_.calibration
    assert calibration is not None
    if calibration.kind == "normal":
        warnings.warn(
            "Intervals assume normal errors because no held-out residuals are "
            "available: the model was fitted to statistics, not to rows.",
            UserWarning,
            stacklevel=2,
        )
    family = self.fitted_.row_loss
    intervals = found.interval(calibration, coverage, family)
    columns = self._targets_are_columns and task is None
    return intervals.reshape(-1, len(self.tasks_), 2) if columns else intervals


def spread_of(model: "LinearMultiTask", X: object, task: object) -> Spread:
    """Predictions of rows, with the deviations of fold models."""
    fitted = model.fitted_
    folds, m = fitted.calibration, len(fitted.tasks)
    if folds is None:
        raise ValueError(
            "predict_interval needs residuals of held-out rows: call "
            "calibrate(X, y, task=...) once after fit, or use MultiTaskRegressorCV "
            "with rows enough to hold some of them out."
        )
    rows = model._read_rows(X, task)
    models = FoldModels(folds.coef, folds.intercept, folds.effects)
    scores, tasks = model._predict_rows(rows)
    if tasks is None:
        codes = np.tile(np.arange(m), len(scores))
        deviations = score_folds(rows.X, None, models)[0]
        return Spread(scores.ravel(), deviations, codes, np.zeros(len(codes), bool))
    matrix, crossed, codes = rows.X, rows.crossed, tasks.known(m)
    unseen = tasks.codes >= m
    known = np.flatnonzero(~unseen)
    if len(known) < len(codes):
        matrix = matrix[known]
        crossed = None if crossed is None else crossed.take(known)
    deviations = np.zeros((len(folds.coef), len(codes)))
    if len(known):
        deviations[:, known] = score_folds(matrix, codes[known], models, crossed)[0]
    horizon = np.zeros(len(codes))
    if rows.time is not None and fitted.span is not None:
        horizon = np.where(unseen, 0.0, rows.time - fitted.span.ends[codes])
    return Spread(scores, deviations, codes, unseen, horizon)
