"""The paper's two tables in its own shape: its ten methods side by side."""

from collections.abc import Iterable, Sequence

from priormtl.experiments.showing.cells import ScoreCell, Table
from priormtl.experiments.showing.measurements import Measurements, Progress
from priormtl.experiments.showing.paper import (
    DATASETS,
    METRICS,
    PAPER_LABELS,
    TABLE_1,
    TABLE_2,
)
from priormtl.experiments.showing.tables import score_column
from priormtl.tables import TableRow

__all__ = ["paper_table_1", "paper_table_2"]

AVERAGES = ("pooled", "tasks")
NOTE = (
    "Per cent, mean ± standard deviation over the repeats: our implementation and our "
    "tuning of all ten; in brackets what the paper reports. Bold: best of the row. †: "
    "not significantly worse than the best (paired, 95 %)."
)


def paper_table_1(measurements: Measurements) -> Table:
    """School and Sarcos, both figures under both averages over tasks."""
    columns = [
        (dataset, f"{figure.lower()}_{average}")
        for dataset, figure in TABLE_1
        for average in AVERAGES
    ]
    return _in_its_shape(measurements, "Table 1, as the paper prints it", columns, 1)


def paper_table_2(measurements: Measurements) -> Table:
    """Mean area under the ROC curve."""
    columns = [(dataset, "auc") for dataset, _ in TABLE_2]
    return _in_its_shape(measurements, "Table 2, as the paper prints it", columns, 2)


def _in_its_shape(
    measurements: Measurements,
    title: str,
    columns: Sequence[tuple[str, str]],
    decimals: int,
) -> Table:
    methods = list(PAPER_LABELS)
    grid = [
        score_column(measurements, *column, methods, decimals) for column in columns
    ]
    rows = [
        TableRow(f"{DATASETS[name]}, {METRICS[metric].title}", tuple(cells))
        for (name, metric), cells in zip(columns, grid, strict=True)
    ]
    return Table(
        title,
        ("Data set", *PAPER_LABELS.values()),
        tuple(rows),
        (NOTE,),
        _progress(cells for cells in grid),
    )


def _progress(grid: Iterable[Sequence[ScoreCell]]) -> Progress:
    cells = [cell.progress for row in grid for cell in row]
    return Progress(sum(c.done for c in cells), sum(c.planned for c in cells))
