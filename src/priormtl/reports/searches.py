"""What a search by cross-validation found: its scores, and what priors added."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student

from priormtl._arrays import Array
from priormtl.reports.content import Column, Table

__all__ = ["Paired", "Search", "compare_without", "read_search", "search_table"]

LEVEL = 0.95
STRENGTHS = ("lam", "theta", "epsilon", "outlier_strength")


@dataclass(frozen=True, eq=False)
class Search:
    """Scores of all candidates on all splits."""

    metric: str
    is_error: bool  # smaller is better; then ``scores`` are errors
    strengths: Mapping[str, Array]  # of each candidate
    scores: Array  # (candidates, splits)
    best: int

    @property
    def means(self) -> Array:
        """Mean over the splits in which a score exists."""
        known = ~np.isnan(self.scores)
        total = np.where(known, self.scores, 0.0).sum(axis=1)
        number = known.sum(axis=1)
        return np.where(number > 0, total / np.maximum(number, 1), np.nan)

    @property
    def standard_error(self) -> float:
        """Of the chosen candidate's mean; NaN for fewer than two splits."""
        known = self.scores[self.best][~np.isnan(self.scores[self.best])]
        if len(known) < 2:
            return float("nan")
        return float(known.std(ddof=1) / np.sqrt(len(known)))


@dataclass(frozen=True)
class Paired:
    """How much better a search is with a prior than without, split by split."""

    without: float  # best mean score without the prior
    chosen: float
    gain: float  # positive: better with the prior
    low: float
    high: float
    n_splits: int

    @property
    def verdict(self) -> str:
        """What the interval allows to say."""
        # The search also tried without, so its best cannot be worse.
        return "helped" if self.low > 0 else "no clear difference"


def read_search(model: Any) -> Search | None:
    """Search of a model that has made one."""
    results = getattr(model, "cv_results_", None)
    if results is None:
        return None
    n = int(model.n_splits_)
    metric, is_error = _name_metric(model)
    sign = -1.0 if is_error else 1.0
    splits = [np.asarray(results[f"split{k}_test_score"]) for k in range(n)]
    present = [name for name in STRENGTHS if f"param_{name}" in results]
    strengths = {
        name: np.ma.filled(results[f"param_{name}"].astype(float), np.nan)
        for name in present
    }
    scores = sign * np.stack(splits, axis=1)
    return Search(metric, is_error, strengths, scores, int(model.best_index_))


def search_table(search: Search) -> Table:
    """One row per candidate, best first."""
    means = search.means
    rank = means if search.is_error else -means
    columns = [
        Column(name, name.replace("_", " "), values)
        for name, values in search.strengths.items()
    ]
    columns.append(Column("score", search.metric.capitalize(), means))
    columns.append(Column("sd", "Deviation over splits", _spread(search.scores)))
    chosen = tuple("yes" if i == search.best else "" for i in range(len(means)))
    columns.append(Column("chosen", "Chosen", chosen))
    note = "Mean over held-out rows of every candidate that was tried."
    table = Table("search", "Strengths tried", tuple(columns), note)
    return table.take(np.argsort(rank, kind="stable"))


def compare_without(search: Search, strength: str) -> Paired | None:
    """Best candidate against the best without a prior; None if none was without."""
    values = search.strengths.get(strength)
    if values is None or not np.any(values == 0) or search.scores.shape[1] < 2:
        return None
    goodness = -search.means if search.is_error else search.means
    goodness = np.where(np.isnan(goodness), -np.inf, goodness)
    without = int(np.argmax(np.where(values == 0, goodness, -np.inf)))
    best = int(np.argmax(goodness))
    sign = -1.0 if search.is_error else 1.0
    gains = sign * (search.scores[best] - search.scores[without])
    gains = gains[~np.isnan(gains)]
    if len(gains) < 2:
        return None
    half = _half_width(gains)
    gain = float(gains.mean())
    means = search.means
    pair = float(means[without]), float(means[best])
    return Paired(*pair, gain, gain - half, gain + half, len(gains))


def _half_width(values: Array) -> float:
    """Of Student's interval for the mean."""
    n = len(values)
    quantile = student.ppf(0.5 + LEVEL / 2, n - 1)
    return float(quantile * values.std(ddof=1) / np.sqrt(n))


def _name_metric(model: Any) -> tuple[str, bool]:
    """Name of the score in words, and whether it was negated."""
    scoring = getattr(model, "scoring", None)
    if scoring is None:
        classifies = hasattr(model, "classes_")
        return ("AUC", False) if classifies else ("mean squared error", True)
    name = scoring if isinstance(scoring, str) else "score"
    if name.startswith("neg_"):
        return name.removeprefix("neg_").replace("_", " "), True
    return name.replace("_", " "), False


def _spread(scores: Array) -> Array:
    known = ~np.isnan(scores)
    number = np.maximum(known.sum(axis=1), 1)
    filled = np.where(known, scores, 0.0)
    mean = filled.sum(axis=1) / number
    squares = np.where(known, (scores - mean[:, np.newaxis]) ** 2, 0.0)
    return np.where(known.any(axis=1), np.sqrt(squares.sum(axis=1) / number), np.nan)
