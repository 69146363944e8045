"""What the rows say, in sentences: figures and turns of phrase are computed."""

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import NamedTuple

from priormtl.experiments.showing.cells import DifferenceCell, Table
from priormtl.experiments.showing.comparisons import Verdict
from priormtl.experiments.showing.measurements import Measurements, Progress, Setting
from priormtl.experiments.showing.paper import (
    DATASETS,
    MAIN_METRICS,
    METRICS,
    TABLE_1,
    TABLE_2,
    Estimate,
    paper_estimate,
)
from priormtl.tables import TableRow

__all__ = [
    "Agreement",
    "compare_with_paper",
    "describe_agreement",
    "describe_ceiling",
    "describe_priors",
    "describe_robustness",
    "prior_table",
]

PRIORS = ("natural", "artificial", "expert")
NONE = "none"
FEW_SIZES = 3  # of a learning curve that the table shows
PRIOR_NOTE = (
    "Percentage points, prior minus “{none}”, over the same splits, with a 95 % "
    "interval (corrected resampled t after Nadeau and Bengio); ▲: significantly "
    "better, ▼: significantly worse; not corrected for many comparisons. Rows: "
    "training rows per task or class, the three fewest of the curve; “paper”: the "
    "paper's split."
)


class Agreement(NamedTuple):
    """One of the paper's figures beside ours."""

    dataset: str
    metric: str
    method: str
    ours: Estimate
    paper: Estimate

    @property
    def agrees(self) -> bool:
        """Whether either mean lies within two standard deviations of the other."""
        # Of the smaller one: a figure that is all noise agrees with nothing.
        smaller = min(self.ours.sd, self.paper.sd)
        return abs(self.paper.mean - self.ours.mean) <= 2.0 * smaller

    @property
    def ours_is_better(self) -> bool:
        """Whether our figure is on the better side."""
        higher = METRICS[self.metric].higher_is_better
        return (self.ours.mean > self.paper.mean) == higher


def compare_with_paper(measurements: Measurements) -> list[Agreement]:
    """Every figure that the paper reports and we measured more than once."""
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
    """Say how many figures agree, which do, and how far off the others are."""
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
    columns = dict.fromkeys((pair.dataset, pair.metric) for pair in pairs)
    groups = ([pair for pair in pairs if pair[:2] == column] for column in columns)
    return [total, "\n".join(f"- {_describe_column(group)}" for group in groups)]


def describe_ceiling(
    measurements: Measurements, pooled: float | None, effects: float | None
) -> list[str]:
    """Say whether School's figure can be reached by a linear model at all.

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
    highest = 100 * max(pooled, effects)
    if claimed.mean <= highest:
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


def prior_table(measurements: Measurements) -> Table | None:
    """Each prior against none, at a few of the fewest rows and at the paper's split."""
    places = [
        (dataset, size)
        for dataset in measurements.datasets()
        for size in (*measurements.sizes(dataset, PRIORS)[:FEW_SIZES], None)
    ]
    grid = [
        [_difference(measurements, dataset, size, prior) for prior in PRIORS]
        for dataset, size in places
    ]
    rows = [
        TableRow(_place_label(*place), tuple(cells))
        for place, cells in zip(places, grid, strict=True)
        if any(cell.progress.planned for cell in cells)
    ]
    if not rows:
        return None
    progress = [cell.progress for cells in grid for cell in cells]
    return Table(
        "When did a prior help?",
        ("Data set, metric, rows", *(measurements.label(prior) for prior in PRIORS)),
        tuple(rows),
        (PRIOR_NOTE.format(none=measurements.label(NONE)),),
        Progress(sum(p.done for p in progress), sum(p.planned for p in progress)),
    )


def describe_priors(measurements: Measurements) -> list[str]:
    """Count where priors helped and where they harmed, and name the places."""
    datasets = measurements.datasets()
    ends = [
        (name, size)
        for name in datasets
        for size in measurements.sizes(name, PRIORS)[:1]
    ]
    full = _verdicts(measurements, [(name, None) for name in datasets])
    small = _verdicts(measurements, ends)
    return [
        *_count("At the paper's splits", "comparison", full),
        *_count("At their fewest training rows", "learning curve", small),
        *(line for prior in PRIORS for line in _describe_points(measurements, prior)),
    ]


def _describe_points(measurements: Measurements, prior: str) -> list[str]:
    """Say at which points of its learning curves a prior won or lost."""
    verdicts = {
        (dataset, size): _difference(measurements, dataset, size, prior).verdict
        for dataset in measurements.datasets()
        for size in measurements.sizes(dataset, PRIORS)
    }
    judged = {key: v for key, v in verdicts.items() if v is not Verdict.UNKNOWN}
    if not judged:
        return []
    better, worse = (
        _name_points([key for key, verdict in judged.items() if verdict is wanted])
        for wanted in (Verdict.BETTER, Verdict.WORSE)
    )
    return [
        f"Along all {len(judged)} points of its learning curves, “"
        f"{measurements.label(prior)}” is significantly better at {better} and "
        f"significantly worse at {worse}."
    ]


def _name_points(points: Sequence[tuple[str, int]]) -> str:
    """Number of points, and the rows at which they lie, set by set."""
    rows: dict[str, list[str]] = {}
    for dataset, size in points:
        rows.setdefault(DATASETS[dataset], []).append(str(size))
    if not rows:
        return "none"
    named = "; ".join(f"{name} at {_join(sizes)}" for name, sizes in rows.items())
    return f"{len(points)} ({named})"


def describe_robustness(measurements: Measurements) -> list[str]:
    """Say whether a prior with the most wrong relations did harm."""
    found = {
        setting: measurements.judge(
            setting,
            Setting(setting.dataset, NONE, setting.size),
            MAIN_METRICS[setting.dataset],
        )
        for setting in _most_wrong(measurements)
    }
    judged = {s: v for s, v in found.items() if v is not Verdict.UNKNOWN}
    if not judged:
        return []
    harmed = [s for s, verdict in judged.items() if verdict is Verdict.WORSE]
    shares = sorted({100 * (setting.wrong or 0.0) for setting in judged})
    share = " to ".join(
        f"{part:.0f}" for part in dict.fromkeys((shares[0], shares[-1]))
    )
    opening = f"With the most wrong relations ({share} %) and theta tuned, the prior is"
    if not harmed:
        return [
            f"{opening} on none of {_plural(len(judged), 'data set')} significantly "
            "worse than no prior."
        ]
    names = _join(DATASETS[setting.dataset] for setting in harmed)
    return [
        f"{opening} significantly worse than no prior on {len(harmed)} of "
        f"{_plural(len(judged), 'data set')} ({names})."
    ]


def _describe_column(pairs: Sequence[Agreement]) -> str:
    """Say how far off the methods of one data set and metric are."""
    dataset, metric = pairs[0][:2]
    gaps = sorted(pair.ours.mean - pair.paper.mean for pair in pairs)
    ends = dict.fromkeys(f"{gap:+.1f}".replace("-", "−") for gap in (gaps[0], gaps[-1]))
    agreeing = sum(pair.agrees for pair in pairs)
    return (
        f"{DATASETS[dataset]}, {METRICS[metric].title}: {agreeing} of {len(pairs)} "
        f"agree; ours minus the paper's: {' to '.join(ends)} points."
    )


def _place_label(dataset: str, size: int | None) -> str:
    title = METRICS[MAIN_METRICS[dataset]].title
    return f"{DATASETS[dataset]}, {title}, {'paper' if size is None else size}"


def _difference(
    measurements: Measurements, dataset: str, size: int | None, prior: str
) -> DifferenceCell:
    metric = MAIN_METRICS[dataset]
    settings = Setting(dataset, prior, size), Setting(dataset, NONE, size)
    return DifferenceCell(
        measurements.compare(*settings, metric),
        measurements.judge(*settings, metric),
        measurements.progress(settings[0], metric),
    )


Verdicts = dict[tuple[str, str], Verdict]  # by data set and prior


def _verdicts(
    measurements: Measurements, places: Iterable[tuple[str, int | None]]
) -> Verdicts:
    found = {
        (dataset, prior): _difference(measurements, dataset, size, prior).verdict
        for dataset, size in places
        for prior in PRIORS
    }
    return {key: v for key, v in found.items() if v is not Verdict.UNKNOWN}


def _count(opening: str, noun: str, verdicts: Verdicts) -> list[str]:
    """Count what was won and lost, and name the data sets."""
    if not verdicts:
        return []
    better, worse = (_chosen(verdicts, v) for v in (Verdict.BETTER, Verdict.WORSE))
    datasets = {dataset for dataset, _ in verdicts}
    return [
        f"{opening}, {len(better)} of {_plural(len(verdicts), noun)} (a prior against "
        "none on a data set) are significantly better"
        f"{_where(better, len(datasets))} and {len(worse)} significantly worse"
        f"{_where(worse, len(datasets)).rstrip(',')}."
    ]


def _chosen(verdicts: Verdicts, wanted: Verdict) -> list[str]:
    """Data set of each comparison with that verdict."""
    return [name for (name, _), verdict in verdicts.items() if verdict is wanted]


def _where(names: Sequence[str], n_datasets: int) -> str:
    distinct = list(dict.fromkeys(names))
    if not distinct:
        return ""
    shown = _join(DATASETS[name] for name in distinct)
    return f", on {len(distinct)} of {_plural(n_datasets, 'data set')} ({shown}),"


def _most_wrong(measurements: Measurements) -> list[Setting]:
    """The setting of each robustness curve with the largest share."""
    most: dict[tuple[str, str, int | None], Setting] = {}
    for setting in measurements.settings:
        if setting.wrong is not None:
            rival = most.get(setting[:3])
            if rival is None or setting.wrong > (rival.wrong or 0.0):
                most[setting[:3]] = setting
    order = list(DATASETS)
    return sorted(
        most.values(), key=lambda s: (order.index(s.dataset), s.method, s.size or 0)
    )


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _join(words: Iterable[str]) -> str:
    *first, last = list(words) or [""]
    return f"{', '.join(first)} and {last}" if first else last
