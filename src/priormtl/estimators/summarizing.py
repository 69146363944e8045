"""summarize_model: read what a fitted model learned into a ModelSummary."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from priormtl._arrays import Array
from priormtl.data import name_features
from priormtl.estimators.outliers import shared_coef
from priormtl.estimators.summary import (
    CertificateSummary,
    FeaturePriorSummary,
    FeatureSummary,
    ModelSummary,
    SearchSummary,
    Strength,
    TaskSummary,
)
from priormtl.priors import as_task_prior

__all__ = ["summarize_model"]

STRENGTHS = ("lam", "theta", "epsilon")
INTERCEPTS: dict[Any, str] = {True: "free", False: "none", "tied": "tied"}
ROUNDING = 1e-14  # of a mean, relative to it


def summarize_model(model: Any) -> ModelSummary:
    """Read what a fitted linear model learned: any with ``coef_`` and ``tasks_``."""
    coef = np.asarray(model.coef_, dtype=np.float64)
    m, d = coef.shape
    names = name_features(getattr(model, "feature_names_in_", None), d)
    features = _features(model, coef, names)
    outliers = _outliers(model)
    strength = getattr(model, "outlier_strength_", None)
    own = getattr(model, "own_coef_", None)
    return ModelSummary(
        model=type(model).__name__,
        loss=getattr(model, "loss", "squared"),
        penalty=getattr(model, "penalty", None),
        intercepts=INTERCEPTS.get(getattr(model, "fit_intercept", None)),
        standardized=bool(getattr(model, "standardize", False)),
        weight=float(_task_weight(model).sum()),
        n_tasks=m,
        n_features=d,
        n_selected=len(features),
        named=hasattr(model, "feature_names_in_"),
        strengths=_strengths(model),
        chosen_by=_chosen_by(model),
        cv_score=getattr(model, "best_score_", None),
        scoring=_scoring(model),
        certificate=_certificate(model),
        features=features,
        tasks=_tasks(model, coef, outliers or ()),
        outliers=outliers,
        feature_prior=_feature_prior(model, d),
        task_prior=_task_prior(model),
        outlier_strength=None if strength is None else float(strength),
        target_variance=_target_variance(model),
        feature_names=names,
        coef=coef,
        own_coef=None if own is None else np.asarray(own, dtype=np.float64),
        search=_search(model),
        library=getattr(model, "_frame_library", None),
    )


def _is_search(model: Any) -> bool:
    return hasattr(model, "cv_results_")


def _strength(model: Any, name: str) -> float | None:
    value = getattr(model, f"{name}_" if _is_search(model) else name, None)
    return None if value is None else float(value)


def _strengths(model: Any) -> tuple[Strength, ...]:
    found = []
    for name in STRENGTHS:
        value, tried = _strength(model, name), 1
        if _is_search(model):
            tried = len(np.unique(model.cv_results_[f"param_{name}"]))
        if value is not None:
            found.append(Strength(name, value, tried))
    return tuple(found)


def _chosen_by(model: Any) -> str:
    if not _is_search(model):
        return "set by hand"
    count = len(model.cv_results_["params"])
    rule = ", within one standard error" if model.selection == "1se" else ""
    return f"chosen among {count} on {model.n_splits_} splits{rule}"


def _scoring(model: Any) -> str | None:
    if not _is_search(model):
        return None
    if model.scoring is None:
        by_class = hasattr(model, "classes_")
        return "area under the curve" if by_class else "negative mean squared error"
    name = model.scoring
    return name if isinstance(name, str) else getattr(name, "__name__", "scorer")


def _search(model: Any) -> SearchSummary | None:
    if not _is_search(model):
        return None
    results = model.cv_results_
    scoring = getattr(model, "scoring", None)
    metric = scoring if isinstance(scoring, str) else "score"
    if scoring is None:
        by_class = hasattr(model, "classes_")
        metric = "AUC" if by_class else "neg_mean_squared_error"
    is_error = metric.startswith("neg_")
    splits = [results[f"split{k}_test_score"] for k in range(int(model.n_splits_))]
    scores = np.stack([np.asarray(split) for split in splits], axis=1)
    return SearchSummary(
        metric.removeprefix("neg_").replace("_", " "),
        is_error,
        {
            name: np.ma.filled(results[f"param_{name}"].astype(float), np.nan)
            for name in (*STRENGTHS, "outlier_strength")
            if f"param_{name}" in results
        },
        -scores if is_error else scores,
        int(model.best_index_),
    )


def _certificate(model: Any) -> CertificateSummary | None:
    if getattr(model, "dual_gap_", None) is None:
        return None
    objective, gap = float(model.objective_), float(model.dual_gap_)
    relative = gap / objective if objective > 0 else gap
    return CertificateSummary(objective, gap, relative, int(model.n_iter_))


def _target_variance(model: Any) -> float | None:
    """Variance of the targets of all tasks together, from the statistics kept."""
    statistics = getattr(model, "statistics_", None)
    if statistics is None or hasattr(model, "classes_"):
        return None
    weight = statistics.weight
    total = weight.sum()
    mean = weight @ statistics.y_mean / total
    between = weight @ (statistics.y_mean - mean) ** 2
    variance = float((statistics.yy.sum() + between) / total)
    # Targets that are all equal differ from their mean by rounding.
    return variance if variance > (ROUNDING * mean) ** 2 else 0.0


def _task_weight(model: Any) -> Array:
    return np.asarray(
        getattr(model, "task_weight_", np.full(len(model.tasks_), np.nan))
    )


def _feature_scale(model: Any) -> Array | float:
    """What the features were divided by before the penalty saw them (d,)."""
    scale: Array | float = getattr(model, "feature_scale_", 1.0)
    return scale


def _features(
    model: Any, coef: Array, names: tuple[str, ...]
) -> tuple[FeatureSummary, ...]:
    """Selected features, largest norm first."""
    scale = _feature_scale(model)
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(coef * scale, axis=0)
        means = coef.mean(axis=0)
    selected = np.flatnonzero(coef.any(axis=0))
    order = selected[np.argsort(-norms[selected], kind="stable")]
    scales = np.broadcast_to(scale, norms.shape)
    columns = np.stack([means, coef.min(axis=0), coef.max(axis=0), norms, scales])
    return tuple(FeatureSummary(names[j], *columns[:, j].tolist()) for j in order)


def _outliers(model: Any) -> tuple[Hashable, ...] | None:
    """Tasks that do not belong; None where the model was not asked for them."""
    found = getattr(model, "outlier_tasks_", None)
    return None if found is None else tuple(np.asarray(found, dtype=object).tolist())


def _tasks(
    model: Any, coef: Array, outliers: tuple[Hashable, ...]
) -> tuple[TaskSummary, ...]:
    m = len(coef)
    r2 = np.asarray(getattr(model, "task_r2_", np.full(m, np.nan))).tolist()
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(coef * _feature_scale(model), axis=1).tolist()
    rows = zip(
        np.asarray(model.tasks_).tolist(),
        _task_weight(model).tolist(),
        [None if np.isnan(value) else value for value in r2],
        np.broadcast_to(getattr(model, "intercept_", 0.0), m).tolist(),
        norms,
        strict=True,
    )
    return tuple(TaskSummary(*row, is_outlier=row[0] in outliers) for row in rows)


def _feature_prior(model: Any, d: int) -> FeaturePriorSummary | None:
    prior = getattr(model, "feature_prior_", None)
    if prior is None:
        return None
    D = prior.matrix(d)
    penalised = shared_coef(model) * _feature_scale(model)
    with np.errstate(over="ignore"):
        violation = float(np.sum((D @ penalised.T) ** 2))
    cost = 0.5 * (_strength(model, "theta") or 0.0) * violation
    share = cost / model.objective_ if model.objective_ > 0 else 0.0
    words = str(prior.words)
    return FeaturePriorSummary(int(D.shape[0]), violation, cost, float(share), words)


def _task_prior(model: Any) -> str | None:
    if not hasattr(model, "task_prior"):
        return None
    prior = as_task_prior(model.task_prior)
    return "none" if prior is None else prior.words
