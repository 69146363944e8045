"""How is it shown? Tables as values, and their layouts."""

from priormtl.tables.cells import (
    NOTHING,
    Cell,
    Shown,
    Table,
    TableRow,
    TextCell,
    build_table,
    count_words,
    spell_number,
)
from priormtl.tables.latex import to_latex
from priormtl.tables.latex_words import in_latex
from priormtl.tables.layouts import (
    in_markdown,
    to_html,
    to_html_page,
    to_markdown,
    to_notebook,
    to_text,
)
from priormtl.tables.tabled import Tabled

__all__ = [
    "NOTHING",
    "Cell",
    "Shown",
    "Table",
    "TableRow",
    "Tabled",
    "TextCell",
    "build_table",
    "count_words",
    "in_latex",
    "in_markdown",
    "spell_number",
    "to_html",
    "to_html_page",
    "to_latex",
    "to_markdown",
    "to_notebook",
    "to_text",
]
