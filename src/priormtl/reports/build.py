"""report: what a fitted model learned, as a page, JSON or Markdown.

From the model's summary, scores by task and an audit follow the answers and tables of
:class:`~priormtl.reports.content.Content`; nothing is fitted.
"""

import os
from dataclasses import dataclass, field
from html import escape

import numpy as np

from priormtl._files import write_whole
from priormtl.rendering import count_words
from priormtl.reports import answers
from priormtl.reports.content import Content, spell, spell_label
from priormtl.reports.model import (
    GIVEN_ROWS,
    HELD_OUT_ROWS,
    FittedModel,
    Scores,
    score_rows,
    score_training,
)
from priormtl.reports.rendering import save_coefficients, to_json, to_markdown, to_page
from priormtl.reports.tables import (
    calibration_table,
    cut_block,
    feature_table,
    pick_rows,
    pick_tasks,
    relation_table,
    search_table,
    statement_table,
    structure_table,
    task_table,
)

PENALTIES = {
    "l21": "ℓ2,1 norm: features enter or leave in all tasks at once",
    "nuclear": "nuclear norm: tasks share a subspace",
}
COUPLINGS = {
    "uniform": "equal for all features",
    "adaptive": "estimated for each feature",
    "given": "weighted by feature",
}
INTERCEPTS = {
    "free": "one per task",
    "none": "none",
    "tied": "coupled like the coefficients",
}


@dataclass(frozen=True, eq=False)
class Report:
    """Report of a fitted model; see :func:`priormtl.report`.

    ``content`` contains the report as plain data. Notebooks display the HTML page.
    """

    content: Content
    _fitted: FittedModel = field(repr=False)

    def to_html(self) -> str:
        """Return an HTML page of at most 1.5 MB that works offline."""
        return to_page(self.content)

    def to_json(self) -> str:
        """Return the content as JSON. Unknown numbers are null."""
        return to_json(self.content)

    def to_markdown(self, rows: int = 30) -> str:
        """Return the answers and at most ``rows`` rows of each table as Markdown."""
        return to_markdown(self.content, rows)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        coefficients: str | os.PathLike[str] | None = None,
    ) -> None:
        """Write the HTML page to a file. A failure leaves no partial file.

        Parameters
        ----------
        path : path
            File to write, such as ``report.html``.
        coefficients : path, optional
            CSV or Parquet file for all coefficients, including those omitted on the
            page, with one row per feature and one column per task.
        """
        if coefficients is not None:
            save_coefficients(self._fitted, coefficients)
        write_whole(path, self.to_html().encode())

    def _repr_html_(self) -> str:
        page = escape(self.to_html())
        return (
            '<iframe title="Report" width="100%" height="700" '
            f'sandbox="allow-scripts allow-downloads" srcdoc="{page}"></iframe>'
        )


def report(
    model: object,
    X: object = None,
    y: object = None,
    *,
    task: object = None,
    audit: object = None,
    title: str | None = None,
    source: str | None = None,
) -> Report:
    """Create a report of a fitted model. Nothing is fitted.

    The report answers how well the model predicts, which features matter, whether the
    prior helped, whether there are outlier tasks, and whether the fit converged.
    Figures and tables follow.

    Parameters
    ----------
    model : fitted model
        Any linear model of this package, or a pipeline of ``tabular_model``, whose
        linear part is shown; scores are those of the whole pipeline.
    X, y : rows and targets, optional
        Data for the scores of each task, as in ``fit``, preferably not the training
        rows. If they are not given, the training rows are scored, provided that the
        model keeps their statistics.
    task : (n,) labels, optional
        Task of each row.
    audit : PriorAudit, optional
        Result of ``audit_prior``. If it is not given, the scores of a search are used
        to tell whether the priors helped.
    title : str, optional
        Heading of the page.
    source : str, optional
        Name of the data, such as that of their file, to be shown on the page.

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
            "their targets. Or give neither."
        )
    fitted = FittedModel.read(model, X)
    scores = score_training(fitted) if X is None else score_rows(fitted, X, y, task)
    return Report(build_content(fitted, scores, audit, title, source), fitted)


def build_content(
    fitted: FittedModel,
    scores: Scores | None,
    audit: object,
    title: str | None,
    source: str | None = None,
) -> Content:
    """Answers first, then the tables behind them, each cut to what fits on a page."""
    features, tasks = feature_table(fitted), task_table(fitted, scores)
    kept = pick_tasks(tasks)
    search = fitted.summary.search
    shown, where = fitted.reliability, HELD_OUT_ROWS
    if scores is not None and scores.reliability is not None:
        shown, where = scores.reliability, scores.where
    others = [
        calibration_table(shown, where),
        statement_table(fitted),
        relation_table(fitted, audit),
        None if search is None else structure_table(search),
        None if search is None else search_table(search),
    ]
    tables = (
        features.take(pick_rows(features)),
        tasks.take(kept),
        *(table.take(pick_rows(table)) for table in others if table is not None),
    )
    if title is None:
        m, d = len(fitted.tasks), len(fitted.shown)
        title = f"What {count_words(m, 'task')} share in {count_words(d, 'feature')}"
    return Content(
        spell_label(title),
        (*list_facts(fitted), *list_data(scores, source)),
        (
            answers.answer_quality(fitted, scores),
            answers.answer_features(fitted),
            answers.answer_benefit(fitted, audit),
            answers.answer_outliers(fitted),
            answers.answer_certificate(fitted),
        ),
        tables,
        cut_block(fitted, kept, tables),
        "" if scores is None else scores.metric,
    )


def list_data(scores: Scores | None, source: str | None) -> tuple[tuple[str, str], ...]:
    """Which data were scored, if any were given."""
    facts = [] if source is None else [("Data", spell_label(source))]
    if scores is not None and scores.where == GIVEN_ROWS:
        facts.append(("Rows scored", f"{scores.n_rows:,.10g}"))
    return tuple(facts)


def list_facts(fitted: FittedModel) -> tuple[tuple[str, str], ...]:
    """Settings of the model as pairs of a label and a text."""
    summary, learned = fitted.summary, fitted.learned
    facts = [("Model", summary.model)]
    if learned.design is not None and learned.design.target is not None:
        facts.append(("Target", spell_label(learned.design.target)))
    if learned.data_name is not None:
        facts.append(("Fitted to", spell_label(learned.data_name)))
    if np.isfinite(summary.weight):
        facts.append(("Rows", f"{summary.weight:,.10g}"))
    facts.append(("Tasks", f"{summary.n_tasks:,}"))
    curves = f", {len(fitted.curves):,} with curves" if fitted.curves else ""
    facts.append(("Features", f"{len(fitted.shown):,}{curves}"))
    chosen = "" if summary.search is None else " (chosen)"
    facts += [(one.name, spell(one.value) + chosen) for one in summary.strengths]
    if summary.outlier_strength is not None:
        facts.append(("Outlier strength", spell(summary.outlier_strength)))
    if summary.penalty is not None:
        facts.append(("Penalty", PENALTIES.get(summary.penalty, str(summary.penalty))))
    if learned.model is not None:
        prior = summary.feature_prior
        words = "none" if prior is None else spell_label(prior.words)
        kinds = {one.kind for one in summary.statements}
        if kinds == {"smooth"}:
            words = "smooth curves"
        facts.append(("Feature prior", words))
    if summary.task_prior is not None:
        facts.append(("Task prior", spell_label(summary.task_prior)))
    if summary.ties is not None:
        facts.append(("Task coupling", COUPLINGS[summary.ties]))
    if summary.intercepts is not None:
        facts.append(("Intercepts", INTERCEPTS[summary.intercepts]))
    if fitted.is_classifier and learned.model is not None:
        facts.append(("Loss", summary.loss))
    if fitted.trees_weight is not None:
        share = f"{fitted.trees_weight:.0%} of predictions, beside the linear model"
        facts.append(("Boosted trees", share if fitted.trees_weight else "none"))
    if learned.model is not None:
        facts.append(("Standardised", "yes" if summary.standardized else "no"))
    return tuple(facts)
