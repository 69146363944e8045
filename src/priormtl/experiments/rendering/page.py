"""Files of results: tables, figures, and the page that shows them all.

The page opens with the paper's claims and sentences computed from the rows: where
results agree with the paper, how methods compare, and when priors helped.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from priormtl._files import write_whole
from priormtl.experiments.rendering import figures
from priormtl.experiments.rendering.claims import Evidence, claims_table
from priormtl.experiments.rendering.measurements import Measurements, Setting, Verdict
from priormtl.experiments.rendering.paper import (
    DATASETS,
    MAIN_METRICS,
    METRICS,
    NONE,
    PAPER_LABELS,
    PRIORS,
    TABLE_1,
    TABLE_2,
    Estimate,
    paper_estimate,
)
from priormtl.experiments.rendering.tables import (
    REFERENCE,
    Grids,
    Table,
    chosen_table,
    compare_with_none,
    cost_table,
    count_table,
    difference_table,
    grid_table,
    interval_table,
    paper_table_1,
    paper_table_2,
    prior_table,
    rank_table,
    table_1,
    table_2,
)
from priormtl.plotting import Figure, save_figure
from priormtl.tables import count_words, to_html_page, to_latex, to_markdown


def join_words(words: Iterable[str]) -> str:
    *first, last = list(words) or [""]
    return f"{', '.join(first)} and {last}" if first else last


# Agreement with the paper.


class Agreement(NamedTuple):
    """One of the paper's numbers beside ours."""

    dataset: str
    metric: str
    method: str
    ours: Estimate
    paper: Estimate

    @property
    def agrees(self) -> bool:
        """Whether the means differ by at most two of the smaller deviation."""
        # Of the smaller one: a number that is all noise agrees with nothing.
        smaller = min(self.ours.sd, self.paper.sd)
        return abs(self.paper.mean - self.ours.mean) <= 2.0 * smaller

    @property
    def ours_is_better(self) -> bool:
        higher = METRICS[self.metric].higher_is_better
        return (self.ours.mean > self.paper.mean) == higher


def compare_with_paper(measurements: Measurements) -> list[Agreement]:
    found = (
        Agreement(dataset, metric, method, ours, paper)
        for dataset, figure in (*TABLE_1, *TABLE_2)
        for metric, meaning in METRICS.items()
        if meaning.figure == figure
        for method in measurements.methods([dataset])
        if (paper := paper_estimate(dataset, metric, method)) is not None
        and (ours := measurements.estimate(Setting(dataset, method), metric))
    )
    return [pair for pair in found if isfinite(pair.ours.sd)]


def describe_agreement(measurements: Measurements) -> list[str]:
    pairs = compare_with_paper(measurements)
    if not pairs:
        return ["None of the paper's figures has been measured yet."]
    agreeing = sum(pair.agrees for pair in pairs)
    better = sum(pair.ours_is_better for pair in pairs if not pair.agrees)
    total = (
        f"Of {count_words(len(pairs), 'figure')} that stand beside one of the paper's, "
        f"{agreeing} agree with it: the means differ by at most two standard "
        "deviations, ours or the paper's, whichever is smaller. Of the others, "
        f"{better} of ours are better than the paper's and "
        f"{len(pairs) - agreeing - better} worse."
    )
    lines = []
    for dataset, metric in dict.fromkeys(pair[:2] for pair in pairs):
        column = [pair for pair in pairs if pair[:2] == (dataset, metric)]
        gaps = sorted(pair.ours.mean - pair.paper.mean for pair in column)
        ends = [f"{gap:+.1f}".replace("-", "−") for gap in (gaps[0], gaps[-1])]
        lines.append(
            f"- {DATASETS[dataset]}, {METRICS[metric].title}: "
            f"{sum(pair.agrees for pair in column)} of {len(column)} agree; ours minus "
            f"the paper's: {' to '.join(dict.fromkeys(ends))} points."
        )
    distinct = {
        (pair.dataset, METRICS[pair.metric].figure, pair.method) for pair in pairs
    }
    total += (
        f" They are {count_words(len(distinct), 'number')} of the paper: those of "
        "regression stand beside two averages of ours."
    )
    return [total, "\n".join(lines)]


def describe_ceiling(
    measurements: Measurements, in_sample: tuple[float, float, float] | None
) -> list[str]:
    """Say whether a linear model can reach the paper's number on School.

    ``in_sample`` has the fractions of the variance that least squares explains on its
    own training data: without and with an effect per school, and with slopes of each.
    """
    claimed = paper_estimate("school", "ve_pooled", "natural")
    if in_sample is None or claimed is None:
        return []
    pooled, effects, slopes = in_sample
    fits = (
        f"Least squares on all pupils explains {100 * pooled:.1f} % of the variance of "
        f"the very scores it was fitted to, {100 * effects:.1f} % with an effect for "
        f"each school. Slopes of each school explain {100 * slopes:.1f} % in sample, "
        "but with 27 slopes from about 110 pupils each this measures overfitting: the "
        "ridge per task, which has such slopes, is the weakest of the simple methods "
        "on other pupils."
    )
    if claimed.mean <= 100 * max(pooled, effects):
        return [f"{fits} The paper's {claimed.mean:.1f} % is not above that."]
    verdict = (
        f"The paper's {claimed.mean:.1f} % on pupils not seen, from 20 per school, is "
        "above the first two, so that under the usual definition, pooled over pupils, "
        "a linear model with common slopes cannot reach it, and one with slopes of "
        "each school cannot be expected to."
    )
    ours = measurements.estimate(Setting("school", "natural"), "ve_pooled")
    if ours is None:
        return [f"{fits} {verdict}"]
    return [f"{fits} {verdict} We measure {ours.mean:.1f} %."]


# Comparisons with verdicts.

K = TypeVar("K")


def _known(verdicts: Mapping[K, Verdict]) -> dict[K, Verdict]:
    return {key: v for key, v in verdicts.items() if v is not Verdict.UNKNOWN}


def _select(verdicts: Mapping[K, Verdict]) -> tuple[list[K], list[K]]:
    better = [key for key, v in verdicts.items() if v is Verdict.BETTER]
    return better, [key for key, v in verdicts.items() if v is Verdict.WORSE]


def describe_compared(
    measurements: Measurements, reference: str = REFERENCE
) -> list[str]:
    methods = [name for name in PAPER_LABELS if name not in ("natural", "artificial")]
    verdicts = _known(
        {
            (method, dataset): measurements.judge(
                Setting(dataset, method),
                Setting(dataset, reference),
                MAIN_METRICS[dataset],
            )
            for method in methods
            for dataset in measurements.datasets()
        }
    )
    if not verdicts:
        return []
    better, worse = _select(verdicts)
    total = (
        f"Of {len(verdicts)} comparisons of a method with “"
        f"{measurements.label(reference)}” on a data set, {len(better)} are "
        f"significantly better, {len(worse)} significantly worse and "
        f"{len(verdicts) - len(better) - len(worse)} neither."
    )
    lines = []
    for method in dict.fromkeys(method for method, _ in verdicts):
        won, lost = (
            ", ".join(DATASETS[dataset] for name, dataset in chosen if name == method)
            for chosen in (better, worse)
        )
        lines.append(
            f"- {PAPER_LABELS[method]}: better on {won or 'none'}, "
            f"worse on {lost or 'none'}."
        )
    return [total, "\n".join(lines)]


def describe_priors(measurements: Measurements) -> list[str]:
    datasets = measurements.datasets()
    smallest = [
        (name, size)
        for name in datasets
        for size in measurements.sizes(name, PRIORS)[:1]
    ]
    return [
        *_count_priors(
            measurements,
            [(name, None) for name in datasets],
            "At the paper's splits",
            "comparison",
        ),
        *_count_priors(
            measurements, smallest, "At their fewest training rows", "learning curve"
        ),
        *(line for prior in PRIORS for line in _describe_points(measurements, prior)),
    ]


def _count_priors(
    measurements: Measurements,
    places: Sequence[tuple[str, int | None]],
    opening: str,
    noun: str,
) -> list[str]:
    verdicts = _known(
        {
            (name, prior): compare_with_none(measurements, name, size, prior).verdict
            for name, size in places
            for prior in PRIORS
        }
    )
    if not verdicts:
        return []
    n_datasets = len({dataset for dataset, _ in verdicts})

    def where(keys: Sequence[tuple[str, str]]) -> str:
        names = list(dict.fromkeys(DATASETS[dataset] for dataset, _ in keys))
        if not names:
            return ""
        total = count_words(n_datasets, "data set")
        return f", on {len(names)} of {total} ({join_words(names)})"

    better, worse = _select(verdicts)
    comma = "," if better else ""
    return [
        f"{opening}, {len(better)} of {count_words(len(verdicts), noun)} (a prior "
        f"against none on a data set) are significantly better{where(better)}{comma} "
        f"and {len(worse)} significantly worse{where(worse)}."
    ]


def _describe_points(measurements: Measurements, prior: str) -> list[str]:
    verdicts = _known(
        {
            (name, size): compare_with_none(measurements, name, size, prior).verdict
            for name in measurements.datasets()
            for size in measurements.sizes(name, PRIORS)
        }
    )
    if not verdicts:
        return []
    better, worse = map(_name_points, _select(verdicts))
    return [
        f"Along all {len(verdicts)} points of its learning curves, “"
        f"{measurements.label(prior)}” is significantly better at {better} and "
        f"significantly worse at {worse}."
    ]


def _name_points(points: Sequence[tuple[str, int]]) -> str:
    sizes: dict[str, list[str]] = {}
    for dataset, size in points:
        sizes.setdefault(DATASETS[dataset], []).append(str(size))
    if not sizes:
        return "none"
    named = "; ".join(f"{name} at {join_words(at)}" for name, at in sizes.items())
    return f"{len(points)} ({named})"


def describe_choice(measurements: Measurements) -> list[str]:
    """How often cross-validation chose theta = 0, the model without prior."""
    words = []
    for prior in PRIORS:
        thetas = [
            found["theta"]
            for name in measurements.datasets()
            for found in measurements.strengths.get(Setting(name, prior), {}).values()
            if "theta" in found
        ]
        if thetas:
            words.append(f"{sum(t == 0.0 for t in thetas)} of {len(thetas)} ({prior})")
    if not words:
        return []
    return [
        "At the paper's splits, cross-validation chose theta = 0, no prior, in "
        f"{join_words(words)} searches; the appendix has the strengths."
    ]


def describe_kernel_range(measurements: Measurements) -> list[str]:
    """How often MKMTL chose the largest C it may try, 1000 per row."""
    largest, total = {}, 0
    for name in measurements.datasets():
        chosen = measurements.strengths.get(Setting(name, "mkmtl"), {}).values()
        total += len(chosen)
        # C is divided by the mean weight of a row, which is nearly one.
        count = sum(found.get("C", 0.0) > 900.0 for found in chosen)
        if count:
            largest[DATASETS[name]] = count
    if not largest:
        return []
    where = ", ".join(f"{name} {count}" for name, count in largest.items())
    return [
        f"MKMTL chose the largest C of its range in {sum(largest.values())} of {total} "
        f"searches ({where}). On a split outside the repeats, larger values score no "
        "higher, except on Sarcos, by 0.05 % of the squared error "
        "(docs/results/edges.md)."
    ]


def describe_robustness(measurements: Measurements) -> list[str]:
    # The setting of each robustness curve with the largest share of wrong relations.
    order = list(DATASETS)
    wrong = sorted(
        (setting for setting in measurements.settings if setting.wrong is not None),
        key=lambda s: (order.index(s.dataset), s.method, s.size or 0, s.wrong),
    )
    most = {setting[:3]: setting for setting in wrong}
    lines = []
    for method in dict.fromkeys(setting.method for setting in most.values()):
        verdicts = _known(
            {
                setting: measurements.judge(
                    setting,
                    Setting(setting.dataset, NONE, setting.size),
                    MAIN_METRICS[setting.dataset],
                )
                for setting in most.values()
                if setting.method == method
            }
        )
        if not verdicts:
            continue
        shares = sorted({100 * (setting.wrong or 0.0) for setting in verdicts})
        ends = [f"{share:.0f}" for share in dict.fromkeys((shares[0], shares[-1]))]
        kind = "reversed" if method == "contradictory" else "random"
        opening = (
            f"With {' to '.join(ends)} % {kind} relations and theta tuned, the prior is"
        )
        total = count_words(len(verdicts), "data set")
        _, harmed = _select(verdicts)
        if harmed:
            names = join_words(DATASETS[setting.dataset] for setting in harmed)
            harm = f"on {len(harmed)} of {total} ({names})"
        else:
            harm = f"on none of {total}"
        lines.append(f"{opening} significantly worse than no prior {harm}.")
    return lines


REGRESSION = ("school", "sarcos")


class Results(NamedTuple):
    """Everything that was measured."""

    measurements: Measurements
    convergence: Any  # rows
    roc: Any
    surfaces: Any


# Files of the parts of the paper.


def render(what: str, results: Results, out: Path) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    names = [*TABLES, *FIGURES] if what == "all" else PARTS.get(what, (what,))
    files: list[Path] = []
    for name in names:
        stem = out / name
        if name not in TABLES:
            files += save_figure(FIGURES[name](results), stem)
            continue
        made = TABLES[name](results.measurements)
        texts = {
            stem.with_suffix(".md"): "\n\n".join(map(to_markdown, made)) + "\n",
            stem.with_suffix(".tex"): "\n\n".join(map(to_latex, made)) + "\n",
            stem.with_suffix(".html"): to_html_page(made[0].title, made),
        }
        for path, text in texts.items():
            write_whole(path, text.encode())
        files += texts
    return files


def _list_tables(measurements: Measurements, *, regression: bool) -> Sequence[Table]:
    shown = [paper_table_2(measurements), table_2(measurements)]
    if regression:
        shown = [paper_table_1(measurements), table_1(measurements)]
    known = _with_reference(measurements)
    datasets = [name for name in known if (name in REGRESSION) == regression]
    shown += [difference_table(measurements, name) for name in datasets]
    return [*shown, count_table(measurements, datasets)] if datasets else shown


def _with_reference(measurements: Measurements) -> list[str]:
    """Data sets on which the reference was run or planned."""
    return [
        name
        for name in measurements.datasets()
        if REFERENCE in measurements.methods([name])
    ]


TABLES: Mapping[str, Callable[[Measurements], Sequence[Table]]] = {
    "table1": partial(_list_tables, regression=True),
    "table2": partial(_list_tables, regression=False),
}
FIGURES: Mapping[str, Callable[[Results], Figure]] = {
    "figure1": lambda results: figures.convergence_figure(results.convergence),
    "figure2": lambda results: figures.roc_figure(results.roc),
    "figure3": lambda results: figures.surface_figure(results.surfaces),
    "learning": lambda results: figures.learning_figure(results.measurements),
    "learning-differences": lambda results: figures.learning_difference_figure(
        results.measurements
    ),
    "robustness": lambda results: figures.robustness_figure(results.measurements),
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
    note: str = ""  # about rows of earlier runs
    # School, least squares on all pupils: pooled, with effects, with slopes by school.
    school_in_sample: tuple[float, float, float] | None = None
    grids: Grids = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)  # name → link to the SVG


def render_page(results: Results, facts: Facts, out: Path, page: Path) -> Path:
    page.parent.mkdir(parents=True, exist_ok=True)
    links = {
        name: Path(os.path.relpath(out / f"{name}.svg", page.parent)).as_posix()
        for name in FIGURES
    }
    text = results_page(results, replace(facts, links=links))
    write_whole(page, text.encode())
    return page


def results_page(results: Results, facts: Facts) -> str:
    """Markdown from results and facts."""
    measurements = results.measurements
    claims = claims_table(Evidence(measurements, results.convergence, results.surfaces))
    parts = [
        "# Results",
        f"Written by `{facts.command}`; do not edit.",
        "## The paper's claims, one by one",
        to_markdown(claims),
        "## In short",
        *_summarize(measurements, facts),
        "## How it was measured",
        _describe_run(facts),
        facts.note,
        facts.protocol,
        "## The paper's tables",
        *map(to_markdown, (paper_table_1(measurements), paper_table_2(measurements))),
        *_show(rank_table(measurements)),
        "## All methods",
        *map(to_markdown, (table_1(measurements), table_2(measurements))),
    ]
    datasets = _with_reference(measurements)
    if datasets:
        counts = to_markdown(count_table(measurements, datasets))
        parts += ["## Method against method", counts]
    parts += _show(interval_table(measurements), "## How sure: intervals")
    parts += _show(cost_table(measurements), "## What it costs")
    parts += _link_figures(facts, results.surfaces)
    if facts.grids:
        parts += [
            "## Appendix: grids and strengths",
            to_markdown(grid_table(facts.grids)),
        ]
        parts += _show(chosen_table(measurements, facts.grids))
        parts += describe_kernel_range(measurements)
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _show(table: Table | None, *title: str) -> list[str]:
    return [] if table is None else [*title, to_markdown(table)]


def _summarize(measurements: Measurements, facts: Facts) -> Iterable[str]:
    yield "### Where we agree with the paper"
    yield from describe_agreement(measurements)
    compared = describe_compared(measurements)
    if compared:
        yield "### How the compared methods stand against ours"
        yield from compared
    ceiling = describe_ceiling(measurements, facts.school_in_sample)
    if ceiling:
        yield "### What a linear model can reach on School"
        yield from ceiling
    priors = [
        *describe_priors(measurements),
        *describe_choice(measurements),
        *describe_robustness(measurements),
    ]
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
    present = [name for name in TITLES if name in facts.links]
    if present:
        yield "## Figures"
    for name in present:
        yield f"### {TITLES[name]}"
        yield f"![{TITLES[name]}]({facts.links[name]})"
        yield figures.CAPTIONS[name]
        if name == "figure3" and surfaces is not None:
            found = (figures.Surface.of(surfaces, *key) for key in figures.SURFACES)
            sentences = [
                figures.describe_sensitivity(s) for s in found if s is not None
            ]
            if sentences:
                yield "\n".join(f"- {sentence}" for sentence in sentences)
