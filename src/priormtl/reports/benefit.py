"""Did the prior help? From an audit, or from the scores of a search."""

from typing import Any

from priormtl.reports.content import Finding
from priormtl.reports.learned import Learned
from priormtl.reports.searches import Paired, Search, compare_without
from priormtl.reports.wording import spell
from priormtl.tables import count_words

__all__ = ["answer_benefit"]

QUESTION = "Did the prior help?"
ASK = "audit_prior(model, X, y, …) measures it."
WORDS = {"feature": "prior on features", "task": "ties between tasks"}
STRENGTHS = {"feature": "theta", "task": "epsilon"}


def answer_benefit(learned: Learned, search: Search | None, audit: Any) -> Finding:
    """What an audit found, else what the search's own scores tell."""
    helped = getattr(audit, "helped_tuned", None) or getattr(audit, "helped", None)
    if helped is not None:
        return _from_audit(helped, audit)
    kinds = [kind for kind in WORDS if _has_prior(learned.model, kind)]
    if not kinds:
        return _finding("No prior", "The model was fitted without priors.")
    pairs = {} if search is None else _pairs(search, kinds)
    if pairs:
        assert search is not None
        return _from_search(search, pairs)
    reason = getattr(audit, "reason", None)
    if reason:
        return _finding("Not measured", str(reason))
    return _finding("Not measured", _say_why(search, kinds), ASK)


def _from_audit(helped: Any, audit: Any) -> Finding:
    disagreeing = len(getattr(audit, "disagreeing", ()))
    numbers = {
        name: getattr(helped, name, None)
        for name in ("metric", "change", "low", "high", "level", "p_value", "verdict")
    }
    sentence = str(helped.sentence)
    if disagreeing:
        verb = "s" if disagreeing == 1 else ""
        sentence += (
            f" {count_words(disagreeing, 'relation')} disagree{verb} with the data."
        )
    value = str(helped.verdict).capitalize()
    note = str(getattr(helped, "method", ""))
    return _finding(value, sentence, note, {"source": "audit", **numbers})


def _pairs(search: Search, kinds: list[str]) -> dict[str, Paired]:
    found = {kind: compare_without(search, STRENGTHS[kind]) for kind in kinds}
    return {kind: pair for kind, pair in found.items() if pair is not None}


def _from_search(search: Search, pairs: dict[str, Paired]) -> Finding:
    sentences = [_say_pair(search, kind, pair) for kind, pair in pairs.items()]
    numbers: dict[str, Any] = {"source": "search", "metric": search.metric}
    for kind, pair in pairs.items():
        name = STRENGTHS[kind]
        numbers[f"{name}_gain"], numbers[f"{name}_verdict"] = pair.gain, pair.verdict
        numbers[f"{name}_low"], numbers[f"{name}_high"] = pair.low, pair.high
    note = (
        "These are the search's own scores, best against best, so chance favours the "
        f"prior; {ASK}"
    )
    return _finding(_sum_up(pairs), " ".join(sentences), note, numbers)


def _say_pair(search: Search, kind: str, pair: Paired) -> str:
    if pair.low == pair.high == 0:
        name = STRENGTHS[kind]
        return f"{WORDS[kind].capitalize()}: the best candidate has {name} = 0."
    return (
        f"{WORDS[kind].capitalize()}: {search.metric} {spell(pair.chosen)} against "
        f"{spell(pair.without)} without, better by {spell(pair.gain, 2)} (95 % "
        f"interval {spell(pair.low, 2)} to {spell(pair.high, 2)}, "
        f"{count_words(pair.n_splits, 'split')})."
    )


def _sum_up(pairs: dict[str, Paired]) -> str:
    """Who helped, in a few words."""
    helped = [kind for kind, pair in pairs.items() if pair.verdict == "helped"]
    if len(helped) == len(pairs):
        return "Helped"
    if helped:
        return f"{WORDS[helped[0]].capitalize()} helped"
    return "No clear difference"


def _has_prior(model: Any, kind: str) -> bool:
    if kind == "feature":
        return getattr(model, "feature_prior_", None) is not None
    return getattr(model, "task_prior", None) is not None and len(model.tasks_) > 1


def _say_why(search: Search | None, kinds: list[str]) -> str:
    if search is None:
        return "A single fit does not tell what it would have been without the prior."
    names = " or ".join(f"{STRENGTHS[kind]} = 0" for kind in kinds)
    return f"The search did not try {names}, so there is nothing to compare with."


def _finding(value: str, sentence: str, note: str = "", numbers: Any = None) -> Finding:
    return Finding("prior", QUESTION, value, sentence, note, numbers or {})
