"""Tables as values, and their layouts."""

from priormtl.tables.layouts import (
    Tabled,
    in_latex,
    in_markdown,
    to_html,
    to_html_page,
    to_json,
    to_latex,
    to_markdown,
    to_notebook,
    to_text,
)
from priormtl.tables.table import (
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
    "to_json",
    "to_latex",
    "to_markdown",
    "to_notebook",
    "to_text",
]
