"""Names of tasks and features: as plain JSON values, and where there are none."""

from collections.abc import Hashable, Sequence
from datetime import date, datetime
from typing import Any

__all__ = ["from_plain", "name_features", "to_plain", "unnamed_feature"]


def to_plain(labels: Sequence[Hashable]) -> list[Any]:
    """Labels as JSON values: text, numbers and dates can be saved, others not."""
    return [_plain(label) for label in labels]


def from_plain(values: Any) -> tuple[Hashable, ...]:
    """Labels from what ``to_plain`` made."""
    if not isinstance(values, list):
        raise TypeError("labels must be a list")
    return tuple(_label(value) for value in values)


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
