"""Content as one HTML page, as JSON, as Markdown, and as a file of coefficients.

The page is complete in itself: a content security policy allows its own script and
style, by their hashes, and nothing else. Its data are JSON, with numbers packed as
base64 of doubles (exact, and 11 bytes each).
"""

import csv
import io
import os
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from priormtl._arrays import Array
from priormtl._files import write_whole
from priormtl.rendering import in_markdown
from priormtl.rendering import to_json as dump_json
from priormtl.reports.content import Content, Table, spell
from priormtl.reports.model import FittedModel

FORMAT = 1  # of the JSON, raised when its fields change their meaning


# HTML


def to_page(content: Content) -> str:
    """Whole page; its policy allows its own script and style, and nothing else."""
    folder = files("priormtl.reports") / "templates"

    def read(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8")

    scripts = ("data", "shapes", "tables", "heatmap", "charts", "page")
    # Names of one script are visible to the next, not to the browser's console.
    body = "\n".join(read(f"{name}.js") for name in scripts)
    script = f'"use strict";\n(() => {{\n{body}}})();\n'
    style = read("page.css")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; "
        f"style-src '{_hash(style)}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    facts = [
        f"<div><dt>{escape(label)}</dt><dd>{escape(text)}</dd></div>"
        for label, text in content.facts
    ]
    findings = []
    for finding in content.findings:
        note = f'<p class="note">{escape(finding.note)}</p>' if finding.note else ""
        findings.append(
            f'<article id="finding-{escape(finding.key)}">'
            f"<h3>{escape(finding.question)}</h3>"
            f'<p class="value">{escape(finding.value)}</p>'
            f"<p>{escape(finding.sentence)}</p>{note}</article>"
        )
    return Template(read("page.html")).substitute(
        title=escape(content.title),
        policy=policy,
        style=style,
        script=script,
        facts="\n".join(facts),
        findings="\n".join(findings),
        data=to_page_data(content),
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


# JSON


def to_json(content: Content) -> str:
    """All content for programs; unknown numbers are null."""
    features, tasks = content.block_names
    coefficients = {
        "features": list(features),
        "tasks": list(tasks),
        "values": content.block.values,
    }
    return _dump(content, coefficients, np.ndarray.tolist)


def to_page_data(content: Content) -> str:
    """The same for the page's script, safe inside HTML."""
    values = content.block.values
    coefficients = {"shape": list(values.shape), "values": pack_numbers(values)}
    text = _dump(content, coefficients, pack_numbers)
    # Nothing inside a script element may look like markup.
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def pack_numbers(values: Array) -> str:
    """Doubles, smallest byte first, as base64."""
    return b64encode(np.ascontiguousarray(values, dtype="<f8").tobytes()).decode()


def _dump(
    content: Content, coefficients: dict[str, Any], numbers: Callable[[Array], Any]
) -> str:
    tables = {
        table.name: {
            "title": table.title,
            "note": table.note,
            "left_out": table.left_out,
            "columns": [
                {
                    "name": column.name,
                    "label": column.label,
                    "text": column.is_text,
                    "values": list(column.values)
                    if isinstance(column.values, tuple)
                    else numbers(column.values),
                }
                for column in table.columns
            ],
        }
        for table in content.tables
    }
    findings = [
        vars(finding) | {"numbers": dict(finding.numbers or {})}
        for finding in content.findings
    ]
    left_out = {
        "features_left_out": content.block.features_left_out,
        "tasks_left_out": content.block.tasks_left_out,
    }
    plain = {
        "format": FORMAT,
        "title": content.title,
        "metric": content.metric,
        "facts": [list(fact) for fact in content.facts],
        "findings": findings,
        "tables": tables,
        "coefficients": coefficients | left_out,
    }
    return dump_json(plain, ensure_ascii=False)


# Markdown


def to_markdown(content: Content, rows: int) -> str:
    """All answers, and at most ``rows`` rows of each table."""
    facts = [f"- {in_markdown(a)}: {in_markdown(b)}" for a, b in content.facts]
    parts = [f"# {in_markdown(content.title)}", "\n".join(facts)]
    for finding in content.findings:
        parts.append(f"## {in_markdown(finding.question)} {in_markdown(finding.value)}")
        parts.append(in_markdown(finding.sentence))
        parts += [f"*{in_markdown(finding.note)}*"] if finding.note else []
    for table in content.tables:
        parts += _markdown_table(table, rows)
    features, tasks = content.block_names
    most_tasks = 12  # columns of Markdown's table of coefficients
    k, t = min(rows, len(features)), min(most_tasks, len(tasks))
    cells = [[features[i], *content.block.values[i, :t]] for i in range(k)]
    parts += ["## Coefficients", _grid(["Feature", *tasks[:t]], cells)]
    parts += _more(len(features) + content.block.features_left_out - k, "features")
    parts += _more(len(tasks) + content.block.tasks_left_out - t, "tasks")
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown_table(table: Table, rows: int) -> Iterator[str]:
    shown = min(rows, len(table))
    yield f"## {in_markdown(table.title)}"
    yield in_markdown(table.note)
    labels = [column.label for column in table.columns]
    yield _grid(labels, [[c.values[i] for c in table.columns] for i in range(shown)])
    yield from _more(len(table) + table.left_out - shown, "rows")


def _grid(labels: Sequence[str], rows: Sequence[Sequence[str | float]]) -> str:
    lines = ["| " + " | ".join(map(in_markdown, labels)) + " |"]
    lines.append("|" + "---|" * len(labels))
    for row in rows:
        cells = [
            in_markdown(value)
            if isinstance(value, str)
            else ""
            if np.isnan(value)
            else spell(float(value))
            for value in row
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _more(n: int, noun: str) -> list[str]:
    return [f"… and {n:,} more {noun}."] if n > 0 else []


# All coefficients


def save_coefficients(fitted: FittedModel, path: str | os.PathLike[str]) -> None:
    """Write one row per feature and one column per task: CSV, or Parquet by name."""
    suffix = Path(path).suffix
    if suffix not in {".csv", ".parquet"}:
        raise ValueError(
            f"coefficients must be a file that ends in .csv or .parquet: got {path}."
        )
    head = ["feature", *fitted.tasks]
    if suffix == ".csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(head)
        for name, row in zip(fitted.features, fitted.coef.T, strict=True):
            writer.writerow([name, *row.tolist()])
        write_whole(path, text.getvalue().encode())
        return
    try:
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise ModuleNotFoundError(
            f"Coefficients as Parquet need {error.name}: pip install "
            "'priormtl[arrow]', or name a file that ends in .csv.",
            name=error.name,
        ) from None
    columns = [pa.array(fitted.features), *map(pa.array, fitted.coef)]
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(columns, names=head), sink)
    write_whole(path, memoryview(sink.getvalue()))
