"""Tables to LaTeX; words are never commands."""

from priormtl.tables.cells import Cell, Shown, TableRow
from priormtl.tables.latex_words import in_latex

__all__ = ["to_latex"]

# As wide as it is, or as the page where it is wider.
FITTED = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"


def to_latex(table: Shown) -> str:
    r"""A float with booktabs rules; the notes stand under it, small.

    The document needs ``\usepackage{booktabs,graphicx}``, with pdfLaTeX also
    ``\usepackage[T1]{fontenc}``. Where names have letters beyond Latin and Greek,
    XeLaTeX or LuaLaTeX is needed, and a font that has them.
    """
    head = " & ".join(in_latex(column) for column in table.columns)
    body = [_row(row) for row in table.rows]
    notes = [rf"\par\footnotesize {in_latex(note)}" for note in table.notes]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{in_latex(table.title)}}}",
            FITTED,
            rf"\begin{{tabular}}{{{table.alignment}}}",
            r"\toprule",
            rf"{_guard(head)} \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            *notes,
            r"\end{table}",
            "",
        ]
    )


def _row(row: TableRow) -> str:
    cells = [in_latex(row.label), *map(_cell, row.cells)]
    return _guard(" & ".join(cells)) + r" \\"


def _guard(line: str) -> str:
    """After the line before, these signs would be read as its arguments."""
    return "{}" + line if line[:1] in {"*", "["} else line


def _cell(cell: Cell) -> str:
    text = in_latex(cell.text)
    strong = rf"\textbf{{{text}}}" if cell.bold else text
    main = strong + in_latex(cell.mark)
    asides = " ".join(in_latex(f"({aside})") for aside in cell.asides)
    return _stack(main, asides) if asides else main


def _stack(main: str, asides: str) -> str:
    """Under each other, the first in line with the label."""
    below = rf"\\ \scriptsize {asides}"
    return rf"\begin{{tabular}}[t]{{@{{}}r@{{}}}}{main}{below}\end{{tabular}}"
