"""Whether a prior helped, from scores that a search over strengths has kept."""

from typing import Any

import numpy as np

from priormtl.audits.benefit import judge_benefit
from priormtl.audits.results import PriorBenefit

__all__ = ["benefit_of_search"]

METHOD = (
    "Scores of the model's own search on {splits} splits, theta = 0 against theta = "
    "{theta:g} at the same lam and epsilon; differences are paired by split, with the "
    "corrected resampled t interval of Nadeau and Bengio. The strengths were chosen by "
    "these very scores, which favours the prior slightly."
)


def benefit_of_search(model: Any) -> PriorBenefit | None:
    """Compare what the search has tried; None if theta = 0 was not among it."""
    candidates = model.cv_results_["params"]
    twin = candidates[model.best_index_] | {"theta": 0.0}
    if twin not in candidates:
        return None
    both = model._result.scores[[model.best_index_, candidates.index(twin)]]
    both = both[:, ~np.isnan(both).any(axis=0)]
    splits = both.shape[1]
    if splits < 2:
        return None
    metric, with_prior, without_prior = _as_errors(model, *both)
    lams = np.full(splits, model.lam_)
    return judge_benefit(
        metric,
        with_prior,
        without_prior,
        lams=(lams, lams),
        test_to_train=1.0 / (model.n_splits_ - 1),
        method=METHOD.format(splits=splits, theta=model.theta_),
    )


def _as_errors(model: Any, *scores: Any) -> tuple[Any, ...]:
    """Name of the error, and scores turned into it."""
    if not model._scores_by_default:
        return f"negative score ({model.scoring})", *(-s for s in scores)
    if model._folds_by_class:
        return "distance of the AUC from 1", *(1.0 - s for s in scores)
    return "mean squared error", *(-s for s in scores)
