"""The default model of 'priormtl fit': ``tabular_model`` on a table in files.

The table is read as it is: texts, categories, dates and gaps in features are left to
``tabular_model``, so that the command fits what the library fits. What was chosen is
printed with the error of rows that were held out, beside that of the mean of each task.
"""

from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from priormtl.cli.linear import (
    column_lines,
    common_facts,
    split_prior,
    statement_lines,
    strongest_lines,
    warn_of_classes,
)
from priormtl.cli.main import Facts
from priormtl.exceptions import DataFileError, FoldsError

if TYPE_CHECKING:
    import numpy as np
    from sklearn.base import BaseEstimator

    from priormtl.engines import Frame, RawTable, Schema
    from priormtl.estimators import TabularPipeline


# Fitting


def build_model(
    frame: "Frame",
    schema: "Schema",
    settings: Mapping[str, object],
    *,
    classify: bool,
    prior: object,
) -> "TabularPipeline":
    """``tabular_model``; names in a prior file must be those of its features."""
    from priormtl import tabular_model
    from priormtl.design import Design
    from priormtl.estimators.tabular import TableFeatures
    from priormtl.priors import FeaturePrior, PriorFile

    design = Design(())
    if isinstance(prior, PriorFile):
        known = FeaturePrior.from_file(prior) if prior.feature_relations else None
        straight = () if known is None else known.features_in_units
        features = TableFeatures(
            schema.task,
            settings.get("smooth", "auto"),
            tuple(sorted(map(str, straight))),
            settings.get("crossed", "auto"),
        )
        design = features.fit(frame.X).design_
    tasks = frame.X[schema.task].unique().to_pylist()
    given = split_prior(prior, design, tasks)
    kind = "classifier" if classify else "regressor"
    return tabular_model(kind, task=schema.task, **{**settings, **given})


def fit_model(
    model: "TabularPipeline", raw: "RawTable", frame: "Frame"
) -> "TabularPipeline":
    """Fit a table, of which ``frame`` holds all rows or a sample."""
    try:
        return model.fit_raw(raw, frame)
    except FoldsError as error:
        raise FoldsError(
            f"{error} Or give --lam and --epsilon, so that no rows are held out."
        ) from None


def shares_classes(frame: "Frame", task: str) -> bool:
    """Whether tasks draw on the same classes, not each on two of its own."""
    if len(set(frame.y.tolist())) == 2:
        return True
    seen = dict[object, set[object]]()
    for label, one in zip(frame.X[task].to_pylist(), frame.y.tolist(), strict=True):
        seen.setdefault(label, set()).add(one)
    return any(len(classes) != 2 for classes in seen.values())


def check_numbers(frame: "Frame", schema: "Schema", name: str) -> None:
    """Fail if targets are no finite numbers; hint at classes."""
    import numpy as np

    if not (np.issubdtype(frame.y.dtype, np.number) or frame.y.dtype == bool):
        raise DataFileError(
            f"{name}: column {schema.target!r} must hold numbers to be a target: it "
            f"holds text such as {str(frame.y[0])!r}. For classes use --classify."
        )
    values = np.unique(frame.y[:100_000])
    if len(values) == 2 and set(values.tolist()) == {0, 1}:
        warn_of_classes(schema.target)


# What is printed


def describe(
    model: "TabularPipeline", frame: "Frame", out: Path, *, classify: bool
) -> Facts:
    """Summary of a fit, for JSON."""
    from priormtl.design.columns import DATE_KINDS
    from priormtl.estimators import linear_part, summarize_fitted
    from priormtl.priors import curves_of

    features, last = model[0], model[-1]
    linear = linear_part(model)
    summary = linear.summary()
    # Intervals are those of the whole model, trees included.
    shown = summarize_fitted(last.fitted_)
    tuned = linear.fitted_.search is not None  # not where no row can be held out
    structure = dict(linear.structure_) if tuned else {}
    shape = structure.pop("smooth", "varying")  # of all curves
    names, curves = linear.design_.names, curves_of(linear.feature_prior_)
    wiggles = {names[j] for group in curves.values() for j in group}
    curved = list(curves) if shape != "straight" else []
    metric = "log-loss" if classify else "root mean squared error"
    if not classify and linear.loss != "squared":
        metric = "mean deviance"
    # The first column of dates may order rows.
    dates = [t.source for t in features.design_.terms if t.reads in DATE_KINDS]
    scores, baseline = dict[str, float](), dict[str, float]()
    if tuned:
        errors = held_out_errors(model, frame, classify=classify)
        scores[metric], baseline[metric] = errors
    return {
        "file": str(out),
        "model": "tabular",
        "rows": frame.rows,
        "dropped": frame.dropped,
        "sample": summary.sample,
        **common_facts(summary, wiggles),
        "tasks": len(linear.tasks_),
        "columns": len(features.design_.sources),
        "structure": {name: _plain(value) for name, value in structure.items()},
        "smooth": curved,
        "smooth_effects": shape,
        "trees": None if last is linear else last.trees_weight_,
        "outlier_tasks": [_plain(t) for t in summary.outliers or ()],
        "folds": linear.n_splits_ if tuned else None,
        "scores": scores,
        "baseline": baseline,
        "stand_out": list_far_tasks(linear),
        "loss": linear.loss,
        "target": None if classify else describe_target(frame.y, linear.loss),
        "intervals": summary.intervals,
        "horizons": [vars(one) for one in shown.horizons],
        "time": features.design_.time,
        "dates": list(dict.fromkeys(dates)),
    }


def describe_target(y: "np.ndarray", loss: str) -> str | None:
    """What targets look like, and the option that fits them; None if it is given."""
    import numpy as np

    y = np.asarray(y, np.float64)
    values = np.unique(y)
    if loss != "squared" or len(values) < 2:
        return None
    if len(values) == 2:
        return f"two values, {values[0]:g} and {values[1]:g}: --classify"
    mean = float(y.mean())
    if values[0] >= 0 and np.all(values == np.round(values)):
        # Codes and large numbers that hardly vary are no counts to speak of.
        if float(y.var()) < 0.2 * mean or (values[0] > 0 and mean > 100):
            return None
        return f"non-negative integers, mean {mean:.3g}: --loss poisson"
    skewed = 1.5  # mean over median, as that of an exponential distribution
    if values[0] > 0 and mean > skewed * float(np.median(y)):
        return f"positive and skewed, mean {mean:.3g}: --loss gamma"
    return None


def list_far_tasks(model: "BaseEstimator") -> list[Facts]:
    """Tasks whose effect at average features is furthest from the mean, for certain.

    Intervals of 95 %; without them (classes, large models) there are no such tasks.
    """
    from priormtl.estimators import rank_effects

    try:
        tasks = rank_effects(model.summary(level=0.95).tasks)
    except ValueError:
        return []
    sure = [one for one in tasks if one.lower * one.upper > 0]
    return [
        {"task": _plain(one.task), "from": one.lower, "to": one.upper}
        for one in sure[:3]
    ]


def held_out_errors(
    model: "TabularPipeline", frame: "Frame", *, classify: bool
) -> tuple[float, float]:
    """Error of held-out rows, and that of the mean of each task on the same folds.

    That is the mean target, with exposure the mean rate, or the shares of classes.
    """
    import numpy as np

    from priormtl.data import split_offset_columns
    from priormtl.estimators import linear_part

    (features, last), linear = (model[0], model[-1]), linear_part(model)
    family, scores, folds = last.fitted_.row_loss, last.held_out_, linear.folds_
    weight = np.ones(len(frame.y)) if frame.weight is None else frame.weight
    if classify:
        y = np.equal.outer(frame.y, np.asarray(linear.classes_)).astype(np.float64)
        if scores.ndim == 1:  # log-odds of the second class, if there is one
            scores = np.column_stack([np.zeros(len(scores)), scores])[:, : y.shape[1]]
    else:
        y, scores = np.asarray(frame.y, np.float64)[:, np.newaxis], scores[:, None]
    target, counted = y, weight
    offset = split_offset_columns(frame.X, features.exposure, features.offset)[1]
    if offset is not None:
        rates, counted = family.without_offset(y[:, 0], weight, offset)
        target = rates[:, np.newaxis]

    labels = np.array(frame.X[features.task].to_pylist(), object).astype(str)
    codes = np.unique(labels, return_inverse=True)[1]
    means = np.full(y.shape, np.nan)
    for fold, split in enumerate(linear.fitted_.held_out.splits):
        train, held = np.zeros(len(y)), folds == fold
        train[split.train] = counted[split.train]
        centre = train @ target / train.sum()
        # One row of the mean of all rows keeps shares off 0 and 1, and new tasks known.
        counts = (np.bincount(codes, train) + classify)[:, np.newaxis]
        sums = [np.bincount(codes, train * column) for column in target.T]
        by_task = np.column_stack(sums) + classify * centre
        by_task = np.where(
            counts > 0, by_task / np.where(counts > 0, counts, 1), centre
        )
        means[held] = by_task[codes[held]]
    if offset is not None:
        means = family.mean(family.link(means) + offset[:, np.newaxis])

    known = ~np.isnan(scores[:, -1]) & ~np.isnan(means[:, 0])
    share, y = weight[known], y[known]
    if not share.sum():
        return float("nan"), float("nan")
    share = share / share.sum()
    own, base = scores[known], means[known]
    if classify:
        losses = np.logaddexp.reduce(own, axis=1) - np.sum(own * y, axis=1)
        chances = np.clip(np.sum(base * y, axis=1), 1e-3, 1.0)
        return float(share @ losses), float(share @ -np.log(chances))
    if linear.loss == "squared":
        error, baseline = (np.sqrt(share @ (y - one) ** 2) for one in (own, base))
    else:
        pair = (family.link(one) for one in (own, base))
        error, baseline = (2.0 * (share @ family.loss(eta, y)) for eta in pair)
    return float(error[0]), float(baseline[0])


def _plain(value: object) -> object:
    """Value for JSON: priors by name, arrays as lists."""
    import numpy as np

    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


def to_lines(facts: Facts, reason: str) -> Iterator[str]:
    """Summary of a fit as lines of text."""
    from priormtl.rendering import count_words

    dropped = facts["dropped"]
    left_out = f" ({dropped:,} dropped for missing values)" if dropped else ""
    tasks = count_words(facts["tasks"], "task")
    columns = count_words(facts["columns"], "column")
    yield f"{count_words(facts['rows'], 'row')}{left_out}, {tasks}, {columns} used."
    yield from column_lines(facts)
    loss = facts["loss"]
    log_losses = ("poisson", "gamma", "negative_binomial")
    shown = f", {loss.replace('_', ' ')} loss" if loss in log_losses else ""
    yield f"Model: tabular ({reason}){shown}."
    if facts["sample"]:
        yield (
            f"Structure, trees, levels and intervals are those of {facts['sample']}; "
            "effects and their variances are estimated from all rows."
        )
    if facts["target"]:
        yield f"The target holds {facts['target']} may fit it better."
    if facts["structure"]:
        yield f"Chosen by cross-validation: {', '.join(structure_words(facts))}."
    for metric, error in facts["scores"].items():
        baseline = facts["baseline"][metric]
        if not isfinite(error):
            continue
        share = f" ({1.0 - error / baseline:.0%} lower)" if error < baseline else ""
        yield (
            f"Held-out {metric} over {facts['folds']} folds: {error:.4g}; mean of each "
            f"task alone: {baseline:.4g}{share}."
        )
    yield from question_lines(facts)
    gap, seconds = max(facts["relative_gap"], 0.0), facts["seconds"]
    yield f"Relative duality gap {gap:.1g}; {seconds:.1f} s."
    yield from statement_lines(facts)
    if facts["stand_out"]:
        words = ", ".join(
            f"{one['task']} by {one['from']:.3g} to {one['to']:.3g}"
            for one in facts["stand_out"]
        )
        yield f"Furthest from the mean task, at average features (95 %): {words}."
    if facts["strongest"]:
        part = " of the linear part" if facts["trees"] else ""
        scale = ", on the log scale" if loss in log_losses else ""
        found = "mean over tasks by class" if facts["classes"] else "mean and range"
        yield f"Strongest effects{part} (of one standard deviation; {found}{scale}):"
        yield from strongest_lines(facts)


def question_lines(facts: Facts) -> Iterator[str]:
    """For which rows the model was chosen, and how it fares by horizon."""
    if facts["horizons"]:
        words = ", ".join(
            f"{one['error']:.4g} up to {one['horizon']:.4g} ({one['coverage']:.0%})"
            for one in facts["horizons"]
        )
        yield (
            f"Folds go forward in {facts['time']!r}, and intervals hold for later "
            f"rows. Error by time since the last row of the task, and share of rows in "
            f"intervals of 90 %: {words}."
        )
    elif facts["intervals"]:
        yield f"Intervals hold for {facts['intervals']}."
    if facts["dates"] and facts["time"] is None:
        yield (
            f"To predict later rows, add --time {facts['dates'][0]}: the model is then "
            "chosen, and intervals are made, on folds that go forward in time."
        )


def structure_words(facts: Facts) -> Iterator[str]:
    """What was chosen or given, in plain words."""
    from priormtl.rendering import join_words

    found = facts["structure"]
    adaptive = found["ties"] == "adaptive"
    ties = "as estimated for each feature" if adaptive else "equally for all features"
    near = {"mean": "all tasks", "chain": "neighbours in sorted order"}
    near["nested"] = "groups of tasks"
    prior = found["task_prior"]
    if prior is None:
        yield "separate effects for each task"
    elif found.get("slopes") == "common":
        yield "the same effects in all tasks"
    else:
        yield f"effects are similar in {near.get(prior, prior)}, {ties}"
    kinds = {True: "free intercepts", False: "no intercepts", "tied": "tied intercepts"}
    yield kinds.get(found["fit_intercept"], str(found["fit_intercept"]))
    if facts["smooth"]:
        common = facts["smooth_effects"] == "common"
        curves = "one for all tasks" if common else "by task"
        names = join_words(facts["smooth"])
        if len(facts["smooth"]) > 4:
            first = ", ".join(facts["smooth"][:4])
            names = f"{len(facts['smooth'])} columns: {first}, …"
        yield f"curves of {names} ({curves})"
    else:
        yield "no curves"
    trees = facts["trees"]
    if trees is not None:
        yield f"boosted trees (weight {trees:.0%})" if trees else "no trees"
    if facts["outlier_tasks"]:
        yield f"outlier tasks {', '.join(map(str, facts['outlier_tasks'][:8]))}"
