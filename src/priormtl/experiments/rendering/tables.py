"""Tables of results: means beside the paper's, paired differences, wins and losses."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose, isfinite
from statistics import fmean, median

from priormtl.experiments.rendering.measurements import (
    Measurements,
    PairedDifference,
    Progress,
    Setting,
    Verdict,
    adjust_by_holm,
    count_verdicts,
)
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
from priormtl.metrics import LEVEL
from priormtl.tables import NOTHING, TableRow, TextCell
from priormtl.tables import Table as PlainTable

# Cells.

CLOSE = "†"
MARKS = {Verdict.BETTER: "▲", Verdict.WORSE: "▼"}
NO_RUNS = Progress(0, 0)
INCOMPLETE = "runs are there; cells name what they rest on."


@dataclass(frozen=True)
class ScoreCell:
    """Our estimate beside the paper's."""

    ours: Estimate | None
    paper: Estimate | None
    progress: Progress
    best: bool = False
    close: bool = False  # not significantly worse than the best
    decimals: int = 1

    @property
    def text(self) -> str:
        return NOTHING if self.ours is None else _spell(self.ours, self.decimals)

    @property
    def mark(self) -> str:
        return CLOSE if self.close and not self.best else ""

    @property
    def asides(self) -> Sequence[str]:
        paper = () if self.paper is None else (f"paper {_spell(self.paper, 1)}",)
        missing = () if self.progress.complete else (self.progress.text,)
        return paper + missing

    @property
    def bold(self) -> bool:
        return self.best


def _spell(estimate: Estimate, decimals: int) -> str:
    mean = f"{estimate.mean:.{decimals}f}".replace("-", "−")
    return f"{mean} ± {estimate.sd:.{decimals}f}" if isfinite(estimate.sd) else mean


@dataclass(frozen=True)
class DifferenceCell:
    """Paired difference against a reference, in percentage points."""

    difference: PairedDifference
    verdict: Verdict
    progress: Progress
    bold: bool = False

    @classmethod
    def of(
        cls,
        measurements: Measurements,
        setting: Setting,
        reference: Setting,
        metric: str,
    ) -> "DifferenceCell":
        return cls(
            measurements.compare(setting, reference, metric),
            measurements.judge(setting, reference, metric),
            measurements.progress(setting, metric),
        )

    @property
    def text(self) -> str:
        if not isfinite(self.difference.mean):
            return NOTHING
        mean = f"{100 * self.difference.mean:+.2f}".replace("-", "−")
        low, high, _ = self.difference.interval
        if self.verdict is Verdict.UNKNOWN:
            return mean
        ends = f"{100 * low:.2f}, {100 * high:.2f}".replace("-", "−")
        return f"{mean} [{ends}]"

    @property
    def mark(self) -> str:
        return MARKS.get(self.verdict, "")

    @property
    def asides(self) -> Sequence[str]:
        n_common, n_left_out = self.difference.n_common, self.difference.n_left_out
        planned = self.progress.planned
        if not planned or (not n_left_out and self.progress.complete):
            return ()
        return (f"{n_common} of {max(planned, n_common + n_left_out)}",)


def _count_cell(verdicts: Iterable[Verdict]) -> TextCell:
    return TextCell(" / ".join(map(str, count_verdicts(verdicts))))


@dataclass(frozen=True)
class Table(PlainTable):
    """A table that knows how many of the planned runs it rests on."""

    progress: Progress = NO_RUNS


def measured_table(
    title: str,
    columns: Sequence[str],  # the first is that of the labels
    rows: Iterable[TableRow],
    notes: Iterable[str],
    progress: Progress,
) -> Table:
    """Numbers to the right; if runs are missing, the first note says so."""
    missing = [] if progress.complete else [f"Incomplete: {progress.text} {INCOMPLETE}"]
    alignment = "l" + "r" * (len(columns) - 1)
    notes = (*missing, *notes)
    return Table(title, tuple(columns), tuple(rows), alignment, notes, progress)


def _total(parts: Iterable[Progress]) -> Progress:
    done, planned = map(sum, zip(*parts, (0, 0), strict=True))
    return Progress(done, planned)


# Scores of all methods.

Column = tuple[str, str]  # data set and metric

SCORES_NOTE = (
    "Per cent, mean ± standard deviation over the repeats; in brackets what the paper "
    "reports. Bold: best mean of the column among methods with the most repeats. "
    "†: not significantly worse than the best (paired, 95 %)."
)
AVERAGE_NOTE = (
    "The paper does not say how it averages over tasks: its figures stand beside both "
    "of ours. By task, a few schools with hardly any test rows weigh as much as all "
    "others: School's mean and deviation are then mostly theirs, and its median is the "
    "figure to read. nMSE is one minus VE under the same average."
)


def table_1(measurements: Measurements) -> Table:
    datasets = dict.fromkeys(name for name, _ in TABLE_1)
    columns = [
        (name, metric)
        for name in datasets
        for metric in ("ve_pooled", "ve_tasks", "ve_median")
    ]
    title = "Table 1. Regression"
    return score_table(measurements, title, columns, notes=[AVERAGE_NOTE])


def table_2(measurements: Measurements) -> Table:
    measured = {name for name in measurements.datasets() if MAIN_METRICS[name] == "auc"}
    wanted = {name for name, _ in TABLE_2} | measured
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
    tables = {**TABLE_1, **TABLE_2}
    papers = [
        method
        for dataset, metric in columns
        for method in tables.get((dataset, METRICS[metric].figure), {})
    ]
    methods = measurements.order([*measured, *papers])
    grid = [_score_column(measurements, c, methods, decimals) for c in columns]
    rows = zip(methods, zip(*grid, strict=True), strict=True)
    # Metrics of one data set come from the same runs, which count once.
    pairs = reversed(list(zip(columns, grid, strict=True)))
    runs = {name: cells for (name, _), cells in pairs}
    return measured_table(
        title,
        ("Method", *map(_head, columns)),
        (TableRow(measurements.label(method), row) for method, row in rows),
        (SCORES_NOTE, *_definitions(metric for _, metric in columns), *notes),
        _total(cell.progress for cells in runs.values() for cell in cells),
    )


def _head(column: Column) -> str:
    dataset, metric = column
    return f"{DATASETS[dataset]}, {METRICS[metric].title}"


def _definitions(metrics: Iterable[str]) -> tuple[str, ...]:
    return tuple(METRICS[metric].definition for metric in dict.fromkeys(metrics))


def _score_column(
    measurements: Measurements, column: Column, methods: Sequence[str], decimals: int
) -> list[ScoreCell]:
    dataset, metric = column
    cells = [
        ScoreCell(
            measurements.estimate(Setting(dataset, method), metric),
            paper_estimate(dataset, metric, method),
            measurements.progress(Setting(dataset, method), metric),
            decimals=decimals,
        )
        for method in methods
    ]
    # Only means over the most repeats can be the best.
    most = max((cell.progress.done for cell in cells), default=0)
    sign = 1 if METRICS[metric].higher_is_better else -1
    means = {
        method: sign * cell.ours.mean
        for method, cell in zip(methods, cells, strict=True)
        if cell.ours is not None and cell.progress.done == most
    }
    if not means:
        return cells
    best = max(means, key=means.__getitem__)

    def is_close(method: str) -> bool:
        settings = Setting(dataset, method), Setting(dataset, best)
        verdict = measurements.judge(*settings, metric)
        return verdict in {Verdict.EVEN, Verdict.BETTER}

    return [
        replace(cell, best=method == best, close=is_close(method))
        for method, cell in zip(methods, cells, strict=True)
    ]


# The paper's two tables in its own shape: ten methods side by side.

PAPER_NOTE = (
    "Per cent, mean ± standard deviation over the repeats: our implementation and our "
    "tuning of all ten; in brackets what the paper reports. Bold: best of the row. †: "
    "not significantly worse than the best (paired, 95 %)."
)


EXPLODING_NOTE = (
    "By task, School's means are carried away by a few schools with hardly any test "
    "rows. Table 1 further down has medians over tasks."
)


def paper_table_1(measurements: Measurements) -> Table:
    columns = [
        (dataset, f"{figure.lower()}_{average}")
        for dataset, figure in TABLE_1
        for average in ("pooled", "tasks")
    ]
    title = "Table 1, as the paper prints it"
    table = _paper_table(measurements, title, columns, 1)
    return replace(table, notes=(*table.notes, EXPLODING_NOTE))


def paper_table_2(measurements: Measurements) -> Table:
    columns = [(dataset, "auc") for dataset, _ in TABLE_2]
    return _paper_table(measurements, "Table 2, as the paper prints it", columns, 2)


def _paper_table(
    measurements: Measurements, title: str, lines: Sequence[Column], decimals: int
) -> Table:
    methods = list(PAPER_LABELS)
    grid = [_score_column(measurements, line, methods, decimals) for line in lines]
    return measured_table(
        title,
        ("Data set", *PAPER_LABELS.values()),
        (
            TableRow(_head(line), tuple(cells))
            for line, cells in zip(lines, grid, strict=True)
        ),
        (PAPER_NOTE,),
        _total(cell.progress for cells in grid for cell in cells),
    )


# Ranks.

RANK_NOTE = (
    "Rank of each method's mean among these ten, 1 the best; equal means share their "
    "rank. In brackets the rank of the paper's figure in the same row. VE and AUC "
    "alone: ranks by nMSE are those by VE, under one average."
)


def rank_table(measurements: Measurements) -> Table | None:
    """Ranks of the paper's ten methods on its six data sets, ours beside the paper's.

    None unless all ten were measured somewhere.
    """
    columns, ours, papers = [], [], []
    for dataset, figure in (*TABLE_1, *TABLE_2):
        if figure == "nMSE":
            continue
        metric = MAIN_METRICS[dataset]
        found = [
            measurements.estimate(Setting(dataset, method), metric)
            for method in PAPER_LABELS
        ]
        if all(found):
            columns.append((dataset, metric))
            ours.append(mean_ranks([-one.mean for one in found if one]))
            row = {**TABLE_1, **TABLE_2}[dataset, figure]
            papers.append(mean_ranks([-row[method].mean for method in PAPER_LABELS]))
    if not columns:
        return None
    rows = []
    for k, label in enumerate(PAPER_LABELS.values()):
        pairs = [(a[k], b[k]) for a, b in zip(ours, papers, strict=True)]
        pairs.append((fmean(a for a, _ in pairs), fmean(b for _, b in pairs)))
        cells = [TextCell(f"{a:.3g}", asides=(f"{b:.3g}",)) for a, b in pairs[:-1]]
        last = TextCell(f"{pairs[-1][0]:.1f}", asides=(f"{pairs[-1][1]:.1f}",))
        rows.append(TableRow(label, (*cells, last)))
    heads = ("Method", *(DATASETS[name] for name, _ in columns), "mean rank")
    title = "Ranks over data sets, ours beside the paper's"
    return measured_table(title, heads, rows, (RANK_NOTE,), NO_RUNS)


def mean_ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1, the smallest first; equal values share the mean of theirs."""
    return [
        sum(other < value for other in values)
        + (sum(other == value for other in values) + 1) / 2
        for value in values
    ]


# Grids and the strengths that were chosen.

Grids = Mapping[str, Mapping[str, Sequence[float]]]  # data set, strength, values
STRENGTHS = ("lam", "theta", "epsilon")


def grid_table(grids: Grids) -> Table:
    """The values of each strength that our model may take, by data set."""
    rows = [
        TableRow(
            DATASETS[name],
            tuple(
                TextCell(", ".join(f"{x:g}" for x in sorted(grid[strength])))
                for strength in STRENGTHS
            ),
        )
        for name, grid in grids.items()
    ]
    note = (
        "lam as a share of lam_max, at which all coefficients vanish; theta and "
        "epsilon times the number of training rows per task. All priors and “without "
        "prior” share lam and epsilon; without prior theta is 0, with the artificial "
        "prior 0 or 1 (any other value gives the same predictions)."
    )
    heads = ("Data set", *STRENGTHS)
    return measured_table("Grids of our model", heads, rows, (note,), NO_RUNS)


def chosen_table(measurements: Measurements, grids: Grids) -> Table | None:
    """How often theta = 0 was chosen, and strengths at an end of their grid."""
    rows = []
    for dataset, grid in grids.items():
        for prior in (NONE, *PRIORS):
            setting = Setting(dataset, prior)
            chosen = [
                {name: float(found[f"relative_{name}"]) for name in STRENGTHS}
                for found in measurements.strengths.get(setting, {}).values()
                if all(f"relative_{name}" in found for name in STRENGTHS)
            ]
            if not chosen:
                continue
            zero = sum(one["theta"] == 0.0 for one in chosen)
            label = f"{DATASETS[dataset]}, {measurements.label(prior)}"
            without = TextCell(NOTHING) if prior == NONE else TextCell(str(zero))
            cells = [TextCell(str(len(chosen))), without]
            for name in STRENGTHS:
                values = [one[name] for one in chosen]
                cells.append(TextCell(_spell_chosen(values, grid[name])))
            rows.append(TableRow(label, tuple(cells)))
    if not rows:
        return None
    note = (
        "Median of the chosen values, in the units of the grids; in brackets how often "
        "it was the smallest (↓) or the largest (↑) value of its grid. The smallest "
        "theta or epsilon is 0 where the grid has 0, which is no edge."
    )
    heads = ("Data set, prior", "repeats", "theta = 0", *STRENGTHS)
    title = "Strengths chosen at the paper's splits"
    return measured_table(title, heads, rows, (note,), NO_RUNS)


def _spell_chosen(values: Sequence[float], grid: Sequence[float]) -> str:
    if len(grid) == 1:
        return f"{grid[0]:g}"
    low = sum(isclose(x, min(grid), rel_tol=1e-4) for x in values if min(grid) > 0)
    high = sum(isclose(x, max(grid), rel_tol=1e-4) for x in values)
    ends = [f"{n}{sign}" for n, sign in ((low, "↓"), (high, "↑")) if n]
    return f"{median(values):g}" + (f" ({', '.join(ends)})" if ends else "")


# Two intervals, and many comparisons.


def interval_table(measurements: Measurements) -> Table | None:
    """Significant differences by kind of interval and with many comparisons."""
    datasets = measurements.datasets()
    compared = [name for name in PAPER_LABELS if name not in PRIORS]
    families = {
        "compared methods against “ours, natural prior”": [
            (Setting(name, method), Setting(name, REFERENCE))
            for name in datasets
            for method in compared
        ],
        "priors against none, the paper's splits": [
            (Setting(name, prior), Setting(name, NONE))
            for name in datasets
            for prior in PRIORS
        ],
        "priors against none, learning curves": [
            (Setting(name, prior, size), Setting(name, NONE, size))
            for name in datasets
            for size in measurements.sizes(name, PRIORS)
            for prior in PRIORS
        ],
    }
    rows = []
    for title, pairs in families.items():
        cells, count = [], 0
        for usual in (False, True):
            found = []
            for setting, reference in pairs:
                metric = MAIN_METRICS[setting.dataset]
                one = measurements.compare(setting, reference, metric, usual=usual)
                if one.n_common > 1:
                    found.append(one)
            count = len(found)
            verdicts = [one.verdict(higher_is_better=True) for one in found]
            adjusted = adjust_by_holm([one.interval.p_value for one in found])
            kept = [
                verdict if p <= 1.0 - LEVEL else Verdict.EVEN
                for verdict, p in zip(verdicts, adjusted, strict=True)
            ]
            cells += [_count_cell(verdicts), _count_cell(kept)]
        if count:
            rows.append(TableRow(title, (TextCell(str(count)), *cells)))
    if not rows:
        return None
    heads = ("Family", "comparisons", "ours", "ours, Holm", "usual", "usual, Holm")
    note = (
        "Better / even / worse at 95 %. Ours: smaller part of the split over the "
        "larger one in the correction, which all other tables use; usual: test rows "
        "over training rows, after Nadeau and Bengio, never shorter than ours; the two "
        "differ where tests are the larger part. So findings from small training sets "
        "depend on this choice: those of the learning curves, and those on School and "
        "Sarcos. Holm: adjusted for all comparisons of the family."
    )
    title = "What intervals and multiplicity change"
    return measured_table(title, heads, rows, (note,), NO_RUNS)


# Differences against a reference.

REFERENCE = "natural"
DIFFERENCES_NOTE = (
    "Percentage points, method minus “{reference}”, over the same splits, with a 95 % "
    "interval (corrected resampled t after Nadeau and Bengio). ▲: significantly "
    "better, ▼: significantly worse; not corrected for many comparisons."
)
COMPLEMENT_NOTE = (
    "nMSE is one minus VE under the same average: its differences are these with the "
    "other sign."
)


def difference_table(
    measurements: Measurements, dataset: str, reference: str = REFERENCE
) -> Table:
    """Every method of a data set against the reference, with wins and losses."""
    regression = MAIN_METRICS[dataset] != "auc"
    metrics = ["ve_pooled", "ve_tasks"] if regression else ["auc"]
    columns = [(dataset, metric) for metric in metrics]
    methods, grid = _difference_grid(measurements, columns, reference)
    rows = [
        TableRow(measurements.label(method), tuple(cells))
        for method, cells in zip(methods, grid, strict=True)
    ]
    counts = [
        _count_cell(cells[k].verdict for cells in grid) for k in range(len(metrics))
    ]
    label = measurements.label(reference)
    note = DIFFERENCES_NOTE.format(reference=label)
    complement = (COMPLEMENT_NOTE,) if regression else ()
    return measured_table(
        f"{DATASETS[dataset]}: difference against “{label}”",
        ("Method", *(METRICS[metric].title for metric in metrics)),
        (*rows, TableRow("better / even / worse", tuple(counts))),
        (note, *_definitions(metrics), *complement),
        _total(cells[0].progress for cells in grid),
    )


def count_table(
    measurements: Measurements, datasets: Sequence[str], reference: str = REFERENCE
) -> Table:
    """Every method against the reference on every data set, and how often it won."""
    columns = [(name, MAIN_METRICS[name]) for name in datasets]
    methods, grid = _difference_grid(measurements, columns, reference)
    rows = (
        TableRow(
            measurements.label(method),
            (*cells, _count_cell(cell.verdict for cell in cells)),
        )
        for method, cells in zip(methods, grid, strict=True)
    )
    label = measurements.label(reference)
    note = DIFFERENCES_NOTE.format(reference=label)
    return measured_table(
        f"All data sets: difference against “{label}”",
        ("Method", *map(_head, columns), "better / even / worse"),
        rows,
        (note, *_definitions(metric for _, metric in columns)),
        _total(cell.progress for cells in grid for cell in cells),
    )


def _difference_grid(
    measurements: Measurements, columns: Sequence[Column], reference: str
) -> tuple[list[str], list[list[DifferenceCell]]]:
    known = measurements.methods(dataset for dataset, _ in columns)
    methods = [name for name in known if name != reference]
    grid = [
        [
            DifferenceCell.of(
                measurements,
                Setting(dataset, method),
                Setting(dataset, reference),
                metric,
            )
            for dataset, metric in columns
        ]
        for method in methods
    ]
    return methods, grid


# Priors against none.

FEW_SIZES = 3  # of a learning curve that the table shows
PRIOR_NOTE = (
    "Percentage points, prior minus “{none}”, over the same splits, with a 95 % "
    "interval (corrected resampled t after Nadeau and Bengio); ▲: significantly "
    "better, ▼: significantly worse; not corrected for many comparisons. Rows: "
    "training rows per task or class, the three fewest of the curve; “paper”: the "
    "paper's split."
)


def prior_table(measurements: Measurements) -> Table | None:
    """Each prior against none, at the smallest sizes and at the paper's split."""
    rows, progress = [], []
    for dataset in measurements.datasets():
        for size in (*measurements.sizes(dataset, PRIORS)[:FEW_SIZES], None):
            cells = [compare_with_none(measurements, dataset, size, p) for p in PRIORS]
            progress += [cell.progress for cell in cells]
            if any(cell.progress.planned for cell in cells):
                title = METRICS[MAIN_METRICS[dataset]].title
                place = "paper" if size is None else size
                label = f"{DATASETS[dataset]}, {title}, {place}"
                rows.append(TableRow(label, tuple(cells)))
    if not rows:
        return None
    return measured_table(
        "When did a prior help?",
        ("Data set, metric, rows", *(measurements.label(prior) for prior in PRIORS)),
        rows,
        (PRIOR_NOTE.format(none=measurements.label(NONE)),),
        _total(progress),
    )


def compare_with_none(
    measurements: Measurements, dataset: str, size: int | None, prior: str
) -> DifferenceCell:
    settings = Setting(dataset, prior, size), Setting(dataset, NONE, size)
    return DifferenceCell.of(measurements, *settings, MAIN_METRICS[dataset])


# Costs.

COST_NOTE = (
    "CPU seconds of one core for a whole search over folds and the fit that follows, "
    "mean over repeats, measured while other programs ran. Searches differ in their "
    "number of settings, see above. The first fit of a process compiles or loads "
    "compiled code, and this time is included."
)


def cost_table(measurements: Measurements) -> Table | None:
    if not measurements.seconds:
        return None
    datasets = measurements.datasets()
    rows = []
    for method in measurements.methods(datasets):
        times = [measurements.mean_seconds(Setting(name, method)) for name in datasets]
        cells = [
            TextCell(NOTHING if t is None else f"{t:.{1 if t < 10 else 0}f}")
            for t in times
        ]
        rows.append(TableRow(measurements.label(method), tuple(cells)))
    heads = ("Method", *(DATASETS[name] for name in datasets))
    title = "Seconds to tune and fit"
    return measured_table(title, heads, rows, (COST_NOTE,), NO_RUNS)
