"""Results as values: our repeats, the paper's numbers, and paired comparisons.

Two settings are compared by the differences over their common repeats, which are the
same splits for both. The interval is the corrected resampled t interval of Nadeau and
Bengio (2003), see :mod:`priormtl.metrics`, since splits of one data set overlap.

The paper's numbers, names of data sets and metrics, notes below tables and captions of
figures are in ``paper.toml``.
"""

import json
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from math import isfinite, nan
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from priormtl._lazy import cached_property
from priormtl.metrics import Interval, corrected_interval

# Names, and the paper's numbers.


class Estimate(NamedTuple):
    """Mean and standard deviation over splits, per cent."""

    mean: float
    sd: float


class Metric(NamedTuple):
    """Title and definition of one of our metrics."""

    title: str
    figure: str  # the paper's name for it
    higher_is_better: bool
    definition: str


class Caption(NamedTuple):
    """Words above and below a figure."""

    title: str
    caption: str


_PAPER = tomllib.loads(Path(__file__).with_name("paper.toml").read_text("utf-8"))
DATASETS: Mapping[str, str] = _PAPER["datasets"]
METRICS = {name: Metric(**entry) for name, entry in _PAPER["metrics"].items()}
MAIN_METRICS: Mapping[str, str] = _PAPER["main_metrics"]
NOTES: Mapping[str, str] = _PAPER["notes"]
CAPTIONS = {name: Caption(**entry) for name, entry in _PAPER["figures"].items()}
PAPER_LABELS: Mapping[str, str] = _PAPER["columns"]
NONE = "none"  # our model without prior, and with the priors of the paper and ours
PRIORS = ("natural", "artificial", "expert")
# What an expert's relations must add to: the same shrinkage without any relation, and
# with all relations reversed (the share of wrong ones is beside them).
CONTROLS = {"ridge": None, "contradictory": 1.0}
COMPARED = [name for name in PAPER_LABELS if name not in PRIORS]
# Compared methods that say little about the paper's, and why.
DOUBTFUL: Mapping[str, str] = _PAPER["doubtful"]


# Algorithm 3 with the constants of the paper, among the runs of convergence.
PAPERS_LINEAR = "linear, paper's constants"
SMALL_CHANGE = 1e-3  # of the objective, at which the paper's experiments stop

# By data set and the paper's name of a metric, then by method: its Tables 1 and 2.
PAPER: Mapping[tuple[str, str], Mapping[str, Estimate]] = {
    (dataset, figure): dict(
        zip(PAPER_LABELS, map(Estimate, numbers[::2], numbers[1::2]), strict=True)
    )
    for key, text in _PAPER["numbers"].items()
    for dataset, figure in [key.split()]
    for numbers in [[float(word) for word in text.split()]]
}


def paper_estimate(dataset: str, metric: str, method: str) -> Estimate | None:
    """The paper's number; None where it reports nothing."""
    return PAPER.get((dataset, METRICS[metric].figure), {}).get(method)


# Paired comparisons.

Repeats = Mapping[int, float]  # value of a metric by repeat


class Verdict(Enum):
    """Result of a comparison: whether the interval excludes zero, and on which side."""

    BETTER = auto()
    EVEN = auto()
    WORSE = auto()
    UNKNOWN = auto()  # fewer than two common repeats


class Comparison(NamedTuple):
    """Method minus reference over the repeats that both have."""

    mean: float
    interval: Interval
    n_common: int
    n_left_out: int  # repeats that only one of the two has
    verdict: Verdict


def compare_repeats(
    values: Repeats,
    reference: Repeats,
    *,
    test_to_train: float,
    higher_is_better: bool = True,
) -> Comparison:
    common = sorted(values.keys() & reference.keys())
    n_left_out = len(values.keys() | reference.keys()) - len(common)
    differences = np.array([values[repeat] - reference[repeat] for repeat in common])
    mean = float(differences.mean()) if common else nan
    if len(common) < 2:
        interval = Interval(nan, nan, nan)
        return Comparison(mean, interval, len(common), n_left_out, Verdict.UNKNOWN)
    interval = corrected_interval(differences, test_to_train)
    # Values that differ by the tolerance of solvers only are equal.
    if interval.low <= 1e-9 and interval.high >= -1e-9:
        verdict = Verdict.EVEN
    else:
        better = (mean > 0) == higher_is_better
        verdict = Verdict.BETTER if better else Verdict.WORSE
    return Comparison(mean, interval, len(common), n_left_out, verdict)


def overlap_ratio(test_to_train: float) -> float:
    """n_test/n_train, or its inverse where the test set is the larger one.

    The inverse is a correlation n_train/(n_train + n_test), the expected overlap of
    training sets. On simulated splits with few training rows it covers at about the
    nominal rate, while n_test/n_train gives intervals many times too long.
    """
    return min(test_to_train, 1.0 / test_to_train)


K = TypeVar("K")


def tally(verdicts: Mapping[K, Verdict]) -> tuple[list[K], list[K], list[K]]:
    """What was compared, what is significantly better, and what is worse."""
    known = [key for key, v in verdicts.items() if v is not Verdict.UNKNOWN]
    better = [key for key in known if verdicts[key] is Verdict.BETTER]
    return known, better, [key for key in known if verdicts[key] is Verdict.WORSE]


# Measurements.


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


# Test rows divided by training rows, for a data set and a size (None: paper's split).
TestToTrain = Callable[[str, int | None], float]


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
        scores: pa.Table,
        *,
        test_to_train: TestToTrain,
        labels: Mapping[str, str],
        planned: Iterable[Setting] = (),
    ) -> Self:
        """Read rows of scores; ``planned`` has a setting once per repeat.

        Of the scores of single tasks, the median of VE is kept.
        """
        values: dict[tuple[Setting, str], dict[int, float]] = defaultdict(dict)
        seconds: dict[Setting, dict[int, float]] = defaultdict(dict)
        strengths: dict[Setting, dict[int, dict[str, float]]] = defaultdict(dict)
        errors: dict[tuple[Setting, int], list[float]] = defaultdict(list)
        keys = [*Setting._fields, "repeat", "value"]
        single = pc.and_(pc.is_valid(scores["task"]), pc.is_finite(scores["value"]))
        rows = scores.filter(pc.and_(single, pc.equal(scores["metric"], "nmse_tasks")))
        for *place, repeat, value in zip(
            *(rows[key].to_pylist() for key in keys), strict=True
        ):
            errors[Setting(*place), repeat].append(value)
        for (setting, repeat), of_tasks in errors.items():
            values[setting, "ve_median"][repeat] = 1.0 - median(of_tasks)
        rows = scores.filter(pc.is_null(scores["task"]))
        for row in rows.select([*keys, "metric", "seconds", "strengths"]).to_pylist():
            setting, repeat = Setting(*(row[k] for k in Setting._fields)), row["repeat"]
            repeats = values[setting, row["metric"]]
            seconds[setting][repeat] = row["seconds"]
            strengths[setting][repeat] = json.loads(row["strengths"])
            if repeat in repeats:
                raise ValueError(
                    f"scores must hold each repeat once: got repeat {repeat} of "
                    f"{setting} twice; keep the rows of one version."
                )
            if row["value"] is not None and isfinite(row["value"]):
                repeats[repeat] = row["value"]
        return cls(values, Counter(planned), labels, test_to_train, seconds, strengths)

    @cached_property
    def settings(self) -> frozenset[Setting]:
        return frozenset({setting for setting, _ in self.values} | set(self.planned))

    def label(self, method: str) -> str:
        return self.labels.get(method) or PAPER_LABELS.get(method, method)

    def order(self, methods: Iterable[str]) -> list[str]:
        """Sort methods by the order of the labels, then that of the paper."""
        known, wanted = dict.fromkeys([*self.labels, *PAPER_LABELS]), set(methods)
        return [name for name in known if name in wanted] + sorted(wanted - set(known))

    def methods(self, datasets: Iterable[str]) -> list[str]:
        chosen = set(datasets)
        return self.order(
            s.method
            for s in self.settings
            if s.dataset in chosen and s.size is None and s.wrong is None
        )

    def datasets(self, among: Iterable[Setting] | None = None) -> list[str]:
        present = {s.dataset for s in (self.settings if among is None else among)}
        return [name for name in DATASETS if name in present]

    def sizes(self, dataset: str) -> list[int]:
        """Sizes of the learning curves of a data set."""
        return sorted(
            {
                s.size
                for s in self.settings
                if s.dataset == dataset
                and s.method in {NONE, *PRIORS}
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
        sd = float(values.std(ddof=1)) if len(values) > 1 else nan
        return Estimate(float(values.mean()), sd)

    def mean_seconds(self, setting: Setting) -> float | None:
        times = self.seconds.get(setting, {}).values()
        return fmean(times) if times else None

    def compare(
        self,
        setting: Setting,
        reference: str | Setting,
        metric: str | None = None,
        *,
        usual: bool = False,
    ) -> Comparison:
        """Difference to another method or setting with the same rows, as a fraction.

        By the main metric of the data set if none is given. The interval's correction
        is :func:`overlap_ratio`; ``usual``: n_test/n_train, as Nadeau and Bengio have
        it.
        """
        metric = metric or MAIN_METRICS[setting.dataset]
        ratio = self.test_to_train(setting.dataset, setting.size)
        if isinstance(reference, str):
            reference = setting._replace(method=reference, wrong=None)
        return compare_repeats(
            self.repeats(setting, metric),
            self.repeats(reference, metric),
            test_to_train=ratio if usual else overlap_ratio(ratio),
            higher_is_better=METRICS[metric].higher_is_better,
        )

    def judge(
        self, setting: Setting, reference: str | Setting, metric: str | None = None
    ) -> Verdict:
        return self.compare(setting, reference, metric).verdict

    def judge_beyond(self, setting: Setting) -> Verdict:
        """Whether a prior is better than none and than each of its controls.

        Where it is not better than one of them, this is no better; unknown where it is
        better than those that were measured, but not all were.
        """
        verdicts = [self.judge(setting, one) for one in self.references(setting)]
        if all(verdict is Verdict.BETTER for verdict in verdicts):
            return Verdict.BETTER
        known = {*verdicts} - {Verdict.BETTER, Verdict.UNKNOWN}
        if Verdict.WORSE in known:
            return Verdict.WORSE
        return Verdict.EVEN if known else Verdict.UNKNOWN

    def references(self, setting: Setting) -> list[Setting]:
        """No prior, and the controls of an expert's relations, with the same rows."""
        dataset, _, size, _ = setting
        return [
            Setting(dataset, name, size, wrong)
            for name, wrong in {NONE: None, **CONTROLS}.items()
        ]


class Results(NamedTuple):
    """Everything that was measured; all but the scores as rows."""

    measurements: Measurements
    convergence: pa.Table
    roc: pa.Table
    surfaces: pa.Table


# Agreement with the paper.


class Agreement(NamedTuple):
    """One of the paper's numbers beside ours."""

    dataset: str
    metric: str
    method: str
    ours: Estimate
    paper: Estimate

    @property
    def agrees(self) -> bool:
        """Whether the means differ by at most two of the smaller deviation."""
        # Of the smaller one: a number that is all noise agrees with nothing.
        smaller = min(self.ours.sd, self.paper.sd)
        return abs(self.paper.mean - self.ours.mean) <= 2.0 * smaller

    @property
    def ours_is_better(self) -> bool:
        higher = METRICS[self.metric].higher_is_better
        return (self.ours.mean > self.paper.mean) == higher


def compare_with_paper(measurements: Measurements) -> list[Agreement]:
    """Our estimates with a deviation beside the paper's, under every average."""
    return [
        Agreement(dataset, metric, method, ours, paper)
        for (dataset, figure), row in PAPER.items()
        for metric, meaning in METRICS.items()
        if meaning.figure == figure
        for method in measurements.order(row)
        if (paper := row[method])
        and (ours := measurements.estimate(Setting(dataset, method), metric))
        and isfinite(ours.sd)
    ]
