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
    calibration = self.fitted_.calibration
    if calibration is None:
        raise ValueError(
            "predict_interval needs residuals of held-out rows: call "
            "calibrate(X, y, task=...) once after fit, or use MultiTaskRegressorCV."
        )
    if calibration.kind == "normal":
        warnings.warn(
            "Intervals assume normal errors because no held-out residuals are "
            "available: the model was fitted to statistics, not to rows.",
            UserWarning,
            stacklevel=2,
        )
    family = self.fitted_.row_loss
    intervals = spread_of(self, X, task).interval(calibration, coverage, family)
    columns = self._targets_are_columns and task is None
    return intervals.reshape(-1, len(self.tasks_), 2) if columns else intervals


def spread_of(model: "LinearMultiTask", X: object, task: object) -> Spread:
    """Predictions of rows, with the deviations of fold models."""
    given, time = X, model._read_times(X)
    X, labels = model._split_task(X, task)
    X, offset = model._split_offset(X)
    matrix, m = model._read_features(X, reset=False), len(model.tasks_)
    crossed = model._read_levels(X)
    final, folds = model.fitted_, model.fitted_.calibration
    assert folds is not None
    effects = np.zeros(0) if final.crossed is None else final.crossed.effects
    added = folds.effects
    if added.shape != (len(folds.coef), len(effects)):  # none were kept
        added = np.zeros((len(folds.coef), len(effects)))
    whole = FoldModels(
        np.concatenate([final.coef[np.newaxis], folds.coef]),
        np.concatenate([final.intercept[np.newaxis], folds.intercept]),
        np.concatenate([effects[np.newaxis], added]),
    )
    if labels is None and model._targets_are_columns:
        scores, n = score_folds(matrix, None, whole)[0], matrix.shape[0]
        if offset is not None:
            scores[0] += np.repeat(offset, m)
        codes = np.tile(np.arange(m), n)
        return Spread(scores[0], scores[1:], codes, np.zeros(n * m, bool))
    rows = model._place_rows(matrix, labels)
    scores = np.empty((len(whole.coef), matrix.shape[0]))
    unseen = rows.codes >= m
    known = np.flatnonzero(~unseen)
    if len(known) < len(unseen):
        scores[0] = model._score_placed(matrix, rows)
        if crossed is not None:
            scores[0] += crossed.forward(effects)
        scores[1:] = 0.0
        part = matrix[known]
        crossed = None if crossed is None else crossed.take(known)
    else:
        part = matrix
    if len(known):
        scores[:, known] = score_folds(part, rows.codes[known], whole, crossed)[0]
    scores[0] += model._drift_levels(given, rows)
    scores[0] = model._add_history(scores[0], given, rows)
    if offset is not None:
        scores[0] += offset
    codes, horizon = rows.known(m), np.zeros(len(unseen))
    if time is not None and final.span is not None:
        horizon = np.where(unseen, 0.0, time - final.span.ends[codes])
    return Spread(scores[0], scores[1:], codes, unseen, horizon)
