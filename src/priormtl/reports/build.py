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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

import numpy as np

from priormtl._arrays import Array
from priormtl._files import write_whole
from priormtl.audits import PriorAudit
from priormtl.estimators.summary import INTERCEPT_WORDS, PENALTIES, TIES
from priormtl.rendering import build_table, count_words, in_markdown, join_words
from priormtl.rendering import to_json as dump_json
from priormtl.rendering import to_markdown as lay_out
from priormtl.reports import answers, tables
from priormtl.reports.content import Content, spell, spell_label
from priormtl.reports.model import (
    GIVEN_ROWS,
    Contrast,
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
    without: object = None,
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
        A linear model of this package, or a pipeline of ``tabular_model``, whose
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
    without : fitted model, optional
        Model fitted without the prior, for the same tasks. The errors of both on the
        given rows then tell whether the prior helped.
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
    if X is None and without is not None:
        raise ValueError("without compares errors on given rows: give X and y.")
    fitted = FittedModel.read(model, X)
    scores = score_training(fitted) if X is None else score_rows(fitted, X, y, task)
    contrast = None if without is None else Contrast.of(model, without, X, y, task)
    content = build_content(fitted, scores, audit, title, source, contrast)
    return Report(content, fitted)


def build_content(
    fitted: FittedModel,
    scores: Scores | None,
    audit: PriorAudit | None,
    title: str | None,
    source: str | None = None,
    contrast: Contrast | None = None,
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
        answers.answer_benefit(fitted, audit, contrast),
        answers.answer_outliers(fitted),
        answers.answer_certificate(fitted),
    ]
    if fitted.summary.levels:
        questions.insert(2, answers.answer_levels(fitted))
    return Content(
        spell_label(name_model(fitted) if title is None else title),
        list_facts(fitted, scores, source),
        tuple(questions),
        listed,
        tables.cut_block(fitted, kept, listed),
        "" if scores is None else scores.metric,
    )


def name_model(fitted: FittedModel) -> str:
    """What was modelled: the target, the columns with the largest effects, the tasks.

    Models of tables without names have a title that counts tasks and features.
    """
    m, design = fitted.summary.n_tasks, fitted.learned.design
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


def list_facts(
    fitted: FittedModel, scores: Scores | None = None, source: str | None = None
) -> tuple[tuple[str, str], ...]:
    """Settings of the model, and which data were scored: labels and texts."""
    summary, learned, design = fitted.summary, fitted.learned, fitted.learned.design
    bent = sum(fitted.parts[1, j] > 0 for j in fitted.curves)
    curves = f", {bent:,} with curves" if bent else ""
    chosen = "" if summary.search is None else " (chosen)"
    prior = "none"
    if {one.kind for one in summary.statements} == {"smooth"}:
        prior = "smooth curves"
    elif summary.feature_prior is not None:
        prior = summary.feature_prior.words
    share, given = fitted.trees_weight, scores is not None and scores.where
    facts: dict[str, str | None] = {
        "Model": summary.model,
        "Target": None if design is None else design.target,
        "Fitted to": learned.data_name,
        "Rows": f"{summary.weight:,.10g}" if np.isfinite(summary.weight) else None,
        "Tasks": f"{summary.n_tasks:,}",
        "Classes": f"{len(summary.classes)}" if summary.classes else None,
        "Features": f"{len(fitted.shown):,}{curves}",
    }
    facts |= {one.name: spell(one.value) + chosen for one in summary.strengths}
    if summary.outlier_strength is not None:
        facts["Outlier strength"] = spell(summary.outlier_strength)
    facts["Penalty"] = PENALTIES.get(summary.penalty or "", summary.penalty)
    if learned.model is not None:
        facts["Feature prior"] = prior
    facts["Task prior"] = summary.task_prior
    facts["Task coupling"] = TIES.get(summary.ties or "")
    facts["Intercepts"] = INTERCEPT_WORDS.get(summary.intercepts or "")
    if fitted.is_classifier and learned.model is not None:
        facts["Loss"] = "multinomial" if summary.classes else summary.loss
    if share is not None:
        words = f"{share:.0%} of predictions, beside the linear model"
        facts["Boosted trees"] = words if share else "none"
    if learned.model is not None:
        facts["Standardised"] = "yes" if summary.standardized else "no"
    facts["Data"] = source
    if scores is not None and given == GIVEN_ROWS:
        facts["Rows scored"] = f"{scores.n_rows:,.10g}"
    known = ((label, text) for label, text in facts.items() if text is not None)
    return tuple((label, spell_label(text)) for label, text in known)


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
    parts = [f"# {in_markdown(content.title)}"]
    for finding in content.findings:
        parts.append(f"## {in_markdown(finding.question)} {in_markdown(finding.value)}")
        parts.append(in_markdown(finding.sentence))
        parts += [f"*{in_markdown(finding.note)}*"] if finding.note else []
    facts = [f"- {in_markdown(a)}: {in_markdown(b)}" for a, b in content.facts]
    parts += ["## Model", "\n".join(facts)]

    def show(
        title: str, columns: Mapping[str, Sequence[str | float]], notes: list[str]
    ) -> None:
        cells = [
            [x if isinstance(x, str) else "" if np.isnan(x) else spell(x) for x in row]
            for row in zip(*(column[:rows] for column in columns.values()), strict=True)
        ]
        table = build_table(title, tuple(columns), cells)
        parts.append(lay_out(replace(table, notes=tuple(filter(None, notes)))).rstrip())

    for table in content.tables:
        more = _more(len(table) + table.left_out - min(rows, len(table)), "rows")
        columns = {one.label: [*one.values] for one in table.columns}
        show(table.title, columns, [table.note, more])
    features, tasks = content.block_names
    most_tasks = 12  # columns of Markdown's table of coefficients
    k, t = min(rows, len(features)), min(most_tasks, len(tasks))
    block = dict(zip(tasks[:t], content.block.values.T, strict=False))
    left_out = [
        _more(len(features) + content.block.features_left_out - k, "features"),
        _more(len(tasks) + content.block.tasks_left_out - t, "tasks"),
    ]
    show("Coefficients", {"Feature": features, **block}, left_out)
    return "\n\n".join(parts) + "\n"


def _more(n: int, noun: str) -> str:
    return f"… and {n:,} more {noun}." if n > 0 else ""


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
