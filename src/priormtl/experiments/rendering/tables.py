"""Tables of results: means beside the paper's, paired differences, wins and losses."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isclose, isfinite
from statistics import fmean, median

from priormtl.experiments.rendering.measurements import (
    COMPARED,
    DATASETS,
    MAIN_METRICS,
    METRICS,
    NONE,
    NOTES,
    PAPER,
    PAPER_LABELS,
    PRIORS,
    Estimate,
    Measurements,
    Progress,
    Setting,
    Verdict,
    paper_estimate,
)
from priormtl.metrics import LEVEL
from priormtl.rendering import NOTHING, Cell, Table, TableRow, TextCell

Column = tuple[str, str]  # data set and metric
REFERENCE = "natural"  # method that all others are compared with


def measured_table(
    title: str,
    columns: Sequence[str],  # the first is that of the labels
    rows: Iterable[tuple[str, Sequence[Cell | str]]],
    notes: Iterable[str],
    runs: Iterable[Progress] = (),
) -> Table:
    """Numbers to the right; if runs are missing, the first note says so."""
    done, planned = map(sum, zip(*runs, (0, 0), strict=True))
    total = Progress(done, planned)
    missing = f"Incomplete: {total.text} runs are there; cells name what they rest on."
    lines = []
    for label, cells in rows:
        shown = (TextCell(cell) if isinstance(cell, str) else cell for cell in cells)
        lines.append(TableRow(label, tuple(shown)))
    return Table(
        title,
        tuple(columns),
        tuple(lines),
        "l" + "r" * (len(columns) - 1),
        (*(() if total.complete else (missing,)), *notes),
    )


def _head(column: Column) -> str:
    dataset, metric = column
    return f"{DATASETS[dataset]}, {METRICS[metric].title}"


def _definitions(columns: Iterable[Column]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(METRICS[metric].definition for _, metric in columns))


def _runs(
    measurements: Measurements, columns: Iterable[Column], methods: Iterable[str]
) -> list[Progress]:
    names = list(methods)
    return [
        measurements.progress(Setting(dataset, method), metric)
        for dataset, metric in columns
        for method in names
    ]


# Scores of all methods.


def table_1(measurements: Measurements) -> Table:
    averages = ("ve_pooled", "ve_tasks", "ve_median")
    columns = [(name, metric) for name in ("school", "sarcos") for metric in averages]
    notes = [NOTES["averages"]]
    return score_table(measurements, "Table 1. Regression", columns, notes=notes)


def table_2(measurements: Measurements) -> Table:
    wanted = {name for name, figure in PAPER if figure == "AUC"}
    wanted |= {name for name in measurements.datasets() if MAIN_METRICS[name] == "auc"}
    columns = [(name, "auc") for name in DATASETS if name in wanted]
    return score_table(measurements, "Table 2. Classification", columns, decimals=2)


def score_table(
    measurements: Measurements,
    title: str,
    columns: Sequence[Column],
    *,
    decimals: int = 1,
    notes: Iterable[str] = (),
) -> Table:
    """Methods in rows, data sets and metrics in columns.

    Methods are those that were measured or planned, or that the paper has.
    """
    measured = measurements.methods(dataset for dataset, _ in columns)
    in_paper = any((name, METRICS[metric].figure) in PAPER for name, metric in columns)
    methods = measurements.order([*measured, *(PAPER_LABELS if in_paper else ())])
    grid = [_score_cells(measurements, c, methods, decimals) for c in columns]
    labels = map(measurements.label, methods)
    # Metrics of one data set come from the same runs, which count once.
    first = dict(reversed(columns))
    return measured_table(
        title,
        ("Method", *map(_head, columns)),
        zip(labels, zip(*grid, strict=True), strict=True),
        (NOTES["scores"], *_definitions(columns), *notes),
        _runs(measurements, first.items(), methods),
    )


def _score_cells(
    measurements: Measurements, column: Column, methods: Sequence[str], decimals: int
) -> list[TextCell]:
    """Our estimates beside the paper's, the best one in bold."""
    dataset, metric = column
    settings = [Setting(dataset, method) for method in methods]
    ours = {s.method: measurements.estimate(s, metric) for s in settings}
    runs = {s.method: measurements.progress(s, metric) for s in settings}
    # Only means over the most repeats can be the best.
    most = max((progress.done for progress in runs.values()), default=0)
    sign = 1 if METRICS[metric].higher_is_better else -1
    means = {
        method: sign * estimate.mean
        for method, estimate in ours.items()
        if estimate is not None and runs[method].done == most
    }
    best = max(means, key=means.__getitem__, default="")
    cells: list[TextCell] = []
    for setting in settings:
        method, estimate = setting.method, ours[setting.method]
        paper = paper_estimate(dataset, metric, method)
        beside = () if paper is None else (f"paper {_spell(paper, 1)}",)
        missing = () if runs[method].complete else (runs[method].text,)
        text, mark = NOTHING, ""
        if estimate is not None:  # what was not measured may lack its data set, too
            text = _spell(estimate, decimals)
            even = {Verdict.EVEN, Verdict.BETTER}
            is_close = measurements.judge(setting, best, metric) in even
            mark = "†" if method != best and is_close else ""
        cells.append(TextCell(text, mark, beside + missing, method == best))
    return cells


def _spell(estimate: Estimate, decimals: int) -> str:
    mean = f"{estimate.mean:.{decimals}f}".replace("-", "−")
    return f"{mean} ± {estimate.sd:.{decimals}f}" if isfinite(estimate.sd) else mean


# The paper's two tables in its own shape: ten methods side by side.


def paper_table(measurements: Measurements, number: int) -> Table:
    """Table 1 (regression, under both averages) or Table 2 (AUC)."""
    lines = [
        (dataset, metric)
        for dataset, figure in PAPER
        if (figure == "AUC") == (number == 2)
        for metric in METRICS
        if METRICS[metric].figure == figure
    ]
    methods = list(PAPER_LABELS)
    return measured_table(
        f"Table {number}, as the paper prints it",
        ("Data set", *PAPER_LABELS.values()),
        [(_head(c), _score_cells(measurements, c, methods, number)) for c in lines],
        (NOTES["paper"], *([NOTES["outliers"]] if number == 1 else [])),
        _runs(measurements, lines, methods),
    )


def rank_table(measurements: Measurements) -> Table | None:
    """Ranks of the paper's ten methods on its six data sets, ours beside the paper's.

    None unless all ten were measured somewhere.
    """
    ranks: dict[str, list[tuple[float, float]]] = {}  # ours and the paper's, by method
    for (dataset, figure), paper in PAPER.items():
        metric = MAIN_METRICS[dataset]
        settings = (Setting(dataset, method) for method in PAPER_LABELS)
        known = filter(None, (measurements.estimate(s, metric) for s in settings))
        means = [-estimate.mean for estimate in known]
        if figure != "nMSE" and len(means) == len(PAPER_LABELS):
            papers = mean_ranks([-paper[method].mean for method in PAPER_LABELS])
            ranks[DATASETS[dataset]] = list(zip(mean_ranks(means), papers, strict=True))
    if not ranks:
        return None
    rows = []
    for k, label in enumerate(PAPER_LABELS.values()):
        pairs = [column[k] for column in ranks.values()]
        cells = [TextCell(f"{ours:.3g}", asides=(f"{its:.3g}",)) for ours, its in pairs]
        ours, its = map(fmean, zip(*pairs, strict=True))
        rows.append((label, [*cells, TextCell(f"{ours:.1f}", asides=(f"{its:.1f}",))]))
    title = "Ranks over data sets, ours beside the paper's"
    heads = ("Method", *ranks, "mean rank")
    return measured_table(title, heads, rows, [NOTES["ranks"]])


def mean_ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1, the smallest first; equal values share the mean of theirs."""
    return [
        sum(other < value for other in values)
        + (sum(other == value for other in values) + 1) / 2
        for value in values
    ]


# Differences against a reference.


@dataclass(frozen=True)
class DifferenceCell(TextCell):
    """Paired difference against a reference, in percentage points."""

    verdict: Verdict = Verdict.UNKNOWN


def difference_cell(
    measurements: Measurements,
    setting: Setting,
    reference: str | Setting,
    metric: str | None = None,
) -> DifferenceCell:
    metric = metric or MAIN_METRICS[setting.dataset]
    mean, (low, high, _), n_common, n_left_out, verdict = measurements.compare(
        setting, reference, metric
    )
    progress = measurements.progress(setting, metric)
    text, asides = NOTHING, tuple[str, ...]()
    if isfinite(mean):
        text = f"{100 * mean:+.2f}"
        if verdict is not Verdict.UNKNOWN:
            text += f" [{100 * low:.2f}, {100 * high:.2f}]"
    if progress.planned and (n_left_out or not progress.complete):
        planned = max(progress.planned, n_common + n_left_out)
        asides = (Progress(n_common, planned).text,)
    mark = {Verdict.BETTER: "▲", Verdict.WORSE: "▼"}.get(verdict, "")
    return DifferenceCell(text.replace("-", "−"), mark, asides, verdict=verdict)


def _count(verdicts: Iterable[Verdict]) -> str:
    """How often a method was significantly better, not different, worse."""
    known = list(verdicts)
    kinds = (Verdict.BETTER, Verdict.EVEN, Verdict.WORSE)
    return " / ".join(str(known.count(kind)) for kind in kinds)


def _differences_note(label: str, what: str = "method") -> str:
    return (
        f"Percentage points, {what} minus “{label}”, over the same splits, with a 95 % "
        "interval (corrected resampled t after Nadeau and Bengio)"
        f"{'.' if what == 'method' else ';'} ▲: significantly better, ▼: significantly "
        "worse; not corrected for many comparisons."
    )


def count_table(
    measurements: Measurements, datasets: Sequence[str], reference: str = REFERENCE
) -> Table:
    """Every method against the reference on every data set, and how often it won."""
    columns = [(name, MAIN_METRICS[name]) for name in datasets]
    grid = _difference_grid(measurements, columns, reference)
    label, name = measurements.label(reference), measurements.label
    return measured_table(
        f"All data sets: difference against “{label}”",
        ("Method", *map(_head, columns), "better / even / worse"),
        [
            (name(method), [*cells, _count(cell.verdict for cell in cells)])
            for method, cells in grid.items()
        ],
        (_differences_note(label), *_definitions(columns)),
        _runs(measurements, columns, grid),
    )


def _difference_grid(
    measurements: Measurements, columns: Sequence[Column], reference: str
) -> dict[str, list[DifferenceCell]]:
    """Cells of every other method, column by column."""
    return {
        method: [
            difference_cell(measurements, Setting(dataset, method), reference, metric)
            for dataset, metric in columns
        ]
        for method in measurements.methods(dataset for dataset, _ in columns)
        if method != reference
    }


def _place_rows(
    measurements: Measurements,
    most: int | None,  # sizes of the learning curve, the fewest rows first; None: all
    compare: Callable[[str, int | None], tuple[list[Setting], list[DifferenceCell]]],
) -> tuple[list[tuple[str, list[DifferenceCell]]], list[Progress]]:
    """Rows of differences at sizes of curves and the paper's splits, and their runs.

    ``compare`` has the settings that must be run for a row, and its cells.
    """
    rows, runs = [], []
    for dataset in measurements.datasets():
        metric = MAIN_METRICS[dataset]
        for size in (*measurements.sizes(dataset)[:most], None):
            settings, cells = compare(dataset, size)
            runs += [measurements.progress(s, metric) for s in settings]
            if cells:
                place = "paper" if size is None else size
                rows.append((f"{_head((dataset, metric))}, {place}", cells))
    return rows, runs


def prior_table(measurements: Measurements) -> Table | None:
    """Each prior against none, at the three smallest sizes and the paper's split."""

    def compare(
        dataset: str, size: int | None
    ) -> tuple[list[Setting], list[DifferenceCell]]:
        settings, metric = [], MAIN_METRICS[dataset]
        settings = [Setting(dataset, prior, size) for prior in PRIORS]
        if not any(measurements.progress(s, metric).planned for s in settings):
            return settings, []
        return settings, [difference_cell(measurements, s, NONE) for s in settings]

    rows, runs = _place_rows(measurements, 3, compare)
    note = (
        f"{_differences_note(measurements.label(NONE), 'prior')} Rows: training rows "
        "per task or class, the three fewest of the curve; “paper”: the paper's split."
    )
    heads = ("Data set, metric, rows", *map(measurements.label, PRIORS))
    title = "When did a prior help?"
    return measured_table(title, heads, rows, [note], runs) if rows else None


def control_table(measurements: Measurements) -> Table | None:
    """The expert prior against none and against its controls, at every size."""

    def compare(
        dataset: str, size: int | None
    ) -> tuple[list[Setting], list[DifferenceCell]]:
        expert, metric = Setting(dataset, "expert", size), MAIN_METRICS[dataset]
        references = measurements.references(expert)
        # Controls of the paper's splits are run where time allows.
        planned = all(measurements.progress(s, metric).planned for s in references)
        if not planned or expert not in measurements.settings:
            return [], []
        cells = [difference_cell(measurements, expert, s) for s in references]
        return references, cells

    rows, runs = _place_rows(measurements, None, compare)
    note = (
        "Percentage points, expert prior minus its reference, over the same splits, "
        "with a 95 % interval (corrected resampled t). Ridge: D = I, theta from the "
        "same grid, which shrinks and relates nothing. Reversed: similar features are "
        "said to be opposite, and opposite ones similar. Knowledge is what the prior "
        "adds to all three."
    )
    minus = ("minus no prior", "minus ridge", "minus reversed")
    heads = ("Data set, metric, rows", *minus)
    title = "What an expert's relations add"
    return measured_table(title, heads, rows, [note], runs) if rows else None


def interval_table(measurements: Measurements) -> Table | None:
    """Significant differences by kind of interval and with many comparisons."""
    datasets = measurements.datasets()
    curves = [(name, size) for name in datasets for size in measurements.sizes(name)]
    families = {
        "compared methods against “ours, natural prior”": (
            REFERENCE,
            [Setting(name, method) for name in datasets for method in COMPARED],
        ),
        "priors against none, the paper's splits": (
            NONE,
            [Setting(name, prior) for name in datasets for prior in PRIORS],
        ),
        "priors against none, learning curves": (
            NONE,
            [Setting(name, prior, size) for name, size in curves for prior in PRIORS],
        ),
    }
    rows = []
    for title, (reference, settings) in families.items():
        cells, count = [], 0
        for usual in (False, True):
            compared = [
                measurements.compare(setting, reference, usual=usual)
                for setting in settings
            ]
            known = [one for one in compared if one.verdict is not Verdict.UNKNOWN]
            adjusted = adjust_by_holm([one.interval.p_value for one in known])
            kept = [
                one.verdict if p <= 1.0 - LEVEL else Verdict.EVEN
                for one, p in zip(known, adjusted, strict=True)
            ]
            cells += [_count(one.verdict for one in known), _count(kept)]
            count = len(known)
        if count:
            rows.append((title, [str(count), *cells]))
    heads = ("Family", "comparisons", "ours", "ours, Holm", "usual", "usual, Holm")
    title = "What intervals and multiplicity change"
    notes = [NOTES["intervals"]]
    return measured_table(title, heads, rows, notes) if rows else None


def adjust_by_holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for all comparisons of a family (Holm 1979)."""
    adjusted, largest = [1.0] * len(p_values), 0.0
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    for rank, k in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[k]))
        adjusted[k] = largest
    return adjusted


# Grids, what was chosen, and costs.

Grids = Mapping[str, Mapping[str, Sequence[float]]]  # data set, strength, values
STRENGTHS = ("lam", "theta", "epsilon")


def _chosen(measurements: Measurements, setting: Setting, name: str) -> list[float]:
    """What the repeats of a setting chose under a name, where rows tell."""
    by_repeat = measurements.strengths.get(setting, {}).values()
    return [strengths[name] for strengths in by_repeat if name in strengths]


def selection_table(
    measurements: Measurements, n_features: Mapping[str, int]
) -> Table | None:
    """Features that fits at the paper's splits selected, where rows tell."""
    rows = []
    for method in measurements.methods(n_features):
        settings = [Setting(name, method) for name in n_features]
        counts = [_chosen(measurements, s, "features") for s in settings]
        texts = [
            f"{median(each):g} ({min(each):g}–{max(each):g})" if each else NOTHING
            for each in counts
        ]
        if any(counts):
            rows.append((measurements.label(method), texts))
    heads = ["Method", *(f"{DATASETS[name]}, of {d}" for name, d in n_features.items())]
    title = "Features selected at the paper's splits"
    return measured_table(title, heads, rows, [NOTES["selected"]]) if rows else None


def grid_table(grids: Grids) -> Table:
    """The values of each strength that our model may take, by data set."""
    rows = [
        (
            DATASETS[name],
            [", ".join(f"{x:g}" for x in sorted(grid[k])) for k in STRENGTHS],
        )
        for name, grid in grids.items()
    ]
    heads = ("Data set", *STRENGTHS)
    return measured_table("Grids of our model", heads, rows, [NOTES["grids"]])


def chosen_table(measurements: Measurements, grids: Grids) -> Table | None:
    """How often theta = 0 was chosen, and strengths at an end of their grid."""
    rows = []
    for dataset, grid in grids.items():
        for prior in (NONE, *PRIORS):
            setting = Setting(dataset, prior)
            chosen = {
                name: _chosen(measurements, setting, f"relative_{name}")
                for name in STRENGTHS
            }
            if chosen["lam"]:
                zeros = str(chosen["theta"].count(0.0))
                texts = [str(len(chosen["lam"])), NOTHING if prior == NONE else zeros]
                texts += [_spell_chosen(chosen[name], grid[name]) for name in STRENGTHS]
                label = f"{DATASETS[dataset]}, {measurements.label(prior)}"
                rows.append((label, texts))
    heads = ("Data set, prior", "repeats", "theta = 0", *STRENGTHS)
    title = "Strengths chosen at the paper's splits"
    return measured_table(title, heads, rows, [NOTES["chosen"]]) if rows else None


def _spell_chosen(values: Sequence[float], grid: Sequence[float]) -> str:
    if len(grid) == 1:
        return f"{grid[0]:g}"
    low = sum(isclose(x, min(grid), rel_tol=1e-4) for x in values if min(grid) > 0)
    high = sum(isclose(x, max(grid), rel_tol=1e-4) for x in values)
    ends = [f"{n}{sign}" for n, sign in ((low, "↓"), (high, "↑")) if n]
    return f"{median(values):g}" + (f" ({', '.join(ends)})" if ends else "")


def cost_table(measurements: Measurements) -> Table | None:
    if not measurements.seconds:
        return None
    datasets, rows = measurements.datasets(), []
    for method in measurements.methods(datasets):
        times = [measurements.mean_seconds(Setting(name, method)) for name in datasets]
        texts = [NOTHING if t is None else f"{t:.{1 if t < 10 else 0}f}" for t in times]
        rows.append((measurements.label(method), texts))
    heads = ("Method", *(DATASETS[name] for name in datasets))
    return measured_table("Seconds to tune and fit", heads, rows, [NOTES["costs"]])
