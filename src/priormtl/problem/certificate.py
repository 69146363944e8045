"""Certificate: how far an iterate can be from the optimum, at most."""

from typing import NamedTuple

__all__ = ["Certificate"]


class Certificate(NamedTuple):
    """Objective at an iterate, and a value that no iterate can undercut."""

    primal: float
    dual: float

    @property
    def gap(self) -> float:
        """Largest possible distance to the optimal objective; never negative."""
        return max(0.0, self.primal - self.dual)
