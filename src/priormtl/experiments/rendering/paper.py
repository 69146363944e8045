"""The paper's numbers (``paper.toml``), and names of data sets, metrics and methods."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class Estimate(NamedTuple):
    """Mean and standard deviation over splits, per cent."""

    mean: float
    sd: float


class Metric(NamedTuple):
    """Title and definition of one of our metrics."""

    title: str
    figure: str  # the paper's name for it
    definition: str
    higher_is_better: bool


_NOTES = tomllib.loads(Path(__file__).with_name("paper.toml").read_text("utf-8"))
DATASETS: Mapping[str, str] = _NOTES["datasets"]
NONE = "none"  # our model without prior, and with the priors of the paper and ours
PRIORS = ("natural", "artificial", "expert")

ERRORS = {  # by average: title, and how the normalised squared error is averaged
    "pooled": (
        "pooled",
        "the squared error over all test rows of all tasks divided by their squared "
        "deviation from their one mean",
    ),
    "tasks": (
        "by task",
        "the squared error on a task's test rows divided by their squared deviation "
        "from the task's own mean; mean over tasks",
    ),
}
METRICS: Mapping[str, Metric] = {
    **{
        f"ve_{key}": Metric(f"VE, {how}", "VE", f"VE, {how}: one minus {what}.", True)
        for key, (how, what) in ERRORS.items()
    },
    **{
        f"nmse_{key}": Metric(
            f"nMSE, {how}", "nMSE", f"nMSE, {how}: {what}; lower is better.", False
        )
        for key, (how, what) in ERRORS.items()
    },
    "ve_median": Metric(
        "VE, median task",
        "",
        "VE, median task: the median over tasks in place of the mean, which a few "
        "tasks with hardly any test rows can carry far away.",
        True,
    ),
    "auc": Metric(
        "AUC",
        "AUC",
        "AUC: the area under a task's ROC curve on its test rows; mean over tasks.",
        True,
    ),
}

# The metric shown where there is room for one. Torques have different units, so that
# pooling them would count the largest only.
MAIN_METRICS: Mapping[str, str] = {
    "school": "ve_pooled",
    "sarcos": "ve_tasks",
    **dict.fromkeys(("yale", "mnist", "letter", "letter_uci", "orl"), "auc"),
}

# Keys of our methods, in the order of the paper's columns.
COMPARED = ["FedEM", "DMTL", "MTFL", "MMTFL", "MTRL", "RMTL", "CLMT", "MKMTL"]
PAPER_LABELS: Mapping[str, str] = {
    **{label.lower(): label for label in COMPARED},
    "natural": "natural D",
    "artificial": "artificial D",
}

Row = Mapping[str, Estimate]


def _read_table(name: str) -> Mapping[tuple[str, str], Row]:
    """Estimates by data set and metric, then by method."""
    table = {}
    for key, figures in _NOTES[name].items():
        dataset, metric = key.split()
        numbers = [float(word) for word in figures.split()]
        pairs = map(Estimate, numbers[::2], numbers[1::2])
        table[dataset, metric] = dict(zip(PAPER_LABELS, pairs, strict=True))
    return table


TABLE_1, TABLE_2 = _read_table("table_1"), _read_table("table_2")


def paper_estimate(dataset: str, metric: str, method: str) -> Estimate | None:
    """The paper's number; None where it reports nothing.

    It does not say how VE and nMSE are averaged, so both of ours are compared with it.
    """
    key = (dataset, METRICS[metric].figure)
    return {**TABLE_1, **TABLE_2}.get(key, {}).get(method)
