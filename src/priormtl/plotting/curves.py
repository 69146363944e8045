"""Curves: values with bands, learning curves, convergence, ROC curves."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from sklearn.metrics import roc_curve

from priormtl._arrays import Array
from priormtl.estimators import FitTrace, separate_tasks
from priormtl.exceptions import suggest
from priormtl.plotting import style
from priormtl.plotting.style import Axes
from priormtl.rendering import count_words

# Values with intervals.

IntervalStyle = Literal["band", "bars", "none"]


@dataclass(frozen=True)
class Curve:
    """A line with a band; all arrays are (k,)."""

    name: str
    places: Array
    values: Array
    low: Array
    high: Array


def plot_curves(
    curves: Sequence[Curve],
    *,
    styles: Mapping[str, style.LineStyle] | None = None,
    interval: IntervalStyle = "band",
    log: bool = False,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Plot curves with markers and intervals.

    ``styles`` maps names to line styles, so that a method looks the same in several
    panels. ``interval`` draws low and high as a "band", as "bars" of which those at
    one place stand side by side, or not at all ("none"). With ``log``, the horizontal
    axis is logarithmic with ticks at the places.
    """
    if not isinstance(curves, Sequence) or not all(
        isinstance(curve, Curve) for curve in curves
    ):
        raise TypeError(
            f"curves must be a list of Curve: got {type(curves).__name__}; make each "
            "by Curve(name, places, values, low, high)."
        )
    if styles is None:
        styles = style.choose_styles([curve.name for curve in curves])
    with style.styled():
        ax = style.new_axes(ax)
        for number, curve in enumerate(curves):
            colour, line, marker = styles[curve.name]
            at = curve.places
            if interval == "band":
                ends = curve.low, curve.high
                style.draw_interval(ax, at, ends, colour, bars=False)
            elif interval == "bars":
                offset = number - (len(curves) - 1) / 2.0
                span = float(np.ptp(np.concatenate([c.places for c in curves])))
                at = at * 1.06**offset if log else at + 0.02 * span * offset
                ax.vlines(at, curve.low, curve.high, color=colour, linewidth=1.0)
            (drawn,) = ax.plot(at, curve.values, label=curve.name)
            drawn.set(color=colour, linestyle=line, marker=marker)
        if log:
            places = sorted({float(place) for c in curves for place in c.places})
            ax.set_xscale("log")
            ax.set_xticks(places, [f"{place:g}" for place in places])
            ax.minorticks_off()
        if legend:
            style.add_legend(ax)
    return ax


# Learning curves.


def plot_learning_curve(
    sizes: object,
    scores: object,
    *,
    score: str = "Score on held-out rows",
    size: str = "Training rows",
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Plot the mean score, with its standard error, against the training size.

    Parameters
    ----------
    sizes : (k,) array
        Training sizes, for example the first output of scikit-learn's
        ``learning_curve``.
    scores : (k, r) array, or mapping of names to such arrays
        Scores of r repeats at each size, for example its third output. A mapping
        gives one line per model. NaN marks a missing score.
    score, size : str
        Labels of the vertical and the horizontal axis.
    ax, legend
        See :func:`plot_coefficients`.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0.4, 0.5, 0.45], [0.7, 0.6, 0.65]])
    >>> named = {"no prior": scores, "prior": scores + 0.1}
    >>> ax = plot_learning_curve([10, 100], named, size="Training rows per task")
    >>> [tick.get_text() for tick in ax.get_xticklabels()]
    ['10', '100']
    """
    places = style.read_numbers("sizes", sizes, "k")
    named = scores if isinstance(scores, Mapping) else {"": scores}
    curves = [_average_repeats(name, places, table) for name, table in named.items()]
    with style.styled():
        ax = plot_curves(curves, log=True, ax=style.new_axes(ax), legend=False)
        ax.set(xlabel=size, ylabel=score, title="Mean ± standard error")
        if legend and isinstance(scores, Mapping):
            style.add_legend(ax)
    return ax


def _average_repeats(name: str, places: Array, table: object) -> Curve:
    """Mean over repeats and its standard error at each size that has a score."""
    if np.asarray(table).ndim == 1:  # one repeat
        values = style.read_numbers("scores", table, "k")[:, np.newaxis]
    else:
        values = style.read_numbers("scores", table, "k", "r")
    if len(values) != len(places):
        raise ValueError(
            f"scores must be (sizes, repeats): got shape {values.shape} for "
            f"{len(places)} sizes."
        )
    # Standard error s / sqrt(r) with s² over r − 1, of the r scores that are there.
    known = ~np.isnan(values)
    kept = known.any(axis=1)
    count = known.sum(axis=1)[kept]
    mean = np.nanmean(values[kept], axis=1)
    error = np.nanstd(values[kept], axis=1) / np.sqrt(np.maximum(count - 1, 1))
    return Curve(style.shorten(name), places[kept], mean, mean - error, mean + error)


# Convergence.


@dataclass(frozen=True)
class Descent:
    """Objective minus a known optimum, by iteration and time; all arrays are (k,)."""

    name: str
    iterations: Array
    seconds: Array
    excess: Array


def plot_convergence(
    runs: Descent | FitTrace | Sequence[Descent] | Sequence[FitTrace],
    *,
    against: Literal["iterations", "seconds"] = "iterations",
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Plot the convergence of solvers, with logarithmic axes.

    Parameters
    ----------
    runs : FitTrace or Descent, or a sequence of them
        One line each. A FitTrace, from ``trace_fit(model, X, y, task=task)``, shows
        the duality gap and, dotted, the tolerance of the model. A Descent shows the
        objective minus a known optimum.
    against : {"iterations", "seconds"}, default="iterations"
        Quantity on the horizontal axis.
    ax, legend
        See :func:`plot_coefficients`.

    Returns
    -------
    matplotlib Axes

    Notes
    -----
    Iteration 0 is not shown, because the axis is logarithmic. A line ends before the
    first value that is not positive.

    Examples
    --------
    >>> from priormtl import MultiTaskRegressor
    >>> from priormtl.datasets import make_related_tasks
    >>> from priormtl.plotting import trace_fit
    >>> X, y, task = make_related_tasks(n_tasks=4, n_features=6, random_state=0)
    >>> model = MultiTaskRegressor()
    >>> names = ["ista", "fista"]
    >>> traces = [trace_fit(model, X, y, task=task, solver=name) for name in names]
    >>> plot_convergence(traces).get_ylabel()
    'Duality gap'
    """
    labels = {"iterations": "Iteration", "seconds": "Seconds"}
    if against not in labels:
        near = suggest([against], list(labels))
        words = f"against must be one of {list(labels)}: got {against!r}."
        raise ValueError(f"{words}{near}")
    listed = _list_runs(runs)
    styles = style.choose_styles([run.name for run in listed])
    n_markers = 6
    with style.styled():
        ax = style.new_axes(ax)
        for run in listed:
            place = run.iterations if against == "iterations" else run.seconds
            height = run.gaps if isinstance(run, FitTrace) else run.excess
            # A logarithm shows positive points, up to the first that is not.
            kept = np.cumprod(height > 0).astype(bool) & (place > 0)
            place, height = place[kept], height[kept]
            # A few markers, evenly apart on a logarithmic axis.
            marked = np.zeros(0, np.intp)
            if len(place):
                goals = np.geomspace(place[0], place[-1], n_markers)
                marked = np.searchsorted(place, goals).clip(max=len(place) - 1)
            every = sorted(set(marked.tolist()))
            (drawn,) = ax.plot(place, height, label=run.name, markevery=every)
            colour, line, marker = styles[run.name]
            drawn.set(color=colour, linestyle=line, marker=marker)
        if not any(np.size(line.get_xdata()) for line in ax.lines):
            # A logarithmic axis needs at least one number.
            return style.show_missing(ax, "the start is optimal")
        found = {run.tolerance for run in listed if isinstance(run, FitTrace)}
        for k, tolerance in enumerate(sorted(found - {0.0})):
            drawn = ax.axhline(
                tolerance, color=style.GREY, linewidth=1.0, linestyle=":"
            )
            drawn.set_label("_" if k else "tolerance")
        ax.set(xscale="log", yscale="log", xlabel=labels[against])
        gaps = bool(listed) and isinstance(listed[0], FitTrace)
        ax.set_ylabel("Duality gap" if gaps else "Objective − optimum")
        style.tick_few_decades(ax.xaxis)
        if legend and listed:
            style.add_legend(ax)
    return ax


def _list_runs(runs: object) -> list[Descent | FitTrace]:
    way_out = "trace_fit(model, X, y, task=task) makes a FitTrace."
    if isinstance(runs, Descent | FitTrace):
        return [runs]
    if not isinstance(runs, Iterable) or isinstance(runs, str):
        name = type(runs).__name__
        raise TypeError(f"runs must be FitTrace or Descent: got {name}; {way_out}")
    listed = [*runs]
    kinds = {type(run) for run in listed}
    if not kinds <= {Descent} and not kinds <= {FitTrace}:
        found = sorted(kind.__name__ for kind in kinds)
        raise TypeError(
            f"runs must all be FitTrace or all be Descent: got {found}; {way_out}"
        )
    return listed


# ROC curves.


def plot_roc(
    model: object,
    X: object,
    y: object,
    *,
    task: object = None,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Plot the ROC curve of each task of a fitted classifier.

    Up to six tasks are drawn in different styles, with their areas in the legend. With
    more tasks, the curves are thin, and their mean at equal false positive rates and a
    band of one standard deviation over tasks are added. Tasks with only one class have
    no curve; the title shows their number.

    Parameters
    ----------
    model : fitted classifier
        For example a ``MultiTaskClassifier``.
    X, y, task
        Held-out rows, as in :meth:`MultiTaskClassifier.fit`.
    ax, legend
        See :func:`plot_coefficients`.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from priormtl import MultiTaskClassifier, one_vs_one
    >>> X, y, task = one_vs_one(*load_iris(return_X_y=True))
    >>> model = MultiTaskClassifier().fit(X, y, task=task)
    >>> ax = plot_roc(model, X, y, task=task)
    >>> ax.get_title()
    '3 tasks, mean AUC 99.8 %'
    """
    parts = separate_tasks(model, X, y, task=task)
    judged = [part for part in parts if 0 < part.positive.sum() < len(part.positive)]
    curves = [
        roc_curve(part.positive, part.scores, drop_intermediate=False)[:2]
        for part in judged
    ]
    corner = 0.2  # side of the enlarged corner, where curves are steep
    # Zero twice: curves begin at the lower end of their rise there.
    rates = np.append(0.0, np.linspace(0.0, 1.0, 501))
    with style.styled():
        ax = style.new_axes(ax, 5.6, 4.0)
        if not curves:
            return style.show_missing(ax, "every task has only one class")
        areas = [
            100.0 * float(np.sum(np.diff(fpr) * (tpr[1:] + tpr[:-1])) / 2.0)
            for fpr, tpr in curves
        ]
        # True positive rates at common ones, the upper end where a curve rises.
        table = np.zeros((len(curves), len(rates)))
        for row, (fpr, tpr) in zip(table, curves, strict=True):
            last = np.append(fpr[1:] != fpr[:-1], True)
            row[1:] = np.interp(rates[1:], fpr[last], tpr[last])
        # Where curves would run along the frame, their corner is enlarged.
        reached = np.interp(corner, rates, table.mean(axis=0))
        zoom = corner if reached > 1 - corner / 2 else None
        if len(curves) > len(style.LINE_STYLES):
            plot_roc_curves(rates, table, zoom=zoom, ax=ax, legend=False)
        else:
            _frame_rates(ax, diagonal=zoom is None)
            for panel in [ax] if zoom is None else [ax, _open_corner(ax, zoom)]:
                named = zip(judged, curves, areas, style.LINE_STYLES, strict=False)
                for part, curve, area, (colour, dashes, _) in named:
                    words = f"{style.shorten(part.task)}: {area:.1f} %"
                    (line,) = panel.plot(*curve, label=words)
                    line.set(color=colour, linestyle=dashes)
        title = f"{count_words(len(curves), 'task')}, mean AUC {np.mean(areas):.1f} %"
        n_left_out = len(parts) - len(curves)
        ax.set_title(f"{title}; {n_left_out} with one class" if n_left_out else title)
        if legend:
            style.add_legend(ax)
    return ax


def plot_roc_curves(
    fpr: Array,
    tpr: Array,
    *,
    zoom: float | None = None,
    ax: Axes | None = None,
    legend: bool = True,
) -> Axes:
    """Plot ROC curves of all tasks, with their mean and standard deviation.

    The false positive rates ``fpr`` (k,) are the same for all tasks; ``tpr`` is (m, k).
    With ``zoom``, an inset shows the upper left corner of this side, and there is no
    diagonal.
    """
    fpr, tpr = (
        style.read_numbers("fpr", fpr, "k"),
        style.read_numbers("tpr", tpr, "m", "k"),
    )
    if tpr.shape[1] != len(fpr):
        raise ValueError(
            f"tpr must have a column for each rate of fpr: got {tpr.shape[1]} for "
            f"{len(fpr)}."
        )
    with style.styled():
        ax = style.new_axes(ax)
        _draw_many(ax, fpr, tpr)
        if legend:
            style.add_legend(ax)
        _frame_rates(ax, diagonal=zoom is None)
        if zoom is not None:
            _draw_many(_open_corner(ax, zoom), fpr, tpr)
    return ax


def _frame_rates(ax: Axes, *, diagonal: bool) -> None:
    # A margin keeps curves that run along the frame visible.
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    ax.set(xlabel="False positive rate", ylabel="True positive rate")
    if diagonal:
        ax.plot([0, 1], [0, 1], color=style.GREY, linewidth=0.8, linestyle=":")


def _draw_many(ax: Axes, fpr: Array, tpr: Array) -> None:
    mean, sd = tpr.mean(axis=0), tpr.std(axis=0)
    lines = ax.plot(
        fpr, tpr.T, color=style.LINE_STYLES[0].colour, linewidth=0.5, alpha=0.45
    )
    lines[0].set_label("each task")
    ends = (mean - sd).clip(0.0, 1.0), (mean + sd).clip(0.0, 1.0)
    band = ax.fill_between(fpr, *ends, color=style.GREY, alpha=0.35, linewidth=0)
    band.set_label("±1 sd of tasks")
    ax.plot(fpr, mean, color=style.REFERENCE_STYLE.colour, linewidth=2.0, label="mean")


def _open_corner(ax: Axes, side: float) -> Axes:
    corner: Axes = ax.inset_axes((0.44, 0.1, 0.52, 0.52))
    margin = 0.02 * side
    corner.set(xlim=(-margin, side), ylim=(1.0 - side, 1.0 + margin))
    corner.set(xticks=[0.0, side], yticks=[1.0 - side, 1.0])
    corner.tick_params(labelsize=8)
    corner.spines[:].set(visible=True, color=style.GREY)
    return corner
