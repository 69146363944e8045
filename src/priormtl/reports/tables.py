"""The tables of a report: features, tasks, relations of the prior, and the search.

A page has at most 1.5 MB. Each table has its share of that and is cut to the rows that
fit, and the block of coefficients gets what the tables leave.
"""

import json
from collections.abc import Sequence

import numpy as np

from priormtl._arrays import Array, Index
from priormtl.audits import PriorAudit, describe_rows
from priormtl.estimators import ColumnEffect, SearchSummary, rank_effects
from priormtl.metrics import Reliability
from priormtl.priors import Targets, measure_violations
from priormtl.rendering import count_words, join_words
from priormtl.reports.content import Block, Column, Table, spell, spell_label
from priormtl.reports.model import FittedModel, Scores, row_norms

MOST_BYTES = 1_500_000  # of a page
NUMBER_BYTES = 11  # of a number as the page holds it


def feature_table(fitted: FittedModel) -> Table:
    """One row per feature, largest first; curves belong to that of their column."""
    coef, rows, summary = fitted.shown_coef, fitted.ranking, fitted.summary
    numbers: list[tuple[str, str, Array]] = []
    note = feature_note(fitted)
    if fitted.scale is not None:
        numbers.append(("size", "Size", fitted.sizes))
    if fitted.curves:
        straight = 1e-3  # share of a curve that is none
        whole = np.where(fitted.sizes > 0, fitted.sizes, 1.0)
        bent = (fitted.parts[1] / whole) ** 2
        numbers.append(("curve", "Share of curve", np.where(bent < straight, 0, bent)))
        note += (
            " The size of a column includes its curve; mean, min and max are those of "
            "its straight part, or of the size of a periodic curve."
        )
    # Sums of huge numbers would overflow.
    mean = np.sum(coef / len(coef), axis=0)
    numbers.append(("norm", "Norm", fitted.norms))
    K = len(summary.classes)
    for k, one in enumerate(summary.classes):  # the mean of all of which tells nothing
        own = coef[k::K]
        by_class = np.sum(own / len(own), axis=0)
        numbers.append((f"class_{k}", f"Mean: {spell_label(one)}", by_class))
    if not K:
        numbers.append(("mean", "Mean", mean))
    known = {one.name: one for one in summary.features if one.error is not None}
    if known:
        ends = np.full((3, len(fitted.features)), np.nan)
        for j, name in enumerate(summary.feature_names):
            if name in known and fitted.label(j) == fitted.features[j]:
                one = known[name]
                between = np.nan if one.between is None else one.between
                ends[:, j] = [one.lower, one.upper, between]
        heads = ("mean_low", "From"), ("mean_high", "To"), ("between", "Between tasks")
        numbers += [(*head, end) for head, end in zip(heads, ends, strict=True)]
    numbers += [
        ("min", "Min", coef.min(axis=0)),
        ("max", "Max", coef.max(axis=0)),
    ]
    if not K:
        used = np.count_nonzero(coef, axis=0).astype(np.float64)
        numbers.append(("same_sign", "Same sign", sign_agreement(coef)))
        numbers.append(("tasks", "Tasks", used))
    if fitted.scale is not None:
        numbers.append(("unit", "Deviation", fitted.scale))
    if summary.errors is not None and summary.level is not None:
        note += (
            f" From and To: {100 * summary.level:g} % interval of the effect that "
            f"tasks share ({summary.errors}). Between tasks: standard deviation of the "
            "coefficients, by REML."
        )
    labels = Column("feature", "Feature", tuple(fitted.label(j) for j in rows))
    columns = (Column(name, label, values[rows]) for name, label, values in numbers)
    return Table("features", "Features", (labels, *columns), note)


def feature_note(fitted: FittedModel) -> str:
    """Say by what features are ranked."""
    if fitted.scale is None:
        return (
            "Ranked by the norm of a feature's coefficients over all tasks, in the "
            "units of the data: features with different units are not comparable."
        )
    return (
        "Ranked by size: the norm of a feature's coefficients over all tasks times "
        "the feature's standard deviation, which does not depend on units."
    )


def sign_agreement(coef: Array) -> Array:
    """Share of the tasks that use a feature with its commoner sign; NaN for none."""
    up, down = (coef > 0).sum(axis=0), (coef < 0).sum(axis=0)
    used = up + down
    return np.where(used > 0, np.maximum(up, down) / np.maximum(used, 1), np.nan)


def task_table(fitted: FittedModel, scores: Scores | None) -> Table:
    """One row per task, in the model's order."""
    known, summary = fitted.summary.tasks, fitted.summary
    note = "Distance is that of a task's coefficients from those of the median task."
    columns = [Column("task", "Task", fitted.tasks)]
    if all(one.effect is not None for one in known):
        columns.append(Column.of("effect", "Effect", [one.effect for one in known]))
        note += (
            " Effect is the prediction at average features, minus the mean of all tasks"
        )
        if all(one.error is not None for one in known):
            columns += [
                Column.of("effect_low", "From", [one.lower for one in known]),
                Column.of("effect_high", "To", [one.upper for one in known]),
            ]
            level = 100 * (summary.level or 0.0)
            note += f", with {level:g} % intervals ({summary.errors})"
        note += "."
    columns += [
        Column.of("intercept", "Intercept", [one.intercept for one in known]),
        Column("norm", "Norm", row_norms(fitted.coef)),
        Column("distance", "Distance", fitted.distances),
    ]
    rows = np.array([one.weight for one in known], dtype=np.float64)
    rows = rows if scores is None else scores.rows
    if not np.isnan(rows).all():
        columns.append(Column("rows", "Rows", rows))
    if scores is not None:
        columns.append(Column("score", scores.metric, scores.by_task))
        if (second := scores.second_by_task) is not None:
            columns.append(Column("second", scores.second_metric, second))
        note += f" Scores are those on {scores.where}."
    if (own := summary.own_coef) is not None:
        columns.append(Column("own", "Task-specific norm", row_norms(own)))
    return Table("tasks", "Tasks", tuple(columns), note)


def curve_table(fitted: FittedModel) -> Table | None:
    """Curves that the model found, on grids of their columns; None without any."""
    if not fitted.effects:
        return None
    names, words, rows = list[str](), list[str](), list[Array]()
    classes = fitted.summary.classes
    for effect in fitted.effects:
        column = spell_label(effect.column)
        known = {column: effect.lines}
        if classes:  # the mean of all of which tells nothing
            known = {
                f"{column}: {spell_label(one)}": effect.lines[:, k :: len(classes)]
                for k, one in enumerate(classes)
            }
        for name, lines in known.items():
            error, mean = effect.errors.of(None), lines.mean(axis=1)
            error = np.full(len(mean), np.nan) if error is None else error
            ends = lines.min(axis=1), lines.max(axis=1)
            parts = effect.grid, mean, mean - 2.0 * error, mean + 2.0 * error, *ends
            rows.append(np.column_stack(parts))
            names += [name] * len(mean)
            words += spell_grid(effect)
    texts = (
        Column("column", "Column", tuple(names)),
        Column("words", "Value", (*words,)),
    )
    heads = {
        "value": "As a number",
        "effect": "Effect",
        "low": "From",
        "high": "To",
        "least": "Least task",
        "most": "Largest task",
    }
    numbers = [
        Column(name, label, values)
        for (name, label), values in zip(heads.items(), np.vstack(rows).T, strict=True)
        if not np.isnan(values).all()
    ]
    note = (
        "Effect of each column over its values: mean and range over tasks, zero on "
        "average over the training rows. From and To: the mean minus and plus two "
        "standard errors. Other columns are held fixed."
    )
    return Table("curves", "Curves", (*texts, *numbers), note)


def spell_grid(effect: ColumnEffect) -> list[str]:
    """Values of a column as users know them."""
    if effect.categories is not None:
        return [spell_label(name) for name in effect.categories]
    if effect.is_date:
        return np.datetime_as_string(
            np.round(86400.0 * effect.grid).astype("datetime64[s]"), unit="m"
        ).tolist()
    return [spell(value) for value in effect.grid.tolist()]


def level_table(fitted: FittedModel) -> Table | None:
    """Levels of crossed factors, furthest from zero first; None without any."""
    levels = rank_effects(fitted.summary.levels)
    if not levels:
        return None
    columns = (
        Column.of("level", "Level", [str(one.level) for one in levels]),
        Column.of("column", "Column", [one.column for one in levels]),
        Column.of("effect", "Effect", [one.effect for one in levels]),
        Column.of("effect_low", "From", [one.lower for one in levels]),
        Column.of("effect_high", "To", [one.upper for one in levels]),
        Column.of("error", "Standard error", [one.error for one in levels]),
    )
    known = [one for one in columns if one.is_text or not np.isnan(one.values).all()]
    spreads = [
        f"{spell(one.sd, 3)} for {count_words(one.levels, 'level')} of {one.column}"
        for one in fitted.summary.crossed
    ]
    note = (
        "Effects of levels are the same in all tasks and shrunk towards zero. Standard "
        f"deviations: {join_words(map(spell_label, spreads))}. Sorted by the distance "
        "from zero in standard errors."
    )
    if fitted.summary.is_stochastic:
        note += " The likelihood was estimated by random probes."
    return Table("levels", "Levels that stand out", tuple(known), note)


def calibration_table(known: Reliability | None, where: str) -> Table | None:
    """Predicted and actual targets of rows, from the lowest predictions on."""
    if known is None or not known.rows.size:
        return None
    several, n_parts = known.rows.ndim == 2, known.rows.shape[-1]
    n_classes = known.rows.size // n_parts
    # Parts of the first class, then those of the next.
    known = Reliability(*map(np.ravel, known))
    parts = np.tile(np.arange(1.0, n_parts + 1.0), n_classes)
    own = np.repeat(np.arange(1.0, n_classes + 1.0), n_parts)
    columns = [Column("class", "Class", own)] if several else []
    columns += [Column("part", "Part", parts), Column("rows", "Rows", known.rows)]
    loss = float(known.log_loss[0])
    if np.isnan(loss):
        heads = ("Mean prediction", "Mean target")
        note = (
            f"Rows ({where}) in ten parts by their prediction. In a calibrated model, "
            "mean predictions and mean targets agree, and residuals are centred on "
            "zero. Lines contain 90 % of the targets."
        )
    else:
        share = f"Share of {'the' if several else 'second'} class"
        heads = ("Mean probability", share)
        what = "each class, by its number" if several else "the second class"
        note = (
            f"Reliability: rows ({where}) in ten parts by their probability, which "
            f"should be the share of rows of {what}. Log-loss {loss:.4g}."
        )
    columns += [
        Column("predicted", heads[0], known.predicted),
        Column("actual", heads[1], known.actual),
    ]
    if np.isnan(loss):
        columns.append(Column("low", "Residuals, 5 %", known.low))
        columns.append(Column("high", "95 %", known.high))
    return Table("calibration", "Predicted and actual", tuple(columns), note)


def statement_table(fitted: FittedModel) -> Table | None:
    """Known values, signs, common and smooth effects; None where there are none."""
    found = fitted.summary.statements
    if not found:
        return None
    columns = (
        Column.of("statement", "Statement", [one.statement for one in found]),
        Column.of("outcome", "Result", [one.words for one in found]),
        Column.of("least", "Min", [one.least for one in found]),
        Column.of("most", "Max", [one.most for one in found]),
    )
    note = (
        "What is stated about single features, and the coefficients in the fitted "
        "model, in the units of the data. Signs and common effects hold exactly."
    )
    return Table("statements", "Statements", columns, note)


def relation_table(fitted: FittedModel, audit: PriorAudit | None) -> Table | None:
    """Relations of an audit or of the model's prior, strongest disagreement first."""
    numbers = {  # of an audit, and their labels
        "weight": "Weight",
        "violation_before": "Disagreement without",
        "violation_after": "Disagreement",
        "share": "Share of penalty",
        "statistic": "Statistic",
        "p_value": "p-value",
    }
    title = "Relations of the prior"
    about = (
        "Disagreement is 0 where a relation holds exactly and 1 where coefficients as "
        "large as the largest of the model contradict it completely"
    )
    audited = () if audit is None else audit.relations
    if audited:
        words = {"relation": "Relation", "kind": "Between", "verdict": "Verdict"}
        columns = tuple(
            Column.of(name, label, [vars(r)[name] for r in audited])
            for name, label in (words | numbers).items()
        )
        note = (
            f"{about}; “without” is a fit without the prior. Strongest "
            "disagreement first."
        )
        return Table("relations", title, columns, note)
    prior = fitted.learned.feature_prior
    if prior is None:
        return None
    d = len(fitted.features)
    # The prior acts on the shared coefficients, per deviation if features were scaled.
    P, scale = fitted.learned.shared_coef.T, np.ones(d)
    if fitted.summary.standardized and fitted.scale is not None:
        scale = fitted.scale
        P = P * scale[:, np.newaxis]
    tasks = fitted.learned.labels
    D, targets = prior.rows_in_units(scale, tasks)
    if not D.shape[0]:
        return None
    # Shares do not depend on units.
    largest = np.abs(P).max(initial=0.0)
    if targets is not None:
        largest = max(largest, np.abs(targets.values).max())
    P = np.ascontiguousarray(P) / (largest if largest > 0 else 1.0)
    violation, squares = np.zeros(D.shape[0]), np.zeros(D.shape[0])
    chunk = 1000  # relations measured at a time
    for start in range(0, D.shape[0], chunk):
        some, part = slice(start, start + chunk), None
        C: Array | float = 0.0
        if targets is not None:
            C = targets.values[some] / (largest or 1.0)
            part = Targets(C, targets.given[some])
        violation[some] = measure_violations(D[some], P, part)
        squares[some] = np.sum((D[some] @ P - C) ** 2, axis=1)
    share = squares / (squares.sum() or 1.0)
    statements = describe_rows(prior.matrix(d), fitted.features, prior.targets(tasks))
    relations = [spell_label(one.relation) for one in statements]
    columns = (
        Column("relation", "Relation", tuple(relations)),
        Column("violation_after", numbers["violation_after"], violation),
        Column("share", numbers["share"], share),
    )
    note = f"{about}, in the fitted model. Strongest disagreement first."
    table = Table("relations", title, columns, note)
    return table.take(np.argsort(-violation, kind="stable"))


def structure_table(search: SearchSummary) -> Table | None:
    """One row per structure that was tried, best first; None where one was given."""
    found = search.compare_structures()
    if len(found) < 2:
        return None
    columns = (
        Column("structure", "Structure", tuple(one.structure for one in found)),
        Column.of("candidates", "Candidates", [one.candidates for one in found]),
        Column.of("score", f"Best {search.metric}", [one.score for one in found]),
        Column.of("difference", "Difference", [one.difference for one in found]),
        Column.of("chosen", "Chosen", ["yes" if one.chosen else "" for one in found]),
    )
    note = (
        "Mean score of the best candidate of each structure over the held-out splits, "
        "and its difference to that of the chosen one. Choices were made one after the "
        "other, so that not every combination was tried."
    )
    return Table("structures", "Structures tried", columns, note)


def search_table(search: SearchSummary) -> Table | None:
    """One row per candidate, best first; None where only structures were tried."""
    several = len(set(search.structures)) > 1
    if several and all(len(np.unique(x)) == 1 for x in search.strengths.values()):
        return None
    means, known = search.means, ~np.isnan(search.scores)
    apart = np.where(known, search.scores - means[:, np.newaxis], 0.0)
    size = np.abs(apart).max() or 1.0  # squares of large scores overflow
    squares = np.sum((apart / size) ** 2, axis=1)
    spread = size * np.sqrt(squares / np.maximum(known.sum(axis=1), 1))
    chosen = tuple("yes" if i == search.best else "" for i in range(len(means)))
    columns = (
        *([Column("structure", "Structure", search.structures)] if several else []),
        *(Column(k, k.replace("_", " "), x) for k, x in search.strengths.items()),
        Column("score", search.metric.capitalize(), means),
        Column("sd", "Standard deviation", np.where(known.any(axis=1), spread, np.nan)),
        Column("chosen", "Chosen", chosen),
    )
    note = "Mean score of every candidate over the held-out splits."
    table = Table("search", "Strengths tried", columns, note)
    return table.take(np.argsort(means if search.is_error else -means, kind="stable"))


# What fits on the page


def pick_rows(table: Table) -> Index:
    """As many rows from the top as fit on the page."""
    return np.arange(_count_within(table, _row_bytes(table)))


def pick_tasks(table: Table) -> Index:
    """All tasks, or those farthest from the others; in their order."""
    by_distance = np.argsort(-np.asarray(table["distance"]), kind="stable")
    return np.sort(by_distance[: _count_within(table, _row_bytes(table)[by_distance])])


def cut_block(fitted: FittedModel, tasks: Index, tables: Sequence[Table]) -> Block:
    """Coefficients of these tasks, of as many listed features as tables leave room."""
    frame_bytes = 100_000  # of all that is not data, answers included
    spare = MOST_BYTES - frame_bytes - sum(_row_bytes(t).sum() for t in tables)
    listed = fitted.ranking[: len(tables[0])]
    kept = listed[: max(1, int(spare / NUMBER_BYTES / len(tasks)))]
    values = np.ascontiguousarray(fitted.shown_coef[np.ix_(tasks, kept)].T)
    used = int(np.count_nonzero(fitted.norms[fitted.shown]))
    gone = used - int(np.count_nonzero(fitted.norms[kept]))
    return Block(values, gone, len(fitted.tasks) - len(tasks))


def _count_within(table: Table, costs: Array) -> int:
    """Number of rows within the table's share of the page; at least one."""
    budgets = {
        "features": 480_000,
        "curves": 60_000,
        "tasks": 150_000,
        "levels": 80_000,
        "calibration": 4_000,
        "statements": 30_000,
        "relations": 130_000,
        "structures": 10_000,
        "search": 90_000,
    }
    budget = budgets[table.name]
    return max(1, int(np.searchsorted(np.cumsum(costs), budget, side="right")))


def _row_bytes(table: Table) -> Array:
    """Bytes of each row; texts count as JSON with escapes."""
    costs = np.zeros(len(table))
    for column in table.columns:
        if not isinstance(column.values, tuple):
            costs += NUMBER_BYTES
            continue
        for i, text in enumerate(column.values):
            escapes = 5 * (text.count("<") + text.count(">") + text.count("&"))
            costs[i] += len(json.dumps(text, ensure_ascii=False).encode()) + 1 + escapes
    return costs
