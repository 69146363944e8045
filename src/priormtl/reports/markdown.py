"""Content as Markdown: answers, then the top of every table."""

import re
from collections.abc import Iterator, Sequence

from priormtl.reports.content import Content, Finding, Table
from priormtl.reports.wording import spell

__all__ = ["to_markdown"]

SPECIAL = re.compile(r"([\\`*_\[\]|~$])")
MOST_COLUMNS = 12  # tasks that a table of coefficients shows


def to_markdown(content: Content, rows: int) -> str:
    """All answers, and at most ``rows`` rows of each table."""
    parts = [f"# {_escape(content.title)}", _facts(content)]
    parts += [_finding(finding) for finding in content.findings]
    for table in content.tables:
        parts += _table(table, rows)
    parts += _coefficients(content, rows)
    return "\n\n".join(part for part in parts if part) + "\n"


def _facts(content: Content) -> str:
    return "\n".join(f"- {_escape(a)}: {_escape(b)}" for a, b in content.facts)


def _finding(finding: Finding) -> str:
    head = f"## {_escape(finding.question)} {_escape(finding.value)}"
    note = f"\n\n*{_escape(finding.note)}*" if finding.note else ""
    return f"{head}\n\n{_escape(finding.sentence)}{note}"


def _table(table: Table, rows: int) -> Iterator[str]:
    shown = min(rows, len(table))
    yield f"## {_escape(table.title)}"
    if table.note:
        yield _escape(table.note)
    labels = [column.label for column in table.columns]
    cells = [
        [_cell(column.values[i]) for column in table.columns] for i in range(shown)
    ]
    yield _grid(labels, cells)
    yield _say_more(len(table) + table.left_out - shown, "rows")


def _coefficients(content: Content, rows: int) -> Iterator[str]:
    features, tasks = content.block_names
    k, t = min(rows, len(features)), min(MOST_COLUMNS, len(tasks))
    values = content.block.values[:k, :t]
    yield "## Coefficients"
    cells = [[_escape(features[i]), *map(_cell, values[i])] for i in range(k)]
    yield _grid(["Feature", *tasks[:t]], cells)
    yield _say_more(len(features) + content.block.features_left_out - k, "features")
    yield _say_more(len(tasks) + content.block.tasks_left_out - t, "tasks")


def _grid(labels: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    head = "| " + " | ".join(map(_escape, labels)) + " |"
    rule = "|" + "---|" * len(labels)
    return "\n".join([head, rule, *("| " + " | ".join(row) + " |" for row in cells)])


def _cell(value: str | float) -> str:
    if isinstance(value, str):
        return _escape(value)
    return "" if value != value else spell(float(value))  # noqa: PLR0124


def _say_more(n: int, noun: str) -> str:
    return f"… and {n:,} more {noun}." if n > 0 else ""


def _escape(text: str) -> str:
    """Keep names what they are: neither markup nor new lines."""
    one_line = " ".join(text.split())
    plain = SPECIAL.sub(r"\\\1", one_line)
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
