"""Tables to Markdown, LaTeX and HTML."""

from collections.abc import Callable, Iterable, Sequence
from html import escape

from priormtl.experiments.showing.cells import Cell, Table, TableRow

__all__ = ["to_html", "to_html_page", "to_latex", "to_markdown"]

LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"\ensuremath{\pm}",
    "−": r"\ensuremath{-}",
    "–": "--",
    "†": r"\ensuremath{^\dagger}",
    "▲": r"\ensuremath{^\bigtriangleup}",
    "▼": r"\ensuremath{^\bigtriangledown}",
    "“": "``",
    "”": "''",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}
MARKDOWN = {sign: f"\\{sign}" for sign in "\\|*_<>`"}

STYLE = """\
body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:80rem;padding:0 1rem;
color:#1a1a1a;background:#fff}
.scroll{overflow-x:auto;margin:2rem 0}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
caption{font-weight:600;text-align:left;padding:.4rem 0}
th,td{padding:.3rem .8rem;text-align:right;white-space:nowrap}
thead th{border-top:2px solid;border-bottom:1px solid;white-space:normal}
th[scope=row],thead th:first-child{text-align:left;font-weight:400}
tbody tr:last-child>*{border-bottom:2px solid}
.aside{color:#595959;display:block;font-size:.85em}
.notes{font-size:.875rem;color:#404040;margin:.4rem 0;padding-left:1.2rem}
@media (prefers-color-scheme:dark){body{color:#e8e8e8;background:#161616}
.aside{color:#b0b0b0}.notes{color:#c8c8c8}}"""


def to_markdown(table: Table) -> str:
    """Pipes under a bold title, the notes as a list."""
    head = [_in_markdown(column) for column in table.columns]
    ruler = ["---", *["---:"] * (len(head) - 1)]
    body = [
        [_in_markdown(row.label), *map(_markdown_cell, row.cells)] for row in table.rows
    ]
    lines = ["| " + " | ".join(line) + " |" for line in (head, ruler, *body)]
    notes = [f"- {_in_markdown(note)}" for note in table.notes]
    title = f"**{_in_markdown(table.title)}**"
    return "\n".join([title, "", *lines, "", *notes, ""])


def to_latex(table: Table) -> str:
    """A float with booktabs rules; the notes stand under it, small."""
    head = " & ".join(_in_latex(column) for column in table.columns)
    body = [_latex_row(row) for row in table.rows]
    notes = [rf"\par\footnotesize {_in_latex(note)}" for note in table.notes]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_in_latex(table.title)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
            r"\toprule",
            rf"{head} \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            *notes,
            r"\end{table}",
            "",
        ]
    )


def to_html(table: Table) -> str:
    """A table with a caption and scopes, for any page."""
    heads = "".join(f'<th scope="col">{escape(text)}</th>' for text in table.columns)
    body = "\n".join(_html_row(row) for row in table.rows)
    notes = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
    return (
        f'<div class="scroll"><table>\n<caption>{escape(table.title)}</caption>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n"
        f'<ul class="notes">{notes}</ul></div>\n'
    )


def to_html_page(title: str, tables: Iterable[Table]) -> str:
    """A page of its own: no script, nothing loaded from elsewhere."""
    body = "\n".join(to_html(table) for table in tables)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n"
        f"<main>\n<h1>{escape(title)}</h1>\n{body}</main>\n</body>\n</html>\n"
    )


def _replacer(table: dict[str, str]) -> Callable[[str], str]:
    signs = str.maketrans(table)
    return lambda text: " ".join(text.split()).translate(signs)


_in_latex = _replacer(LATEX)
_in_markdown = _replacer(MARKDOWN)


def _asides(cell: Cell) -> Sequence[str]:
    return [f"({aside})" for aside in cell.asides]


def _markdown_cell(cell: Cell) -> str:
    text = _in_markdown(cell.text)
    strong = f"**{text}**" if cell.bold else text
    return " ".join([strong + cell.mark, *map(_in_markdown, _asides(cell))])


def _latex_row(row: TableRow) -> str:
    return " & ".join([_in_latex(row.label), *map(_latex_cell, row.cells)]) + r" \\"


def _latex_cell(cell: Cell) -> str:
    text = _in_latex(cell.text)
    strong = rf"\textbf{{{text}}}" if cell.bold else text
    main = strong + _in_latex(cell.mark)
    asides = " ".join(map(_in_latex, _asides(cell)))
    # Under each other: side by side they would leave the page.
    return rf"\shortstack[r]{{{main}\\ \scriptsize {asides}}}" if asides else main


def _html_row(row: TableRow) -> str:
    cells = "".join(f"<td>{_html_cell(cell)}</td>" for cell in row.cells)
    return f'<tr><th scope="row">{escape(row.label)}</th>{cells}</tr>'


def _html_cell(cell: Cell) -> str:
    text = escape(cell.text)
    strong = f"<strong>{text}</strong>" if cell.bold else text
    asides = [f'<span class="aside">{escape(aside)}</span>' for aside in _asides(cell)]
    return " ".join([strong + escape(cell.mark), *asides])
