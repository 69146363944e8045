"""report: what a fitted model learned, as a page, JSON, Markdown and a file.

From the model's summary, scores by task and an audit follow the answers and tables of
:class:`~priormtl.reports.content.Content`; nothing is fitted.

The HTML page is complete in itself: a content security policy allows its own script and
style, by their hashes, and nothing else. Its data are JSON, with numbers packed as
base64 of doubles (exact, and 11 bytes each).
"""

import csv
import io
import os
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

import numpy as np

from priormtl._arrays import Array
from priormtl._files import write_whole
from priormtl.audits import PriorAudit
from priormtl.rendering import count_words, in_markdown, join_words
from priormtl.rendering import to_json as dump_json
from priormtl.reports import answers, tables
from priormtl.reports.content import Content, Table, spell, spell_label
from priormtl.reports.model import (
    GIVEN_ROWS,
    FittedModel,
    Scores,
    score_rows,
    score_training,
)


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
    audit: PriorAudit | None = None,
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
    audit: PriorAudit | None,
    title: str | None,
    source: str | None = None,
) -> Content:
    """Answers first, then the tables behind them, each cut to what fits on a page."""
    features, tasks = tables.feature_table(fitted), tables.task_table(fitted, scores)
    kept = tables.pick_tasks(tasks)
    search = fitted.summary.search
    shown, where = fitted.reliability, "held-out rows"
    if scores is not None and scores.reliability is not None:
        shown, where = scores.reliability, scores.where
    others = [
        tables.curve_table(fitted),
        tables.level_table(fitted),
        tables.calibration_table(shown, where),
        tables.statement_table(fitted),
        tables.relation_table(fitted, audit),
        None if search is None else tables.structure_table(search),
        None if search is None else tables.search_table(search),
    ]
    listed = (
        features.take(tables.pick_rows(features)),
        tasks.take(kept),
        *(table.take(tables.pick_rows(table)) for table in others if table is not None),
    )
    questions = [
        answers.answer_quality(fitted, scores),
        answers.answer_features(fitted),
        answers.answer_benefit(fitted, audit),
        answers.answer_outliers(fitted),
        answers.answer_certificate(fitted),
    ]
    if fitted.summary.levels:
        questions.insert(2, answers.answer_levels(fitted))
    return Content(
        spell_label(name_model(fitted) if title is None else title),
        (*list_facts(fitted), *list_data(scores, source)),
        tuple(questions),
        listed,
        tables.cut_block(fitted, kept, listed),
        "" if scores is None else scores.metric,
    )


def name_model(fitted: FittedModel) -> str:
    """What was modelled: the target, the columns with the largest effects, the tasks.

    Models of tables without names have a title that counts tasks and features.
    """
    m, design = len(fitted.tasks), fitted.learned.design
    if design is None or design.target is None:
        d = len(fitted.shown)
        return f"What {count_words(m, 'task')} share in {count_words(d, 'feature')}"
    sources = [term.source for term, places in design.columns for _ in design[places]]
    ranked = [sources[j] for j in fitted.ranking]
    columns = list(dict.fromkeys([*ranked, *design.sources]))
    shown = columns if len(columns) <= 3 else columns[:2]
    names = join_words(shown)
    if len(columns) > len(shown):
        more = count_words(len(columns) - len(shown), "more column")
        names = f"{', '.join(shown)} and {more}"
    tasks = count_words(m, "task")
    if design.task is not None:
        tasks += f" ({design.task})"
    return f"{design.target} by {names}, {tasks}"


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
    # Models of several classes show each class of a task as a task.
    K = fitted.n_classes if fitted.n_classes > 2 else 1
    if np.isfinite(summary.weight):
        facts.append(("Rows", f"{summary.weight / K:,.10g}"))
    facts.append(("Tasks", f"{summary.n_tasks // K:,}"))
    if K > 1:
        facts.append(("Classes", f"{K}"))
    curves = f", {len(fitted.curves):,} with curves" if fitted.curves else ""
    facts.append(("Features", f"{len(fitted.shown):,}{curves}"))
    chosen = "" if summary.search is None else " (chosen)"
    facts += [(one.name, spell(one.value) + chosen) for one in summary.strengths]
    if summary.outlier_strength is not None:
        facts.append(("Outlier strength", spell(summary.outlier_strength)))
    if summary.penalty is not None:
        words = {
            "l21": "ℓ2,1 norm: features enter or leave in all tasks at once",
            "nuclear": "nuclear norm: tasks share a subspace",
        }.get(summary.penalty, str(summary.penalty))
        facts.append(("Penalty", words))
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
        couplings = {
            "uniform": "equal for all features",
            "adaptive": "estimated for each feature",
            "given": "weighted by feature",
        }
        facts.append(("Task coupling", couplings[summary.ties]))
    if summary.intercepts is not None:
        intercepts = {
            "free": "one per task",
            "none": "none",
            "tied": "coupled like the coefficients",
        }
        facts.append(("Intercepts", intercepts[summary.intercepts]))
    if fitted.is_classifier and learned.model is not None:
        facts.append(("Loss", summary.loss))
    if fitted.trees_weight is not None:
        share = f"{fitted.trees_weight:.0%} of predictions, beside the linear model"
        facts.append(("Boosted trees", share if fitted.trees_weight else "none"))
    if learned.model is not None:
        facts.append(("Standardised", "yes" if summary.standardized else "no"))
    return tuple(facts)


# HTML


def to_page(content: Content) -> str:
    """Whole page; its policy allows its own script and style, and nothing else."""
    folder = files("priormtl.reports") / "templates"

    def read(name: str) -> str:
        return (folder / name).read_text(encoding="utf-8")

    scripts = ("data", "shapes", "tables", "heatmap", "charts", "page")
    # Names of one script are visible to the next, not to the browser's console.
    body = "\n".join(read(f"{name}.js") for name in scripts)
    script = f'"use strict";\n(() => {{\n{body}}})();\n'
    style = read("page.css")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; "
        f"style-src '{_hash(style)}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    facts = [
        f"<div><dt>{escape(label)}</dt><dd>{escape(text)}</dd></div>"
        for label, text in content.facts
    ]
    findings = []
    for finding in content.findings:
        note = f'<p class="note">{escape(finding.note)}</p>' if finding.note else ""
        findings.append(
            f'<article id="finding-{escape(finding.key)}">'
            f"<h3>{escape(finding.question)}</h3>"
            f'<p class="value">{escape(finding.value)}</p>'
            f"<p>{escape(finding.sentence)}</p>{note}</article>"
        )
    return Template(read("page.html")).substitute(
        title=escape(content.title),
        policy=policy,
        style=style,
        script=script,
        facts="\n".join(facts),
        findings="\n".join(findings),
        data=to_page_data(content),
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


# JSON


def to_json(content: Content) -> str:
    """All content for programs; unknown numbers are null."""
    features, tasks = content.block_names
    coefficients = {
        "features": list(features),
        "tasks": list(tasks),
        "values": content.block.values,
    }
    return _dump(content, coefficients, np.ndarray.tolist)


def to_page_data(content: Content) -> str:
    """The same for the page's script, safe inside HTML."""
    values = content.block.values
    coefficients = {"shape": list(values.shape), "values": pack_numbers(values)}
    text = _dump(content, coefficients, pack_numbers)
    # Nothing inside a script element may look like markup.
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def pack_numbers(values: Array) -> str:
    """Doubles, smallest byte first, as base64."""
    return b64encode(np.ascontiguousarray(values, dtype="<f8").tobytes()).decode()


def _dump(
    content: Content,
    coefficients: Mapping[str, object],
    numbers: Callable[[Array], object],
) -> str:
    tables = {
        table.name: {
            "title": table.title,
            "note": table.note,
            "left_out": table.left_out,
            "columns": [
                {
                    "name": column.name,
                    "label": column.label,
                    "text": column.is_text,
                    "values": list(column.values)
                    if isinstance(column.values, tuple)
                    else numbers(column.values),
                }
                for column in table.columns
            ],
        }
        for table in content.tables
    }
    findings = [
        vars(finding) | {"numbers": dict(finding.numbers or {})}
        for finding in content.findings
    ]
    left_out = {
        "features_left_out": content.block.features_left_out,
        "tasks_left_out": content.block.tasks_left_out,
    }
    plain = {
        "format": 1,  # raised when fields change their meaning
        "title": content.title,
        "metric": content.metric,
        "facts": [list(fact) for fact in content.facts],
        "findings": findings,
        "tables": tables,
        "coefficients": {**coefficients, **left_out},
    }
    return dump_json(plain, ensure_ascii=False)


# Markdown


def to_markdown(content: Content, rows: int) -> str:
    """All answers, and at most ``rows`` rows of each table."""
    facts = [f"- {in_markdown(a)}: {in_markdown(b)}" for a, b in content.facts]
    parts = [f"# {in_markdown(content.title)}"]
    for finding in content.findings:
        parts.append(f"## {in_markdown(finding.question)} {in_markdown(finding.value)}")
        parts.append(in_markdown(finding.sentence))
        parts += [f"*{in_markdown(finding.note)}*"] if finding.note else []
    parts += ["## Model", "\n".join(facts)]
    for table in content.tables:
        parts += _markdown_table(table, rows)
    features, tasks = content.block_names
    most_tasks = 12  # columns of Markdown's table of coefficients
    k, t = min(rows, len(features)), min(most_tasks, len(tasks))
    cells = [[features[i], *content.block.values[i, :t]] for i in range(k)]
    parts += ["## Coefficients", _grid(["Feature", *tasks[:t]], cells)]
    parts += _more(len(features) + content.block.features_left_out - k, "features")
    parts += _more(len(tasks) + content.block.tasks_left_out - t, "tasks")
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown_table(table: Table, rows: int) -> Iterator[str]:
    shown = min(rows, len(table))
    yield f"## {in_markdown(table.title)}"
    yield in_markdown(table.note)
    labels = [column.label for column in table.columns]
    yield _grid(labels, [[c.values[i] for c in table.columns] for i in range(shown)])
    yield from _more(len(table) + table.left_out - shown, "rows")


def _grid(labels: Sequence[str], rows: Sequence[Sequence[str | float]]) -> str:
    lines = ["| " + " | ".join(map(in_markdown, labels)) + " |"]
    lines.append("|" + "---|" * len(labels))
    for row in rows:
        cells = [
            in_markdown(value)
            if isinstance(value, str)
            else ""
            if np.isnan(value)
            else spell(float(value))
            for value in row
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _more(n: int, noun: str) -> list[str]:
    return [f"… and {n:,} more {noun}."] if n > 0 else []


# All coefficients


def save_coefficients(fitted: FittedModel, path: str | os.PathLike[str]) -> None:
    """Write one row per feature and one column per task: CSV, or Parquet by name."""
    suffix = Path(path).suffix
    if suffix not in {".csv", ".parquet"}:
        raise ValueError(
            f"coefficients must be a file that ends in .csv or .parquet: got {path}."
        )
    head = ["feature", *fitted.tasks]
    if suffix == ".csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(head)
        for name, row in zip(fitted.features, fitted.coef.T, strict=True):
            writer.writerow([name, *row.tolist()])
        write_whole(path, text.getvalue().encode())
        return
    try:
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise ModuleNotFoundError(
            f"Coefficients as Parquet need {error.name}: pip install "
            "'priormtl[arrow]', or name a file that ends in .csv.",
            name=error.name,
        ) from None
    columns = [pa.array(fitted.features), *map(pa.array, fitted.coef)]
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(columns, names=head), sink)
    write_whole(path, memoryview(sink.getvalue()))
