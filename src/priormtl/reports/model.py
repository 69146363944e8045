"""The fitted model as a report sees it: its summary, and its scores task by task.

What was learned is read by :func:`priormtl.estimators.summarize_model` alone. Here it
gets labels that any file can hold and the standard deviations of the features, which
make coefficients comparable: a feature's size is ``‖p_j‖ · sd_j``. Scores come from
given rows, or from the statistics that the model keeps of its training rows.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from scipy.sparse import issparse
from scipy.special import log_softmax
from sklearn.base import BaseEstimator

from priormtl._arrays import Array, Index, Matrix
from priormtl._lazy import cached_property
from priormtl.data import place_labels, pooled_scale
from priormtl.design import Curve
from priormtl.estimators import (
    ColumnEffect,
    LinearMultiTask,
    ModelSummary,
    TabularPipeline,
    code_classes,
    linear_part,
    read_effect,
    read_fitted,
    summarize_model,
)
from priormtl.fitted import Fitted
from priormtl.metrics import Reliability, task_aucs
from priormtl.priors import curves_of
from priormtl.reports.content import spell_label
from priormtl.selection import validation_errors

GIVEN_ROWS = "the given rows"
TRAINING_ROWS = "the training rows"


@dataclass(frozen=True, eq=False)
class FittedModel:
    """Summary of a model, labels as text, and deviations of its features if known."""

    model: BaseEstimator  # to predict
    learned: Fitted
    summary: ModelSummary
    features: tuple[str, ...]
    tasks: tuple[str, ...]
    scale: Array | None  # (d,) standard deviations
    pipeline: TabularPipeline | None = (
        None  # of tabular_model, whose linear part the model is
    )

    @classmethod
    def read(cls, model: object, X: object = None) -> Self:
        """Read a fitted linear model; rows of X may give standard deviations."""
        if isinstance(model, TabularPipeline):
            known = cls.read(linear_part(model))
            learned = model.fitted_.by_class()
            return replace(known, learned=learned, pipeline=model)
        learned = read_fitted(model).by_class()
        summary = summarize_model(model)
        if isinstance(model, LinearMultiTask):
            # Intervals, unless the model is too large or has another penalty.
            with suppress(ValueError, np.linalg.LinAlgError):
                summary = model.summary(0.95)
        return cls(
            model,
            learned,
            summary,
            tuple(map(spell_label, summary.feature_names)),
            tuple(spell_label(one.task) for one in summary.tasks),
            _feature_deviations(model, learned, X),
        )

    @property
    def trees_weight(self) -> float | None:
        """Share of boosted trees in predictions; None for linear models."""
        if self.pipeline is None or self.pipeline[-1] is self.model:
            return None
        return 0.0 if self.learned.trees is None else self.learned.trees.share

    @property
    def reliability(self) -> Reliability | None:
        """Predictions of held-out rows beside their targets, if a search kept them."""
        return self.learned.reliability

    @cached_property
    def curves(self) -> dict[int, list[int]]:
        """Wiggles of each column, by its feature; of periodic ones by the first."""
        place = {name: j for j, name in enumerate(self.summary.feature_names)}
        groups = curves_of(self.learned.feature_prior)
        return {place.get(name, group[0]): group for name, group in groups.items()}

    @property
    def coef(self) -> Array:
        """Coefficients in the units of X (m, d)."""
        return self.summary.coef

    @property
    def is_classifier(self) -> bool:
        return self.learned.is_classifier

    @property
    def n_classes(self) -> int:
        """Number of classes, if there are more than two; tasks are those of each."""
        model = self.learned.model
        return 2 if model is None else model.n_classes

    @cached_property
    def shown(self) -> Index:
        """Features that have a row of their own: all but wiggles."""
        hidden = {j for group in self.curves.values() for j in group} - {*self.curves}
        return np.array([j for j in range(len(self.features)) if j not in hidden])

    @cached_property
    def shown_coef(self) -> Array:
        """Coefficients (m, d); of periodic columns the size of each task's curve."""
        coef, scale = self.coef, self._units
        if any(j == group[0] for j, group in self.curves.items()):
            coef = coef.copy()
        for j, group in self.curves.items():
            if j == group[0]:
                coef[:, j] = row_norms(self.coef[:, group] * scale[group]) / scale[j]
        return coef

    @property
    def _units(self) -> Array:
        return np.ones(len(self.features)) if self.scale is None else self.scale

    @cached_property
    def effects(self) -> list[ColumnEffect]:
        """Curves that the model found, largest first, on grids of their columns."""
        design, found = self.learned.design, list[ColumnEffect]()
        most_curves, points = 16, 31  # on the page
        if design is None or not design.wiggles().keys() & {
            term.name for term in design.terms if isinstance(term, Curve)
        }:
            return found  # wiggles of SplineFeatures: how they were made is not known
        for j in self.ranking:
            if int(j) in self.curves and self.parts[1, j] > 0:
                name = self.label(int(j))
                expansion = design.expansion_of(name)
                found.append(read_effect(self.model, expansion, name, points=points))
            if len(found) == most_curves:
                break
        return found

    def label(self, j: int) -> str:
        """Name of the column of a feature."""
        if j in self.curves and self.curves[j][0] == j:
            return self.features[j].rpartition("~")[0]
        return self.features[j]

    @cached_property
    def norms(self) -> Array:
        """Norm of each feature's coefficients over all tasks (d,)."""
        return row_norms(self.shown_coef.T)

    @cached_property
    def parts(self) -> Array:
        """Sizes (2, d) of the straight part and of the curve of each feature.

        A size is the norm over tasks of the effect of one standard deviation. Curves
        are measured at the deciles of their column, where the pipeline knows them;
        otherwise squares of sizes of wiggles are added, as if these were uncorrelated.
        """
        alone = row_norms(self.coef.T) * self._units
        parts = np.stack([alone, np.zeros(len(alone))])
        for j, group in self.curves.items():
            if j == group[0]:
                parts[0, j] = 0.0
            parts[1, j] = row_norms(alone[np.newaxis, group])[0]
            basis = self._at_deciles(self.label(j), group)
            if basis is not None:
                curves = basis @ self.coef[:, group].T
                parts[1, j] = row_norms(curves.T.reshape(1, -1))[0]
        return parts

    def _at_deciles(self, column: str, group: list[int]) -> Array | None:
        """Wiggles at inner deciles of their column, centred, over √ their number."""
        if self.pipeline is None:
            return None
        found = self.pipeline[0].expansion_of(column)
        if isinstance(found.ticks, tuple) or len(found.ticks) < 4:
            return None
        made = found.expand(np.asarray(found.ticks, dtype=np.float64)[1:-1])
        names = [self.summary.feature_names[j] for j in group]
        if not all(name in made for name in names):
            return None
        basis = np.column_stack([made[name] for name in names])
        return np.asarray((basis - basis.mean(axis=0)) / np.sqrt(len(basis)))

    @cached_property
    def sizes(self) -> Array:
        """How much features matter (d,): straight part and curve together."""
        return row_norms(self.parts.T)

    @cached_property
    def distances(self) -> Array:
        """Distance of each task's coefficients from those of the median task (m,)."""
        comparable = self.coef if self.scale is None else self.coef * self.scale
        return row_norms(comparable - np.median(comparable, axis=0))

    @property
    def ranking(self) -> Index:
        """Shown features by size, largest first; equal ones stay in order."""
        return self.shown[np.argsort(-self.sizes[self.shown], kind="stable")]


def row_norms(rows: Array) -> Array:
    """Euclidean norms that neither overflow nor underflow."""
    with np.errstate(over="ignore"):
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    far = np.flatnonzero(~((norms > 1e-140) & (norms < 1e140)))
    largest = np.abs(rows[far]).max(axis=1, initial=0.0)
    used = largest > 0
    unit = rows[far][used] / largest[used, np.newaxis]
    largest[used] *= np.linalg.norm(unit, axis=1)
    norms[far] = largest
    return norms


def _feature_deviations(
    model: BaseEstimator, learned: Fitted, X: object
) -> Array | None:
    """Standard deviations of the features, from the fit or else from rows."""
    if learned.statistics is not None:
        return pooled_scale(learned.statistics)
    if learned.model is not None and learned.model.standardize:
        return learned.scale
    if X is None:
        return None
    rows: Matrix = model._read_rows(X, None).X
    mean = np.asarray(rows.mean(axis=0)).ravel()
    if issparse(rows):
        squares = np.asarray(rows.multiply(rows).mean(axis=0)).ravel()
        deviation = np.sqrt(np.maximum(squares - mean**2, 0.0))
        noise = 1e-7 * np.sqrt(squares)
    else:
        deviation = np.sqrt(np.mean((rows - mean) ** 2, axis=0))
        noise = 1e-14 * np.abs(mean)
    return np.where(deviation > noise, deviation, 1.0)  # 1: a constant column


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of each task; NaN where a task has no rows or a constant target."""

    metric: str  # "R²" or "AUC"
    where: str
    rows: Array  # (m,) once for each class that has scores of its own
    by_task: Array  # (m,)
    overall: float  # R² over all rows, mean AUC of tasks; NaN where unknown
    second_metric: str = ""
    second_by_task: Array | None = None  # (m,)
    reliability: Reliability | None = None  # where rows were given
    pooled: float | None = None  # AUC over the rows of all tasks together
    within: float | None = None  # R² about the means of tasks, over all tasks
    new_rows: float = 0.0  # of tasks that the fit has not seen
    classes: int = 1  # with scores of their own

    @property
    def n_rows(self) -> float:
        """Rows that were scored."""
        return float(self.rows.sum()) / self.classes + self.new_rows


def score_training(fitted: FittedModel) -> Scores | None:
    learned = fitted.learned
    if fitted.is_classifier:
        return None
    statistics, rows, r2 = learned.statistics, learned.task_weight, learned.task_r2
    if statistics is None or learned.crossed is not None:
        if r2 is None or rows is None:
            return None
        return Scores("R²", TRAINING_ROWS, rows, r2, float("nan"))
    intercept = learned.intercept[np.newaxis]
    errors = validation_errors(statistics, fitted.coef[np.newaxis], intercept)[0]
    weight = statistics.weight
    centre = weight @ statistics.y_mean / weight.sum()
    between = weight @ (statistics.y_mean - centre) ** 2
    total = float(statistics.yy.sum() + between)
    return _r2_scores(TRAINING_ROWS, weight, errors, statistics.yy, total)


def score_rows(fitted: FittedModel, X: object, y: object, task: object) -> Scores:
    """Scores on rows with known targets: R² of numbers, AUC of classes."""
    model, m, K = fitted.model, len(fitted.tasks), fitted.n_classes
    pipeline, classify = fitted.pipeline, fitted.is_classifier
    given = {"task": task} if pipeline is None else {}
    predictor = model if pipeline is None else pipeline
    predict = predictor.decision_function if classify else predictor.predict
    raw = scores = np.asarray(predict(X, **given), dtype=np.float64)
    n, codes = len(scores), None
    if scores.ndim == 1 or K > 2:
        _, labels = model._split_task(X, task)
        codes = np.zeros(n, dtype=np.intp)
        if labels is not None:
            # Tasks that the fit has not seen count for the score over all rows only.
            codes = np.minimum(place_labels(labels, model.tasks_.tolist(), n)[0], m)
    if K > 2:
        # Each class of a task against the others, by log-odds.
        classes = _class_codes(fitted, y, n)
        logs = log_softmax(scores, axis=1)
        scores = logs - np.log(-np.expm1(np.minimum(logs, -1e-15)))
        target = 2.0 * np.equal.outer(classes, np.arange(K)) - 1.0
        assert codes is not None
        columns = np.minimum(codes[:, np.newaxis] * K + np.arange(K), m)
    else:
        target = _targets(fitted, y, None if codes is None else codes % m)
        columns = np.arange(m) if codes is None else codes
    if target.shape != scores.shape:
        raise ValueError(
            f"y must have one target per prediction: got shape {target.shape} for "
            f"predictions of shape {scores.shape}."
        )
    known = ~np.isnan(target)
    if not known.any():
        raise ValueError("y must hold at least one measured target: all are missing.")
    code = np.broadcast_to(columns, scores.shape)[known]
    target, scores = target[known], scores[known]
    counts = np.bincount(code, minlength=m).astype(np.float64)
    rows, new_rows = counts[:m], float(counts[m:].sum())
    if not classify:
        centre = _ratio(np.bincount(code, target, m), counts)
        spread = np.bincount(code, (target - centre[code]) ** 2, m)[:m]
        errors = np.bincount(code, (target - scores) ** 2, m)[:m]
        total = float(np.sum((target - target.mean()) ** 2))
        whole = float(np.sum((target - scores) ** 2))
        found = _r2_scores(GIVEN_ROWS, rows, errors, spread, total, whole)
        reliability = Reliability.of(scores, target)
        return replace(found, reliability=reliability, new_rows=new_rows)

    positive, seen, weight = target > 0, code < m, np.ones(len(code))
    areas = task_aucs(scores[seen], positive[seen], code[seen], weight[seen], m)
    right = np.bincount(code, (scores > 0) == positive, m)[:m]
    defined = areas[~np.isnan(areas)]
    mean = float(defined.mean()) if defined.size else float("nan")
    shares = _ratio(right, rows)
    found = Scores("AUC", GIVEN_ROWS, rows, areas, mean, "Accuracy", shares)
    if K > 2:
        reliability = Reliability.of_scores(raw, classes.astype(np.float64))
        return replace(found, reliability=reliability, new_rows=new_rows / K, classes=K)
    [pooled] = task_aucs(scores, positive, np.zeros_like(code), weight, 1)
    logistic = fitted.learned.loss == "logistic"
    return replace(
        found,
        new_rows=new_rows,
        pooled=None if np.isnan(pooled) else float(pooled),
        reliability=Reliability.of_scores(scores, target) if logistic else None,
    )


class Contrast(NamedTuple):
    """Errors of the model and of one without prior, on the same rows."""

    metric: str
    error: float
    without: float
    low: float  # of error / without, with 95 % confidence
    high: float
    n_rows: int

    @classmethod
    def of(
        cls, model: object, without: object, X: object, y: object, task: object
    ) -> Self:
        """Compare predictions row by row.

        The variance of the quotient of two means over rows is that of
        ``loss − quotient · loss_without`` (delta method).
        """
        read = FittedModel.read(model, X)
        classify = read.is_classifier
        targets = np.asarray(read.model._check_targets(y))
        losses = []
        for one in (model, without):
            given = {} if isinstance(one, TabularPipeline) else {"task": task}
            predicted = np.asarray(one.predict(X, **given)).reshape(targets.shape)  # type: ignore[attr-defined]
            wrong = predicted != targets if classify else (predicted - targets) ** 2
            losses.append(wrong.astype(np.float64).ravel())
        loss, reference = np.array(losses)[:, ~np.isnan(losses).any(axis=0)]
        n, mean = len(loss), float(reference.mean())
        quotient = float(loss.mean()) / mean if mean else float("nan")
        spread = float(np.std(loss - quotient * reference, ddof=1)) if n > 1 else np.nan
        half = 1.96 * spread / np.sqrt(n) / mean if mean else float("nan")
        low, high = quotient - half, quotient + half
        if classify:
            return cls("share of wrong classes", float(loss.mean()), mean, low, high, n)
        error, base, low, high = np.sqrt(
            np.maximum([loss.mean(), mean, low, high], 0.0)
        ).tolist()
        return cls("root mean squared error", error, base, low, high, n)


def _class_codes(fitted: FittedModel, y: object, n: int) -> Index:
    """Number of the class of each row (n,), of more than two."""
    labels = np.ravel(fitted.model._check_targets(y))
    if len(labels) != n:
        raise ValueError(
            f"y must have one target per prediction: got {len(labels)} for {n} rows."
        )
    # Labels of another type cannot be sorted among the classes.
    place = {label: k for k, label in enumerate(fitted.model.classes_.tolist())}
    codes = np.array([place.get(label, -1) for label in labels.tolist()], np.intp)
    strange = np.flatnonzero(codes < 0)
    if len(strange):
        found = labels[strange].tolist()[0]
        raise ValueError(f"y must hold classes known to the model: got {found!r}.")
    return codes


def _targets(fitted: FittedModel, y: object, codes: Index | None) -> Array:
    """Targets as numbers; classes are −1 and +1, NaN where not measured."""
    targets = fitted.model._check_targets(y)
    if codes is not None and targets.ndim == 2 and targets.shape[1] == 1:
        targets = targets[:, 0]
    if not fitted.is_classifier:
        return np.asarray(targets, dtype=np.float64)
    if codes is not None and len(targets) != len(codes):
        return np.empty(len(targets))  # its shape is refused by the caller
    numbers = code_classes(targets, codes, fitted.model._classes)
    if targets.ndim == 1 and np.any(numbers == 0):
        strange = targets[numbers == 0].tolist()[0]
        raise ValueError(f"y must hold classes known to the model: got {strange!r}.")
    return np.where(numbers == 0, np.nan, numbers)


def _r2_scores(
    where: str,
    rows: Array,
    errors: np.ndarray,
    spread: np.ndarray,
    total: float,
    error: float | None = None,
) -> Scores:
    """R² and root mean squared errors from sums of squares by task and over all."""
    error = float(errors.sum()) if error is None else error
    within = 1.0 - float(_ratio(errors.sum(), spread.sum()))
    return Scores(
        "R²",
        where,
        rows,
        1.0 - _ratio(errors, spread),
        1.0 - float(_ratio(error, total)),
        "Root mean squared error",
        np.sqrt(_ratio(errors, rows)),
        within=None if np.isnan(within) else within,
    )


def _ratio(above: np.ndarray | float, below: np.ndarray | float) -> Array:
    """Quotient; NaN where there is nothing to divide by."""
    below = np.asarray(below)
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), np.nan)
