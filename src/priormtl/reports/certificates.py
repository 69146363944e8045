"""Is it solved? The certificate of a fit in words."""

import math
from typing import Any

from priormtl.reports.content import Finding
from priormtl.reports.wording import spell
from priormtl.tables import count_words

__all__ = ["answer_certificate"]

QUESTION = "Is it solved?"
LOOSE = 1e-2  # relative gap from which coefficients should not be trusted


def answer_certificate(model: Any) -> Finding:
    """How far the optimum can be below the objective reached."""
    gap = getattr(model, "dual_gap_", None)
    objective = getattr(model, "objective_", None)
    if gap is None or objective is None:
        name = type(model).__name__
        sentence = f"{name} gives no bound on how far it is from the optimum."
        return Finding("certificate", QUESTION, "No certificate", sentence, "", {})
    relative = _relative(float(gap), float(objective))
    steps = int(model.n_iter_)
    numbers = {
        "objective": float(objective),
        "dual_gap": float(gap),
        "relative_gap": relative,
        "iterations": steps,
    }
    sentence = (
        f"The objective is {spell(objective, 6)}, and no coefficients can bring it "
        f"more than {spell(gap, 2)} lower. It took {count_words(steps, 'iteration')}."
    )
    value = _spell_accuracy(relative)
    return Finding("certificate", QUESTION, value, sentence, _note(relative), numbers)


def _relative(gap: float, objective: float) -> float | None:
    if objective:
        return max(gap, 0.0) / abs(objective)
    return 0.0 if gap <= 0 else None


def _spell_accuracy(relative: float | None) -> str:
    """How many digits of the objective are proven."""
    if relative is None or relative >= LOOSE:
        return "Not quite"
    # Doubles have no more than 15 digits to prove.
    digits = 15 if relative < 1e-15 else math.floor(-math.log10(relative))
    return f"Yes, to {digits} digits"


def _note(relative: float | None) -> str:
    if relative is not None and relative < LOOSE:
        return "The duality gap proves this; it does not depend on the method."
    return "This gap is large: raise max_iter, or rescale the features, and fit again."
