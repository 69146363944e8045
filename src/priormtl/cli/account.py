"""What a fitted model says of itself: as plain values, and as lines."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from priormtl._arrays import Array
from priormtl.cli.fitting import Learned
from priormtl.data import TaskStatistics
from priormtl.estimators import ClassificationTasks

__all__ = ["describe", "tell"]

MOST_FEATURES = 8
STRENGTHS = ("lam", "theta", "epsilon")
EFFECTS = ("mean", "lowest", "highest")


def describe(learned: Learned, out: Path) -> dict[str, Any]:
    """Numbers of a fit, for JSON."""
    model = learned.model
    m, d = model.coef_.shape
    effects = model.coef_ * model.feature_scale_
    return {
        "file": str(out),
        "rows": learned.rows,
        "dropped": learned.dropped,
        "tasks": m,
        "features": d,
        "used_features": int(np.count_nonzero(np.any(effects != 0, axis=0))),
        **{name: _strength(model, name) for name in STRENGTHS},
        "searched": _searched(model),
        "folds": getattr(model, "n_splits_", None),
        "scores": _scores(model),
        "objective": model.objective_,
        "gap": model.dual_gap_,
        "strongest": _strongest(model, effects),
    }


def tell(facts: Mapping[str, Any]) -> Iterator[str]:
    """Same numbers as lines for people."""
    yield f"{_rows(facts)}{facts['tasks']} tasks, {facts['features']} features."
    yield _words_on_strengths(facts)
    if facts["scores"]:
        words = [f"{name} {value:.4g}" for name, value in facts["scores"].items()]
        yield f"On held-out rows: {', '.join(words)}."
    share = facts["gap"] / abs(facts["objective"]) if facts["objective"] else 0.0
    yield (
        f"Certified: the objective exceeds its optimum by at most {max(share, 0):.1g} "
        "of itself."
    )
    used = f"{facts['used_features']} of {facts['features']} features are used"
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
    return f"{facts['rows']} rows{left_out}, "


def _words_on_strengths(facts: Mapping[str, Any]) -> str:
    values = ", ".join(f"{name} {facts[name]:.4g}" for name in STRENGTHS)
    if not facts["searched"]:
        return f"Strengths as given: {values}."
    *some, last = facts["searched"]
    found = f"{', '.join(some)} and {last}" if some else last
    return f"Strengths: {values}; {found} chosen on {facts['folds']} held-out parts."


def _strength(model: Any, name: str) -> float:
    return float(getattr(model, f"{name}_" if hasattr(model, f"{name}_") else name))


def _searched(model: Any) -> list[str]:
    """Strengths of which several were tried."""
    if not hasattr(model, "cv_results_"):
        return []
    tried = {name: model.cv_results_[f"param_{name}"] for name in STRENGTHS}
    return [name for name, values in tried.items() if len(np.unique(values)) > 1]


def _scores(model: Any) -> dict[str, float]:
    """Cross-validated scores under their usual names."""
    if not hasattr(model, "best_score_"):
        return {}
    if not np.isfinite(model.best_score_):  # no held-out part shows both classes
        return {}
    if isinstance(model, ClassificationTasks):
        return {"AUC": model.best_score_}
    error = -model.best_score_
    spread = _variance(model.statistics_)
    scores = {"mean squared error": error}
    return scores | ({"R²": 1.0 - error / spread} if spread > 0 else {})


def _variance(statistics: TaskStatistics) -> float:
    """Variance of the targets of all tasks together."""
    weight = statistics.weight
    total = weight.sum()
    mean = weight @ statistics.y_mean / total
    between = weight @ (statistics.y_mean - mean) ** 2
    return float((statistics.yy.sum() + between) / total)


def _strongest(model: Any, effects: Array) -> list[dict[str, Any]]:
    """Features by the size of their effects, largest first."""
    size = np.linalg.norm(effects, axis=0)
    order = np.argsort(-size, kind="stable")[:MOST_FEATURES]
    names = getattr(model, "feature_names_in_", np.arange(len(size)))
    return [
        {
            "feature": str(names[j]),
            "mean": float(effects[:, j].mean()),
            "lowest": float(effects[:, j].min()),
            "highest": float(effects[:, j].max()),
        }
        for j in order
        if size[j] > 0
    ]
