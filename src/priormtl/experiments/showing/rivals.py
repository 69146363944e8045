"""How the compared methods stand against ours, in sentences made of verdicts."""

from collections.abc import Mapping, Sequence

from priormtl.experiments.showing.comparisons import Verdict
from priormtl.experiments.showing.measurements import Measurements, Setting
from priormtl.experiments.showing.paper import DATASETS, MAIN_METRICS, PAPER_LABELS

__all__ = ["describe_rivals"]

OURS = ("natural", "artificial")
RIVALS = tuple(name for name in PAPER_LABELS if name not in OURS)

Verdicts = Mapping[tuple[str, str], Verdict]  # by method and data set


def describe_rivals(
    measurements: Measurements, reference: str = "natural"
) -> list[str]:
    """Count where the compared methods beat ours and where they lose, and name them."""
    verdicts = _judge(measurements, reference)
    if not verdicts:
        return []
    better, worse = (_chosen(verdicts, v) for v in (Verdict.BETTER, Verdict.WORSE))
    total = (
        f"Of {len(verdicts)} comparisons of a method with “"
        f"{measurements.label(reference)}” on a data set, {len(better)} are "
        f"significantly better, {len(worse)} significantly worse and "
        f"{len(verdicts) - len(better) - len(worse)} neither."
    )
    lines = [
        _describe(PAPER_LABELS[name], _sets(better, name), _sets(worse, name))
        for name in RIVALS
        if any(method == name for method, _ in verdicts)
    ]
    return [total, "\n".join(f"- {line}" for line in lines)]


def _judge(measurements: Measurements, reference: str) -> Verdicts:
    """Verdicts at the paper's split, where both were measured."""
    found = {
        (method, dataset): measurements.judge(
            Setting(dataset, method), Setting(dataset, reference), MAIN_METRICS[dataset]
        )
        for method in RIVALS
        for dataset in measurements.datasets()
    }
    return {key: v for key, v in found.items() if v is not Verdict.UNKNOWN}


def _chosen(verdicts: Verdicts, wanted: Verdict) -> list[tuple[str, str]]:
    return [key for key, verdict in verdicts.items() if verdict is wanted]


def _sets(chosen: Sequence[tuple[str, str]], name: str) -> list[str]:
    return [DATASETS[dataset] for method, dataset in chosen if method == name]


def _describe(label: str, better: Sequence[str], worse: Sequence[str]) -> str:
    return f"{label}: better on {_names(better)}, worse on {_names(worse)}."


def _names(sets: Sequence[str]) -> str:
    return ", ".join(sets) or "none"
