"""What a fitted model says of itself: as plain values, and as lines."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from priormtl.cli.fitting import Learned
from priormtl.cli.words import count
from priormtl.data import TaskStatistics
from priormtl.estimators import ClassificationTasks, FeatureSummary, ModelSummary

__all__ = ["describe", "tell"]

MOST_FEATURES = 8
ROUNDING = 1e-14  # of a mean, relative to it
STRENGTHS = ("lam", "theta", "epsilon")
EFFECTS = ("mean", "lowest", "highest")


def describe(learned: Learned, out: Path) -> dict[str, Any]:
    """Numbers of a fit, for JSON."""
    summary: ModelSummary = learned.model.summary()
    certificate = summary.certificate
    assert certificate is not None
    return {
        "file": str(out),
        "rows": learned.rows,
        "dropped": learned.dropped,
        "tasks": summary.n_tasks,
        "features": summary.n_features,
        "used_features": summary.n_selected,
        **{one.name: one.value for one in summary.strengths},
        "searched": [one.name for one in summary.strengths if one.candidates > 1],
        "folds": getattr(learned.model, "n_splits_", None),
        "scores": _scores(learned.model, summary.cv_score),
        "objective": certificate.objective,
        "gap": certificate.gap,
        "relative_gap": certificate.relative,
        "strongest": [_effect(one) for one in summary.features[:MOST_FEATURES]],
    }


def tell(facts: Mapping[str, Any]) -> Iterator[str]:
    """Same numbers as lines for people."""
    tasks, features = count(facts["tasks"], "task"), count(facts["features"], "feature")
    yield f"{_rows(facts)}{tasks}, {features}."
    yield _words_on_strengths(facts)
    if facts["scores"]:
        words = [f"{name} {value:.4g}" for name, value in facts["scores"].items()]
        yield f"On held-out rows: {', '.join(words)}."
    share = max(facts["relative_gap"], 0.0)
    yield (
        f"Certified: the objective exceeds its optimum by at most {share:.1g} of "
        "itself."
    )
    verb = "is" if facts["used_features"] == 1 else "are"
    used = f"{facts['used_features']} of {features} {verb} used"
    if not facts["strongest"]:
        yield f"{used}."
        return
    yield f"{used}; effects of one standard deviation, mean and range over tasks:"
    yield from _lines_of_effects(facts["strongest"])


def _lines_of_effects(strongest: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """One line per feature, in columns."""
    cells = [
        (one["feature"], *(f"{one[name]:+.3g}" for name in EFFECTS))
        for one in strongest
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for name, *numbers in cells:
        padded = [text.rjust(w) for text, w in zip(numbers, widths[1:], strict=True)]
        mean, lowest, highest = padded
        yield f"  {name.ljust(widths[0])}  {mean}  ({lowest} … {highest})"


def _rows(facts: Mapping[str, Any]) -> str:
    if facts["rows"] is None:
        return "Statistics of "
    dropped = facts["dropped"]
    left_out = f" ({dropped} dropped for missing values)" if dropped else ""
    return f"{count(facts['rows'], 'row')}{left_out}, "


def _words_on_strengths(facts: Mapping[str, Any]) -> str:
    values = ", ".join(f"{name} {facts[name]:.4g}" for name in STRENGTHS)
    if not facts["searched"]:
        return f"Strengths as given: {values}."
    *some, last = facts["searched"]
    found = f"{', '.join(some)} and {last}" if some else last
    return f"Strengths: {values}; {found} chosen on {facts['folds']} held-out parts."


def _scores(model: Any, score: float | None) -> dict[str, float]:
    """Cross-validated scores under their usual names."""
    if score is None or not isfinite(score):  # no held-out part shows both classes
        return {}
    if isinstance(model, ClassificationTasks):
        return {"AUC": score}
    error = max(0.0, -score)
    spread = _variance(model.statistics_)
    scores = {"mean squared error": error}
    return scores | ({"R²": 1.0 - error / spread} if spread > 0 else {})


def _variance(statistics: TaskStatistics) -> float:
    """Variance of the targets of all tasks together."""
    weight = statistics.weight
    total = weight.sum()
    mean = weight @ statistics.y_mean / total
    between = weight @ (statistics.y_mean - mean) ** 2
    variance = float((statistics.yy.sum() + between) / total)
    # Targets that are all equal differ from their mean by rounding.
    return variance if variance > (ROUNDING * mean) ** 2 else 0.0


def _effect(feature: FeatureSummary) -> dict[str, Any]:
    """Change of the target by one standard deviation of a feature, over tasks."""
    ends = (feature.mean, feature.least, feature.most)
    effects = [feature.scale * value for value in ends]
    return {"feature": feature.name} | dict(zip(EFFECTS, effects, strict=True))
