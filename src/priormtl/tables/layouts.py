"""Tables to plain text, Markdown and HTML; words are never markup."""

from collections.abc import Iterable, Sequence
from html import escape
from unicodedata import combining, east_asian_width

from priormtl.tables.cells import Cell, Shown, TableRow

__all__ = [
    "in_markdown",
    "to_html",
    "to_html_page",
    "to_markdown",
    "to_notebook",
    "to_text",
]

MARKDOWN = str.maketrans({sign: f"\\{sign}" for sign in "\\|*_<>`"})

STYLE = """\
body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:80rem;padding:0 1rem;
color:#1a1a1a;background:#fff}
.scroll{overflow-x:auto;margin:2rem 0}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
caption{font-weight:600;text-align:left;padding:.4rem 0}
th,td{padding:.3rem .8rem;text-align:right;white-space:nowrap}
thead th{border-top:2px solid;border-bottom:1px solid;white-space:normal}
th[scope=row],td.words,thead th.words{text-align:left;font-weight:400}
tbody tr:last-child>*{border-bottom:2px solid}
.aside{color:#595959;display:block;font-size:.85em}
.notes{font-size:.875rem;color:#404040;margin:.4rem 0;padding-left:1.2rem}
@media (prefers-color-scheme:dark){body{color:#e8e8e8;background:#161616}
.aside{color:#b0b0b0}.notes{color:#c8c8c8}}"""

NOTEBOOK_STYLE = (
    ".priormtl table{border-collapse:collapse}"
    ".priormtl caption{font-weight:600;text-align:left;white-space:nowrap}"
    ".priormtl th,.priormtl td{padding:.15em .7em;text-align:right}"
    ".priormtl th.words,.priormtl td.words,.priormtl th[scope=row]{text-align:left}"
    ".priormtl th[scope=row]{font-weight:400}"
)


def to_text(table: Shown) -> str:
    """Aligned columns under a title, for terminals and plain files."""
    head = [_in_text(column) for column in table.columns]
    body = [[_in_text(row.label), *map(_text_cell, row.cells)] for row in table.rows]
    lines = [head, *body]
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    ruler = "  ".join("─" * width for width in widths)
    shown = [_aligned(line, widths, table.alignment) for line in lines]
    notes = [_in_text(note) for note in table.notes]
    return "\n".join(
        [_in_text(table.title), "", shown[0], ruler, *shown[1:], *notes, ""]
    )


def to_markdown(table: Shown) -> str:
    """Pipes under a bold title, the notes as a list."""
    head = [in_markdown(column) for column in table.columns]
    ruler = ["---" if side == "l" else "---:" for side in table.alignment]
    body = [
        [in_markdown(row.label), *map(_markdown_cell, row.cells)] for row in table.rows
    ]
    lines = ["| " + " | ".join(line) + " |" for line in (head, ruler, *body)]
    notes = [f"- {in_markdown(note)}" for note in table.notes]
    title = f"**{in_markdown(table.title)}**"
    return "\n".join([title, "", *lines, "", *notes, ""])


def to_html(table: Shown) -> str:
    """A table with a caption and scopes, for any page."""
    heads = "".join(map(_html_head, table.columns, table.alignment))
    body = "\n".join(_html_row(row, table.alignment) for row in table.rows)
    items = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
    notes = f'<ul class="notes">{items}</ul>' if items else ""
    return (
        f'<div class="scroll"><table>\n<caption>{escape(table.title)}</caption>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n"
        f"{notes}</div>\n"
    )


def to_notebook(tables: Iterable[Shown]) -> str:
    """Tables for a notebook's cell, with the little style that they need."""
    body = "".join(map(to_html, tables))
    return f'<div class="priormtl"><style>{NOTEBOOK_STYLE}</style>{body}</div>'


def to_html_page(title: str, tables: Iterable[Shown]) -> str:
    """A page of its own: no script, nothing loaded from elsewhere."""
    body = "\n".join(to_html(table) for table in tables)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n"
        f"<main>\n<h1>{escape(title)}</h1>\n{body}</main>\n</body>\n</html>\n"
    )


def in_markdown(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    signs = " ".join(text.split()).translate(MARKDOWN)
    # Brackets alone are harmless; these two together would make a link.
    return signs.replace("](", "]\\(")


def _in_text(text: str) -> str:
    """Words on one line, without signs that move a terminal's cursor."""
    return "".join(sign for sign in " ".join(text.split()) if sign.isprintable())


def _width(text: str) -> int:
    """Places that a text takes in a terminal."""
    return sum(_sign_width(sign) for sign in text)


def _sign_width(sign: str) -> int:
    if combining(sign):
        return 0
    return 2 if east_asian_width(sign) in "WF" else 1


def _aligned(line: Sequence[str], widths: Sequence[int], alignment: str) -> str:
    """Words to the left, numbers to the right."""
    cells = [
        " " * gap + text if side == "r" else text + " " * gap
        for text, gap, side in zip(line, _gaps(line, widths), alignment, strict=True)
    ]
    return "  ".join(cells).rstrip()


def _gaps(line: Sequence[str], widths: Sequence[int]) -> list[int]:
    return [width - _width(text) for text, width in zip(line, widths, strict=True)]


def _text_cell(cell: Cell) -> str:
    return _in_text(" ".join([cell.text + cell.mark, *_asides(cell)]))


def _asides(cell: Cell) -> Sequence[str]:
    return [f"({aside})" for aside in cell.asides]


def _markdown_cell(cell: Cell) -> str:
    text = in_markdown(cell.text)
    strong = f"**{text}**" if cell.bold else text
    return " ".join([strong + cell.mark, *map(in_markdown, _asides(cell))])


def _html_head(text: str, side: str) -> str:
    kind = ' class="words"' if side == "l" else ""
    return f'<th scope="col"{kind}>{escape(text)}</th>'


def _html_row(row: TableRow, alignment: str) -> str:
    opening = {"l": '<td class="words">', "r": "<td>"}
    cells = "".join(
        f"{opening[side]}{_html_cell(cell)}</td>"
        for cell, side in zip(row.cells, alignment[1:], strict=True)
    )
    return f'<tr><th scope="row">{escape(row.label)}</th>{cells}</tr>'


def _html_cell(cell: Cell) -> str:
    text = escape(cell.text)
    strong = f"<strong>{text}</strong>" if cell.bold else text
    asides = [f'<span class="aside">{escape(aside)}</span>' for aside in _asides(cell)]
    return " ".join([strong + escape(cell.mark), *asides])
