"""Bunch: values by attribute and by key, of which X, y and task unpack."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from priormtl.exceptions import suggest

__all__ = ["Bunch"]

UNPACKED = ("X", "y", "task")


class Bunch:
    """Base of data sets, frozen dataclasses that have X, y and task.

    As a Bunch of scikit-learn it has ``data.y``, ``data["y"]``, ``data.keys()`` and
    ``"y" in data``; unlike that one it unpacks as ``X, y, task``, which are also
    ``data[0]``, ``data[1]`` and ``data[2]``.
    """

    def __iter__(self) -> Iterator[Any]:
        """X, y, task."""
        return (getattr(self, name) for name in UNPACKED)

    def keys(self) -> tuple[str, ...]:
        """Names of all values, those that unpack first."""
        named = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return tuple(dict.fromkeys((*UNPACKED, *named)))

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __getitem__(self, key: str | int | slice) -> Any:
        """Value of a name, or X, y and task by their places."""
        if isinstance(key, slice):
            return tuple(getattr(self, name) for name in UNPACKED[key])
        if not isinstance(key, str):
            return getattr(self, UNPACKED[key])
        if key not in self:
            names = ", ".join(map(repr, self.keys()))
            raise KeyError(f"{key!r}; known: {names}.{suggest([key], self.keys())}")
        return getattr(self, key)
