"""What was measured: the repeats of each setting, looked up by name."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow.compute as pc

from priormtl._lazy import cached_property
from priormtl.experiments.showing.comparisons import (
    PairedDifference,
    Repeats,
    Verdict,
    compare_repeats,
)
from priormtl.experiments.showing.paper import (
    DATASETS,
    METRICS,
    PAPER_LABELS,
    Estimate,
)

__all__ = ["Measurements", "Planned", "Progress", "Setting", "TestToTrain"]

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
    """Repeats that are there, of those that are planned."""

    done: int
    planned: int

    @property
    def complete(self) -> bool:
        """Nothing that was planned is missing."""
        return self.done >= self.planned

    @property
    def text(self) -> str:
        """Words for people."""
        return f"{self.done} of {self.planned}"


@dataclass(frozen=True)
class Measurements:
    """Values by setting and metric, what was planned, and how to read them."""

    values: Mapping[tuple[Setting, str], Repeats]
    planned: Mapping[Setting, int]
    labels: Mapping[str, str]  # of methods, in the order in which they appear
    test_to_train: TestToTrain
    seconds: Mapping[Setting, Repeats] = field(default_factory=dict)  # of one core

    @classmethod
    def of(
        cls,
        scores: Any,
        *,
        test_to_train: TestToTrain,
        labels: Mapping[str, str],
        planned: Iterable[Planned] = (),
    ) -> Self:
        """Read rows of scores (a pyarrow table); the tasks' own values stay out."""
        rows = scores.filter(pc.is_null(scores["task"]))
        columns = [*KEYS, "metric", "repeat", "value", "seconds"]
        values: dict[tuple[Setting, str], dict[int, float]] = defaultdict(dict)
        seconds: dict[Setting, dict[int, float]] = defaultdict(dict)
        for row in rows.select(columns).to_pylist():
            setting = Setting(*(row[key] for key in KEYS))
            repeats = values[setting, row["metric"]]
            seconds[setting][row["repeat"]] = row["seconds"]
            if row["repeat"] in repeats:
                raise ValueError(
                    f"scores must hold each repeat once: got repeat {row['repeat']} of "
                    f"{setting} twice; keep the rows of one version."
                )
            if row["value"] is not None and isfinite(row["value"]):
                repeats[row["repeat"]] = row["value"]
        counts = Counter(Setting(*cell[:4]) for cell in set(planned))
        return cls(dict(values), counts, labels, test_to_train, dict(seconds))

    @cached_property
    def settings(self) -> frozenset[Setting]:
        """All that was measured or planned."""
        return frozenset({setting for setting, _ in self.values} | set(self.planned))

    def label(self, method: str) -> str:
        """What a method is called."""
        return self.labels.get(method) or PAPER_LABELS.get(method, method)

    def order(self, methods: Iterable[str]) -> list[str]:
        """Methods in the order of the labels, the paper's others after them."""
        known = list(dict.fromkeys([*self.labels, *PAPER_LABELS]))
        wanted = set(methods)
        strangers = sorted(wanted - set(known))
        return [method for method in known if method in wanted] + strangers

    def methods(self, datasets: Iterable[str]) -> list[str]:
        """Methods that some of the data sets have at the paper's split."""
        chosen = set(datasets)
        return self.order(
            s.method
            for s in self.settings
            if s.dataset in chosen and s.size is None and s.wrong is None
        )

    def datasets(self, among: Sequence[Setting] | None = None) -> list[str]:
        """Data sets in their order."""
        settings = self.settings if among is None else among
        present = {setting.dataset for setting in settings}
        return [name for name in DATASETS if name in present]

    def sizes(self, dataset: str, methods: Iterable[str]) -> list[int]:
        """Training sizes of a learning curve, smallest first."""
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
        """Values by repeat; empty where there is none."""
        return self.values.get((setting, metric), {})

    def progress(self, setting: Setting, metric: str) -> Progress:
        """How many repeats are there."""
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
        """Time of one core to tune and fit, on average; None where nothing was run."""
        times = list(self.seconds.get(setting, {}).values())
        return float(np.mean(times)) if times else None

    def compare(
        self, setting: Setting, reference: Setting, metric: str
    ) -> PairedDifference:
        """Difference of two settings of one data set, as a fraction."""
        ratio = self.test_to_train(setting.dataset, setting.size)
        values = self.repeats(setting, metric), self.repeats(reference, metric)
        return compare_repeats(*values, test_to_train=ratio)

    def judge(self, setting: Setting, reference: Setting, metric: str) -> Verdict:
        """Where a setting stands against another of its data set."""
        difference = self.compare(setting, reference, metric)
        return difference.verdict(higher_is_better=METRICS[metric].higher_is_better)
