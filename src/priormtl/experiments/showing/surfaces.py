"""The metric over (lam, theta, epsilon): slices through the best, and sensitivity."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self

import numpy as np
import pyarrow.compute as pc

from priormtl._arrays import Array
from priormtl.experiments.showing.paper import DATASETS, METRICS

__all__ = ["PAIRS", "STRENGTHS", "SURFACES", "Surface", "describe_sensitivity"]

STRENGTHS = ("lam", "theta", "epsilon")
PAIRS = tuple(combinations(range(3), 2))
# As in the paper's Figure 3.
SURFACES = (
    ("yale", "auc"),
    ("orl", "auc"),
    ("school", "ve_pooled"),
    ("school", "nmse_pooled"),
)


@dataclass(frozen=True, eq=False)
class Surface:
    """Mean over repeats, per cent, for every combination of strengths."""

    dataset: str
    metric: str
    axes: tuple[Array, Array, Array]
    values: Array  # one axis per strength; NaN where nothing was measured

    @classmethod
    def of(cls, rows: Any, dataset: str, metric: str) -> Self | None:
        """Read rows of surfaces; None where the data set or the metric is missing."""
        chosen = (pc.field("dataset") == dataset) & (pc.field("metric") == metric)
        found = rows.filter(chosen)
        if not found.num_rows:
            return None
        columns = [found[name].to_numpy() for name in (*STRENGTHS, "value")]
        axes, places = zip(
            *(np.unique(column, return_inverse=True) for column in columns[:3]),
            strict=True,
        )
        shape = tuple(len(axis) for axis in axes)
        sums, counts = np.zeros(shape), np.zeros(shape)
        np.add.at(sums, places, 100.0 * columns[3])
        np.add.at(counts, places, 1.0)
        values = np.full(shape, np.nan)
        np.divide(sums, counts, out=values, where=counts > 0)
        return cls(dataset, metric, axes, values)

    @property
    def title(self) -> str:
        """Data set and metric in words."""
        return f"{DATASETS[self.dataset]}, {METRICS[self.metric].title}"

    @property
    def best(self) -> tuple[int, ...]:
        """Place of the best combination."""
        higher = METRICS[self.metric].higher_is_better
        flat = np.nanargmax(self.values) if higher else np.nanargmin(self.values)
        return tuple(int(k) for k in np.unravel_index(flat, self.values.shape))

    @property
    def limits(self) -> tuple[float, float]:
        """Smallest and largest value on any slice."""
        slices = [self.slice(pair) for pair in PAIRS]
        return (
            min(float(np.nanmin(part)) for part in slices),
            max(float(np.nanmax(part)) for part in slices),
        )

    def slice(self, pair: tuple[int, ...]) -> Array:
        """Values over two strengths (second, first), the third at its best."""
        (third,) = set(range(3)) - set(pair)
        return np.take(self.values, self.best[third], axis=third).T

    def ranges(self) -> dict[str, float]:
        """How far the value moves along each strength, the others at their best."""
        return {
            name: float(np.nanmax(line) - np.nanmin(line))
            for name, line in zip(STRENGTHS, map(self._line, range(3)), strict=True)
        }

    def _line(self, strength: int) -> Array:
        place: list[Any] = list(self.best)
        place[strength] = slice(None)
        return self.values[tuple(place)]


def describe_sensitivity(surface: Surface) -> str:
    """Say along which strength the metric moves most."""
    ranges = surface.ranges()
    parts = [f"{size:.2f} along {name}" for name, size in ranges.items()]
    most = max(ranges, key=ranges.__getitem__)
    low, high = (float(axis) for axis in surface.axes[0][[0, -1]])
    return (
        f"{surface.title}: from {low:g} to {high:g} the value moves by "
        f"{parts[0]}, {parts[1]} and {parts[2]} (points, the other two at their "
        f"best), most along {most}."
    )
