"""The five questions of a report and their answers.

How good is the model, which features matter, did the prior help, are there outlier
tasks, and did the fit converge? Every answer says in its note what limits it.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral

import numpy as np

from priormtl.audits import PRIORS, PriorAudit, PriorBenefit, benefit_of_search
from priormtl.estimators import SearchSummary, rank_effects
from priormtl.estimators.summary import spell_means
from priormtl.rendering import count_words, join_words
from priormtl.reports.content import (
    Finding,
    Number,
    percent,
    spell,
    spell_label,
)
from priormtl.reports.model import (
    TRAINING_ROWS,
    Contrast,
    FittedModel,
    Scores,
    row_norms,
)
from priormtl.reports.tables import feature_note, sign_agreement

FAR = 1.96  # standard errors from zero that stand out


def _find(
    key: str,
    value: str,
    sentence: str,
    note: str = "",
    numbers: Mapping[str, Number] | None = None,
    question: str | None = None,
) -> Finding:
    """Answer to one of the questions, unless another one is given."""
    questions = {
        "quality": "How good is it?",
        "features": "Which features matter?",
        "levels": "Which levels stand out?",
        "prior": "Did the prior help?",
        "outliers": "Are there outlier tasks?",
        "certificate": "Did the fit converge?",
    }
    asked = question or questions[key]
    return Finding(key, asked, value, sentence, note, numbers or {})


# How good is it?


def answer_quality(fitted: FittedModel, scores: Scores | None) -> Finding:
    """Answer from given rows, else from held-out rows, else from training rows."""
    search = fitted.summary.search
    if search is None and scores is None:
        return _find(
            "quality",
            "Not measured",
            "The model does not keep its training data, and no data were given.",
            "Give rows with known targets, preferably rows that were not used to fit.",
            {},
        )
    if search is None:
        assert scores is not None
        head, said, warning, numbers = _describe_scores(scores)
        return _find("quality", head, said, warning, numbers)
    found = _answer_search(fitted, search)
    if scores is None:
        return found
    head, said, warning, numbers = _describe_scores(scores)
    numbers = {**(found.numbers or {}), **numbers}
    if scores.where == TRAINING_ROWS:
        return replace(found, sentence=f"{found.sentence} {said}", numbers=numbers)
    # Given rows come first, since nothing was chosen on them.
    return replace(
        found,
        value=f"{head} on {scores.where}",
        sentence=f"{said} {found.sentence}",
        note=f"{warning} {found.note}",
        numbers=numbers,
    )


def _answer_search(fitted: FittedModel, search: SearchSummary) -> Finding:
    mean, error = float(search.means[search.best]), search.standard_error
    candidates, splits = search.scores.shape
    asked = fitted.summary.intervals if fitted.summary.horizons else None
    spread = "" if math.isnan(error) else f" ± {spell(error, 2)}"
    value = f"{search.metric} {spell(mean, 3)}"
    sentence = (
        f"Cross-validated {search.metric} {spell(mean)}{spread} (standard error over "
        f"{count_words(splits, 'split')})."
    )
    if asked is not None:
        last = fitted.summary.horizons[-1]
        sentence += (
            f" Splits go forward in time, and intervals hold for {asked}: "
            f"{last.coverage:.0%} of the rows up to {spell(last.horizon, 3)} after the "
            "last one of their task lie in intervals of 90 %."
        )
    numbers: dict[str, Number] = {
        "metric": search.metric,
        "cross_validated": mean,
        "standard_error": error,
        "splits": splits,
        "candidates": candidates,
    }
    if search.metric == "mean squared error":
        variance = fitted.summary.target_variance
        lams = fitted.model.get_params().get("lams", ())
        if variance:
            share = 1.0 - mean / variance
            numbers["held_out_variance_explained"] = share
            value = f"{percent(share)} explained"
            sentence += f" This explains {percent(share)} of the targets' variance"
            if (within := fitted.learned.within_variance) and len(fitted.tasks) > 1:
                inside = 1.0 - mean / within
                numbers["held_out_within_tasks"] = inside
                sentence += f", and {percent(inside)} of that within tasks"
            sentence += "."
        elif lams is None or isinstance(lams, Integral):
            # A default grid begins at lam_max, where all coefficients are zero, except
            # beside adaptive coupling.
            begins = search.strengths["lam"].copy()
            for i, words in enumerate(search.structures):
                if "adaptive" in words:
                    begins[i] = -np.inf
            worst = float(search.means[begins == begins.max()].min())
            if worst > 0 and np.isfinite(begins.max()):
                less = 1.0 - mean / worst
                numbers["below_intercepts"] = less
                value = f"{percent(less)} less error"
                sentence += f" This is {percent(less)} less than without features."
    tried = count_words(candidates, "candidate")
    note = (
        f"The cross-validated score is the best of {tried} and therefore slightly "
        "optimistic."
    )
    value = value[:1].upper() + value[1:]
    return _find("quality", value, sentence, note, numbers)


def _describe_scores(scores: Scores) -> tuple[str, str, str, dict[str, Number]]:
    # Within a few rows targets hardly vary, and R² or AUC says nothing.
    measured = ~np.isnan(scores.by_task)
    fewest = 10  # rows of a task whose score is told
    large = measured & (scores.rows >= fewest)
    known = scores.by_task[large if np.any(large) else measured]
    parts = []
    if math.isnan(scores.overall):
        median = float(np.median(known)) if known.size else float("nan")
        head = f"{scores.metric} {spell(median, 3)} in the median task"
    else:
        mean = "on average over tasks" if scores.metric == "AUC" else "over all tasks"
        head = f"{scores.metric} {spell(scores.overall, 3)}"
        if scores.pooled is not None:
            mean += f", {spell(scores.pooled)} over all rows together,"
        parts.append(f"is {spell(scores.overall)} {mean}")
        if scores.within is not None and len(scores.rows) > 1:
            parts[-1] += f", {spell(scores.within)} within tasks,"
    if len(known) > 1:
        low, high = spell(known.min(), 3), spell(known.max(), 3)
        some = "tasks"
        if 0 < large.sum() < measured.sum():
            number = count_words(int(large.sum()), "task")
            some = f"the {number} with at least {fewest} rows"
        parts.append(f"ranges from {low} to {high} across {some}")
    said = " and ".join(parts) or "is not defined"
    warning = "If the model was fitted to these rows, the scores are optimistic."
    if scores.where == TRAINING_ROWS:
        warning = "Scores on training rows are optimistic; score new rows instead."
    numbers: dict[str, Number] = {
        "rows": scores.n_rows,
        "rows_metric": scores.metric,
        "rows_score": scores.overall,
    }
    if scores.within is not None:
        numbers["rows_within_tasks"] = scores.within
    if scores.pooled is not None:
        numbers["rows_pooled_score"] = scores.pooled
    if scores.reliability is not None:
        loss = float(scores.reliability.log_loss[0])
        if not math.isnan(loss):
            numbers["rows_log_loss"] = loss
            said += f", with log-loss {spell(loss)}"
    return head, f"On {scores.where}, {scores.metric} {said}.", warning, numbers


# Which levels stand out?


def answer_levels(fitted: FittedModel) -> Finding:
    """Name the levels of crossed factors whose effects are surely not zero."""
    summary = fitted.summary
    levels = rank_effects(summary.levels)
    names = join_words(spell_label(one.column) for one in summary.crossed)
    numbers: dict[str, Number] = {
        f"sd of {spell_label(one.column)}": one.sd for one in summary.crossed
    }
    if not levels:
        sentence = f"The levels of {names} do not differ significantly."
        return _find("levels", "None", sentence, numbers=numbers)
    far = [one for one in levels if abs(one.effect) > FAR * one.error]
    numbers |= {"levels": len(levels), "stand_out": len(far)}
    several, most = len(summary.crossed) > 1, 4
    shown = [
        f"{spell_label(one.column) + ' ' if several else ''}{spell_label(one.level)} "
        f"({spell(one.effect, 2)} ± {spell(FAR * one.error, 2)})"
        for one in far[:most]
    ]
    sizes = join_words(
        f"{spell(one.sd, 3)} for {spell_label(one.column)}" for one in summary.crossed
    )
    sentence = f"The standard deviation of effects is {sizes}."
    if shown:
        sentence += f" Furthest from zero: {join_words(shown)}."
    note = (
        f"Levels of {names} have the same effect in all tasks. A level stands out if "
        "its 95 % interval excludes zero, as for one in 20 levels without an effect."
    )
    value = f"{len(far):,} of {count_words(len(levels), 'level')}"
    return _find("levels", value, sentence, note, numbers)


# Which features matter?


def answer_features(fitted: FittedModel) -> Finding:
    """Count the features in use, and name the largest."""
    d, used = len(fitted.shown), int(np.count_nonzero(fitted.sizes[fitted.shown]))
    top = 5  # features that the sentence names
    order = fitted.ranking[: min(used, top)]
    names = [fitted.label(j) for j in order]
    numbers: dict[str, Number] = {
        "features": d,
        "selected": used,
        "top": ", ".join(names),
    }
    if not used:
        sentence = "All coefficients are zero: the model predicts its intercepts."
        return _find("features", "None", sentence, numbers=numbers)
    others = f", followed by {join_words(names[1:], top)}" if names[1:] else ""
    sentence = f"“{names[0]}” has the largest coefficients{others}."
    periodic = [j for j, group in fitted.curves.items() if j == group[0]]
    if fitted.summary.classes and order[0] not in periodic:
        name = fitted.summary.feature_names[order[0]]
        means = spell_means(fitted.summary.class_means(name))
        sentence += f" Its means over tasks: {means}."
    elif len(fitted.tasks) > 1 and order[0] not in periodic:
        agreement = float(sign_agreement(fitted.coef)[order[0]])
        share = "all" if agreement == 1 else percent(agreement)
        sentence += f" “{names[0]}” has the same sign in {share} of its tasks."
    value = f"{used:,} of {count_words(d, 'feature')}"
    note = feature_note(fitted)
    return _find("features", value, sentence, note, numbers)


# Did the prior help?


TEST_IT = "audit_prior(model, X, y, …) tests it."


def answer_benefit(
    fitted: FittedModel, audit: PriorAudit | None, contrast: Contrast | None = None
) -> Finding:
    """Report errors on given rows, else an audit, else the scores of the search."""
    if contrast is not None:
        return _answer_contrast(contrast, audit)
    if audit is not None and audit.helped is not None:
        return _answer_audit(audit.helped, len(audit.disagreeing))
    summary = fitted.summary
    # Curves that tabular_model adds by itself are no prior knowledge.
    curves = all(one.kind == "smooth" for one in summary.statements)
    stated = summary.feature_prior is not None and not (
        curves and len(summary.statements) and fitted.pipeline is not None
    )
    strengths = [
        *(["theta"] if stated else []),
        *(["epsilon"] if summary.task_prior not in (None, "none") else []),
    ]
    if summary.n_tasks == 1 and "epsilon" in strengths:
        strengths.remove("epsilon")
    if not strengths:
        words = "The model was fitted without priors."
        return _find("prior", "No prior", words)
    search = summary.search
    if search is not None:
        benefits = {name: benefit_of_search(search, name) for name in strengths}
        known = {name: one for name, one in benefits.items() if one is not None}
        if known:
            return _answer_search_benefit(known)
    if audit is not None and audit.reason:
        return _find("prior", "Not measured", audit.reason)
    reason = "A single fit does not show how good the model is without the prior."
    if search is not None:
        names = " or ".join(f"{name} = 0" for name in strengths)
        if summary.ties == "adaptive" and strengths == ["epsilon"]:
            words = (
                "No relations between features were stated. How similar tasks are was "
                "estimated from the data for each feature (REML)."
            )
            return _find("prior", "None stated", words)
        reason = f"The search did not try {names}, so there is nothing to compare with."
    return _find("prior", "Not measured", reason, TEST_IT, {})


def _answer_contrast(found: Contrast, audit: PriorAudit | None) -> Finding:
    """Answer from the errors of two models on the same given rows."""
    change = found.error / found.without - 1.0 if found.without else math.nan
    low, high = found.low - 1.0, found.high - 1.0
    numbers: dict[str, Number] = {"source": "given rows", **found._asdict()}
    value = "No clear difference"
    if low > 0.0 or high < 0.0:
        value = f"Error {percent(abs(change))} {'smaller' if change < 0 else 'larger'}"
    sentence = (
        f"On the {count_words(found.n_rows, 'given row')} the {found.metric} is "
        f"{spell(found.error, 3)} with the prior and {spell(found.without, 3)} "
        f"without it, a change of {percent(change)} (95 % interval {percent(low)} to "
        f"{percent(high)})."
    )
    if audit is not None:
        count = len(audit.disagreeing)
        sentence += (
            f" The training rows contradict {count or 'none'} of its "
            f"{count_words(len(audit.relations), 'relation')}."
        )
    note = (
        "Both models are scored on the same rows. The interval holds for other rows of "
        "these tasks and for these two fits."
    )
    return _find("prior", value, sentence, note, numbers)


def _answer_audit(helped: PriorBenefit, disagreeing: int) -> Finding:
    names = ("metric", "change", "low", "high", "level", "p_value", "verdict")
    sentence = helped.sentence
    if disagreeing:
        verb = "disagrees" if disagreeing == 1 else "disagree"
        sentence += f" {count_words(disagreeing, 'relation')} {verb} with the data."
    numbers = {"source": "audit", **{name: vars(helped)[name] for name in names}}
    value = helped.verdict.capitalize()
    if helped.verdict == "no difference" and np.isfinite(helped.change):
        value = f"Error {100 * helped.change:+.0f} %, not significant".replace("-", "−")
    return _find("prior", value, sentence, helped.method, numbers)


def _answer_search_benefit(benefits: Mapping[str, PriorBenefit]) -> Finding:
    """Both priors, by their strengths, as far as the search tried to do without."""
    numbers: dict[str, Number] = {"source": "search"}
    for name, one in benefits.items():
        values = {"change": one.change, "low": one.low, "high": one.high}
        numbers |= {f"{name}_{key}": value for key, value in values.items()}
        numbers |= {f"{name}_verdict": one.verdict, "metric": one.metric}
    helped = [PRIORS[k] for k, one in benefits.items() if one.verdict == "helped"]
    value = f"{helped[0].capitalize()} helped" if helped else "No clear difference"
    value = "Helped" if len(helped) == len(benefits) else value
    sentences = [one.sentence for one in benefits.values()]
    note = f"{next(iter(benefits.values())).method} {TEST_IT}"
    return _find("prior", value, " ".join(sentences), note, numbers)


# Are there outlier tasks?


def answer_outliers(fitted: FittedModel) -> Finding:
    """Name the outlier tasks of the model, else tasks with effects that stand out."""
    m, found = len(fitted.tasks), fitted.summary.outliers
    if found is not None:
        return _answer_found(fitted, [spell_label(label) for label in found])
    if m > 1 and all(one.error is not None for one in fitted.summary.tasks):
        return _answer_effects(fitted)
    words = (
        "The tasks of this model were not tested. Their distances from the median "
        "task are among the tables."
    )
    note = "outlier_tasks=True fits a model of outlier tasks, and tests each of them."
    return _find("outliers", "Not tested", words, note)


def _answer_effects(fitted: FittedModel) -> Finding:
    """Tasks whose effect at average features is not zero, furthest first."""
    summary, m, question = fitted.summary, len(fitted.tasks), "Which tasks stand out?"
    effects = [
        (spell_label(one.task), one.lower or 0.0, one.upper or 0.0)
        for one in rank_effects(summary.tasks)
    ]
    far = [one for one in effects if one[1] * one[2] > 0]
    numbers: dict[str, Number] = {
        "far": ", ".join(name for name, _, _ in far),
        "count": len(far),
    }
    note = (
        "Effects are predictions at average features, minus the mean of all tasks, "
        f"with {100 * (summary.level or 0.0):g} % intervals ({summary.errors}). "
        "outlier_tasks=True tests whether tasks differ from the others as a whole."
    )
    if not far:
        words = "At average features, no task differs significantly from the mean."
        return _find("outliers", "None", words, note, numbers, question)
    top_tasks = 3  # that are named
    named = "; ".join(
        f"{name} by {spell(low, 3)} to {spell(high, 3)}"
        for name, low, high in far[:top_tasks]
    )
    value = f"{len(far):,} of {count_words(m, 'task')}"
    verb = "differs" if len(far) == 1 else "differ"
    words = (
        f"At average features, {value} {verb} significantly from the mean of all "
        f"tasks. Clearest: {named}."
    )
    return _find("outliers", value, words, note, numbers, question)


def _answer_found(fitted: FittedModel, names: list[str]) -> Finding:
    numbers: dict[str, Number] = {
        "found": ", ".join(names),
        "count": len(names),
        "strength": fitted.summary.outlier_strength,
    }
    if not names:
        words = "The model was fitted with outlier tasks, and none was found."
        return _find("outliers", "None found", words, numbers=numbers)
    verbs = ("deviates", "has") if len(names) == 1 else ("deviate", "have")
    sentence = (
        f"{_join_tasks(names, 6)} {verbs[0]} from the shared coefficients and "
        f"{verbs[1]} a task-specific component."
    )
    own = fitted.summary.own_coef
    if own is not None and len(names) > 1:
        largest = fitted.tasks[int(np.argmax(row_norms(own)))]
        sentence += f" {_join_tasks([largest])} deviates most."
    value = f"{len(names):,} of {count_words(len(fitted.tasks), 'task')}"
    return _find("outliers", value, sentence, numbers=numbers)


def _join_tasks(names: list[str], most: int = 3) -> str:
    """Names of tasks at the start of a sentence; numbers are preceded by "Task"."""
    if not all(name.lstrip("-").isdigit() for name in names):
        return join_words(names, most)
    return f"Task{'' if len(names) == 1 else 's'} {join_words(names, most)}"


# Did the fit converge?


def answer_certificate(fitted: FittedModel) -> Finding:
    """Bound the distance of the objective to its optimum."""
    summary, one = fitted.summary, fitted.summary.certificate
    if one is None:
        words = f"{summary.model} computes no bound on the distance to its optimum."
        return _find("certificate", "No certificate", words)
    relative = max(one.relative, 0.0)
    numbers: dict[str, Number] = {
        "objective": one.objective,
        "dual_gap": one.gap,
        "relative_gap": relative,
        "iterations": one.n_iter,
    }
    sentence = (
        f"Objective {spell(one.objective, 6)}, duality gap {spell(one.gap, 2)} "
        f"(relative {spell(relative, 2)}) after {count_words(one.n_iter, 'iteration')}."
    )
    loose = 1e-2  # relative gap from which coefficients should not be trusted
    if relative >= loose:
        value, note = "No", "The gap is large: raise max_iter or rescale the features."
    else:
        # Doubles have no more than 15 digits.
        digits = 15 if relative < 1e-15 else math.floor(-math.log10(relative))
        value = f"Yes, to {digits} digits"
        note = "The duality gap bounds how far the objective is above its optimum."
    return _find("certificate", value, sentence, note, numbers)
