"""Files of results: tables, figures, and the page that shows them all."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from priormtl._files import write_whole
from priormtl.experiments.rendering.figures import (
    CAPTIONS,
    SURFACES,
    Surface,
    convergence_figure,
    describe_sensitivity,
    learning_difference_figure,
    learning_figure,
    robustness_figure,
    roc_figure,
    surface_figure,
)
from priormtl.experiments.rendering.measurements import Measurements
from priormtl.experiments.rendering.tables import (
    REFERENCE,
    Table,
    cost_table,
    count_table,
    difference_table,
    paper_table_1,
    paper_table_2,
    prior_table,
    table_1,
    table_2,
)
from priormtl.experiments.rendering.text import (
    describe_agreement,
    describe_ceiling,
    describe_compared,
    describe_priors,
    describe_robustness,
)
from priormtl.plotting import Figure, save_figure
from priormtl.tables import to_html_page, to_latex, to_markdown

REGRESSION = ("school", "sarcos")


class Results(NamedTuple):
    """Everything that was measured."""

    measurements: Measurements
    convergence: Any  # rows
    roc: Any
    surfaces: Any


# Files of the parts of the paper.


def render(what: str, results: Results, out: Path) -> list[Path]:
    """Write the tables or figures of one part of the paper, or of all."""
    out.mkdir(parents=True, exist_ok=True)
    names = [*TABLES, *FIGURES] if what == "all" else PARTS.get(what, (what,))
    files: list[Path] = []
    for name in names:
        if name in TABLES:
            files += _write_tables(out / name, TABLES[name](results.measurements))
        else:
            files += save_figure(FIGURES[name](results), out / name)
    return files


def _write_tables(stem: Path, tables: Sequence[Table]) -> list[Path]:
    texts = {
        stem.with_suffix(".md"): "\n\n".join(map(to_markdown, tables)) + "\n",
        stem.with_suffix(".tex"): "\n\n".join(map(to_latex, tables)) + "\n",
        stem.with_suffix(".html"): to_html_page(tables[0].title, tables),
    }
    for path, text in texts.items():
        write_whole(path, text.encode())
    return list(texts)


def _regression_tables(measurements: Measurements) -> Sequence[Table]:
    datasets = [n for n in _with_reference(measurements) if n in REGRESSION]
    tables = (paper_table_1(measurements), *table_1(measurements))
    return (*tables, *_difference_tables(measurements, datasets))


def _classification_tables(measurements: Measurements) -> Sequence[Table]:
    datasets = [n for n in _with_reference(measurements) if n not in REGRESSION]
    tables = (paper_table_2(measurements), table_2(measurements))
    return (*tables, *_difference_tables(measurements, datasets))


def _with_reference(measurements: Measurements) -> list[str]:
    """Data sets on which the reference was run or planned."""
    return [
        name
        for name in measurements.datasets()
        if REFERENCE in measurements.methods([name])
    ]


def _difference_tables(
    measurements: Measurements, datasets: Sequence[str]
) -> Iterable[Table]:
    if datasets:
        yield from (difference_table(measurements, name) for name in datasets)
        yield count_table(measurements, datasets)


TABLES: Mapping[str, Callable[[Measurements], Sequence[Table]]] = {
    "table1": _regression_tables,
    "table2": _classification_tables,
}
FIGURES: Mapping[str, Callable[[Results], Figure]] = {
    "figure1": lambda results: convergence_figure(results.convergence),
    "figure2": lambda results: roc_figure(results.roc),
    "figure3": lambda results: surface_figure(results.surfaces),
    "learning": lambda results: learning_figure(results.measurements),
    "learning-differences": lambda results: learning_difference_figure(
        results.measurements
    ),
    "robustness": lambda results: robustness_figure(results.measurements),
}
PARTS = {"curves": ("learning", "learning-differences", "robustness")}


# The page.

TITLES: Mapping[str, str] = {
    "figure1": "Figure 1: convergence",
    "figure2": "Figure 2: ROC curves",
    "figure3": "Figure 3: strengths",
    "learning": "Learning curves",
    "learning-differences": "What the prior adds",
    "robustness": "Wrong priors",
}


@dataclass(frozen=True)
class Facts:
    """What the rows do not say about a run."""

    command: str  # that makes this page
    seconds: float  # from start to end
    machine: str
    versions: Mapping[str, str]
    n_repeats: int
    protocol: str  # description of what was done
    n_jobs: int
    in_sample_pooled: float | None = None  # School, least squares on all pupils
    in_sample_effects: float | None = None  # the same with an effect per school
    figures: Mapping[str, str] = field(default_factory=dict)  # name → link to the SVG


def render_page(results: Results, facts: Facts, out: Path, page: Path) -> Path:
    page.parent.mkdir(parents=True, exist_ok=True)
    links = {
        name: Path(os.path.relpath(out / f"{name}.svg", page.parent)).as_posix()
        for name in FIGURES
    }
    text = results_page(
        results.measurements, results.surfaces, replace(facts, figures=links)
    )
    write_whole(page, text.encode())
    return page


def results_page(measurements: Measurements, surfaces: Any, facts: Facts) -> str:
    """Markdown from measurements, rows of surfaces (or None) and facts."""
    parts = [
        "# Results",
        f"Written by `{facts.command}`; do not edit.",
        "## In short",
        *_summarize(measurements, facts),
        "## How it was measured",
        _describe_run(facts),
        facts.protocol,
        "## The paper's tables",
        *map(to_markdown, (paper_table_1(measurements), paper_table_2(measurements))),
        "## All methods",
        *map(to_markdown, (*table_1(measurements), table_2(measurements))),
    ]
    datasets = _with_reference(measurements)
    if datasets:
        *each, counts = _difference_tables(measurements, datasets)
        parts += [
            "## Method against method",
            to_markdown(counts),
            "<details><summary>Data set by data set</summary>",
            *map(to_markdown, each),
            "</details>",
        ]
    costs = cost_table(measurements)
    if costs is not None:
        parts += ["## What it costs", to_markdown(costs)]
    parts += _link_figures(facts, surfaces)
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _summarize(measurements: Measurements, facts: Facts) -> Iterable[str]:
    yield "### Where we agree with the paper"
    yield from describe_agreement(measurements)
    compared = describe_compared(measurements)
    if compared:
        yield "### How the compared methods stand against ours"
        yield from compared
    ceiling = describe_ceiling(
        measurements, facts.in_sample_pooled, facts.in_sample_effects
    )
    if ceiling:
        yield "### What a linear model can reach on School"
        yield from ceiling
    priors = [*describe_priors(measurements), *describe_robustness(measurements)]
    table = prior_table(measurements)
    if priors or table:
        yield "### When priors helped"
        yield from priors
    if table is not None:
        yield to_markdown(table)


def _describe_run(facts: Facts) -> str:
    versions = ", ".join(f"{name} {text}" for name, text in facts.versions.items())
    repeats = "1 repeat" if facts.n_repeats == 1 else f"{facts.n_repeats} repeats"
    jobs = "1 job" if facts.n_jobs == 1 else f"up to {facts.n_jobs} jobs at a time"
    minutes = facts.seconds / 60
    if facts.seconds < 90:
        time = f"{facts.seconds:.0f} seconds"
    else:
        time = f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.1f} hours"
    return (
        f"{repeats} of every split; {jobs}; {time} in all, on {facts.machine}. "
        f"Versions: {versions}."
    )


def _link_figures(facts: Facts, surfaces: Any) -> Iterable[str]:
    present = [name for name in TITLES if name in facts.figures]
    if present:
        yield "## Figures"
    for name in present:
        yield f"### {TITLES[name]}"
        yield f"![{TITLES[name]}]({facts.figures[name]})"
        yield CAPTIONS[name]
        if name == "figure3" and surfaces is not None:
            found = (Surface.of(surfaces, *key) for key in SURFACES)
            sentences = [describe_sensitivity(s) for s in found if s is not None]
            if sentences:
                yield "\n".join(f"- {sentence}" for sentence in sentences)
