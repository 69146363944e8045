"""The effect of one column over its range: lines, curves or categories, task by task.

An effect is f_i(x) = Σ_j β_ij b_j(x), where b_j are the features that were made of the
column: itself, its wiggles, or its categories. Means over the training rows are
subtracted, so that effects of all tasks have the same level.
"""

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from sklearn.pipeline import Pipeline

from priormtl._arrays import Array
from priormtl.data import pooled_means, pooled_scale
from priormtl.design import Design, Expansion
from priormtl.estimators import (
    ColumnEffect,
    LinearMultiTask,
    SplineFeatures,
    TableFeatures,
    linear_part,
    read_effect,
    read_fitted,
    read_statements,
)
from priormtl.fitted import Fitted
from priormtl.plotting import style
from priormtl.plotting.coefficients import Learned, find_places, read_model
from priormtl.plotting.style import Axes
from priormtl.priors import Near
from priormtl.rendering import count_words, spell_number

Styles = Mapping[int, style.LineStyle]  # of tasks that are named


@dataclass(frozen=True, eq=False)
class Effect(ColumnEffect):
    """Effect of a column, with what the prior states about it."""

    slopes: Array | None  # (m,) as stated
    centre: float  # where lines with these slopes are zero
    words: tuple[str, ...]  # of the other statements


def plot_effect(
    model: object,
    column: Hashable,
    *,
    tasks: Sequence[Hashable] | None = None,
    values: object = None,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Plot the effect of a column on the target, for each task and on average.

    Numbers give straight lines or smooth curves, and categories give dots. The thick
    line is the mean of all tasks, or the effect that all tasks share. With more than
    six tasks, the three whose effects are farthest from the mean are named. Effects are
    in the units of the column and are zero on average over the training rows. What the
    prior states is drawn dashed (a known value) or stands in the title.

    Levels of a crossed factor, and tasks at average features, are drawn in the order of
    their effects, with 95 % intervals.

    Parameters
    ----------
    model : fitted model
        Linear model of this package, a pipeline of :func:`tabular_model` (its linear
        part is shown), or a pipeline of :class:`SplineFeatures` and a linear model.
    column : str or int
        Column of the table that the model was fitted to, or position of a feature.
        Parts of dates are called "when hour of day", "when day of week" and "when day
        of year". A crossed factor, or the column of the tasks, gives their effects.
    tasks : task labels, optional
        Tasks to show. By default all.
    values : array, optional
        Values of the column, which give the range and the ticks on the axis. By
        default those of the training rows: deciles or knots where the model knows them,
        else two standard deviations around the mean. Needed for plain features of
        models without ``statistics_``.
    ax : matplotlib Axes, optional
        Axes to draw on. By default, a new figure is created.
    legend : bool, default=True
        Whether to add a legend.

    Returns
    -------
    matplotlib Axes

    Notes
    -----
    The band has two standard errors of the thick line to each side. They are those of
    ``summary(level=...)`` where the model has the statistics of its fit. Otherwise they
    are jackknife standard errors, from the models that cross-validation fitted without
    each fold; this is approximate. Models that have neither have no band.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from priormtl import tabular_model
    >>> from priormtl.plotting import plot_effect
    >>> rng = np.random.default_rng(0)
    >>> hour = rng.integers(0, 24, 120)
    >>> table = pd.DataFrame({"shop": np.arange(120) % 3, "hour": hour})
    >>> sales = np.sin(hour * np.pi / 12) + 0.1 * rng.normal(size=120)
    >>> periods = {"hour": 24}
    >>> model = tabular_model("regressor", task="shop", smooth=periods, trees="none")
    >>> plot_effect(model.fit(table, sales), "hour").get_title()
    'Effect of hour'
    """
    steps = [model]
    if isinstance(model, Pipeline):
        steps = [step for _, step in model.steps]
    linear = linear_part(model)
    learned = read_model(linear)
    levels = _read_levels(linear, column)
    if levels is not None:
        for argument, given in (("tasks", tasks), ("values", values)):
            if given is not None:
                raise ValueError(
                    f"{argument} must be None for {column!r}, whose levels have one "
                    f"effect each: got {given!r}."
                )
        return _draw_levels(ax, learned, str(column), *levels)
    effect = _read_effect(steps[:-1], linear, learned, column, values)
    shown = learned.find_tasks(tasks)
    m = len(learned.tasks)
    mean = effect.lines.mean(axis=1)
    spread = np.ptp(effect.lines, axis=1).max()
    alike = 0.02  # share of the range by which effects that look equal may differ
    same = bool(spread <= alike * max(np.ptp(effect.lines), np.abs(mean).max()))
    styles = dict[int, style.LineStyle]()  # of tasks that are named
    farthest = 3  # of many tasks that are named
    if not same and m > 1:
        apart = np.linalg.norm(effect.lines[:, shown] - mean[:, np.newaxis], axis=0)
        named = shown
        if len(shown) > len(style.LINE_STYLES):
            named = shown[np.argsort(-apart, kind="stable")[:farthest]]
        styles = dict(zip(named.tolist(), style.LINE_STYLES, strict=False))
    with style.styled():
        ax = style.new_axes(ax, 6.4, 3.8)
        style.draw_zero(ax)
        _draw_tasks(ax, effect, learned, [] if same else shown.tolist(), styles)
        alone = tasks is not None and len(shown) == 1 and not same
        if not alone:  # else the task is all that is asked for
            label = f"mean of {count_words(m, 'task')}"
            if same or m == 1:
                label = f"all {count_words(m, 'task')}" if m > 1 else "effect"
                label += ", nearly equal" if spread > 0 else ""
            _draw_main(ax, effect, None, mean, style.REFERENCE_STYLE.colour, label)
        else:
            place = int(shown[0])
            colour = styles[place].colour
            _draw_main(ax, effect, place, effect.lines[:, place], colour, None)
        if effect.slopes is not None:
            slopes = effect.slopes[shown]
            ends = [spell_number(float(end), 3) for end in (slopes.min(), slopes.max())]
            words = f"stated: {' to '.join(dict.fromkeys(ends))}"
            grid = _on_axis(effect.grid, effect)
            line = slopes.mean() * (effect.grid - effect.centre)
            ax.plot(grid, line, "--", color="#000000", linewidth=1.2, label=words)
        known = f" ({', '.join(effect.words)})" if effect.words else ""
        ax.set_title(f"Effect of {style.shorten(effect.column)}{known}")
        outcome = learned.unit.partition(" per ")[0]
        ax.set_ylabel(style.fold_words(f"Effect on {outcome}", ax))
        ax.set_xlabel(style.shorten(effect.column))
        if legend:
            style.add_legend(ax)
    return ax


# Levels of crossed factors, and tasks.


def _read_levels(linear: object, column: object) -> tuple[list[str], Array] | None:
    """Labels and effects (k, 3) with their ends; None where a column has others.

    A column may be a crossed factor beside its line or curve: then these are drawn.
    """
    fitted = read_fitted(linear)
    if not isinstance(linear, LinearMultiTask) or fitted.design is None:
        return None
    ends: list[tuple[float | None, ...]]
    if column in (fitted.design.task, linear.task) and isinstance(column, str):
        tasks = linear.summary().tasks
        with suppress(ValueError, np.linalg.LinAlgError):  # classes, or too large
            tasks = linear.summary(0.95).tasks
        if tasks[0].lower is None:
            raise ValueError(
                f"column must be a feature: got {column!r}, the column of the tasks, "
                "and the effects of tasks have no standard errors in this model."
            )
        labels = [str(one.task) for one in tasks]
        ends = [(one.effect, one.lower, one.upper) for one in tasks]
    elif any(t.source == column and not t.is_extra for t in fitted.design.crossed):
        levels = [o for o in linear.summary(0.95).levels if o.column == column]
        labels = [str(one.level) for one in levels]
        ends = [(one.effect, one.lower, one.upper) for one in levels]
    else:
        return None
    return labels, np.array(ends)


def _draw_levels(
    ax: Axes | None, learned: Learned, column: str, labels: list[str], effects: Array
) -> Axes:
    """Effects from lowest to highest, with their intervals."""
    order, n = np.argsort(effects[:, 0], kind="stable"), len(labels)
    centre, low, high = effects[order].T
    with style.styled():
        ax = style.new_axes(ax, 6.4, float(np.clip(0.2 * n + 1.0, 2.4, 9.0)))
        style.draw_zero(ax, upright=True)
        sure = (low > 0) | (high < 0)
        for chosen, colour in (
            (sure, style.LINE_STYLES[0].colour),
            (~sure, style.GREY),
        ):
            ranks = np.arange(n)[chosen]
            ax.hlines(ranks, low[chosen], high[chosen], color=colour, linewidth=1.4)
            ax.plot(centre[chosen], ranks, "o", color=colour, markersize=4.0)
        style.name_ticks(ax, "y", [labels[k] for k in order])
        ax.set_ylim(-0.8, n - 0.2)
        ax.set_title(f"Effects of {style.shorten(column)}, 95 % intervals")
        outcome = learned.unit.partition(" per ")[0]
        ax.set_xlabel(f"Effect on {outcome}")
    return ax


# Reading.


def _read_effect(
    steps: Sequence[object],
    linear: object,
    learned: Learned,
    column: object,
    values: object,
) -> Effect:
    """Features of the column on a grid, times coefficients."""
    found: Expansion | None = None
    for step in steps:
        if not isinstance(step, SplineFeatures | TableFeatures):
            raise TypeError(
                "model must be a linear model, or a pipeline of tabular_model or of "
                f"SplineFeatures and a linear model: got {type(step).__name__} in it."
            )
        found = found or step.expansion_of(column)
    if found is None:
        found = _expand_plain(linear, learned, column, values)
    name = str(column)
    if isinstance(column, int) and 0 <= column < len(learned.features):
        name = str(learned.features[column])
    effect, fitted = read_effect(linear, found, name, values), read_fitted(linear)
    own = effect.means.get(name)
    place = None if own is None else fitted.names.index(name)
    slopes, words = _read_statements(fitted, name, place)
    return Effect(**vars(effect), slopes=slopes, centre=own or 0.0, words=words)


def _expand_plain(
    linear: object, learned: Learned, column: object, values: object
) -> Expansion:
    """A feature of a model that was fitted to numbers or to one-hot columns."""
    fitted = read_fitted(linear)
    names = fitted.names
    design = fitted.design or Design.of_names(names)
    if column in design.text_sources:
        return design.expansion_of(column)
    if column in design.wiggles():
        raise ValueError(
            f"model must be a pipeline of SplineFeatures and the linear model, since "
            f"{column!r} is fitted by a curve: use make_pipeline(splines, model)."
        )
    [place] = find_places("feature", [column], learned.features)
    statistics = fitted.statistics
    deviations = 2.0  # of a plain feature, to each side of its mean
    if statistics is not None:
        mean = float(pooled_means(statistics)[place])
        reach = deviations * float(pooled_scale(statistics)[place])
        ends = mean - reach, mean + reach
    elif values is not None:
        ends = (0.0, 1.0)  # not used
    else:
        raise ValueError(
            f"values must be given for {column!r}: the model does not keep the range "
            "of its features. Pass the values of the column."
        )
    return Expansion(lambda x: {names[place]: x}, np.zeros(0), ends)


def _read_statements(
    fitted: Fitted, name: str, place: int | None
) -> tuple[Array | None, tuple[str, ...]]:
    """Known slopes (m,) of a column, and other statements about it in words."""
    slopes, words = None, list[str]()
    for one in read_statements(fitted.by_class(), None):
        if one.feature == name and one.kind in ("sign", "common"):
            words.append(one.statement.removeprefix(name).lstrip(": "))
    for part in () if fitted.feature_prior is None else fitted.feature_prior.parts:
        if isinstance(part, Near) and place in part.features:
            known = part.targets(fitted.labels) / np.sqrt(part.weight)
            slopes = np.repeat(known[part.features.index(place)], fitted.n_classes)
    return slopes, tuple(words)


# Drawing.


def _draw_tasks(
    ax: Axes, effect: Effect, learned: Learned, shown: list[int], styles: Styles
) -> None:
    """Lines of tasks, or dots of categories; tasks without a style are grey."""
    grid, dots = _on_axis(effect.grid, effect), effect.categories is not None
    others = [i for i in shown if i not in styles]
    alpha = float(np.clip(8.0 / max(len(others), 1), 0.12, 0.6))
    for i in others:
        faint = {"ls": "none", "marker": "_"} if dots else {"linewidth": 0.7}
        ax.plot(grid, effect.lines[:, i], color=style.GREY, alpha=alpha, **faint)
    for k, (i, (colour, line, marker)) in enumerate(styles.items()):
        form = {"ls": "none", "marker": marker} if dots else {"ls": line, "lw": 1.2}
        x = grid + 0.06 * (k + 1) if dots else grid
        label = style.shorten(learned.tasks[i])
        ax.plot(x, effect.lines[:, i], color=colour, label=label, **form)
    if effect.categories is not None:
        style.name_ticks(ax, "x", effect.categories)
        ax.set_xlim(-0.5, len(grid) - 0.5)
    elif len(effect.ticks):
        ticks = effect.ticks
        if len(ticks) > (most := 200):
            ticks = np.quantile(ticks, np.linspace(0.0, 1.0, most))
        heights, across = np.full(len(ticks), 0.015), ax.get_xaxis_transform()
        (rug,) = ax.plot(_on_axis(ticks, effect), heights, "|", transform=across)
        rug.set(color="#404040", markersize=6.0, markeredgewidth=0.8)
    if effect.is_date:
        locator = style.AutoDateLocator()
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(style.ConciseDateFormatter(locator))


def _draw_main(
    ax: Axes,
    effect: Effect,
    task: int | None,
    line: Array,
    colour: str,
    label: str | None,
) -> None:
    """The mean, or the only line, with its band."""
    error, grid = effect.errors.of(task), _on_axis(effect.grid, effect)
    dots = effect.categories is not None
    form = {"ls": "none", "marker": "o", "ms": 7.0} if dots else {"linewidth": 2.6}
    ax.plot(grid, line, color=colour, label=label, **form)
    if error is not None:
        ends, words = (line - 2.0 * error, line + 2.0 * error), "± 2 standard errors"
        style.draw_interval(ax, grid, ends, colour, bars=dots, label=words)


def _on_axis(values: Array, effect: Effect) -> np.ndarray:
    """Values as matplotlib takes them: dates for days since 1970."""
    if not effect.is_date:
        return values
    return (86400.0 * values).astype("datetime64[s]")
