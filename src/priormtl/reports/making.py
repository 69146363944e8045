"""report: what a fitted model learned, as a page, JSON or Markdown."""

import os
from dataclasses import dataclass, field
from html import escape
from typing import Any

from priormtl._files import write_whole
from priormtl.reports.assemble import build_content
from priormtl.reports.coefficients import save_coefficients
from priormtl.reports.content import Content
from priormtl.reports.fits import features_of, score_fit, score_rows
from priormtl.reports.learned import Learned
from priormtl.reports.markdown import to_markdown
from priormtl.reports.page import to_page
from priormtl.reports.plain import to_json

__all__ = ["Report", "report"]


@dataclass(frozen=True, eq=False)
class Report:
    """What a fitted model learned; see :func:`priormtl.report`.

    ``content`` holds it as plain data. Notebooks show the page itself.
    """

    content: Content
    _learned: Learned = field(repr=False)

    def to_html(self) -> str:
        """One page of at most 1.5 MB that needs no network."""
        return to_page(self.content)

    def to_json(self) -> str:
        """The page's content for programs; unknown numbers are null."""
        return to_json(self.content)

    def to_markdown(self, rows: int = 30) -> str:
        """Answers, and at most ``rows`` rows of each table."""
        return to_markdown(self.content, rows)

    html, json, markdown = to_html, to_json, to_markdown  # older names

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        coefficients: str | os.PathLike[str] | None = None,
    ) -> None:
        """Write the page, whole or not at all.

        Parameters
        ----------
        path : path
            File to write, such as ``report.html``.
        coefficients : path, optional
            File for all coefficients, .csv or .parquet, where the page has no place
            for them: one row per feature, one column per task.
        """
        if coefficients is not None:
            save_coefficients(self._learned, coefficients)
        write_whole(path, self.to_html().encode())

    def _repr_html_(self) -> str:
        page = escape(self.to_html())
        return (
            '<iframe title="Report" width="100%" height="700" '
            f'sandbox="allow-scripts allow-downloads" srcdoc="{page}"></iframe>'
        )


def report(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    task: Any = None,
    audit: Any = None,
    title: str | None = None,
) -> Report:
    """Tell what a fitted model learned, without fitting anything.

    Answers come first (how good, which features, did the prior help, outlier tasks,
    certificate), then figures and the tables behind them.

    Parameters
    ----------
    model : fitted model
        Any linear model of this package.
    X, y : rows and targets, optional
        Data to score each task on, best such that the model has not seen; as in
        ``fit``. Without them the rows of the fit are judged, where the model has kept
        their statistics.
    task : (n,) labels, optional
        Task of each row.
    audit : PriorAudit, optional
        What ``audit_prior`` found; else a search's own scores say if priors helped.
    title : str, optional
        Heading of the page.

    Returns
    -------
    Report
        With ``save(path)``, ``to_html()``, ``to_json()`` and ``to_markdown()``.

    Examples
    --------
    >>> from priormtl import MultiTaskRegressor, report
    >>> from priormtl.datasets import make_related_tasks
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = MultiTaskRegressor(lam=20.0).fit(X, y, task=task)
    >>> report(model).content.finding("features").value
    '3 of 6 features'
    """
    if (X is None) != (y is None):
        absent, given = ("X", "y") if X is None else ("y", "X")
        raise ValueError(
            f"{absent} must be given together with {given}: scores need rows and "
            "their targets; or give neither."
        )
    learned = Learned.read(model, None if X is None else features_of(model, X))
    fits = score_fit(learned) if X is None else score_rows(learned, X, y, task)
    return Report(build_content(learned, fits, audit, title), learned)
