"""Small tasks: left out of statistics, since sums of a few rows may show the rows."""

from collections.abc import Hashable, Iterable
from numbers import Integral
from typing import Any

from priormtl.data.orders import keep_tasks

__all__ = ["check_min_rows", "large_tasks"]


def check_min_rows(value: Any) -> int:
    """Least number of rows of a task: a whole number from 1 on."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"min_rows must be a whole number from 1 on: got {value!r}.")
    return int(value)


def large_tasks(
    tasks: tuple[Hashable, ...], counts: Iterable[float], min_rows: int
) -> tuple[Hashable, ...]:
    """Tasks of at least so many rows, in their order; that none is left is an error.

    Examples
    --------
    >>> large_tasks(("north", "south"), [25, 3], min_rows=20)
    ('north',)
    """
    least = check_min_rows(min_rows)
    kept = [task for task, n in zip(tasks, counts, strict=True) if n >= least]
    if not kept:
        raise ValueError(
            f"min_rows={least} must leave some tasks: none of {len(tasks)} has so many "
            "rows."
        )
    return keep_tasks(tasks, kept)
