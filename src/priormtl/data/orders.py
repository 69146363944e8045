"""TaskOrder: tasks that remember the whole list of categories they were taken from.

Parts of one table may each hold some of its tasks. Sorted labels merge into sorted
labels, but an order that was declared (January before February) is known only to those
who keep it, the absent tasks included.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Self

__all__ = ["TaskOrder", "declared_order", "join_orders", "keep_tasks", "merge_tasks"]


class TaskOrder(tuple[Hashable, ...]):
    """Tasks in the order of ``declared``, which may hold others as well.

    Examples
    --------
    >>> spring = TaskOrder(["mar", "may"], declared=["mar", "apr", "may"])
    >>> merge_tasks(spring, ("apr",))
    ('mar', 'apr', 'may')
    """

    declared: tuple[Hashable, ...]

    def __new__(cls, tasks: Iterable[Hashable], declared: Iterable[Hashable]) -> Self:
        """Tasks, and all that were declared."""
        order = super().__new__(cls, tasks)
        order.declared = tuple(declared)
        return order

    def __getnewargs__(self) -> tuple[Any, ...]:
        """What a copy is made from."""
        return tuple(self), self.declared


def declared_order(tasks: Sequence[Hashable]) -> tuple[Hashable, ...] | None:
    """Order that was declared for these tasks and others; None where none was."""
    return tasks.declared if isinstance(tasks, TaskOrder) else None


def keep_tasks(
    tasks: Sequence[Hashable], kept: Iterable[Hashable]
) -> tuple[Hashable, ...]:
    """Those of ``tasks``, in the order that was declared for all."""
    declared = declared_order(tasks)
    return tuple(kept) if declared is None else TaskOrder(kept, declared)


def merge_tasks(
    a: tuple[Hashable, ...], b: tuple[Hashable, ...]
) -> tuple[Hashable, ...]:
    """Tasks of both, in the order that either declares, else sorted.

    Where nobody declares one, a side that holds all tasks lends its own.
    """
    orders = [order for order in map(declared_order, (a, b)) if order is not None]
    if not orders:
        return _merge_undeclared(a, b)
    declared = orders[0] if len(orders) == 1 else join_orders(*orders)
    union = {*a, *b}
    if not union <= set(declared):
        declared = join_orders(declared, *((task,) for task in union))
    return TaskOrder((task for task in declared if task in union), declared)


def join_orders(*orders: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    """One order that keeps all; what they leave open is sorted.

    Examples
    --------
    >>> join_orders(("jan", "feb"), ("feb", "mar", "apr"))
    ('jan', 'feb', 'mar', 'apr')
    """
    if all(order == orders[0] for order in orders):
        return orders[0]
    after, waiting = _precedences(orders)
    ready = [task for task in after if not waiting[task]]
    joined: list[Hashable] = []
    _refuse_mixed(after)
    heapq.heapify(ready)  # type: ignore[type-var]
    while ready:
        task = heapq.heappop(ready)  # type: ignore[type-var]
        joined.append(task)
        for later in after[task]:
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, later)  # type: ignore[type-var]
    _refuse_contradiction(orders, joined)
    return tuple(joined)


def _precedences(
    orders: Sequence[Sequence[Hashable]],
) -> tuple[dict[Hashable, list[Hashable]], Counter[Hashable]]:
    """Who directly follows each task, and how many each waits for."""
    after: dict[Hashable, list[Hashable]] = defaultdict(list)
    waiting: Counter[Hashable] = Counter()
    for order in orders:
        for task in order:
            after[task]  # also those that nobody follows
        for earlier, later in pairwise(order):
            after[earlier].append(later)
            waiting[later] += 1
    return after, waiting


def _merge_undeclared(
    a: tuple[Hashable, ...], b: tuple[Hashable, ...]
) -> tuple[Hashable, ...]:
    for whole, part in ((a, b), (b, a)):
        if set(part) <= set(whole) and (set(part) != set(whole) or a == b):
            return whole
    union = {*a, *b}
    _refuse_mixed(union)
    return tuple(sorted(union))  # type: ignore[type-var]


def _refuse_mixed(tasks: Iterable[Hashable]) -> None:
    """Fail where labels cannot be compared."""
    labels = list(tasks)
    try:
        sorted(labels)  # type: ignore[type-var]
    except TypeError:
        raise ValueError(
            "tasks to be merged must have labels of one kind: got "
            f"{sorted({type(task).__name__ for task in labels})}; make them all "
            "text, or all numbers."
        ) from None


def _refuse_contradiction(
    orders: Sequence[Sequence[Hashable]], joined: Sequence[Hashable]
) -> None:
    """Fail where some tasks each come before the other."""
    open_tasks = {task for order in orders for task in order}.difference(joined)
    if open_tasks:
        lists = [[task for task in order if task in open_tasks] for order in orders]
        raise ValueError(
            "tasks to be merged must be in one order: categories say "
            f"{' and '.join(str(names[:8]) for names in lists if len(names) > 1)}; "
            "give all parts the same categories, or make labels text."
        )
