"""audit_prior: whether the data agree with what was said beforehand."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from priormtl._arrays import Array
from priormtl.audits.agreement import audit_relations, audit_ties
from priormtl.audits.holdout import deal_splits, hold_out
from priormtl.audits.results import PriorAudit, PriorBenefit, RelationAudit
from priormtl.audits.searched import benefit_of_search
from priormtl.audits.subjects import TUNED, Subject, read_rows, read_subject
from priormtl.audits.witnesses import call_witnesses
from priormtl.data import Table, as_frame, find_frame_library
from priormtl.estimators import ClassificationTasks, check_count, show_progress
from priormtl.selection import Split

__all__ = ["audit_prior"]

NO_RELATIONS = "The model has no feature prior, only ties between tasks."
NO_PART = "The prior plays no part in this model: its strength theta is 0."
NO_SPLITS = "Nothing was held out: give cv a number of folds, such as 5."
NO_ROWS = "No rows were given: pass the X, y and task that the model was fitted on."
UNTRIED = (
    "No rows were held out, and the search has not tried theta = 0: pass X, y, task "
    "and cv, or fit with 0 among thetas."
)


def audit_prior(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    task: Any = None,
    sample_weight: Any = None,
    cv: Any = 5,
    n_repeats: int = 3,
    random_state: Any = 0,
) -> PriorAudit:
    """Ask the data about every relation of a model's prior, and about all together.

    Parameters
    ----------
    model : MultiTaskRegressor, MultiTaskClassifier or their CV variants
        Fitted with a feature prior, or with ties between tasks, which then are audited
        alone.
    X, y, task, sample_weight : optional
        The rows that the model was fitted on. Without them the relations are audited
        from the statistics that models of squared loss keep, and whether the prior
        helped is known only where a search has tried theta = 0.
    cv : int, splitter of scikit-learn, iterable of (train, test), or None
        Splits on which the model is fitted with the prior and without it; None: rows
        are used for the relations alone, and nothing is fitted on splits.
    n_repeats : int
        How often rows are dealt into ``cv`` folds anew, where that is a number.
    random_state : int or Generator
        Seed of that.

    Returns
    -------
    PriorAudit
        ``relations``: one row per relation, the strongest disagreement first, ties
        between tasks after those between features; ``helped``: errors on held-out rows
        with the prior and without it, as a verdict with an interval;
        ``helped_tuned``: the same for CV models, each with its own best lam.

    Notes
    -----
    *Violation* is ‖d P‖ divided by the most that it could be for coefficients of these
    sizes: 0 where the relation holds, 1 where it is as wrong as can be. *Before* is a
    certified fit at the same lam without the prior. *Sensitivity* is the derivative of
    the objective by the logarithm of the relation's weight, theta/2 ‖d P‖² by the
    envelope theorem; *share* is its part of the sum.

    The test *statistic* judges a relation by estimates that neither the prior nor the row penalty
    has bent: the squared disagreement in units of its variance, divided by what chance
    alone brings, so that poorly determined coefficients are not blamed. Tasks' Gram
    matrices are taken as equal to their mean for these variances. A relation
    "disagrees" where its p value passes the rule of Benjamini and Hochberg at 5 %; it
    "cannot be judged" where rows say nothing on its features. Of more than 200
    features only those in use without the prior, and those related to them, are
    judged. Ties between tasks disagree where tasks, each estimated on its own, differ
    by more than the strength of the tie allows.

    With ``outlier_tasks`` all this is about what tasks share, which the priors act on:
    fits without the prior let tasks out at the model's strength too, and tasks that
    have an own part then are not heard on relations; their ties cannot be judged.

    Examples
    --------
    >>> from priormtl import FeaturePrior, MultiTaskRegressor, audit_prior
    >>> from priormtl.datasets import make_related_tasks
    >>> data = make_related_tasks(n_tasks=4, n_features=8, random_state=3)
    >>> wrong = FeaturePrior.similar([(0, 1)])
    >>> model = MultiTaskRegressor(feature_prior=data.feature_prior + wrong)
    >>> model = model.fit(data.X, data.y, task=data.task)
    >>> audit_prior(model).relations[0].relation
    'x0 ~ x1'
    """
    check_count("n_repeats", n_repeats)
    table = None if X is None else read_rows(model, X, y, task, sample_weight)
    subject = read_subject(model, table)
    _refuse_without_prior(subject)
    deal = partial(deal_splits, cv, n_repeats=n_repeats, random_state=random_state)
    plan = _plan(model, subject, table, None if cv is None else partial(deal, X=X, y=y))
    total = 3 + 2 * len(plan.splits)
    with show_progress(None, None, "audit of the prior", total, "fits") as advance:
        relations, gap = _agreement(subject, advance)
        same, own = _benefits(model, subject, plan, advance)
    prior = subject.problem.prior
    return PriorAudit(
        tuple(relations),
        same,
        own,
        plan.obstacle if same is None else None,
        subject.problem.lam,
        prior.theta,
        prior.epsilon,
        float(model.dual_gap_),
        gap,
        None if as_frame(X) is None else find_frame_library(X),
    )


class _Plan(NamedTuple):
    """Which rows are held out, or why none are."""

    table: Table | None
    splits: list[Split]
    rounds: Array
    obstacle: str | None


def _plan(
    model: Any, subject: Subject, table: Table | None, deal: Callable[..., Any] | None
) -> _Plan:
    nothing = np.zeros(0)
    if not subject.problem.prior.D.nnz:
        return _Plan(None, [], nothing, NO_RELATIONS)
    if subject.problem.prior.theta == 0:
        return _Plan(None, [], nothing, NO_PART)
    if table is None or deal is None:
        return _Plan(None, [], nothing, _missing(model, table))
    try:
        by_class = isinstance(model, ClassificationTasks)
        splits, rounds = deal(table=table, by_class=by_class)
    except ValueError as error:
        return _Plan(None, [], nothing, f"The rows cannot be held out: {error}")
    return _Plan(table, splits, rounds, None)


def _missing(model: Any, table: Table | None) -> str:
    """What must be given for rows to be held out."""
    if isinstance(model, TUNED):
        return UNTRIED
    return NO_ROWS if table is None else NO_SPLITS


def _refuse_without_prior(subject: Subject) -> None:
    if not subject.problem.prior.D.nnz and not _has_ties(subject):
        raise ValueError(
            "model must have been fitted with a feature_prior that relates features, "
            "or with tasks that are tied: got neither; name relations with "
            "FeaturePrior.similar, opposite or from_groups, let from_correlation find "
            'some, or tie tasks (task_prior="mean", epsilon above 0).'
        )


def _has_ties(subject: Subject) -> bool:
    prior = subject.problem.prior
    return prior.epsilon > 0 and not prior.laplacian.is_zero


def _agreement(subject: Subject, advance: Any) -> tuple[list[RelationAudit], float]:
    """Relations, then ties; and the gap of the fit without relations."""
    prior = subject.problem.prior
    without = subject.solve(theta=0.0, epsilon=prior.epsilon)
    advance()
    witnesses = call_witnesses(subject, without)
    relations = []
    if prior.D.nnz:
        relations += audit_relations(subject, witnesses, without.coef)
    advance()
    if _has_ties(subject):
        loose = subject.solve(theta=prior.theta, epsilon=0.0)
        relations += audit_ties(subject, witnesses, loose.coef)
    advance()
    return relations, without.certificate.gap


def _benefits(
    model: Any, subject: Subject, plan: _Plan, advance: Any
) -> tuple[PriorBenefit | None, PriorBenefit | None]:
    """Errors at the same lam and, for tuned models, each at its own."""
    tuned = isinstance(model, TUNED)
    if plan.table is None:
        return benefit_of_search(model) if plan.obstacle == UNTRIED else None, None
    found = hold_out(
        subject.plain,
        plan.table,
        plan.splits,
        plan.rounds,
        _lams(model, subject),
        chosen=tuned,
        advance=advance,
    )
    return found.at(subject.problem.lam), found.at_own() if tuned else None


def _lams(model: Any, subject: Subject) -> Array:
    """Those that the search has tried, the chosen one among them; else the model's."""
    if not isinstance(model, TUNED):
        return np.array([subject.problem.lam])
    return np.unique(model._result.grid.lams)
