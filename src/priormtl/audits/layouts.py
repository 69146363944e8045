"""An audit as text, Markdown and HTML: content once, then its layouts."""

from collections.abc import Callable, Sequence
from html import escape
from math import isnan
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from priormtl.audits.results import PriorAudit, RelationAudit

__all__ = ["as_html", "as_markdown", "as_text"]

MOST_ROWS = 20  # of a table that is shown; frames and JSON hold all
HEADER = ("relation", "verdict", "tension", "p", "before", "after", "share")
KINDS = {"feature": "Relations between features", "task": "Ties between tasks"}


def as_text(audit: "PriorAudit") -> str:
    """Lines for a terminal."""
    parts = ["\n".join(_opening(audit))]
    for title, rows in _tables(audit):
        parts.append(f"{title}\n{_aligned([HEADER, *rows])}")
    return "\n\n".join(parts)


def as_markdown(audit: "PriorAudit") -> str:
    """A page of Markdown."""
    parts = ["# Prior audit", *(_marked(line) for line in _opening(audit))]
    for title, rows in _tables(audit):
        lines = [HEADER, ("---",) * len(HEADER), *rows]
        table = "\n".join(f"| {' | '.join(map(_marked, line))} |" for line in lines)
        parts += [f"## {title}", table]
    return "\n\n".join(parts) + "\n"


def as_html(audit: "PriorAudit") -> str:
    """Paragraphs and tables for a notebook."""
    parts = [f"<p>{escape(line)}</p>" for line in _opening(audit)]
    for title, rows in _tables(audit):
        head = _html_row("th", HEADER)
        body = "".join(_html_row("td", row) for row in rows)
        parts.append(
            f"<h4>{escape(title)}</h4><table><thead>{head}</thead>"
            f"<tbody>{body}</tbody></table>"
        )
    return "".join(parts)


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


def _tables(audit: "PriorAudit") -> list[tuple[str, list[tuple[str, ...]]]]:
    """Title and rows of each kind."""
    found = []
    for kind, title in KINDS.items():
        relations = [r for r in audit.relations if r.kind == kind]
        more = len(relations) - MOST_ROWS
        if relations:
            words = f"{title} (first {MOST_ROWS} of {len(relations)})"
            rows = [_row(relation) for relation in relations[:MOST_ROWS]]
            found.append((words if more > 0 else title, rows))
    return found


def _row(relation: "RelationAudit") -> tuple[str, ...]:
    return (
        relation.relation,
        relation.verdict,
        _number(relation.tension),
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


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides: list[Callable[[str, int], str]] = [str.ljust, str.ljust]
    sides += [str.rjust] * (len(widths) - 2)
    lines = [
        "  ".join(
            side(cell, w) for side, cell, w in zip(sides, row, widths, strict=True)
        )
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def _marked(text: str) -> str:
    """Text that Markdown shows as it is."""
    if set(text) == {"-"}:
        return text
    for sign in "\\|*_`<>[]#~":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())


def _html_row(cell: str, values: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{cell}>{escape(v)}</{cell}>' for v in values)}</tr>"
