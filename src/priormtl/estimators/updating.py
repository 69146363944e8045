"""update: new tasks, and new rows of known ones, given what all tasks share."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

from priormtl._arrays import Array
from priormtl.conditional import MOST_CURVATURES
from priormtl.data import encode_labels, host_array, read_targets
from priormtl.estimators.labels import code_classes
from priormtl.fitted import Fitted, task_array

if TYPE_CHECKING:
    from priormtl.estimators.linear import LinearMultiTask


def update_fitted(
    model: "LinearMultiTask", X: Any, y: Any, task: Any, sample_weight: Any
) -> Fitted:
    """What the model has learned after further rows."""
    fitted = model.fitted_
    given = fitted.conditional
    if given is None:
        raise ValueError(
            "update needs a model fitted to rows whose tasks are tied to their mean, "
            'without lam, signs, outlier tasks or drifting levels (ties="adaptive", '
            'task_prior="mean", lam=0 have it), and tasks times squared effects that '
            f"vary of at most {MOST_CURVATURES:,}. Fit this one again."
        )
    read = model._read_rows(X, task)
    y, sample_weight = host_array(y), host_array(sample_weight)
    time, crossed, labels = read.time, read.crossed, read.labels
    rows = np.asarray(read.X.toarray() if issparse(read.X) else read.X)
    n = len(rows)
    if labels is None:
        raise ValueError("task must be given in update: pass task=labels, one per row.")
    targets = _read_targets(model, y)
    weight = np.ones(n)
    if sample_weight is not None:
        weight = np.ravel(read_targets(sample_weight, "sample_weight"))
    for name, values in (("y", targets), ("sample_weight", weight)):
        if values.shape != (n,) or not np.all(np.isfinite(values)):
            raise ValueError(
                f"{name} must be one finite number per row of X: got shape "
                f"{values.shape} for {n} rows."
            )
    known = np.zeros(n) if read.offset is None else read.offset
    if crossed is not None and fitted.crossed is not None:
        known = known + crossed.forward(fitted.crossed.effects)
    codes, present = encode_labels(labels, n)
    place = dict(zip(fitted.labels, range(len(fitted.tasks)), strict=True))
    plain = [t.item() if isinstance(t, np.generic) else t for t in present]
    new = [label for label in plain if label not in place]
    place |= {label: len(fitted.tasks) + k for k, label in enumerate(new)}
    positions = np.array([place[label] for label in plain], dtype=np.intp)[codes]
    k = given.right.shape[1]  # nothing is known of new tasks
    given = given._replace(
        curvature=np.concatenate([given.curvature, np.zeros((len(new), k, k))]),
        right=np.concatenate([given.right, np.zeros((len(new), k))]),
    )
    family = None if fitted.model is None else fitted.model.family
    variances = {}
    for i in np.unique(positions):
        own = positions == i
        part = rows[own], targets[own], weight[own], known[own]
        given = given.extend(int(i), *part, family)
        variances[int(i)] = given.variance(int(i), rows[own])
    m = len(fitted.tasks) + len(new)
    coef, intercept = np.zeros((m, fitted.shape[1])), np.zeros(m)
    coef[: len(fitted.tasks)], intercept[: len(fitted.tasks)] = (
        fitted.coef,
        fitted.intercept,
    )
    for i in variances:
        coef[i], intercept[i] = given.coefficients(i)
    added = np.bincount(positions, weight, m)
    tasks = [fitted.tasks, task_array(tuple(new))] if new else [fitted.tasks]
    grown = replace(
        fitted,
        tasks=np.concatenate(tasks),
        coef=coef,
        intercept=intercept,
        conditional=given,
        task_weight=_extend(fitted.task_weight, len(new), 0.0, added),
        task_effect=_extend(fitted.task_effect, len(new), np.nan),
        task_r2=_extend(fitted.task_r2, len(new), np.nan),
        find_errors=None,  # those of known tasks are no longer right
        added=fitted.added + len(new),
    )
    if fitted.classes is not None:
        classes = np.vstack(
            [fitted.classes, np.tile(fitted.classes[:1], (len(new), 1))]
        )
        grown = replace(grown, classes=classes)
    if fitted.calibration is not None:
        spread = [variances[len(fitted.tasks) + k] for k in range(len(new))]
        calibration = fitted.calibration.with_tasks(np.array(spread))
        grown = replace(grown, calibration=calibration)
    if time is not None and fitted.span is not None:
        ends = np.concatenate([fitted.span.ends, np.full(len(new), -np.inf)])
        np.maximum.at(ends, positions, time)
        grown = replace(grown, span=fitted.span._replace(ends=ends))
    if time is not None and fitted.history is not None:
        scores = known + np.sum(rows * coef[positions], axis=1) + intercept[positions]
        history = fitted.history.extend(targets, scores, positions, time, weight, m)
        grown = replace(grown, history=history)
    return grown


def _read_targets(model: "LinearMultiTask", y: Any) -> Array:
    """Targets as the loss takes them: numbers, or −1 and +1."""
    classes = model.fitted_.classes
    found = np.ravel(model._check_targets(y))
    if classes is None:
        return np.asarray(found, dtype=np.float64)
    if np.any(classes != classes[0]):
        raise ValueError("update needs the same classes in all tasks.")
    numbers = code_classes(found, None, classes[0])
    strange = found[numbers == 0]
    if len(strange):
        raise ValueError(
            f"y must hold the classes {classes[0].tolist()}: got {strange[0]!r}."
        )
    return numbers if classes.shape[1] == 2 else np.zeros(len(found))


def _extend(
    values: Array | None, count: int, fill: float, added: Any = 0.0
) -> Array | None:
    if values is None:
        return None
    return np.concatenate([values, np.full(count, fill)]) + added
