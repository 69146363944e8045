"""What was fitted: a model's settings in words."""

from typing import Any

from priormtl.reports.learned import Learned
from priormtl.reports.wording import spell, spell_label

__all__ = ["list_facts"]

PENALTIES = {
    "l21": "whole features enter or leave (ℓ2,1)",
    "nuclear": "tasks share a subspace (nuclear norm)",
}
STRENGTHS = ("lam", "theta", "epsilon")


def list_facts(learned: Learned) -> tuple[tuple[str, str], ...]:
    """Pairs of a label and a text, the most telling first."""
    model = learned.model
    facts = [
        ("Model", type(model).__name__),
        ("Tasks", f"{len(learned.tasks):,}"),
        ("Features", f"{len(learned.features):,}"),
    ]
    facts += [(name, _strength(model, name)) for name in _strengths(model)]
    if getattr(model, "outlier_strength_", None) is not None:
        facts.append(("Outlier strength", spell(float(model.outlier_strength_))))
    if hasattr(model, "penalty"):
        facts.append(("Penalty", PENALTIES.get(model.penalty, str(model.penalty))))
    if hasattr(model, "feature_prior_"):
        prior = model.feature_prior_
        facts.append(("Prior on features", _spell_prior(prior)))
    if hasattr(model, "task_prior"):
        facts.append(("Ties between tasks", _spell_prior(model.task_prior)))
    if learned.is_classifier and hasattr(model, "loss"):
        facts.append(("Loss", str(model.loss)))
    if hasattr(model, "standardize"):
        facts.append(("Standardised", "yes" if model.standardize else "no"))
    return tuple(facts)


def _strengths(model: Any) -> list[str]:
    return [n for n in STRENGTHS if hasattr(model, f"{n}_") or hasattr(model, n)]


def _strength(model: Any, name: str) -> str:
    if hasattr(model, f"{name}_"):
        return f"{spell(getattr(model, f'{name}_'))} (chosen)"
    return spell(float(getattr(model, name)))


def _spell_prior(prior: Any) -> str:
    return "none" if prior is None else spell_label(getattr(prior, "words", prior))
