"""Certificate: how far an iterate can be from the optimum, at most."""

from typing import NamedTuple

__all__ = ["Certificate"]


class Certificate(NamedTuple):
    """Objective at an iterate, and a value that no iterate can undercut.

    Both are sums of rounded numbers; ``rounding`` bounds what that may hide.
    """

    primal: float
    dual: float
    rounding: float = 0.0

    @property
    def gap(self) -> float:
        """Largest possible distance to the optimal objective."""
        return max(0.0, self.primal - self.dual) + self.rounding
