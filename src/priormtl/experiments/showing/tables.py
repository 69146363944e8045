"""Rows to tables, computing nothing but means, spreads and comparisons."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from priormtl.experiments.showing.cells import (
    CountCell,
    DifferenceCell,
    ScoreCell,
    Table,
)
from priormtl.experiments.showing.comparisons import Verdict, count_verdicts
from priormtl.experiments.showing.measurements import Measurements, Progress, Setting
from priormtl.experiments.showing.paper import (
    DATASETS,
    MAIN_METRICS,
    METRICS,
    TABLE_1,
    TABLE_2,
    paper_estimate,
)
from priormtl.tables import TableRow

__all__ = [
    "all_tables",
    "count_table",
    "difference_table",
    "score_column",
    "score_table",
    "table_1",
    "table_2",
]

Column = tuple[str, str]  # data set and metric

REFERENCE = "natural"
SCORES_NOTE = (
    "Per cent, mean ± standard deviation over the repeats; in brackets what the paper "
    "reports. Bold: best mean of the column among methods with the most repeats. "
    "†: not significantly worse than the best (paired, 95 %)."
)
AVERAGE_NOTE = (
    "The paper does not say how it averages over tasks: its figures stand beside both "
    "of ours. By task, a few schools with hardly any test rows weigh as much as all "
    "others: School's deviation is then mostly theirs."
)
DIFFERENCES_NOTE = (
    "Percentage points, method minus “{reference}”, over the same splits, with a 95 % "
    "interval (corrected resampled t after Nadeau and Bengio). ▲: significantly "
    "better, ▼: significantly worse; not corrected for many comparisons."
)
COMPLEMENT_NOTE = (
    "nMSE is one minus VE under the same average: its differences are these with the "
    "other sign."
)


def table_1(measurements: Measurements) -> tuple[Table, ...]:
    """School and Sarcos: variance explained and normalised error, pooled, by task."""
    cells = list(TABLE_1)
    return tuple(
        score_table(
            measurements,
            f"Table 1. Regression, {words}",
            [(name, f"{figure.lower()}_{average}") for name, figure in cells],
            notes=[AVERAGE_NOTE],
        )
        for average, words in (("pooled", "pooled over tasks"), ("tasks", "by task"))
    )


def table_2(measurements: Measurements) -> Table:
    """Classification: mean area under the ROC curve."""
    measured = {name for name in measurements.datasets() if MAIN_METRICS[name] == "auc"}
    wanted = {name for name, _ in TABLE_2} | measured
    columns = [(name, "auc") for name in DATASETS if name in wanted]
    return score_table(measurements, "Table 2. Classification", columns, decimals=2)


def all_tables(
    measurements: Measurements, reference: str = REFERENCE
) -> tuple[Table, ...]:
    """Both of the paper's tables, then differences set by set, then the counts."""
    datasets = [
        name
        for name in measurements.datasets()
        if reference in measurements.methods([name])
    ]
    differences = (difference_table(measurements, name, reference) for name in datasets)
    counts = (count_table(measurements, datasets, reference),) if datasets else ()
    scores = (*table_1(measurements), table_2(measurements))
    return (*scores, *differences, *counts)


def score_table(
    measurements: Measurements,
    title: str,
    columns: Sequence[Column],
    *,
    decimals: int = 1,
    notes: Iterable[str] = (),
) -> Table:
    """Methods in rows, data sets and metrics in columns."""
    methods = _rows(measurements, columns)
    grid = [
        score_column(measurements, *column, methods, decimals) for column in columns
    ]
    heads = tuple(
        f"{DATASETS[name]}, {METRICS[metric].title}" for name, metric in columns
    )
    rows = zip(methods, zip(*grid, strict=True), strict=True)
    return Table(
        title,
        ("Method", *heads),
        tuple(TableRow(measurements.label(method), row) for method, row in rows),
        (SCORES_NOTE, *_definitions(metric for _, metric in columns), *notes),
        _total(cell.progress for column in _runs(columns, grid) for cell in column),
    )


def difference_table(
    measurements: Measurements, dataset: str, reference: str = REFERENCE
) -> Table:
    """Every method of a data set against the reference, with wins and losses."""
    main = MAIN_METRICS[dataset]
    metrics = ["auc"] if main == "auc" else ["ve_pooled", "ve_tasks"]
    others = [name for name in measurements.methods([dataset]) if name != reference]
    grid = [
        [
            _difference(measurements, dataset, method, reference, metric)
            for metric in metrics
        ]
        for method in others
    ]
    rows = [
        TableRow(measurements.label(method), tuple(cells))
        for method, cells in zip(others, grid, strict=True)
    ]
    verdicts = [[row[i].verdict for row in grid] for i in range(len(metrics))]
    counts = tuple(CountCell(count_verdicts(column)) for column in verdicts)
    label = measurements.label(reference)
    complement = () if main == "auc" else (COMPLEMENT_NOTE,)
    note = DIFFERENCES_NOTE.format(reference=label)
    return Table(
        f"{DATASETS[dataset]}: difference against “{label}”",
        ("Method", *(METRICS[metric].title for metric in metrics)),
        (*rows, TableRow("better / even / worse", counts)),
        (note, *_definitions(metrics), *complement),
        _total(row[0].progress for row in grid),
    )


def count_table(
    measurements: Measurements, datasets: Sequence[str], reference: str = REFERENCE
) -> Table:
    """Every method against the reference on every data set, and how often it won."""
    methods = [name for name in measurements.methods(datasets) if name != reference]
    grid = [
        [
            _difference(measurements, name, method, reference, MAIN_METRICS[name])
            for name in datasets
        ]
        for method in methods
    ]
    label = measurements.label(reference)
    rows = (
        TableRow(
            measurements.label(method),
            (*cells, CountCell(count_verdicts(cell.verdict for cell in cells))),
        )
        for method, cells in zip(methods, grid, strict=True)
    )
    metrics = [MAIN_METRICS[name] for name in datasets]
    heads = (
        f"{DATASETS[name]}, {METRICS[metric].title}"
        for name, metric in zip(datasets, metrics, strict=True)
    )
    return Table(
        f"All data sets: difference against “{label}”",
        ("Method", *heads, "better / even / worse"),
        tuple(rows),
        (DIFFERENCES_NOTE.format(reference=label), *_definitions(metrics)),
        _total(cell.progress for cells in grid for cell in cells),
    )


def _rows(measurements: Measurements, columns: Sequence[Column]) -> list[str]:
    """Methods that were measured or planned, or that the paper has a figure for."""
    measured = measurements.methods(dataset for dataset, _ in columns)
    tables = {**TABLE_1, **TABLE_2}
    papers = [
        method
        for dataset, metric in columns
        for method in tables.get((dataset, METRICS[metric].figure), {})
    ]
    return measurements.order([*measured, *papers])


def score_column(
    measurements: Measurements,
    dataset: str,
    metric: str,
    methods: Sequence[str],
    decimals: int = 1,
) -> list[ScoreCell]:
    """Ours beside the paper's, method by method, with the best ones marked."""
    cells = [
        ScoreCell(
            measurements.estimate(Setting(dataset, method), metric),
            paper_estimate(dataset, metric, method),
            measurements.progress(Setting(dataset, method), metric),
            decimals=decimals,
        )
        for method in methods
    ]
    best = _best(cells, METRICS[metric].higher_is_better)
    if best is None:
        return cells
    winner = Setting(dataset, methods[best])
    return [
        replace(
            cell, best=place == best, close=_close(measurements, method, winner, metric)
        )
        for place, (method, cell) in enumerate(zip(methods, cells, strict=True))
    ]


def _best(cells: Sequence[ScoreCell], higher_is_better: bool) -> int | None:
    """Place of the best mean among the cells with the most repeats."""
    most = max((cell.progress.done for cell in cells), default=0)
    means = {
        place: cell.ours.mean if higher_is_better else -cell.ours.mean
        for place, cell in enumerate(cells)
        if cell.ours is not None and cell.progress.done == most
    }
    return max(means, key=means.__getitem__) if means else None


def _close(
    measurements: Measurements, method: str, winner: Setting, metric: str
) -> bool:
    setting = winner._replace(method=method)
    return measurements.judge(setting, winner, metric) in {Verdict.EVEN, Verdict.BETTER}


def _difference(
    measurements: Measurements, dataset: str, method: str, reference: str, metric: str
) -> DifferenceCell:
    setting, other = Setting(dataset, method), Setting(dataset, reference)
    return DifferenceCell(
        measurements.compare(setting, other, metric),
        measurements.judge(setting, other, metric),
        measurements.progress(setting, metric),
    )


def _definitions(metrics: Iterable[str]) -> tuple[str, ...]:
    return tuple(METRICS[metric].definition for metric in dict.fromkeys(metrics))


def _runs(
    columns: Sequence[Column], grid: Sequence[list[ScoreCell]]
) -> Iterable[list[ScoreCell]]:
    """One column per data set: its metrics come from the same runs."""
    return {
        dataset: cells for (dataset, _), cells in zip(columns, grid, strict=True)
    }.values()


def _total(parts: Iterable[Progress]) -> Progress:
    listed = list(parts)
    return Progress(
        sum(part.done for part in listed), sum(part.planned for part in listed)
    )
