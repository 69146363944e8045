"""statistics_html: what statistics hold, for notebooks."""

from typing import TYPE_CHECKING

import numpy as np

from priormtl.tables import build_table, spell_number, to_notebook

if TYPE_CHECKING:
    from priormtl.data.statistics import TaskStatistics

__all__ = ["statistics_html"]

MOST_TASKS = 10
MOST_FEATURES = 10
PLAIN = ("weight", "x_mean", "y_mean", "xy", "yy")


def statistics_html(statistics: "TaskStatistics") -> str:
    """Counts, and the weight, mean and spread of each task's target, cut."""
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.sqrt(statistics.yy / statistics.weight)
    columns = (statistics.tasks, statistics.weight, statistics.y_mean, spread)
    rows = [(str(task), *map(float, row)) for task, *row in zip(*columns, strict=True)]
    heads = ("task", "weight", "mean of y", "spread of y")
    tasks = build_table("Tasks", heads, rows, most=MOST_TASKS, what="tasks")
    contents = build_table(repr(statistics), ("", "contents"), _contents(statistics))
    return to_notebook([contents, tasks])


def _contents(statistics: "TaskStatistics") -> list[tuple[str, str]]:
    d, m = statistics.shape
    names = statistics.features or ()
    shown = ", ".join(names[:MOST_FEATURES])
    more = f", … ({d} in all)" if len(names) > MOST_FEATURES else ""
    grams = "one for all tasks" if statistics.is_shared else "one per task"
    return [
        ("tasks", str(m)),
        ("features", str(d)),
        ("feature names", shown + more or "none"),
        ("total weight", spell_number(float(statistics.weight.sum()))),
        ("Gram matrices", grams),
        *_sizes(statistics),
    ]


def _sizes(statistics: "TaskStatistics") -> list[tuple[str, str]]:
    """What is held in memory, and what lies on disk."""
    held = sum(getattr(statistics, name).nbytes for name in PLAIN)
    if not statistics.is_mapped:
        return [("memory", _spell_size(held + statistics.xx.nbytes))]
    parts = statistics.mapped_gram().parts
    stored = sum(part.matrices.nbytes for part in parts)
    return [("memory", _spell_size(held)), ("on disk", _spell_size(stored))]


def _spell_size(count: int) -> str:
    return f"{count / 2**20:.3g} MB"
