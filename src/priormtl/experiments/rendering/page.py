"""Files of results: tables, figures, and the page that shows them all.

The page opens with the paper's claims and sentences computed from the rows: where
results agree with the paper, how methods compare, and when priors helped.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from priormtl._files import write_whole
from priormtl.experiments.rendering import figures, tables
from priormtl.experiments.rendering.claims import claims_table
from priormtl.experiments.rendering.measurements import (
    CAPTIONS,
    COMPARED,
    DATASETS,
    DOUBTFUL,
    MAIN_METRICS,
    METRICS,
    NONE,
    PAPER_LABELS,
    PRIORS,
    Measurements,
    Results,
    Setting,
    Verdict,
    compare_with_paper,
    paper_estimate,
    tally,
)
from priormtl.experiments.rendering.tables import REFERENCE, Grids
from priormtl.plotting import Figure, save_figure
from priormtl.rendering import (
    Table,
    count_words,
    join_words,
    to_html_page,
    to_latex,
    to_markdown,
)

FEW = "natural-few"  # our model with as few settings as a compared method

# Sentences: each function yields those that the rows allow.


def describe_agreement(measurements: Measurements) -> Iterator[str]:
    pairs = compare_with_paper(measurements)
    if not pairs:
        yield "None of the paper's figures has been measured yet."
        return
    agreeing = sum(pair.agrees for pair in pairs)
    better = sum(pair.ours_is_better for pair in pairs if not pair.agrees)
    numbers = {
        (pair.dataset, METRICS[pair.metric].figure, pair.method) for pair in pairs
    }
    yield (
        f"Of {count_words(len(pairs), 'figure')} that stand beside one of the paper's, "
        f"{agreeing} agree with it: the means differ by at most two standard "
        "deviations, ours or the paper's, whichever is smaller. Of the others, "
        f"{better} of ours are better than the paper's and "
        f"{len(pairs) - agreeing - better} worse. They are "
        f"{count_words(len(numbers), 'number')} of the paper: those of regression "
        "stand beside two averages of ours."
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
    yield "\n".join(lines)


def describe_compared(measurements: Measurements) -> Iterator[str]:
    known, better, worse = _compare_all(measurements, REFERENCE)
    if not known:
        return
    sound = [
        sum(method not in DOUBTFUL for method, _ in keys)
        for keys in (known, better, worse)
    ]
    yield (
        f"Of {len(known)} comparisons of a method with “"
        f"{measurements.label(REFERENCE)}” on a data set, {len(better)} are "
        f"significantly better, {len(worse)} significantly worse and "
        f"{len(known) - len(better) - len(worse)} neither. Two methods, marked ‡, say "
        f"little: {'; '.join(DOUBTFUL.values())}. Without them, {sound[1]} of "
        f"{sound[0]} are better and {sound[2]} worse."
    )
    lines = []
    for method in dict.fromkeys(method for method, _ in known):
        won, lost = (
            ", ".join(DATASETS[dataset] for name, dataset in chosen if name == method)
            for chosen in (better, worse)
        )
        lines.append(
            f"- {PAPER_LABELS[method]}{'‡' if method in DOUBTFUL else ''}: better on "
            f"{won or 'none'}, worse on {lost or 'none'}."
        )
    yield "\n".join(lines)
    yield from _describe_budgets(measurements)


def _compare_all(
    measurements: Measurements, reference: str, datasets: Iterable[str] | None = None
) -> tuple[list[tuple[str, str]], list[tuple[str, str]], list[tuple[str, str]]]:
    """Compared methods and data sets: all, better than the reference, and worse."""
    names = measurements.datasets() if datasets is None else datasets
    return tally(
        {
            (method, dataset): measurements.judge(Setting(dataset, method), reference)
            for dataset in names
            for method in COMPARED
        }
    )


def _describe_budgets(measurements: Measurements) -> Iterator[str]:
    """What changes if our model tries no more settings than the compared methods."""
    few = {
        name: measurements.compare(Setting(name, FEW), REFERENCE)
        for name in measurements.datasets()
        if measurements.judge(Setting(name, FEW), REFERENCE) is not Verdict.UNKNOWN
    }
    if not few:
        return
    means = join_words(
        f"{100 * one.mean:+.2f} on {DATASETS[name]}".replace("-", "−")
        + (" (significant)" if one.verdict is not Verdict.EVEN else "")
        for name, one in few.items()
    )
    _, better, worse = _compare_all(measurements, REFERENCE, few)
    _, better_few, worse_few = _compare_all(measurements, FEW, few)
    yield (
        "Equal budgets: compared methods try at most 20 settings, ours more (see "
        "*Tuning*). With at most 18 settings, drawn at random from our grids for each "
        f"repeat, our model with the natural prior changes by {means} points. On these "
        f"data sets {len(better_few)} compared methods are then significantly better "
        f"and {len(worse_few)} worse than ours, instead of {len(better)} and "
        f"{len(worse)}."
    )


def describe_ceiling(
    measurements: Measurements, in_sample: tuple[float, float, float] | None
) -> Iterator[str]:
    """Say whether a linear model can reach the paper's number on School.

    ``in_sample`` has the fractions of the variance that least squares explains on its
    own training data: without and with an effect per school, and with slopes of each.
    """
    claimed = paper_estimate("school", "ve_pooled", "natural")
    if in_sample is None or claimed is None:
        return
    pooled, effects, slopes = in_sample
    fits = (
        f"Least squares on all pupils explains {100 * pooled:.1f} % of the variance of "
        f"the very scores it was fitted to, {100 * effects:.1f} % with an effect for "
        f"each school. Slopes of each school explain {100 * slopes:.1f} % in sample, "
        "but with 27 slopes from about 110 pupils each this measures overfitting: the "
        "ridge per task, which has such slopes, is the weakest of the simple methods "
        "on other pupils."
    )
    verdict = f"The paper's {claimed.mean:.1f} % is not above that."
    if claimed.mean > 100 * max(pooled, effects):
        verdict = (
            f"The paper's {claimed.mean:.1f} % on pupils not seen, from 20 per school, "
            "is above the first two, so that under the usual definition, pooled over "
            "pupils, a linear model with common slopes cannot reach it, and one with "
            "slopes of each school cannot be expected to."
        )
        ours = measurements.estimate(Setting("school", "natural"), "ve_pooled")
        verdict += "" if ours is None else f" We measure {ours.mean:.1f} %."
    yield f"{fits} {verdict}"


def describe_priors(measurements: Measurements) -> Iterator[str]:
    sizes = {name: measurements.sizes(name) for name in measurements.datasets()}
    at_paper = [(name, None) for name in sizes]
    fewest = [(name, each[0]) for name, each in sizes.items() if each]
    families: list[tuple[str, str, Sequence[tuple[str, int | None]]]] = [
        ("At the paper's splits", "comparison", at_paper),
        ("At their fewest training rows", "learning curve", fewest),
    ]
    for opening, noun, places in families:
        known, better, worse = tally(
            {
                (name, prior): measurements.judge(Setting(name, prior, size), NONE)
                for name, size in places
                for prior in PRIORS
            }
        )
        if not known:
            continue
        total = count_words(len({dataset for dataset, _ in known}), "data set")
        where = []
        for keys in (better, worse):
            names = list(dict.fromkeys(DATASETS[dataset] for dataset, _ in keys))
            words = f", on {len(names)} of {total} ({join_words(names)})"
            where.append(words if names else "")
        yield (
            f"{opening}, {len(better)} of {count_words(len(known), noun)} (a prior "
            f"against none on a data set) are significantly better{where[0]}"
            f"{',' if better else ''} and {len(worse)} significantly worse{where[1]}."
        )


def describe_kernel_range(measurements: Measurements) -> Iterator[str]:
    """How often MKMTL chose the largest C it may try, 1000 per row."""
    largest, total = {}, 0
    for name in measurements.datasets():
        chosen = measurements.strengths.get(Setting(name, "mkmtl"), {}).values()
        total += len(chosen)
        # C is divided by the mean weight of a row, which is nearly one.
        count = sum(strengths.get("C", 0.0) > 900.0 for strengths in chosen)
        if count:
            largest[DATASETS[name]] = count
    if largest:
        where = ", ".join(f"{name} {count}" for name, count in largest.items())
        yield (
            f"MKMTL chose the largest C of its range in {sum(largest.values())} of "
            f"{total} searches ({where}). docs/results/edges.md shows what larger "
            "values score, on a split outside the repeats."
        )


def describe_robustness(measurements: Measurements) -> Iterator[str]:
    # The setting of each robustness curve with the largest share of wrong relations.
    order = list(DATASETS)
    wrong = sorted(
        (setting for setting in measurements.settings if setting.wrong is not None),
        key=lambda s: (order.index(s.dataset), s.method, s.size or 0, s.wrong),
    )
    most = {setting[:3]: setting for setting in wrong}.values()
    for method in dict.fromkeys(setting.method for setting in most):
        known, _, harmed = tally(
            {s: measurements.judge(s, NONE) for s in most if s.method == method}
        )
        if not known:
            continue
        shares = sorted({100 * (setting.wrong or 0.0) for setting in known})
        ends = [f"{share:.0f}" for share in dict.fromkeys((shares[0], shares[-1]))]
        kind = "reversed" if method == "contradictory" else "random"
        names = join_words(f"{DATASETS[s.dataset]} at {s.size}" for s in harmed)
        yield (
            f"With {' to '.join(ends)} % {kind} relations and theta tuned, the prior "
            f"is significantly worse than no prior at {len(harmed) or 'none'} of "
            f"{count_words(len(known), 'point')}{f' ({names})' if harmed else ''}."
        )


# Files of the parts of the paper.


def _list_tables(measurements: Measurements, *, regression: bool) -> Sequence[Table]:
    own = tables.table_1 if regression else tables.table_2
    shown = [tables.paper_table(measurements, 2 - regression), own(measurements)]
    datasets = [
        name
        for name in _with_reference(measurements)
        if (MAIN_METRICS[name] != "auc") == regression
    ]
    return [*shown, tables.count_table(measurements, datasets)] if datasets else shown


def _with_reference(measurements: Measurements) -> list[str]:
    """Data sets on which the reference was run or planned."""
    names = measurements.datasets()
    return [name for name in names if REFERENCE in measurements.methods([name])]


FIGURES: Mapping[str, Callable[[Results], Figure]] = {
    "figure1": lambda results: figures.convergence_figure(results.convergence),
    "figure2": lambda results: figures.roc_figure(results.roc),
    "figure3": lambda results: figures.surface_figure(results.surfaces),
    "learning": lambda results: figures.learning_figure(results.measurements),
    "learning-differences": lambda results: figures.learning_figure(
        results.measurements, gain=True
    ),
    "robustness": lambda results: figures.robustness_figure(results.measurements),
}


def render(what: str, results: Results, out: Path) -> list[Path]:
    """Write the tables and figures of a part of the paper, and name the files."""
    out.mkdir(parents=True, exist_ok=True)
    names: Iterable[str] = [what]
    if what == "all":
        names = ["table1", "table2", *FIGURES]
    elif what == "curves":
        names = ["learning", "learning-differences", "robustness"]
    files: list[Path] = []
    for name in names:
        stem = out / name
        if name in FIGURES:
            files += save_figure(FIGURES[name](results), stem)
            continue
        made = _list_tables(results.measurements, regression=name == "table1")
        texts = {
            stem.with_suffix(".md"): "\n\n".join(map(to_markdown, made)) + "\n",
            stem.with_suffix(".tex"): "\n\n".join(map(to_latex, made)) + "\n",
            stem.with_suffix(".html"): to_html_page(made[0].title, made),
        }
        for path, text in texts.items():
            write_whole(path, text.encode())
        files += texts
    return files


# The page.


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
    n_features: Mapping[str, int] = field(default_factory=dict)  # by data set
    links: Mapping[str, str] = field(default_factory=dict)  # name → link to the SVG

    def describe(self) -> str:
        versions = ", ".join(f"{name} {text}" for name, text in self.versions.items())
        jobs = "1 job" if self.n_jobs == 1 else f"up to {self.n_jobs} jobs at a time"
        minutes = self.seconds / 60
        time = f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.1f} hours"
        if self.seconds < 90:
            time = f"{self.seconds:.0f} seconds"
        return (
            f"{count_words(self.n_repeats, 'repeat')} of every split; {jobs}; {time} "
            f"in all, on {self.machine}. Versions: {versions}."
        )


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
    """Markdown from results and facts; sections without content are left out."""
    measurements = results.measurements
    datasets = _with_reference(measurements)
    sections: dict[str, Iterable[str | Table | None]] = {
        "# Results": [f"Written by `{facts.command}`; do not edit."],
        "## The paper's claims, one by one": [claims_table(results)],
        "## In short": [
            *_section(
                "### Where we agree with the paper", describe_agreement(measurements)
            ),
            *_section(
                "### How the compared methods stand against ours",
                describe_compared(measurements),
            ),
            *_section(
                "### What a linear model can reach on School",
                describe_ceiling(measurements, facts.school_in_sample),
            ),
            *_section(
                "### When priors helped",
                [
                    *describe_priors(measurements),
                    *describe_robustness(measurements),
                    tables.control_table(measurements),
                    tables.prior_table(measurements),
                ],
            ),
        ],
        "## How it was measured": [facts.describe(), facts.note, facts.protocol],
        "## The paper's tables": [
            tables.paper_table(measurements, 1),
            tables.paper_table(measurements, 2),
            tables.rank_table(measurements),
        ],
        "## All methods": [tables.table_1(measurements), tables.table_2(measurements)],
        "## Method against method": [
            tables.count_table(measurements, datasets) if datasets else None
        ],
        "## How sure: intervals": [tables.interval_table(measurements)],
        "## What it costs": [tables.cost_table(measurements)],
        "## Figures": _show_figures(results, facts),
    }
    if facts.grids:
        sections["## Appendix: grids and strengths"] = [
            tables.grid_table(facts.grids),
            tables.chosen_table(measurements, facts.grids),
            tables.selection_table(measurements, facts.n_features),
            *describe_kernel_range(measurements),
        ]
    parts = [part for item in sections.items() for part in _section(*item)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _section(title: str, parts: Iterable[str | Table | None]) -> list[str]:
    """A title and what is below it as Markdown; nothing if nothing is."""
    texts = [to_markdown(part) if isinstance(part, Table) else part for part in parts]
    shown = [text for text in texts if text]
    return [title, *shown] if shown else []


def _show_figures(results: Results, facts: Facts) -> Iterator[str]:
    for name, link in facts.links.items():
        title, caption = CAPTIONS[name]
        yield f"### {title}"
        yield f"![{title}]({link})"
        yield caption
        if name == "figure3":
            surfaces = (
                figures.Surface.of(results.surfaces, *key) for key in figures.SURFACES
            )
            yield "\n".join(f"- {s.describe()}" for s in surfaces if s is not None)
