"""Around: what losses that are made of another one take from it as it is."""

from dataclasses import dataclass
from typing import Any

from priormtl.graphs import Laplacian
from priormtl.losses.base import DataFit

__all__ = ["Around"]


@dataclass(frozen=True, eq=False)
class Around:
    """A loss around a fit, which is neither least squares by tasks nor by samples."""

    fit: DataFit[Any]

    @property
    def size(self) -> int:
        """Numbers that a product looks at."""
        return self.fit.size

    @property
    def magnitude(self) -> float:
        """Size of the numbers from which values are computed."""
        return self.fit.magnitude

    @property
    def noise(self) -> float:
        """Value that rounding errors of the targets alone can make."""
        return self.fit.noise

    @property
    def intercept_graph(self) -> Laplacian | None:
        """Graph that ties the intercepts, if they are tied."""
        return self.fit.intercept_graph

    @property
    def normal_size(self) -> None:
        """None: there is no normal form."""

    @property
    def rows_per_task(self) -> None:
        """None: there is no sample form."""
