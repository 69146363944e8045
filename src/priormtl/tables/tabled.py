"""Tabled: what is made of tables, shown in every layout under the names of pandas."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from priormtl.tables.cells import Shown
from priormtl.tables.latex import to_latex
from priormtl.tables.layouts import to_html, to_markdown, to_notebook, to_text

__all__ = ["Tabled"]


class Tabled(ABC):
    """Base of results that are shown as tables; they say which."""

    @abstractmethod
    def _tables(self) -> Sequence[Shown]:
        """Tables in the order in which they are read."""

    def to_text(self) -> str:
        """Plain text, for terminals."""
        return "\n".join(map(to_text, self._tables()))

    def to_html(self) -> str:
        """Tables for any page."""
        return "".join(map(to_html, self._tables()))

    def to_latex(self) -> str:
        r"""Floats with booktabs rules, to be put into a paper.

        It needs ``\usepackage{booktabs,graphicx}``, with pdfLaTeX also
        ``\usepackage[T1]{fontenc}``; names beyond Latin and Greek letters need XeLaTeX
        or LuaLaTeX, and a font that has them.
        """
        return "\n".join(map(to_latex, self._tables()))

    def to_markdown(self) -> str:
        """Tables of pipes."""
        return "\n".join(map(to_markdown, self._tables()))

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return to_notebook(self._tables())
