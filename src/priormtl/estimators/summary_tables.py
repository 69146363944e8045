"""Tables of a summary: the fit, the selected features and the tasks; long ones cut."""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from priormtl.tables import NOTHING, Table, build_table, count_words, spell_number

if TYPE_CHECKING:
    from priormtl.estimators.summary import ModelSummary

__all__ = ["summary_tables"]

MOST_FEATURES = 20
MOST_TASKS = 20
MOST_NAMES = 8

LOSSES = {"squared": "squared error", "logistic": "logistic"}
PENALTIES = {
    "l21": "whole features enter or leave (l21)",
    "nuclear": "tasks share a subspace (nuclear)",
}
SCALES = {True: "their standard deviation", False: "nothing"}
INTERCEPTS = {"free": "one per task", "none": "none", "tied": "tied as the tasks are"}


def summary_tables(summary: "ModelSummary") -> list[Table]:
    """What was fitted, what was selected, and how the tasks fare."""
    return [_fit_table(summary), _feature_table(summary), _task_table(summary)]


def _count(weight: float) -> int | float:
    """Whole numbers are shown in full, other sums of weights to four digits."""
    return int(weight) if weight.is_integer() else weight


def _fit_table(summary: "ModelSummary") -> Table:
    counts = [
        f"{summary.weight:.10g} row{'' if summary.weight == 1 else 's'}",
        count_words(summary.n_tasks, "task"),
        count_words(summary.n_features, "feature"),
    ]
    title = f"{summary.model}: {', '.join(counts)}"
    rows = [
        ("loss", LOSSES[summary.loss]),
        ("penalty", PENALTIES.get(summary.penalty or "", NOTHING)),
        ("intercepts", INTERCEPTS.get(summary.intercepts or "", NOTHING)),
        ("features divided by", SCALES[summary.standardized]),
        *_strength_rows(summary),
        *_certificate_rows(summary),
        ("selected", f"{summary.n_selected} of {summary.n_features} features"),
        ("task prior", summary.task_prior or NOTHING),
        ("feature prior", _feature_prior_words(summary)),
    ]
    if summary.outliers is not None:
        rows.append(("outlier tasks", _names(summary.outliers)))
    return build_table(title, ("", "fit"), rows)


def _strength_rows(summary: "ModelSummary") -> list[tuple[str, str]]:
    rows = [(one.name, spell_number(one.value)) for one in summary.strengths]
    rows.append(("strengths", summary.chosen_by))
    if summary.cv_score is not None:
        score = f"{spell_number(summary.cv_score)} ({summary.scoring})"
        rows.append(("mean score", score))
    return rows


def _certificate_rows(summary: "ModelSummary") -> list[tuple[str, str]]:
    one = summary.certificate
    if one is None:
        return []
    gap = f"{spell_number(one.gap)}, {spell_number(one.relative)} of the objective"
    return [
        ("objective", spell_number(one.objective)),
        ("above the optimum by at most", gap),
        ("steps", str(one.n_iter)),
    ]


def _feature_prior_words(summary: "ModelSummary") -> str:
    prior = summary.feature_prior
    if prior is None:
        return "none"
    return (
        f"{count_words(prior.n_relations, 'relation')}, violated by "
        f"{spell_number(prior.violation)}, {100 * prior.share:.2g} % of the objective"
    )


def _feature_table(summary: "ModelSummary") -> Table:
    rows = [(f.name, f.mean, f.least, f.most, f.norm) for f in summary.features]
    return build_table(
        "Selected features, coefficients over tasks",
        ("feature", "mean", "min", "max", "norm"),
        rows,
        most=MOST_FEATURES,
        what="features",
    )


def _task_table(summary: "ModelSummary") -> Table:
    marked = bool(summary.outliers)
    heads = ("task", "rows", "R²", "intercept", "norm", *["outlier"] * marked)
    rows = [
        (
            str(one.task),
            _count(one.weight),
            one.r2,
            one.intercept,
            one.norm,
            *["yes" if one.is_outlier else ""] * marked,
        )
        for one in summary.tasks
    ]
    title = "Tasks, R² on the training rows"
    if all(one.r2 is None for one in summary.tasks):
        title, heads = "Tasks", (*heads[:2], *heads[3:])
        rows = [(*row[:2], *row[3:]) for row in rows]
    return build_table(title, heads, rows, most=MOST_TASKS, what="tasks")


def _names(labels: Sequence[Hashable]) -> str:
    shown = ", ".join(str(label) for label in labels[:MOST_NAMES])
    more = f", … ({len(labels)} in all)" if len(labels) > MOST_NAMES else ""
    return shown + more or "none"
