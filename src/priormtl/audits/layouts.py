"""An audit in its layouts: sentences first, then tables."""

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from math import isnan
from typing import TYPE_CHECKING

from priormtl.tables import Table, build_table, in_latex, in_markdown

if TYPE_CHECKING:
    from priormtl.audits.results import PriorAudit, RelationAudit

__all__ = ["as_html", "as_latex", "as_markdown", "as_text", "audit_tables"]

MOST_ROWS = 20  # of a table that is shown; frames and JSON hold all
HEADER = ("relation", "verdict", "statistic", "p", "before", "after", "share")
KINDS = {"feature": "Relations between features", "task": "Ties between tasks"}
NUMBERS = "ll" + "r" * (len(HEADER) - 2)


def as_text(audit: "PriorAudit", tables: str) -> str:
    """Lines for a terminal."""
    opening = "\n".join(_opening(audit))
    return f"{opening}\n\n{tables}".rstrip()


def as_markdown(audit: "PriorAudit", tables: str) -> str:
    """A page of Markdown."""
    opening = [f"- {in_markdown(line)}" for line in _opening(audit)]
    return "\n".join(["# Prior audit", "", *opening, "", tables])


def as_html(audit: "PriorAudit", tables: str) -> str:
    """Paragraphs and tables."""
    opening = "".join(f"<p>{escape(line)}</p>" for line in _opening(audit))
    return opening + tables


def as_latex(audit: "PriorAudit", tables: str) -> str:
    """Paragraphs and floats, to be put into a paper."""
    opening = "\n\n".join(map(in_latex, _opening(audit)))
    return f"{opening}\n\n{tables}"


def _opening(audit: "PriorAudit") -> list[str]:
    """What a reader wants first: did it help, and which relations are doubtful."""
    lines = [str(audit.helped) if audit.helped else f"Not judged: {audit.reason}"]
    if audit.helped_tuned:
        lines.append(f"Each with its own best lam: {audit.helped_tuned}")
    for kind, title in KINDS.items():
        relations = [r for r in audit.relations if r.kind == kind]
        if relations:
            lines.append(_count(title, relations))
    return lines


def _count(title: str, relations: Sequence["RelationAudit"]) -> str:
    doubtful = [r.relation for r in relations if r.verdict == "disagrees"]
    unknown = sum(r.verdict == "cannot be judged" for r in relations)
    text = f"{title}: the data speak against {len(doubtful)} of {len(relations)}"
    names = ", ".join(doubtful[:5]) + (", …" if len(doubtful) > 5 else "")
    known = f" ({names})" if doubtful else ""
    rest = f"; {unknown} cannot be judged" if unknown else ""
    return f"{text}{known}{rest}."


def audit_tables(audit: "PriorAudit") -> list[Table]:
    """One table of each kind of relations."""
    found = []
    for kind, title in KINDS.items():
        rows = [_row(relation) for relation in audit.relations if relation.kind == kind]
        if rows:
            table = build_table(title, HEADER, rows, most=MOST_ROWS, what="relations")
            found.append(replace(table, alignment=NUMBERS))
    return found


def _row(relation: "RelationAudit") -> tuple[str, ...]:
    return (
        relation.relation,
        relation.verdict,
        _number(relation.statistic),
        _p_value(relation.p_value),
        f"{relation.violation_before:.2f}",
        f"{relation.violation_after:.2f}",
        f"{100 * relation.share:.0f} %",
    )


def _number(value: float) -> str:
    return "unknown" if isnan(value) else f"{value:.1f}"


def _p_value(value: float) -> str:
    if isnan(value):
        return "unknown"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
