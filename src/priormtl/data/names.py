"""Names of tasks and features: as plain JSON values, and where there are none."""

from collections.abc import Hashable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from priormtl.data.orders import TaskOrder, declared_order

__all__ = [
    "from_plain",
    "name_features",
    "tasks_from_plain",
    "tasks_to_plain",
    "to_plain",
    "unnamed_feature",
]


def to_plain(labels: Sequence[Hashable]) -> list[Any]:
    """Labels as JSON values: text, numbers and dates can be saved, others not."""
    return [_plain(label) for label in labels]


def from_plain(values: Any) -> tuple[Hashable, ...]:
    """Labels from what ``to_plain`` made."""
    if not isinstance(values, list):
        raise TypeError("labels must be a list")
    return tuple(_label(value) for value in values)


def tasks_to_plain(tasks: Sequence[Hashable]) -> dict[str, Any]:
    """Tasks, and the order that was declared for them, as JSON values."""
    declared = declared_order(tasks)
    order = None if declared is None else to_plain(declared)
    return {"tasks": to_plain(tasks), "task_order": order}


def tasks_from_plain(settings: Mapping[str, Any]) -> tuple[Hashable, ...]:
    """Tasks from what ``tasks_to_plain`` made."""
    tasks, order = from_plain(settings["tasks"]), settings.get("task_order")
    if order is None:
        return tasks
    declared = from_plain(order)
    if tasks != tuple(task for task in declared if task in set(tasks)):
        raise ValueError("tasks out of order")
    return TaskOrder(tasks, declared)


def name_features(names: Sequence[Any] | None, d: int) -> tuple[str, ...]:
    """Names of d features; x0, x1, … where the data had none."""
    if names is None:
        return tuple(map(unnamed_feature, range(d)))
    return tuple(map(str, names))


def unnamed_feature(place: Any) -> str:
    """What a feature without a name is called, as by scikit-learn."""
    return f"x{place}"


def _plain(label: Hashable) -> Any:
    if isinstance(label, bool | int | float | str):
        return label
    if isinstance(label, datetime):
        return {"datetime": label.isoformat()}
    if isinstance(label, date):
        return {"date": label.isoformat()}
    raise ValueError(
        f"task labels must be text, numbers or dates to be saved: got {label!r}."
    )


def _label(value: Any) -> Hashable:
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict) and set(value) == {"datetime"}:
        return datetime.fromisoformat(value["datetime"])
    if isinstance(value, dict) and set(value) == {"date"}:
        return date.fromisoformat(value["date"])
    raise TypeError("not a label")
