"""How well known relations hold: one row per relation of the prior."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from priormtl._arrays import Array
from priormtl.reports.content import Column, Table
from priormtl.reports.learned import Learned, row_norms
from priormtl.reports.wording import MINUS, spell, spell_label

__all__ = ["relation_table"]

CHUNK = 1000  # relations looked at in one go
MOST_TERMS = 4  # features that a relation's name shows
NUMBERS = {  # of an audit, and their labels
    "weight": "Weight",
    "violation_before": "Disagreement without",
    "violation_after": "Disagreement",
    "share": "Share of penalty",
    "tension": "Tension",
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
    coef = learned.comparable if scales else learned.coef
    violation, squares = _violations(D, np.ascontiguousarray(coef.T))
    total = squares.sum()
    share = squares / total if total > 0 else np.zeros(len(squares))
    columns = (
        Column("relation", "Relation", _spell_rows(D, learned.features)),
        Column("violation_after", NUMBERS["violation_after"], violation),
        Column("share", NUMBERS["share"], share),
    )
    note = f"{NOTE}, in the fitted model. Most disagreeing first."
    table = Table("relations", "Relations of the prior", columns, note)
    return table.take(np.argsort(-violation, kind="stable"))


def _violations(D: csr_array, P: Array) -> tuple[Array, Array]:
    """‖d P‖ over its largest possible size, and its square, of each relation."""
    largest = np.abs(P).max(initial=0.0)
    P = P / largest if largest > 0 else P
    starts = range(0, D.shape[0], CHUNK)
    sizes = np.concatenate([row_norms(D[a : a + CHUNK] @ P) for a in starts])
    bounds = np.abs(D) @ row_norms(P)
    return np.where(bounds > 0, sizes / np.where(bounds > 0, bounds, 1), 0.0), sizes**2


def _spell_rows(D: csr_array, names: Sequence[str]) -> tuple[str, ...]:
    spans = zip(D.indptr[:-1], D.indptr[1:], strict=True)
    return tuple(
        _spell_row(D.data[a:b], [names[j] for j in D.indices[a:b]]) for a, b in spans
    )


def _spell_row(values: Array, names: list[str]) -> str:
    """``a ~ b`` for alike, ``a ~ −b`` for opposite, else the sum that is zero."""
    if len(values) == 2 and abs(values[0]) == abs(values[1]):
        sign = "" if values[0] * values[1] < 0 else MINUS
        return f"{names[0]} ~ {sign}{names[1]}"
    pairs = list(zip(values, names, strict=True))
    terms = [f"{spell(value, 3)} {name}" for value, name in pairs[:MOST_TERMS]]
    more = ["…"] if len(pairs) > MOST_TERMS else []
    return f"{' + '.join(terms + more)} ~ 0"
