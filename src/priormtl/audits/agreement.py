"""Relation by relation: how far data and prior agree."""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from priormtl._arrays import Array, Index
from priormtl.audits.evidence import task_grams
from priormtl.audits.results import RelationAudit
from priormtl.audits.statements import (
    Statement,
    TiedTasks,
    describe_rows,
    list_ties,
)
from priormtl.audits.subjects import Subject
from priormtl.audits.tension import (
    UNKNOWN,
    Tension,
    feature_tensions,
    tie_tensions,
    verdicts,
)
from priormtl.audits.witnesses import Witnesses
from priormtl.data import name_features
from priormtl.priors import measure_violations

__all__ = ["audit_relations", "audit_ties"]

MOST_FEATURES = 200  # whose joint variance is computed
MOST_CELLS = 2**22  # numbers in all tasks' Gram matrices: 32 MB


def audit_relations(
    subject: Subject, witnesses: Witnesses, before: Array
) -> list[RelationAudit]:
    """Rows of D, most disagreeing first; ``before`` is P without them."""
    prior = subject.problem.prior
    moments = subject.setup.moments
    labels = name_features(moments.features, prior.D.shape[1])
    squares = np.sum((prior.D @ subject.coef) ** 2, axis=1)
    return _assemble(
        "feature",
        describe_rows(prior.D, labels),
        before=measure_violations(prior.D, before),
        after=measure_violations(prior.D, subject.coef),
        costs=0.5 * prior.theta * squares,
        tensions=_row_tensions(witnesses, before),
    )


def audit_ties(
    subject: Subject, witnesses: Witnesses, before: Array
) -> list[RelationAudit]:
    """Ties between tasks, most disagreeing first; ``before`` is P without them."""
    prior = subject.problem.prior
    ties = list_ties(prior.laplacian, subject.setup.moments.tasks)
    weights = 1.0 if prior.tie_weights is None else prior.tie_weights
    costs = [
        tie.statement.weight
        * float(np.sum(weights * (subject.coef[:, tie.tasks] @ tie.contrast) ** 2))
        for tie in ties
    ]
    return _assemble(
        "task",
        [tie.statement for tie in ties],
        before=_tie_violations(ties, before),
        after=_tie_violations(ties, subject.coef),
        costs=0.5 * prior.epsilon * np.array(costs),
        tensions=_tie_tensions(witnesses, ties, before),
    )


def _assemble(
    kind: str,
    statements: Sequence[Statement],
    *,
    before: Array,
    after: Array,
    costs: Array,
    tensions: list[Tension],
) -> list[RelationAudit]:
    total = float(costs.sum())
    shares = costs / total if total > 0 else np.zeros(len(costs))
    words = verdicts(tensions)
    found = [
        RelationAudit(
            kind,
            *statements[k],
            violation_before=float(before[k]),
            violation_after=float(after[k]),
            share=float(shares[k]),
            sensitivity=float(costs[k]),
            statistic=tensions[k].ratio,
            p_value=tensions[k].p_value,
            verdict=words[k],
        )
        for k in range(len(statements))
    ]
    return sorted(found, key=_blame)


def _blame(relation: RelationAudit) -> tuple[bool, float, float]:
    """Sorting key: least likely first, what cannot be judged last."""
    unknown = bool(np.isnan(relation.p_value))
    if unknown:
        return True, 0.0, -relation.violation_before
    return False, relation.p_value, -relation.statistic


def _tie_violations(ties: Sequence[TiedTasks], P: Array) -> Array:
    """The same for the two sides of each tie: a task, and those it is tied to."""
    sides = [
        np.stack(
            [P[:, tie.tasks] @ np.maximum(sign * tie.contrast, 0.0) for sign in (1, -1)]
        )
        for tie in ties
    ]
    differences = [np.linalg.norm(first - second) for first, second in sides]
    most = [np.sqrt(2.0) * np.linalg.norm(both) for both in sides]
    return _ratio(np.array(differences), np.array(most))


def _ratio(part: Array, whole: Array) -> Array:
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), 0.0)


def _row_tensions(witnesses: Witnesses, before: Array) -> list[Tension]:
    D = witnesses.problem.prior.D
    features = _weighed_features(D, before)
    tensions = [UNKNOWN] * D.shape[0]
    inside = np.flatnonzero(_held_by(D, features))
    if not len(inside):
        return tensions
    evidence = witnesses.testify(witnesses.problem, before, features)
    part = csr_array(D[inside][:, features])
    for k, tension in zip(inside, feature_tensions(part, evidence), strict=True):
        tensions[k] = tension
    return tensions


def _weighed_features(D: csr_array, coef: Array) -> Index:
    """All features; of very many those in use, and those that are related to them.

    No features where these are still too many: then no relation is judged.
    """
    d, m = coef.shape
    if _affordable(d, m):
        return np.arange(d)
    used = coef.any(axis=1)
    touching = abs(D) @ used.astype(np.float64) > 0
    related = touching.astype(np.float64) @ abs(D) > 0
    wanted = np.flatnonzero(used | related)
    return wanted if _affordable(len(wanted), m) else np.zeros(0, dtype=np.intp)


def _affordable(d: int, m: int) -> bool:
    return d <= MOST_FEATURES and m * d**2 <= MOST_CELLS


def _held_by(D: csr_array, features: Index) -> np.ndarray:
    """Which relations are about these features alone."""
    outside = np.ones(D.shape[1])
    outside[features] = 0.0
    return np.asarray((abs(D) @ outside == 0) & (abs(D).sum(axis=1) > 0))


def _tie_tensions(
    witnesses: Witnesses, ties: Sequence[TiedTasks], before: Array
) -> list[Tension]:
    d, m = before.shape
    used = np.flatnonzero(before.any(axis=1))
    features = np.arange(d) if _affordable(d, m) else used
    if not len(features) or not _affordable(len(features), m):
        return [UNKNOWN] * len(ties)
    loose = witnesses.problem.with_strengths(lam=0.0, theta=0.0, epsilon=0.0)
    evidence = witnesses.testify(loose, before, features)
    part = loose.restrict(features)
    point = part.at(np.ascontiguousarray(before[features]))
    grams = np.stack(list(task_grams(part, point)))  # feature, feature, task
    prior = witnesses.problem.restrict(features).prior
    found = tie_tensions(ties, evidence, np.moveaxis(grams, 2, 0), prior)
    pairs = zip(ties, found, strict=True)
    return [tension if witnesses.know(tie) else UNKNOWN for tie, tension in pairs]
