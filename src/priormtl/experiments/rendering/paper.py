"""The paper's numbers, and names of data sets, metrics and methods.

Numbers are per cent, mean and standard deviation over ten splits, from Tables 1 and 2
of Zhang & Liu (2023).
"""

from collections.abc import Mapping
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


# In the order in which data sets appear.
DATASETS: Mapping[str, str] = {
    "school": "School",
    "sarcos": "Sarcos",
    "yale": "Yale",
    "mnist": "MNIST",
    "letter": "Letter",
    "letter_uci": "Letter (UCI)",
    "orl": "ORL",
}

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


def _row(figures: str) -> Row:
    """Estimates by method, from ``mean sd`` pairs in the order of the columns."""
    numbers = [float(word) for word in figures.split()]
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return dict(zip(PAPER_LABELS, (Estimate(*pair) for pair in pairs), strict=True))


TABLE_1: Mapping[tuple[str, str], Row] = {
    ("school", "VE"): _row(
        "38.7 3.2  28.8 5.6  29.7 2.1  31.5 4.2  29.9 2.0  33.6 5.7  37.9 2.1  "
        "37.9 1.9  39.8 2.2  39.8 2.5"
    ),
    ("sarcos", "VE"): _row(
        "51.2 12.1  42.6 7.3  49.2 5.1  49.9 2.7  42.5 8.2  49.9 7.2  50.1 9.9  "
        "50.1 1.7  51.8 6.6  51.9 6.2"
    ),
    ("school", "nMSE"): _row(
        "61.2 0.9  75.1 0.8  72.9 1.1  68.7 3.1  73.1 0.9  68.9 2.7  63.7 0.7  "
        "62.7 0.9  60.2 0.5  60.2 0.3"
    ),
    ("sarcos", "nMSE"): _row(
        "15.7 3.1  20.9 0.8  19.1 2.7  17.1 2.2  17.9 0.7  15.6 0.3  16.2 0.6  "
        "15.7 0.5  14.9 0.8  14.7 0.9"
    ),
}

TABLE_2: Mapping[tuple[str, str], Row] = {
    ("yale", "AUC"): _row(
        "96.9 2.7  95.7 3.2  86.8 1.6  92.7 1.1  96.1 3.5  97.2 1.9  96.7 2.3  "
        "95.7 1.8  97.7 1.7  97.7 1.7"
    ),
    ("mnist", "AUC"): _row(
        "98.1 3.2  90.9 3.1  91.2 1.9  91.5 2.3  93.7 7.1  92.5 3.1  94.7 3.8  "
        "93.2 5.2  96.5 1.2  97.6 1.2"
    ),
    ("letter", "AUC"): _row(
        "63.2 2.9  61.9 1.8  62.1 2.2  61.8 1.8  60.3 2.1  62.7 3.6  61.5 7.2  "
        "60.9 7.1  63.5 1.1  65.5 1.3"
    ),
    ("orl", "AUC"): _row(
        "81.3 5.8  72.9 3.7  77.2 5.2  77.9 3.2  77.6 3.9  80.2 9.1  78.9 6.3  "
        "78.8 3.2  82.5 2.2  84.3 1.8"
    ),
}


def paper_estimate(dataset: str, metric: str, method: str) -> Estimate | None:
    """The paper's number; None where it reports nothing.

    It does not say how VE and nMSE are averaged, so both of ours are compared with it.
    """
    key = (dataset, METRICS[metric].figure)
    return {**TABLE_1, **TABLE_2}.get(key, {}).get(method)
