"""Which features matter: a ranked table, and the answer in words."""

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.reports.content import Column, Finding, Number, Table
from priormtl.reports.learned import Learned
from priormtl.reports.wording import join_names, percent
from priormtl.tables import count_words

__all__ = ["answer_features", "feature_table", "rank_features"]

TOP = 5  # features that a sentence names


def rank_features(learned: Learned) -> Index:
    """Features by size, largest first; equal ones stay in order."""
    return np.argsort(-learned.sizes, kind="stable")


def feature_table(learned: Learned) -> Table:
    """One row per feature, largest first."""
    coef = learned.coef
    columns = [Column("feature", "Feature", learned.features)]
    if learned.scale is not None:
        columns.append(Column("size", "Size", learned.sizes))
    columns += [
        Column("norm", "Norm", learned.norms),
        Column("mean", "Mean", _means(coef)),
        Column("min", "Least", coef.min(axis=0)),
        Column("max", "Largest", coef.max(axis=0)),
        Column("same_sign", "Same sign", sign_agreement(coef)),
        Column("tasks", "Tasks", np.count_nonzero(coef, axis=0).astype(np.float64)),
    ]
    table = Table("features", "Features", tuple(columns), _note(learned))
    return table.take(rank_features(learned))


def answer_features(learned: Learned) -> Finding:
    """How many features are in use, and the foremost by name."""
    d = len(learned.features)
    used = int(np.count_nonzero(learned.norms))
    order = rank_features(learned)[: min(used, TOP)]
    names = [learned.features[j] for j in order]
    numbers: dict[str, Number] = {
        "features": d,
        "selected": used,
        "top": ", ".join(names),
    }
    question = "Which features matter?"
    if not used:
        sentence = "Every coefficient is zero: the model predicts intercepts alone."
        return Finding("features", question, "None", sentence, "", numbers)
    agreement = sign_agreement(learned.coef)[order[0]]
    lead = f"“{names[0]}” weighs most"
    others = f", then {join_names(names[1:], TOP)}" if names[1:] else ""
    sentence = f"{lead}{others}."
    if len(learned.tasks) > 1:
        share = "all" if agreement == 1 else percent(float(agreement))
        sentence += f" “{names[0]}” has the same sign in {share} of its tasks."
    value = f"{used:,} of {count_words(d, 'feature')}"
    return Finding("features", question, value, sentence, _note(learned), numbers)


def sign_agreement(coef: Array) -> Array:
    """Share of the tasks that use a feature with its commoner sign; NaN for none."""
    up, down = (coef > 0).sum(axis=0), (coef < 0).sum(axis=0)
    used = up + down
    return np.where(used > 0, np.maximum(up, down) / np.maximum(used, 1), np.nan)


def _means(coef: Array) -> Array:
    """Means over tasks; sums of huge numbers would overflow."""
    return np.sum(coef / len(coef), axis=0)


def _note(learned: Learned) -> str:
    if learned.scale is None:
        return (
            "Ranked by the norm of a feature's coefficients over all tasks, in the "
            "units of the data: features of different units do not compare."
        )
    return (
        "Ranked by size: the norm of a feature's coefficients over all tasks, times "
        "the feature's standard deviation, so that units do not matter."
    )
