"""Relations of a prior as a graph's edges, with how far each is violated."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from priormtl.data import name_features, unnamed_feature
from priormtl.estimators import shared_coef
from priormtl.plotting.learned import read_model
from priormtl.priors import (
    FeaturePrior,
    as_task_prior,
    laplacian,
    measure_violations,
    name_mean,
)

__all__ = ["Link", "read_audit", "read_fitted", "read_prior", "read_ties"]


@dataclass(frozen=True)
class Link:
    """One relation: its members by name, and what is known of it."""

    members: tuple[Hashable, ...]
    sign: str  # "similar", "opposite" or "combination"
    weight: float
    disagreement: float | None  # 0 holds exactly … 1 as wrong as can be
    disagrees: bool = False  # by the verdict of an audit
    by_name: bool = True  # whether members are names, or the relation in words


def read_prior(prior: FeaturePrior) -> list[Link]:
    """Relations of a prior that no model has seen, so without disagreement."""
    return [link for part in prior.parts for link in _links_of(part)]


def read_fitted(model: Any) -> list[Link]:
    """Relations of a fitted model and how far its coefficients violate them."""
    learned = read_model(model)
    prior = getattr(model, "feature_prior_", None)
    if prior is None or not prior.parts:
        return []
    # The prior was put on coefficients of features as the fit saw them.
    P = (shared_coef(model) * model.feature_scale_).T
    D = csr_array(vstack([part.matrix(len(P)) for part in prior.parts]))
    D.eliminate_zeros()
    return [
        _link_of_row(D, row, learned.features, float(disagreement))
        for row, disagreement in enumerate(measure_violations(D, P))
    ]


def read_ties(model: Any) -> list[Link]:
    """Ties between the tasks of a fitted model, as its task prior has them."""
    learned = read_model(model)
    prior = as_task_prior(getattr(model, "task_prior", None))
    known = None if prior is None else prior.restrict(learned.tasks)
    tasks, ties = learned.tasks, laplacian(known, learned.tasks)
    found = [_tie(tasks[a], tasks[b], weight) for a, b, weight in ties.pairs()]
    circles = ties.circles()
    for number, (members, weight) in enumerate(circles):
        mean = name_mean(number, len(circles))
        found += [_tie(tasks[i], mean, weight) for i in members]
    return found


def _tie(task: Hashable, other: Hashable, weight: float) -> Link:
    return Link((str(task), str(other)), "similar", weight, None)


def read_audit(audit: Any, kind: str) -> list[Link]:
    """Relations of an audit, by what data say of them without the prior."""
    return [
        Link(
            (row.first, row.second) if row.first is not None else (row.relation,),
            row.sign,
            row.weight,
            row.violation_before,
            row.verdict == "disagrees",
            row.first is not None,
        )
        for row in audit.relations
        if row.kind == kind
    ]


def _links_of(part: Any) -> list[Link]:
    if hasattr(part, "D"):
        names = name_features(part.features, part.D.shape[1])
        return [_link_of_row(part.D, row, names) for row in range(part.D.shape[0])]
    if hasattr(part, "pairs"):
        part = part.pairs()
    if not hasattr(part, "first"):
        raise ValueError(
            "prior holds strongest correlations, which are found at fit: pass the "
            "fitted model to see its relations."
        )
    ends = zip(part.first, part.second, part.sign, part.weight, strict=True)
    return [
        Link((_name(a), _name(b)), _sign(sign), weight, None)
        for a, b, sign, weight in ends
    ]


def _name(feature: Hashable) -> Hashable:
    return feature if isinstance(feature, str) else unnamed_feature(feature)


def _sign(sign: float) -> str:
    return "similar" if sign > 0 else "opposite"


def _link_of_row(
    D: csr_array,
    row: int,
    names: Sequence[Hashable],
    disagreement: float | None = None,
) -> Link:
    """Relation of one row of D; a pair where it has two members of equal size."""
    here = slice(D.indptr[row], D.indptr[row + 1])
    members, values = D.indices[here], D.data[here]
    pair = len(values) == 2 and np.isclose(*np.abs(values))
    sign = _sign(-float(values.prod())) if pair else "combination"
    weight = float(np.square(values).mean()) if len(values) else 0.0
    return Link(tuple(names[j] for j in members), sign, weight, disagreement)
