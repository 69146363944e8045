"""What every method costs: seconds of one core to tune it and to fit it."""

from priormtl.experiments.showing.cells import SecondsCell, Table
from priormtl.experiments.showing.measurements import Measurements, Progress, Setting
from priormtl.experiments.showing.paper import DATASETS
from priormtl.tables import TableRow

__all__ = ["cost_table"]

NOTE = (
    "CPU seconds of one core for a whole search over folds and the fit that follows, "
    "mean over repeats, measured while another unit ran on the other core. Searches "
    "differ in their number of settings, see above; the first fit of a process, which "
    "loads compiled code, is in it."
)


def cost_table(measurements: Measurements) -> Table | None:
    """Methods in rows, data sets in columns; None where nothing was run."""
    datasets = measurements.datasets()
    rows = [
        TableRow(
            measurements.label(method),
            tuple(
                SecondsCell(measurements.mean_seconds(Setting(name, method)))
                for name in datasets
            ),
        )
        for method in measurements.methods(datasets)
    ]
    if not measurements.seconds:
        return None
    heads = ("Method", *(DATASETS[name] for name in datasets))
    return Table("Seconds to tune and fit", heads, tuple(rows), (NOTE,), Progress(0, 0))
