"""Repeats of each setting, and paired comparisons between settings.

Two settings are compared by the differences over their common repeats, which are the
same splits for both. The interval is the corrected resampled t interval of Nadeau and
Bengio (2003), see :mod:`priormtl.metrics`, since splits of one data set overlap.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import isfinite, nan
from statistics import median
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow.compute as pc

from priormtl._lazy import cached_property
from priormtl.experiments.rendering.paper import (
    DATASETS,
    METRICS,
    PAPER_LABELS,
    Estimate,
)
from priormtl.metrics import LEVEL, Interval, corrected_interval

# Paired comparisons.

# Values that differ by the tolerance of solvers only are equal.
SMALLEST_DIFFERENCE = 1e-9

Repeats = Mapping[int, float]  # value of a metric by repeat


class Verdict(Enum):
    """Result of a comparison with the reference."""

    BETTER = "significantly better"
    EVEN = "no significant difference"
    WORSE = "significantly worse"
    UNKNOWN = "fewer than two common repeats"


class Counts(NamedTuple):
    """How often a method was significantly better, not different, worse."""

    wins: int
    ties: int
    losses: int


@dataclass(frozen=True)
class PairedDifference:
    """Method minus reference over the repeats that both have."""

    mean: float
    interval: Interval
    n_common: int
    n_left_out: int  # repeats that only one of the two has

    def verdict(self, *, higher_is_better: bool) -> Verdict:
        """Significant if the interval excludes zero."""
        low, high, _ = self.interval
        if self.n_common < 2:
            return Verdict.UNKNOWN
        if low <= SMALLEST_DIFFERENCE and high >= -SMALLEST_DIFFERENCE:
            return Verdict.EVEN
        return Verdict.BETTER if (self.mean > 0) == higher_is_better else Verdict.WORSE


def overlap_ratio(test_to_train: float) -> float:
    """n_test/n_train, or its inverse where the test set is the larger one.

    The inverse is a correlation n_train/(n_train + n_test), the expected overlap of
    training sets. On simulated splits with few training rows it covers at about the
    nominal rate, while n_test/n_train gives intervals many times too long.
    """
    return min(test_to_train, 1.0 / test_to_train)


def adjust_by_holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for all comparisons of a family (Holm 1979)."""
    adjusted, largest = [1.0] * len(p_values), 0.0
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    for rank, k in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[k]))
        adjusted[k] = largest
    return adjusted


def compare_repeats(
    values: Repeats, reference: Repeats, *, test_to_train: float, level: float = LEVEL
) -> PairedDifference:
    common = sorted(values.keys() & reference.keys())
    n_left_out = len(values.keys() | reference.keys()) - len(common)
    differences = np.array([values[repeat] - reference[repeat] for repeat in common])
    mean = float(differences.mean()) if common else nan
    interval = Interval(nan, nan, nan)
    if len(common) > 1:
        interval = corrected_interval(differences, test_to_train, level)
    return PairedDifference(mean, interval, len(common), n_left_out)


def count_verdicts(verdicts: Iterable[Verdict]) -> Counts:
    """Count wins, ties and losses; unknown verdicts are not counted."""
    counts = Counter(verdicts)
    return Counts(counts[Verdict.BETTER], counts[Verdict.EVEN], counts[Verdict.WORSE])


# Measurements.

KEYS = ("dataset", "method", "size", "wrong")

# Dataset, method, size, wrong, repeat.
Planned = tuple[str, str, int | None, float | None, int]
# Test rows divided by training rows, for a data set and a size (None: paper's split).
TestToTrain = Callable[[str, int | None], float]


class Setting(NamedTuple):
    """A method on a data set, with so many rows and such a share of wrong relations."""

    dataset: str
    method: str
    size: int | None = None  # training rows per task; None is the paper's split
    wrong: float | None = None


class Progress(NamedTuple):
    """Number of repeats that are done, and that are planned."""

    done: int
    planned: int

    @property
    def complete(self) -> bool:
        return self.done >= self.planned

    @property
    def text(self) -> str:
        return f"{self.done} of {self.planned}"


@dataclass(frozen=True)
class Measurements:
    """Values by setting and metric, and what was planned."""

    values: Mapping[tuple[Setting, str], Repeats]
    planned: Mapping[Setting, int]
    labels: Mapping[str, str]  # of methods, in the order in which they appear
    test_to_train: TestToTrain
    seconds: Mapping[Setting, Repeats] = field(default_factory=dict)  # CPU time
    # Strengths that were chosen, by repeat.
    strengths: Mapping[Setting, Mapping[int, Mapping[str, float]]] = field(
        default_factory=dict
    )

    @classmethod
    def of(
        cls,
        scores: Any,
        *,
        test_to_train: TestToTrain,
        labels: Mapping[str, str],
        planned: Iterable[Planned] = (),
    ) -> Self:
        """Read rows of scores (a pyarrow table).

        Of the scores of single tasks, the median of VE is kept.
        """
        rows = scores.filter(pc.is_null(scores["task"]))
        columns = [*KEYS, "metric", "repeat", "value", "seconds", "strengths"]
        values: dict[tuple[Setting, str], dict[int, float]] = defaultdict(dict)
        seconds: dict[Setting, dict[int, float]] = defaultdict(dict)
        strengths: dict[Setting, dict[int, dict[str, float]]] = defaultdict(dict)
        for (setting, repeat), errors in _errors_of_tasks(scores).items():
            values[setting, "ve_median"][repeat] = 1.0 - median(errors)
        for row in rows.select(columns).to_pylist():
            setting = Setting(*(row[key] for key in KEYS))
            repeats = values[setting, row["metric"]]
            seconds[setting][row["repeat"]] = row["seconds"]
            strengths[setting][row["repeat"]] = json.loads(row["strengths"])
            if row["repeat"] in repeats:
                raise ValueError(
                    f"scores must hold each repeat once: got repeat {row['repeat']} of "
                    f"{setting} twice; keep the rows of one version."
                )
            if row["value"] is not None and isfinite(row["value"]):
                repeats[row["repeat"]] = row["value"]
        counts = Counter(Setting(*cell[:4]) for cell in set(planned))
        return cls(
            dict(values), counts, labels, test_to_train, dict(seconds), dict(strengths)
        )

    @cached_property
    def settings(self) -> frozenset[Setting]:
        return frozenset({setting for setting, _ in self.values} | set(self.planned))

    def label(self, method: str) -> str:
        return self.labels.get(method) or PAPER_LABELS.get(method, method)

    def order(self, methods: Iterable[str]) -> list[str]:
        """Sort methods by the order of the labels, then that of the paper."""
        known = list(dict.fromkeys([*self.labels, *PAPER_LABELS]))
        wanted = set(methods)
        others = sorted(wanted - set(known))
        return [method for method in known if method in wanted] + others

    def methods(self, datasets: Iterable[str]) -> list[str]:
        chosen = set(datasets)
        return self.order(
            s.method
            for s in self.settings
            if s.dataset in chosen and s.size is None and s.wrong is None
        )

    def datasets(self, among: Sequence[Setting] | None = None) -> list[str]:
        settings = self.settings if among is None else among
        present = {setting.dataset for setting in settings}
        return [name for name in DATASETS if name in present]

    def sizes(self, dataset: str, methods: Iterable[str]) -> list[int]:
        chosen = set(methods)
        return sorted(
            {
                s.size
                for s in self.settings
                if s.dataset == dataset
                and s.method in chosen
                and s.size is not None
                and s.wrong is None
            }
        )

    def repeats(self, setting: Setting, metric: str) -> Repeats:
        return self.values.get((setting, metric), {})

    def progress(self, setting: Setting, metric: str) -> Progress:
        done = len(self.repeats(setting, metric))
        return Progress(done, max(done, self.planned.get(setting, 0)))

    def estimate(self, setting: Setting, metric: str) -> Estimate | None:
        """Mean and standard deviation over the repeats, per cent."""
        values = 100.0 * np.array(list(self.repeats(setting, metric).values()))
        if not len(values):
            return None
        sd = float(values.std(ddof=1)) if len(values) > 1 else float("nan")
        return Estimate(float(values.mean()), sd)

    def mean_seconds(self, setting: Setting) -> float | None:
        times = list(self.seconds.get(setting, {}).values())
        return float(np.mean(times)) if times else None

    def compare(
        self, setting: Setting, reference: Setting, metric: str, *, usual: bool = False
    ) -> PairedDifference:
        """Difference of two settings of one data set, as a fraction.

        The interval's correction is :func:`overlap_ratio`; ``usual``: n_test/n_train,
        as Nadeau and Bengio have it.
        """
        ratio = self.test_to_train(setting.dataset, setting.size)
        ratio = ratio if usual else overlap_ratio(ratio)
        values = self.repeats(setting, metric), self.repeats(reference, metric)
        return compare_repeats(*values, test_to_train=ratio)

    def judge(self, setting: Setting, reference: Setting, metric: str) -> Verdict:
        difference = self.compare(setting, reference, metric)
        return difference.verdict(higher_is_better=METRICS[metric].higher_is_better)


def _errors_of_tasks(scores: Any) -> dict[tuple[Setting, int], list[float]]:
    """Normalised errors of all tasks, by setting and repeat."""
    single = pc.and_(pc.is_valid(scores["task"]), pc.is_finite(scores["value"]))
    rows = scores.filter(pc.and_(single, pc.equal(scores["metric"], "nmse_tasks")))
    found: dict[tuple[Setting, int], list[float]] = defaultdict(list)
    columns = [rows[key].to_pylist() for key in (*KEYS, "repeat", "value")]
    for *place, repeat, value in zip(*columns, strict=True):
        found[Setting(*place), repeat].append(value)
    return found
