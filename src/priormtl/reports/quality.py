"""How good a model is: held-out score first, then the score on rows."""

import math
from dataclasses import replace
from numbers import Integral

import numpy as np

from priormtl.reports.content import Finding, Number
from priormtl.reports.fits import FITTED, Fits
from priormtl.reports.learned import Learned
from priormtl.reports.searches import Search
from priormtl.reports.wording import percent, spell
from priormtl.tables import count_words

__all__ = ["answer_quality"]

QUESTION = "How good is it?"


def answer_quality(
    learned: Learned, search: Search | None, fits: Fits | None
) -> Finding:
    """Answer from rows given, else from held-out rows, else from rows of the fit."""
    if search is not None:
        found = _answer_search(learned, search)
        return found if fits is None else _add_fits(found, fits)
    if fits is not None:
        words, note = _say_fits(fits), _warn(fits)
        return Finding(
            "quality", QUESTION, _head(fits), words, note, _fit_numbers(fits)
        )
    return Finding(
        "quality",
        QUESTION,
        "Not measured",
        "The model keeps no data and none were given.",
        "Give rows with known targets, best such that the model has not seen.",
        {},
    )


def _head(fits: Fits) -> str:
    if math.isnan(fits.whole):
        return f"{fits.metric} {spell(_median(fits), 3)} in the median task"
    return f"{fits.metric} {spell(fits.whole, 3)}"


def _add_fits(found: Finding, fits: Fits) -> Finding:
    """Say both; rows that were given come first, for nothing was chosen on them."""
    numbers = {**(found.numbers or {}), **_fit_numbers(fits)}
    first, second = found.sentence, _say_fits(fits)
    if fits.where == FITTED:
        return replace(found, sentence=f"{first} {second}", numbers=numbers)
    value = f"{_head(fits)} on the rows given"
    note = f"{_warn(fits)} {found.note}"
    words = f"{second} {first}"
    return replace(found, value=value, sentence=words, note=note, numbers=numbers)


def _answer_search(learned: Learned, search: Search) -> Finding:
    mean = float(search.means[search.best])
    value, sentence = f"{search.metric} {spell(mean, 3)}", _say_search(search, mean)
    numbers = _search_numbers(search, mean)
    share, less = _held_out_share(learned, search, mean), None
    if share is None:
        less = _share_below_intercepts(learned, search, mean)
    if share is not None:
        numbers["held_out_variance_explained"] = share
        value = f"{percent(share)} explained"
        sentence += f" That is {percent(share)} of the targets' variance explained."
    if less is not None:
        numbers["below_intercepts"] = less
        value = f"{percent(less)} less error"
        sentence += f" That is {percent(less)} less than without any feature."
    tried = count_words(len(search.scores), "candidate")
    note = f"The held-out score is the best of {tried} and so a little too good."
    return Finding("quality", QUESTION, _capital(value), sentence, note, numbers)


def _say_search(search: Search, mean: float) -> str:
    error = search.standard_error
    spread = "" if math.isnan(error) else f" ± {spell(error, 2)}"
    splits = count_words(search.scores.shape[1], "split")
    return (
        f"Cross-validated {search.metric} {spell(mean)}{spread} (standard error over "
        f"{splits})."
    )


def _search_numbers(search: Search, mean: float) -> dict[str, Number]:
    return {
        "metric": search.metric,
        "cross_validated": mean,
        "standard_error": search.standard_error,
        "splits": search.scores.shape[1],
        "candidates": len(search.scores),
    }


def _held_out_share(learned: Learned, search: Search, mean: float) -> float | None:
    """Variance explained on held-out rows, where the targets' variance is known."""
    statistics = learned.statistics
    if statistics is None or learned.is_classifier:
        return None
    if search.metric != "mean squared error":
        return None
    weight = statistics.weight
    centre = weight @ statistics.y_mean / weight.sum()
    total = statistics.yy.sum() + weight @ (statistics.y_mean - centre) ** 2
    variance = float(total / weight.sum())
    return 1.0 - mean / variance if variance > 0 else None


def _share_below_intercepts(
    learned: Learned, search: Search, mean: float
) -> float | None:
    """How much smaller the error is than at lam_max, where coefficients vanish."""
    lams = getattr(learned.model, "lams", ())
    by_default = lams is None or isinstance(lams, Integral)
    if not by_default or search.metric != "mean squared error":
        return None
    largest = search.strengths["lam"] == search.strengths["lam"].max()
    error = float(search.means[largest].min())
    return 1.0 - mean / error if error > 0 else None


def _say_fits(fits: Fits) -> str:
    overall = "on average over tasks" if fits.metric == "AUC" else "over all tasks"
    known = fits.scores[~np.isnan(fits.scores)]
    parts = []
    if not math.isnan(fits.whole):
        parts.append(f"{spell(fits.whole)} {overall}")
    if len(known) > 1:
        low, high = spell(known.min(), 3), spell(known.max(), 3)
        parts.append(f"from {low} to {high} within single tasks")
    said = ", and ".join(parts) or "not defined"
    return f"On {fits.where}, {fits.metric} is {said}."


def _median(fits: Fits) -> float:
    known = fits.scores[~np.isnan(fits.scores)]
    return float(np.median(known)) if known.size else float("nan")


def _warn(fits: Fits) -> str:
    if fits.where == FITTED:
        return "Scores on rows of the fit are too good; new rows would tell more."
    return "If the model was fitted to these rows, the scores are too good."


def _fit_numbers(fits: Fits) -> dict[str, Number]:
    return {
        "rows": float(fits.rows.sum()),
        "rows_metric": fits.metric,
        "rows_score": fits.whole,
    }


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
