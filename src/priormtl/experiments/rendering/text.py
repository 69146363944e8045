"""Sentences of the page of results, computed from the rows."""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import NamedTuple, TypeVar

from priormtl.experiments.rendering.measurements import Measurements, Setting, Verdict
from priormtl.experiments.rendering.paper import (
    DATASETS,
    MAIN_METRICS,
    METRICS,
    PAPER_LABELS,
    TABLE_1,
    TABLE_2,
    Estimate,
    paper_estimate,
)
from priormtl.experiments.rendering.tables import (
    NONE,
    PRIORS,
    REFERENCE,
    compare_with_none,
)


def join_words(words: Iterable[str]) -> str:
    *first, last = list(words) or [""]
    return f"{', '.join(first)} and {last}" if first else last


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


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
    """Every number that the paper reports and we measured more than once."""
    found = (
        Agreement(dataset, metric, method, ours, paper)
        for dataset, figure in (*TABLE_1, *TABLE_2)
        for metric, meaning in METRICS.items()
        if meaning.figure == figure
        for method in measurements.methods([dataset])
        if (paper := paper_estimate(dataset, metric, method)) is not None
        and (ours := measurements.estimate(Setting(dataset, method), metric))
    )
    return [pair for pair in found if isfinite(pair.ours.sd)]


def describe_agreement(measurements: Measurements) -> list[str]:
    pairs = compare_with_paper(measurements)
    if not pairs:
        return ["None of the paper's figures has been measured yet."]
    agreeing = sum(pair.agrees for pair in pairs)
    better = sum(pair.ours_is_better for pair in pairs if not pair.agrees)
    total = (
        f"Of {_plural(len(pairs), 'figure')} that stand beside one of the paper's, "
        f"{agreeing} agree with it: the means differ by at most two standard "
        "deviations, ours or the paper's, whichever is smaller. Of the others, "
        f"{better} of ours are better than the paper's and "
        f"{len(pairs) - agreeing - better} worse."
    )
    lines = []
    for dataset, metric in dict.fromkeys(pair[:2] for pair in pairs):
        column = [pair for pair in pairs if pair[:2] == (dataset, metric)]
        gaps = sorted(pair.ours.mean - pair.paper.mean for pair in column)
        ends = [f"{gap:+.1f}".replace("-", "−") for gap in (gaps[0], gaps[-1])]
        lines.append(
            f"- {DATASETS[dataset]}, {METRICS[metric].title}: "
            f"{sum(pair.agrees for pair in column)} of {len(column)} agree; ours minus "
            f"the paper's: {' to '.join(dict.fromkeys(ends))} points."
        )
    return [total, "\n".join(lines)]


def describe_ceiling(
    measurements: Measurements, pooled: float | None, effects: float | None
) -> list[str]:
    """Say whether a linear model can reach the paper's number on School.

    ``pooled`` and ``effects`` are fractions of the variance that least squares
    explains on its own training data, without and with an effect per school.
    """
    claimed = paper_estimate("school", "ve_pooled", "natural")
    if pooled is None or effects is None or claimed is None:
        return []
    fits = (
        f"Least squares on all pupils explains {100 * pooled:.1f} % of the variance of "
        f"the very scores it was fitted to, {100 * effects:.1f} % with an effect for "
        "each school."
    )
    if claimed.mean <= 100 * max(pooled, effects):
        return [f"{fits} The paper's {claimed.mean:.1f} % is not above that."]
    verdict = (
        f"The paper's {claimed.mean:.1f} % on pupils not seen, from 20 per school, is "
        "above both, so that under the usual definition, pooled over pupils, a linear "
        "model cannot be expected to reach it."
    )
    ours = measurements.estimate(Setting("school", "natural"), "ve_pooled")
    if ours is None:
        return [f"{fits} {verdict}"]
    return [f"{fits} {verdict} We measure {ours.mean:.1f} %."]


# Comparisons with verdicts.

K = TypeVar("K")


def _known(verdicts: Mapping[K, Verdict]) -> dict[K, Verdict]:
    return {key: v for key, v in verdicts.items() if v is not Verdict.UNKNOWN}


def _select(verdicts: Mapping[K, Verdict]) -> tuple[list[K], list[K]]:
    """Keys of the comparisons that were won, and of those that were lost."""
    better = [key for key, v in verdicts.items() if v is Verdict.BETTER]
    return better, [key for key, v in verdicts.items() if v is Verdict.WORSE]


def describe_compared(
    measurements: Measurements, reference: str = REFERENCE
) -> list[str]:
    """Count where the paper's other methods are better than ours, and where worse."""
    methods = [name for name in PAPER_LABELS if name not in ("natural", "artificial")]
    verdicts = _known(
        {
            (method, dataset): measurements.judge(
                Setting(dataset, method),
                Setting(dataset, reference),
                MAIN_METRICS[dataset],
            )
            for method in methods
            for dataset in measurements.datasets()
        }
    )
    if not verdicts:
        return []
    better, worse = _select(verdicts)
    total = (
        f"Of {len(verdicts)} comparisons of a method with “"
        f"{measurements.label(reference)}” on a data set, {len(better)} are "
        f"significantly better, {len(worse)} significantly worse and "
        f"{len(verdicts) - len(better) - len(worse)} neither."
    )
    lines = []
    for method in dict.fromkeys(method for method, _ in verdicts):
        won, lost = (
            ", ".join(DATASETS[dataset] for name, dataset in chosen if name == method)
            for chosen in (better, worse)
        )
        lines.append(
            f"- {PAPER_LABELS[method]}: better on {won or 'none'}, "
            f"worse on {lost or 'none'}."
        )
    return [total, "\n".join(lines)]


def describe_priors(measurements: Measurements) -> list[str]:
    datasets = measurements.datasets()
    smallest = [
        (name, size)
        for name in datasets
        for size in measurements.sizes(name, PRIORS)[:1]
    ]
    return [
        *_count_priors(
            measurements,
            [(name, None) for name in datasets],
            "At the paper's splits",
            "comparison",
        ),
        *_count_priors(
            measurements, smallest, "At their fewest training rows", "learning curve"
        ),
        *(line for prior in PRIORS for line in _describe_points(measurements, prior)),
    ]


def _count_priors(
    measurements: Measurements,
    places: Sequence[tuple[str, int | None]],
    opening: str,
    noun: str,
) -> list[str]:
    """Count wins and losses of all priors at a size of each data set."""
    verdicts = _known(
        {
            (name, prior): compare_with_none(measurements, name, size, prior).verdict
            for name, size in places
            for prior in PRIORS
        }
    )
    if not verdicts:
        return []
    n_datasets = len({dataset for dataset, _ in verdicts})

    def where(keys: Sequence[tuple[str, str]]) -> str:
        names = list(dict.fromkeys(DATASETS[dataset] for dataset, _ in keys))
        if not names:
            return ""
        total = _plural(n_datasets, "data set")
        return f", on {len(names)} of {total} ({join_words(names)})"

    better, worse = _select(verdicts)
    comma = "," if better else ""
    return [
        f"{opening}, {len(better)} of {_plural(len(verdicts), noun)} (a prior against "
        f"none on a data set) are significantly better{where(better)}{comma} and "
        f"{len(worse)} significantly worse{where(worse)}."
    ]


def _describe_points(measurements: Measurements, prior: str) -> list[str]:
    verdicts = _known(
        {
            (name, size): compare_with_none(measurements, name, size, prior).verdict
            for name in measurements.datasets()
            for size in measurements.sizes(name, PRIORS)
        }
    )
    if not verdicts:
        return []
    better, worse = map(_name_points, _select(verdicts))
    return [
        f"Along all {len(verdicts)} points of its learning curves, “"
        f"{measurements.label(prior)}” is significantly better at {better} and "
        f"significantly worse at {worse}."
    ]


def _name_points(points: Sequence[tuple[str, int]]) -> str:
    sizes: dict[str, list[str]] = {}
    for dataset, size in points:
        sizes.setdefault(DATASETS[dataset], []).append(str(size))
    if not sizes:
        return "none"
    named = "; ".join(f"{name} at {join_words(at)}" for name, at in sizes.items())
    return f"{len(points)} ({named})"


def describe_robustness(measurements: Measurements) -> list[str]:
    # The setting of each robustness curve with the largest share of wrong relations.
    order = list(DATASETS)
    wrong = sorted(
        (setting for setting in measurements.settings if setting.wrong is not None),
        key=lambda s: (order.index(s.dataset), s.method, s.size or 0, s.wrong),
    )
    most = {setting[:3]: setting for setting in wrong}
    verdicts = _known(
        {
            setting: measurements.judge(
                setting,
                Setting(setting.dataset, NONE, setting.size),
                MAIN_METRICS[setting.dataset],
            )
            for setting in most.values()
        }
    )
    if not verdicts:
        return []
    shares = sorted({100 * (setting.wrong or 0.0) for setting in verdicts})
    ends = [f"{share:.0f}" for share in dict.fromkeys((shares[0], shares[-1]))]
    opening = (
        f"With the most wrong relations ({' to '.join(ends)} %) and theta tuned, the "
        "prior is"
    )
    total = _plural(len(verdicts), "data set")
    _, harmed = _select(verdicts)
    if not harmed:
        return [f"{opening} on none of {total} significantly worse than no prior."]
    names = join_words(DATASETS[setting.dataset] for setting in harmed)
    return [
        f"{opening} significantly worse than no prior on {len(harmed)} of {total} "
        f"({names})."
    ]
