"""What has a place on a page of at most 1.5 MB: the top of every list."""

import json
from collections.abc import Sequence

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.reports.content import Block, Table
from priormtl.reports.learned import Learned

__all__ = ["MOST_BYTES", "cut_block", "pick_rows", "pick_tasks"]

MOST_BYTES = 1_500_000  # of a page
NUMBER_BYTES = 11  # of a number as the page holds it
TABLE_BYTES = {
    "features": 480_000,
    "tasks": 150_000,
    "relations": 130_000,
    "search": 100_000,
}
FRAME_BYTES = 100_000  # of all that is not data, answers included


def pick_rows(table: Table) -> Index:
    """As many rows from the top as have a place."""
    return np.arange(_count_within(_row_bytes(table), TABLE_BYTES[table.name]))


def pick_tasks(table: Table) -> Index:
    """All tasks, or those that lie farthest from the others; in their order."""
    by_distance = np.argsort(-np.asarray(table["distance"]), kind="stable")
    costs = _row_bytes(table)[by_distance]
    return np.sort(by_distance[: _count_within(costs, TABLE_BYTES[table.name])])


def cut_block(
    learned: Learned, features: Index, tasks: Index, tables: Sequence[Table]
) -> Block:
    """Coefficients of these tasks, of as many features as tables leave room for."""
    spare = MOST_BYTES - FRAME_BYTES - sum(_row_bytes(t).sum() for t in tables)
    kept = features[: max(1, int(spare / NUMBER_BYTES / len(tasks)))]
    values = np.ascontiguousarray(learned.coef[np.ix_(tasks, kept)].T)
    used = int(np.count_nonzero(learned.norms))
    gone = used - int(np.count_nonzero(learned.norms[kept]))
    return Block(values, gone, len(learned.tasks) - len(tasks))


def _count_within(costs: Array, budget: int) -> int:
    """At least one, so that no list is empty."""
    return max(1, int(np.searchsorted(np.cumsum(costs), budget, side="right")))


def _row_bytes(table: Table) -> Array:
    """Bytes of each row; texts count as JSON with escapes."""
    costs = np.zeros(len(table))
    for column in table.columns:
        if isinstance(column.values, tuple):
            costs += [_text_bytes(text) for text in column.values]
        else:
            costs += NUMBER_BYTES
    return costs


def _text_bytes(text: str) -> int:
    escapes = 5 * (text.count("<") + text.count(">") + text.count("&"))
    return len(json.dumps(text, ensure_ascii=False).encode()) + 1 + escapes
