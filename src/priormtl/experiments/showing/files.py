"""Results to files: each part of the paper as tables, figures or a page."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from priormtl._files import write_whole
from priormtl.experiments.showing.cells import Table
from priormtl.experiments.showing.figures import (
    convergence_figure,
    learning_difference_figure,
    learning_figure,
    robustness_figure,
    roc_figure,
    surface_figure,
)
from priormtl.experiments.showing.measurements import Measurements
from priormtl.experiments.showing.page import Facts, results_page
from priormtl.experiments.showing.paper_tables import paper_table_1, paper_table_2
from priormtl.experiments.showing.tables import (
    REFERENCE,
    count_table,
    difference_table,
    table_1,
    table_2,
)
from priormtl.plotting import Figure, save_figure
from priormtl.tables import to_html_page, to_latex, to_markdown

__all__ = ["Results", "show", "show_page"]

REGRESSION = ("school", "sarcos")


class Results(NamedTuple):
    """Everything that was measured."""

    measurements: Measurements
    convergence: Any  # rows
    roc: Any
    surfaces: Any


Draw = Callable[[Results], Figure]


def show(what: str, results: Results, out: Path) -> list[Path]:
    """Write the tables or figures of one part of the paper, or of all."""
    out.mkdir(parents=True, exist_ok=True)
    names = [*TABLES, *FIGURES] if what == "all" else PARTS.get(what, (what,))
    files: list[Path] = []
    for name in names:
        if name in TABLES:
            files += _write_tables(out / name, TABLES[name](results))
        else:
            files += save_figure(FIGURES[name](results), out / name)
    return files


def show_page(results: Results, facts: Facts, out: Path, page: Path) -> Path:
    """Write the page of results, with links to the figures in ``out``."""
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


def _write_tables(stem: Path, tables: Sequence[Table]) -> list[Path]:
    """One file per layout."""
    title = tables[0].title
    texts = {
        ".md": "\n\n".join(map(to_markdown, tables)) + "\n",
        ".tex": "\n\n".join(map(to_latex, tables)) + "\n",
        ".html": to_html_page(title, tables),
    }
    paths = [stem.with_suffix(suffix) for suffix in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        write_whole(path, text.encode())
    return paths


def _regression(results: Results) -> Sequence[Table]:
    measurements = results.measurements
    tables = (paper_table_1(measurements), *table_1(measurements))
    return (*tables, *_against(results, regression=True))


def _classification(results: Results) -> Sequence[Table]:
    measurements = results.measurements
    tables = (paper_table_2(measurements), table_2(measurements))
    return (*tables, *_against(results, regression=False))


def _against(results: Results, *, regression: bool) -> Sequence[Table]:
    """Differences to the reference, set by set, and how many of them count."""
    measurements = results.measurements
    datasets = [
        name
        for name in measurements.datasets()
        if (name in REGRESSION) == regression
        and REFERENCE in measurements.methods([name])
    ]
    if not datasets:
        return ()
    differences = (difference_table(measurements, name) for name in datasets)
    return (*differences, count_table(measurements, datasets))


TABLES: Mapping[str, Callable[[Results], Sequence[Table]]] = {
    "table1": _regression,
    "table2": _classification,
}
FIGURES: Mapping[str, Draw] = {
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
