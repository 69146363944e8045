"""How well known relations hold: one row per relation of the prior."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from priormtl._arrays import Array
from priormtl.audits import describe_rows
from priormtl.estimators import shared_coef
from priormtl.priors import measure_violations
from priormtl.reports.content import Column, Table
from priormtl.reports.learned import Learned
from priormtl.reports.wording import spell_label

__all__ = ["relation_table"]

CHUNK = 1000  # relations looked at in one go
NUMBERS = {  # of an audit, and their labels
    "weight": "Weight",
    "violation_before": "Disagreement without",
    "violation_after": "Disagreement",
    "share": "Share of penalty",
    "statistic": "Test statistic",
    "p_value": "p-value",
}
NOTE = (
    "Disagreement is 0 where a relation holds exactly and 1 where it is as wrong as "
    "can be"
)


def relation_table(learned: Learned, audit: Any) -> Table | None:
    """Relations of an audit, or of the model's prior; most disagreeing first."""
    audited = getattr(audit, "relations", None)
    if audited:
        return _from_audit(audited)
    prior = getattr(learned.model, "feature_prior_", None)
    if prior is None:
        return None
    d = len(learned.features)
    parts = [part.matrix(d) for part in prior.parts]
    D = csr_array(vstack([csr_array((0, d)), *parts]))
    return _from_matrix(learned, D) if D.shape[0] else None


def _from_audit(relations: Sequence[Any]) -> Table:
    words = {"relation": "Relation", "kind": "Between", "verdict": "Verdict"}
    texts = [
        Column(name, label, tuple(spell_label(getattr(r, name)) for r in relations))
        for name, label in words.items()
    ]
    numbers = [
        Column(name, label, np.array([float(getattr(r, name)) for r in relations]))
        for name, label in NUMBERS.items()
    ]
    note = f"{NOTE}; “without” is a fit without the prior. Most disagreeing first."
    title = "Relations of the prior"
    return Table("relations", title, (*texts, *numbers), note)


def _from_matrix(learned: Learned, D: csr_array) -> Table:
    scales = getattr(learned.model, "standardize", False)
    unit = learned.scale if scales and learned.scale is not None else 1.0
    coef = shared_coef(learned.model) * unit
    violation, squares = _measure(D, np.ascontiguousarray(coef.T))
    total = squares.sum()
    share = squares / total if total > 0 else np.zeros(len(squares))
    words = (s.relation for s in describe_rows(D, learned.features))
    columns = (
        Column("relation", "Relation", tuple(map(spell_label, words))),
        Column("violation_after", NUMBERS["violation_after"], violation),
        Column("share", NUMBERS["share"], share),
    )
    note = f"{NOTE}, in the fitted model. Most disagreeing first."
    table = Table("relations", "Relations of the prior", columns, note)
    return table.take(np.argsort(-violation, kind="stable"))


def _measure(D: csr_array, P: Array) -> tuple[Array, Array]:
    """Violation of each relation and its part in ‖D P‖², for P of largest number 1."""
    largest = np.abs(P).max(initial=0.0)
    P = P / largest if largest > 0 else P
    parts = [D[start : start + CHUNK] for start in range(0, D.shape[0], CHUNK)]
    violations = [measure_violations(part, P) for part in parts]
    squares = [np.sum((part @ P) ** 2, axis=1) for part in parts]
    return np.concatenate(violations), np.concatenate(squares)
