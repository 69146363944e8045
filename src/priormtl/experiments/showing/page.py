"""The page of results: how it was run, tables, figures and a plain account."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from priormtl.experiments.showing.account import (
    describe_agreement,
    describe_ceiling,
    describe_priors,
    describe_robustness,
    prior_table,
)
from priormtl.experiments.showing.costs import cost_table
from priormtl.experiments.showing.figures import CAPTIONS
from priormtl.experiments.showing.measurements import Measurements
from priormtl.experiments.showing.paper_tables import paper_table_1, paper_table_2
from priormtl.experiments.showing.rivals import describe_rivals
from priormtl.experiments.showing.surfaces import (
    SURFACES,
    Surface,
    describe_sensitivity,
)
from priormtl.experiments.showing.tables import (
    REFERENCE,
    count_table,
    difference_table,
    table_1,
    table_2,
)
from priormtl.tables import to_markdown

__all__ = ["Facts", "results_page"]

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
    protocol: str  # what was done, in plain words
    n_jobs: int
    in_sample_pooled: float | None = None  # School, least squares on all pupils
    in_sample_effects: float | None = None  # the same with an effect per school
    figures: Mapping[str, str] = field(default_factory=dict)  # name → link to the SVG


def results_page(
    measurements: Measurements, surfaces: Any, facts: Facts, reference: str = REFERENCE
) -> str:
    """Markdown from what was measured, rows of surfaces (or None) and facts."""
    parts = [
        "# Results",
        f"Written by `{facts.command}`; do not edit.",
        "## In short",
        *_account(measurements, facts),
        "## How it was measured",
        _describe_run(facts),
        facts.protocol,
        "## The paper's tables",
        *map(to_markdown, (paper_table_1(measurements), paper_table_2(measurements))),
        "## All methods",
        *map(to_markdown, (*table_1(measurements), table_2(measurements))),
        *_comparisons(measurements, reference),
        *_costs(measurements),
        *_figures(facts, _sensitivity(surfaces)),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _account(measurements: Measurements, facts: Facts) -> Iterable[str]:
    ceiling = describe_ceiling(
        measurements, facts.in_sample_pooled, facts.in_sample_effects
    )
    lines = [*describe_priors(measurements), *describe_robustness(measurements)]
    helped = prior_table(measurements)
    yield "### Where we agree with the paper"
    yield from describe_agreement(measurements)
    rivals = describe_rivals(measurements)
    if rivals:
        yield "### How the compared methods stand against ours"
        yield from rivals
    if ceiling:
        yield "### What a linear model can reach on School"
        yield from ceiling
    if lines or helped:
        yield "### When priors helped"
        yield from lines
    if helped is not None:
        yield to_markdown(helped)


def _describe_run(facts: Facts) -> str:
    versions = ", ".join(f"{name} {text}" for name, text in facts.versions.items())
    repeats = "1 repeat" if facts.n_repeats == 1 else f"{facts.n_repeats} repeats"
    jobs = "1 job" if facts.n_jobs == 1 else f"up to {facts.n_jobs} jobs at a time"
    return (
        f"{repeats} of every split; {jobs}; {_spell_time(facts.seconds)} in all, on "
        f"{facts.machine}. Versions: {versions}."
    )


def _comparisons(measurements: Measurements, reference: str) -> Iterable[str]:
    datasets = [
        name
        for name in measurements.datasets()
        if reference in measurements.methods([name])
    ]
    if datasets:
        yield "## Method against method"
        yield to_markdown(count_table(measurements, datasets, reference))
        yield "<details><summary>Data set by data set</summary>"
        for name in datasets:
            yield to_markdown(difference_table(measurements, name, reference))
        yield "</details>"


def _costs(measurements: Measurements) -> Iterable[str]:
    costs = cost_table(measurements)
    if costs is not None:
        yield "## What it costs"
        yield to_markdown(costs)


def _figures(facts: Facts, sensitivity: list[str]) -> Iterable[str]:
    present = [name for name in TITLES if name in facts.figures]
    if present:
        yield "## Figures"
    for name in present:
        yield f"### {TITLES[name]}"
        yield f"![{TITLES[name]}]({facts.figures[name]})"
        yield CAPTIONS[name]
        if name == "figure3" and sensitivity:
            yield "\n".join(f"- {sentence}" for sentence in sensitivity)


def _sensitivity(surfaces: Any) -> list[str]:
    if surfaces is None:
        return []
    found = (Surface.of(surfaces, *key) for key in SURFACES)
    return [describe_sensitivity(surface) for surface in found if surface is not None]


def _spell_time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    minutes = seconds / 60
    return f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.1f} hours"
