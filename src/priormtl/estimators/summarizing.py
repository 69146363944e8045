"""summarize_model: read what a fitted model learned into a ModelSummary."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from priormtl._arrays import Array
from priormtl.estimators.coefficients import feature_names
from priormtl.estimators.outliers import shared_coef
from priormtl.estimators.summary import (
    CertificateSummary,
    FeaturePriorSummary,
    FeatureSummary,
    ModelSummary,
    Strength,
    TaskSummary,
)
from priormtl.priors import as_task_prior

__all__ = ["summarize_model"]

STRENGTHS = ("lam", "theta", "epsilon")
INTERCEPTS: dict[Any, str] = {True: "free", False: "none", "tied": "tied"}


def summarize_model(model: Any) -> ModelSummary:
    """What a fitted linear model learned."""
    m, d = model.coef_.shape
    features = _features(model)
    outliers = _outliers(model)
    return ModelSummary(
        model=type(model).__name__,
        loss=getattr(model, "loss", "squared"),
        penalty=model.penalty,
        intercepts=INTERCEPTS[model.fit_intercept],
        standardized=bool(model.standardize),
        weight=float(model.task_weight_.sum()),
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
        tasks=_tasks(model, outliers or ()),
        outliers=outliers,
        feature_prior=_feature_prior(model),
        task_prior=_task_prior(model),
        library=model._frame_library,
    )


def _is_search(model: Any) -> bool:
    return hasattr(model, "cv_results_")


def _strength(model: Any, name: str) -> float:
    return float(getattr(model, f"{name}_" if _is_search(model) else name))


def _strengths(model: Any) -> tuple[Strength, ...]:
    counts = [1, 1, 1]
    if _is_search(model):
        grid = model._result.grid
        counts = [len(grid.lams), len(grid.thetas), len(grid.epsilons)]
    return tuple(
        Strength(name, _strength(model, name), count)
        for name, count in zip(STRENGTHS, counts, strict=True)
    )


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


def _certificate(model: Any) -> CertificateSummary:
    objective, gap = float(model.objective_), float(model.dual_gap_)
    relative = gap / objective if objective > 0 else gap
    return CertificateSummary(objective, gap, relative, int(model.n_iter_))


def _penalised(model: Any) -> Array:
    """Coefficients as the penalty saw them (m, d)."""
    return np.asarray(model.coef_ * model.feature_scale_)


def _features(model: Any) -> tuple[FeatureSummary, ...]:
    """Selected features, largest norm first."""
    names, coef = feature_names(model), model.coef_
    norms = np.linalg.norm(_penalised(model), axis=0)
    selected = np.flatnonzero(coef.any(axis=0))
    order = selected[np.argsort(-norms[selected], kind="stable")]
    columns = np.stack(
        [
            coef.mean(axis=0),
            coef.min(axis=0),
            coef.max(axis=0),
            norms,
            model.feature_scale_,
        ]
    )
    return tuple(FeatureSummary(names[j], *columns[:, j].tolist()) for j in order)


def _outliers(model: Any) -> tuple[Hashable, ...] | None:
    """Tasks that do not belong; None where the model was not asked for them."""
    found = getattr(model, "outlier_tasks_", None)
    return None if found is None else tuple(np.asarray(found, dtype=object).tolist())


def _tasks(model: Any, outliers: tuple[Hashable, ...]) -> tuple[TaskSummary, ...]:
    m = len(model.tasks_)
    r2 = getattr(model, "task_r2_", np.full(m, np.nan)).tolist()
    norms = np.linalg.norm(_penalised(model), axis=1).tolist()
    rows = zip(
        model.tasks_.tolist(),
        model.task_weight_.tolist(),
        [None if np.isnan(value) else value for value in r2],
        np.broadcast_to(model.intercept_, m).tolist(),
        norms,
        strict=True,
    )
    return tuple(TaskSummary(*row, is_outlier=row[0] in outliers) for row in rows)


def _feature_prior(model: Any) -> FeaturePriorSummary | None:
    prior = model.feature_prior_
    if prior is None:
        return None
    D = prior.matrix(model.coef_.shape[1])
    penalised = shared_coef(model) * model.feature_scale_
    violation = float(np.sum((D @ penalised.T) ** 2))
    cost = 0.5 * _strength(model, "theta") * violation
    share = cost / model.objective_ if model.objective_ > 0 else 0.0
    return FeaturePriorSummary(int(D.shape[0]), violation, cost, float(share))


def _task_prior(model: Any) -> str:
    prior = as_task_prior(model.task_prior)
    return "none" if prior is None else prior.words
