"""Do all tasks belong? Outliers that the model found, or the farthest tasks."""

import numpy as np

from priormtl._arrays import Index
from priormtl.reports.content import Finding, Number
from priormtl.reports.learned import Learned, row_norms
from priormtl.reports.wording import join_names, spell, spell_label
from priormtl.tables import count_words

__all__ = ["answer_outliers", "far_tasks"]

QUESTION = "Do all tasks belong?"
FEWEST = 4  # tasks, below which none can be told from the others
FAR = 5.0  # deviations from the usual distance
TIMES = 2.0  # the usual distance, too: with few tasks deviations mean little


def answer_outliers(learned: Learned) -> Finding:
    """Tasks that the model set apart, else those that lie far from the others."""
    found = getattr(learned.model, "outlier_tasks_", None)
    if found is not None:
        return _answer_found(learned, [spell_label(label) for label in list(found)])
    m = len(learned.tasks)
    if m < FEWEST:
        sentence = (
            f"With {count_words(m, 'task')} there is nothing to compare them with."
        )
        return Finding("outliers", QUESTION, "Too few tasks", sentence, "", {"far": ""})
    return _answer_far(learned)


def far_tasks(learned: Learned) -> Index:
    """Tasks much farther from the median task than is usual, farthest first."""
    distances = learned.distances
    usual = np.median(distances)
    # The factor makes the deviation comparable to that of a normal distribution.
    deviation = 1.4826 * np.median(np.abs(distances - usual))
    least = max(usual + FAR * deviation, TIMES * usual)
    far = np.flatnonzero(distances > least)
    return far[np.argsort(-distances[far], kind="stable")]


def _answer_found(learned: Learned, names: list[str]) -> Finding:
    strength = getattr(learned.model, "outlier_strength_", None)
    numbers: dict[str, Number] = {
        "found": ", ".join(names),
        "count": len(names),
        "strength": None if strength is None else float(strength),
    }
    if not names:
        sentence = "The model looked for tasks that do not belong and found none."
        return Finding("outliers", QUESTION, "All belong", sentence, "", numbers)
    verb, whose = ("does", "its") if len(names) == 1 else ("do", "their")
    sentence = (
        f"{_join_tasks(names, 6)} {verb} not follow the shared coefficients and got "
        f"coefficients of {whose} own."
    )
    own = getattr(learned.model, "own_coef_", None)
    if own is not None and len(names) > 1:
        largest = learned.tasks[int(np.argmax(row_norms(np.asarray(own, float))))]
        sentence += f" {_join_tasks([largest])} differs most."
    value = f"{len(names):,} of {count_words(len(learned.tasks), 'task')}"
    return Finding("outliers", QUESTION, value, sentence, "", numbers)


def _answer_far(learned: Learned) -> Finding:
    far = far_tasks(learned)
    distances = learned.distances
    names = [learned.tasks[i] for i in far]
    note = (
        "Measured by the distance of a task's coefficients from the median task's; "
        "no model of outliers was fitted (outlier_tasks=True does that)."
    )
    numbers: dict[str, Number] = {"far": ", ".join(names), "count": len(names)}
    if not names:
        sentence = "No task's coefficients lie much farther from the others than usual."
        return Finding("outliers", QUESTION, "None stands out", sentence, note, numbers)
    usual = float(np.median(distances))
    times = f"at {spell(distances[far[0]] / usual, 2)} times" if usual else "far beyond"
    first = _join_tasks(names[:1])
    sentence = f"{first} lies {times} the usual distance from the other tasks."
    if len(names) > 1:
        verb = "lies" if len(names) == 2 else "lie"
        sentence += f" {_join_tasks(names[1:], 4)} {verb} far off, too."
    value = f"{count_words(len(names), 'task')} far off"
    return Finding("outliers", QUESTION, value, sentence, note, numbers)


def _join_tasks(names: list[str], most: int = 3) -> str:
    """Names of tasks at the start of a sentence; bare numbers say what they are."""
    if not all(name.lstrip("-").isdigit() for name in names):
        return join_names(names, most)
    return f"Task{'' if len(names) == 1 else 's'} {join_names(names, most)}"
