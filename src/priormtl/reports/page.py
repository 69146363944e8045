"""Content as one HTML file that needs nothing else and asks nobody."""

from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template

from priormtl.reports.content import Content, Finding
from priormtl.reports.plain import to_page_data

__all__ = ["to_page"]

SCRIPTS = ("data", "shapes", "tables", "heatmap", "charts", "page")


def to_page(content: Content) -> str:
    """Whole page; its policy allows its own script and style, and nothing else."""
    style = _read("page.css")
    # Names of one file are seen by the next, not by the browser's console.
    body = "\n".join(_read(f"{name}.js") for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{body}}})();\n'
    return Template(_read("page.html")).substitute(
        title=escape(content.title),
        policy=_policy(script, style),
        style=style,
        script=script,
        facts="\n".join(_fact(*fact) for fact in content.facts),
        findings="\n".join(map(_finding, content.findings)),
        data=to_page_data(content),
    )


def _policy(script: str, style: str) -> str:
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; "
        f"style-src '{_hash(style)}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _read(name: str) -> str:
    folder = files("priormtl.reports") / "templates"
    return (folder / name).read_text(encoding="utf-8")


def _fact(label: str, text: str) -> str:
    return f"<div><dt>{escape(label)}</dt><dd>{escape(text)}</dd></div>"


def _finding(finding: Finding) -> str:
    note = f'<p class="note">{escape(finding.note)}</p>' if finding.note else ""
    return (
        f'<article id="finding-{escape(finding.key)}">'
        f"<h3>{escape(finding.question)}</h3>"
        f'<p class="value">{escape(finding.value)}</p>'
        f"<p>{escape(finding.sentence)}</p>{note}</article>"
    )
