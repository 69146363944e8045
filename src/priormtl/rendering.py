r"""Tables as values, and their layouts: text, Markdown, HTML and LaTeX; JSON.

A ``Table`` says what each cell shows, before any layout. Its cells are any objects with
the properties of ``Cell``; ``TextCell`` is the plain one, and ``build_table`` makes a
table from rows of texts and numbers.
``Tabled`` is the base of results that consist of tables, with one method per layout.

Each format has one escape, used everywhere in the package, so that names of features
and tasks are shown as they are and never read as markup: ``in_markdown``, ``in_latex``
and ``html.escape``. ``to_json`` writes JSON without NaN and infinity.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import isfinite, isnan
from typing import Protocol
from unicodedata import combining, decomposition, east_asian_width, normalize

NOTHING = "–"


class Cell(Protocol):
    """What a layout needs to know of a cell."""

    @property
    def text(self) -> str: ...
    @property
    def mark(self) -> str: ...  # sign after the text, explained in a note
    @property
    def asides(self) -> Sequence[str]: ...  # remarks, shown in brackets
    @property
    def bold(self) -> bool: ...


@dataclass(frozen=True)
class TextCell:
    """A cell of plain text."""

    text: str
    mark: str = ""
    asides: tuple[str, ...] = ()
    bold: bool = False


@dataclass(frozen=True)
class TableRow:
    """A label and its cells."""

    label: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """Title, column headers, rows and notes."""

    title: str
    columns: tuple[str, ...]  # the first is that of the row labels
    rows: tuple[TableRow, ...]
    alignment: str  # one of l and r per column
    notes: tuple[str, ...] = ()


def build_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    most: int | None = None,
    what: str = "rows",
) -> Table:
    """Build a table of texts and numbers from its first ``most`` rows.

    A note counts the rows that are left out. Columns of text are aligned to the left,
    others to the right.
    """
    shown = rows if most is None else rows[:most]
    left_out = len(rows) - len(shown)
    notes = (f"… and {left_out} more {what}.",) if left_out else ()
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    sides = [
        "l" if any(isinstance(value, str) for value in column) else "r"
        for column in values[1:]
    ]
    lines = []
    for row in shown:
        label, *others = [
            spell_number(value)
            if value is None or isinstance(value, float)
            else str(value)
            for value in row
        ]
        lines.append(TableRow(label, tuple(map(TextCell, others))))
    return Table(title, tuple(columns), tuple(lines), "l" + "".join(sides), notes)


def spell_number(value: float | None, digits: int = 4) -> str:
    """Number with a few digits and a typographic minus; a dash for None and NaN."""
    if value is None or isnan(value):
        return NOTHING
    if not isfinite(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.{digits}g}".replace("-", "−")


def count_words(count: int, word: str) -> str:
    """Count with its noun: 1 edge, 2 edges, 1,000 edges."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def join_words(words: Iterable[str], most: int | None = None) -> str:
    """Join words by commas and “and”; those beyond ``most`` are only counted.

    Examples
    --------
    >>> join_words(["lam", "theta", "epsilon"])
    'lam, theta and epsilon'
    """
    *first, last = list(words) or [""]
    if most is not None and len(first) >= most:
        first, last = [*first, last][:most], f"{len(first) + 1 - most:,} more"
    return f"{', '.join(first)} and {last}" if first else last


class Tabled(ABC):
    """Base of results that are shown as tables; methods are named as in pandas."""

    @abstractmethod
    def _tables(self) -> Sequence[Table]: ...

    def _opening(self) -> Sequence[str]:
        """Sentences before the tables."""
        return ()

    def to_text(self) -> str:
        """Plain text, for terminals."""
        tables = "\n".join(map(to_text, self._tables()))
        opening = "\n".join(self._opening())
        return f"{opening}\n\n{tables}".rstrip() if opening else tables

    def to_html(self) -> str:
        """HTML tables, for any page."""
        return self._html_opening() + "".join(map(to_html, self._tables()))

    def _html_opening(self) -> str:
        return "".join(f"<p>{escape(line)}</p>" for line in self._opening())

    def to_latex(self) -> str:
        r"""LaTeX tables with booktabs rules.

        The document needs ``\usepackage{booktabs,graphicx}``, with pdfLaTeX also
        ``\usepackage[T1]{fontenc}``. Names beyond Latin and Greek letters need XeLaTeX
        or LuaLaTeX and a font that has them.
        """
        opening = "".join(f"{in_latex(line)}\n\n" for line in self._opening())
        return opening + "\n".join(map(to_latex, self._tables()))

    def to_markdown(self) -> str:
        """Markdown tables."""
        return "\n".join(map(to_markdown, self._tables()))

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return self._html_opening() + to_notebook(self._tables())


# Plain text


def to_text(table: Table) -> str:
    """Aligned columns under a title, for terminals and plain files."""
    lines = [[_in_text(column) for column in table.columns]]
    for row in table.rows:
        cells = [
            " ".join([cell.text + cell.mark, *_asides(cell)]) for cell in row.cells
        ]
        lines.append([_in_text(text) for text in (row.label, *cells)])
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    shown = []
    for line in lines:
        cells = []
        for text, width, side in zip(line, widths, table.alignment, strict=True):
            gap = " " * (width - _width(text))
            cells.append(gap + text if side == "r" else text + gap)
        shown.append("  ".join(cells).rstrip())
    ruler = "  ".join("─" * width for width in widths)
    notes = [_in_text(note) for note in table.notes]
    return "\n".join(
        [_in_text(table.title), "", shown[0], ruler, *shown[1:], *notes, ""]
    )


def _in_text(text: str) -> str:
    """Text on one line, without characters that move a terminal's cursor."""
    return "".join(filter(str.isprintable, " ".join(text.split())))


def _width(text: str) -> int:
    """Terminal columns that a text takes: wide East Asian characters take two."""
    return sum(
        0 if combining(sign) else 2 if east_asian_width(sign) in "WF" else 1
        for sign in text
    )


def _asides(cell: Cell) -> list[str]:
    return [f"({aside})" for aside in cell.asides]


# Markdown


def in_markdown(text: str) -> str:
    r"""Escape text for Markdown, on one line.

    Punctuation is escaped by a backslash; ``&``, ``<`` and ``>`` become entities, which
    also Markdown dialects without backslash escapes for them understand.

    Examples
    --------
    >>> print(in_markdown("a_b | <i>"))
    a\_b \| &lt;i&gt;
    """
    signs = re.sub(r"([\\`*_\[\]|~$])", r"\\\1", " ".join(text.split()))
    return signs.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def to_markdown(table: Table) -> str:
    ruler = ["---" if side == "l" else "---:" for side in table.alignment]
    lines = [[in_markdown(column) for column in table.columns], ruler]
    for row in table.rows:
        cells = []
        for cell in row.cells:
            text = in_markdown(cell.text)
            strong = f"**{text}**" if cell.bold else text
            cells.append(
                " ".join([strong + cell.mark, *map(in_markdown, _asides(cell))])
            )
        lines.append([in_markdown(row.label), *cells])
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    notes = [f"- {in_markdown(note)}" for note in table.notes]
    return "\n".join([f"**{in_markdown(table.title)}**", "", *rows, "", *notes, ""])


# HTML


def to_html(table: Table) -> str:
    kinds = [' class="words"' if side == "l" else "" for side in table.alignment]
    heads = "".join(
        f'<th scope="col"{kind}>{escape(text)}</th>'
        for text, kind in zip(table.columns, kinds, strict=True)
    )
    body = ""
    for row in table.rows:
        body += f'<tr><th scope="row">{escape(row.label)}</th>'
        for cell, kind in zip(row.cells, kinds[1:], strict=True):
            text = escape(cell.text)
            strong = f"<strong>{text}</strong>" if cell.bold else text
            asides = [f'<span class="aside">{escape(x)}</span>' for x in _asides(cell)]
            shown = " ".join([strong + escape(cell.mark), *asides])
            body += f"<td{kind}>{shown}</td>"
        body += "</tr>\n"
    items = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
    notes = f'<ul class="notes">{items}</ul>' if items else ""
    return (
        f'<div class="scroll"><table>\n<caption>{escape(table.title)}</caption>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody>\n"
        f"</table>\n{notes}</div>\n"
    )


def to_notebook(tables: Iterable[Table]) -> str:
    """HTML tables for a notebook's output cell, with their style."""
    style = (
        ".priormtl table{border-collapse:collapse}"
        ".priormtl caption{font-weight:600;text-align:left;white-space:nowrap}"
        ".priormtl th,.priormtl td{padding:.15em .7em;text-align:right}"
        ".priormtl th.words,.priormtl td.words,.priormtl th[scope=row]{text-align:left}"
        ".priormtl th[scope=row]{font-weight:400}"
    )
    body = "".join(map(to_html, tables))
    return f'<div class="priormtl"><style>{style}</style>{body}</div>'


def to_html_page(title: str, tables: Iterable[Table]) -> str:
    """HTML page of its own: no script, nothing loaded from elsewhere."""
    style = """\
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
    body = "\n".join(to_html(table) for table in tables)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}\n</style>\n</head>\n<body>\n"
        f"<main>\n<h1>{escape(title)}</h1>\n{body}</main>\n</body>\n</html>\n"
    )


# LaTeX


def _commands(named: dict[str, str]) -> dict[str, str]:
    return {
        sign: rf"\{name}"
        for signs, names in named.items()
        for sign, name in zip(signs, names.split(), strict=True)
    }


LATEX_MATHS = {
    **_commands(
        {
            "±∓×÷·∘≤≥≠≈": "pm mp times div cdot circ leq geq neq approx",
            "∞√∂∇∑∏∈‖": "infty surd partial nabla sum prod in |",
            "←→↑↓": "leftarrow rightarrow uparrow downarrow",
            "↔⇒": "leftrightarrow Rightarrow",
            "αβγδεζηθ": "alpha beta gamma delta varepsilon zeta eta theta",
            "ικλμµνξπ": "iota kappa lambda mu mu nu xi pi",
            "ρςστυφχψω": "rho varsigma sigma tau upsilon varphi chi psi omega",
            "ϑϕϵ": "vartheta phi epsilon",
            "ΓΔΘΛΞΠ": "Gamma Delta Theta Lambda Xi Pi",
            "ΣΥΦΨΩ": "Sigma Upsilon Phi Psi Omega",
        }
    ),
    **{"−": "-", "°": r"^\circ", "†": r"^\dagger"},
    **{"▲": r"^\bigtriangleup", "▼": r"^\bigtriangledown"},
}
PARTED = "\N{NULL}"
LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "`": r"\textasciigrave{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    "“": "``",
    "”": "''",
    "€": r"\texteuro{}",
    # Capitals that look like Latin ones have no commands of their own.
    **dict(zip("οΑΒΕΖΗΙΚΜΝΟΡΤΧ", "oABEZHIKMNOPTX", strict=True)),
    **{sign: rf"\ensuremath{{{name}}}" for sign, name in LATEX_MATHS.items()},
    PARTED: "{}",
}


def in_latex(text: str) -> str:
    """Escape text for LaTeX, on one line, in characters that pdfLaTeX knows.

    Unprintable characters are left out. Letters beyond Latin and Greek stay as they
    are: XeLaTeX and LuaLaTeX show them with a font that has them.
    """
    line = " ".join(normalize("NFC", text).split())
    plain = "".join(filter(str.isprintable, line))
    # Fonts set two of these as one sign (--, ,, and ''), so an empty group parts them.
    parted = re.sub(r"([-,'])(?=\1)", rf"\1{PARTED}", plain)
    return "".join(LATEX.get(sign) or _raise(sign) for sign in parted)


def _raise(sign: str) -> str:
    """Superscripts and subscripts such as ¹ and ₂; other characters as they are."""
    place, _, base = decomposition(sign).partition(" ")
    raised = {"<super>": "^", "<sub>": "_"}.get(place)
    if raised is None or " " in base:
        return sign
    plain = chr(int(base, 16))
    inner = LATEX_MATHS.get(plain, plain)
    return rf"\ensuremath{{{raised}{{{inner}}}}}" if inner.isascii() else sign


def to_latex(table: Table) -> str:
    r"""LaTeX float with booktabs rules, notes below it in small print.

    The document needs ``\usepackage{booktabs,graphicx}``, with pdfLaTeX also
    ``\usepackage[T1]{fontenc}``. Names beyond Latin and Greek letters need XeLaTeX or
    LuaLaTeX and a font that has them.
    """
    head = _latex_line(in_latex(column) for column in table.columns)
    notes = [rf"\par\footnotesize {in_latex(note)}" for note in table.notes]
    # As wide as it is, or as the page where it is wider.
    width = r"\ifdim\width>\linewidth\linewidth\else\width\fi"
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{in_latex(table.title)}}}",
            rf"\resizebox{{{width}}}{{!}}{{%",
            rf"\begin{{tabular}}{{{table.alignment}}}",
            r"\toprule",
            head,
            r"\midrule",
            *(_latex_row(row) for row in table.rows),
            r"\bottomrule",
            r"\end{tabular}}",
            *notes,
            r"\end{table}",
            "",
        ]
    )


def _latex_row(row: TableRow) -> str:
    cells = [in_latex(row.label)]
    for cell in row.cells:
        text = in_latex(cell.text)
        main = (rf"\textbf{{{text}}}" if cell.bold else text) + in_latex(cell.mark)
        asides = " ".join(in_latex(aside) for aside in _asides(cell))
        if asides:
            # Below each other, the main text in line with the label.
            stack = rf"{main}\\ \scriptsize {asides}"
            main = rf"\begin{{tabular}}[t]{{@{{}}r@{{}}}}{stack}\end{{tabular}}"
        cells.append(main)
    return _latex_line(cells)


def _latex_line(cells: Iterable[str]) -> str:
    line = " & ".join(cells)
    # After the \\ of the line before, * and [ would be read as its arguments.
    guard = "{}" if line[:1] in {"*", "["} else ""
    return rf"{guard}{line} \\"


# JSON


def to_json(
    value: object, *, ensure_ascii: bool = True, indent: int | None = None
) -> str:
    """Write plain values and arrays as JSON; NaN and infinity become null.

    Examples
    --------
    >>> to_json({"gap": float("inf"), "scores": [0.5, float("nan")]})
    '{"gap": null, "scores": [0.5, null]}'
    """
    plain = _without_nan(value)
    return json.dumps(plain, allow_nan=False, ensure_ascii=ensure_ascii, indent=indent)


def _without_nan(value: object) -> object:
    if hasattr(value, "tolist"):  # arrays and scalars of NumPy
        value = value.tolist()
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {name: _without_nan(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    return value
