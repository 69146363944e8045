"""Repeats to curves: means, paired differences and their 95 % intervals."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from priormtl.experiments.showing.comparisons import Repeats, corrected_interval
from priormtl.experiments.showing.measurements import Measurements, Setting

__all__ = [
    "Band",
    "Track",
    "difference_band",
    "mean_band",
    "track_differences",
    "track_means",
]


class Band(NamedTuple):
    """A value and its interval, per cent or percentage points."""

    value: float
    low: float
    high: float


class Track(NamedTuple):
    """Bands at places, in order."""

    places: list[float]
    bands: list[Band]


Measure = Callable[[Setting], Band | None]


def mean_band(repeats: Repeats) -> Band | None:
    """Mean over repeats with the t interval of a mean; None where there is none."""
    values = 100.0 * np.array(list(repeats.values()))
    if not len(values):
        return None
    if len(values) == 1:
        return Band(float(values[0]), float(values[0]), float(values[0]))
    low, high, _ = corrected_interval(values, 0.0)
    return Band(float(values.mean()), low, high)


def difference_band(
    measurements: Measurements, setting: Setting, reference: Setting, metric: str
) -> Band | None:
    """Paired difference in points; None where there are no common repeats."""
    found = measurements.compare(setting, reference, metric)
    if not found.n_common:
        return None
    ends = found.interval[:2] if found.n_common > 1 else (found.mean, found.mean)
    return Band(*(100.0 * number for number in (found.mean, *ends)))


def track_means(
    measurements: Measurements, settings: Iterable[Setting], metric: str
) -> Track:
    """Means along settings that differ in size or in the share of wrong relations."""
    return _track(
        settings, lambda setting: mean_band(measurements.repeats(setting, metric))
    )


def track_differences(
    measurements: Measurements,
    settings: Iterable[Setting],
    reference: str,
    metric: str,
) -> Track:
    """Differences to the method ``reference`` at the same size."""

    def measure(setting: Setting) -> Band | None:
        other = Setting(setting.dataset, reference, setting.size)
        return difference_band(measurements, setting, other, metric)

    return _track(settings, measure)


def _track(settings: Iterable[Setting], measure: Measure) -> Track:
    found = [(_place(setting), measure(setting)) for setting in settings]
    kept: Sequence[tuple[float, Band]] = [
        (place, band) for place, band in found if band is not None
    ]
    return Track([place for place, _ in kept], [band for _, band in kept])


def _place(setting: Setting) -> float:
    """Where a setting stands on its axis: share of wrong relations, or size."""
    if setting.wrong is not None:
        return 100.0 * setting.wrong
    return float(setting.size or 0)
