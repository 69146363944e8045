"""Rows to figures; a data set that is missing gives a panel that says so."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from priormtl.experiments.showing.bands import (
    Track,
    mean_band,
    track_differences,
    track_means,
)
from priormtl.experiments.showing.measurements import Measurements, Setting
from priormtl.experiments.showing.paper import DATASETS, MAIN_METRICS, METRICS
from priormtl.experiments.showing.surfaces import PAIRS, STRENGTHS, SURFACES, Surface
from priormtl.plotting import (
    Axes,
    Curve,
    Descent,
    Figure,
    choose_looks,
    new_figure,
    plot_convergence,
    plot_curves,
    plot_level,
    plot_roc_curves,
    plot_surface,
    say_missing,
    share_legend,
    styled,
)

__all__ = [
    "CAPTIONS",
    "convergence_figure",
    "learning_difference_figure",
    "learning_figure",
    "robustness_figure",
    "roc_figure",
    "surface_figure",
]

PRIORS = ("none", "natural", "artificial", "expert")
ALGORITHMS = ("gd", "ista", "ista-reverse", "fista", "linear", "auto")
ROC_DATASETS = ("yale", "mnist", "orl")
COLUMNS = 3
ZOOM = 0.2  # corner of ROC curves that would else run along the frame
NOT_MEASURED = "not measured"

CAPTIONS: Mapping[str, str] = {
    "figure1": "Objective minus optimum against iterations and against time, the "
    "paper's five algorithms and ours; both axes logarithmic. Times are the least of "
    "three runs and include what a method finds out first: `gd`, `linear` and "
    "`ista-reverse` need the extreme eigenvalues of the Hessian. One iteration of "
    "`auto` is several sweeps and a Newton step.",
    "figure2": "ROC curves with the natural prior: every task (thin, mean over "
    "repeats), mean (black), ±1 standard deviation over tasks; inset: the corner.",
    "figure3": "The metric, per cent, over two strengths, the third at its value in "
    "the best combination; mean over repeats; one scale of colours per row.",
    "learning": "Metric, per cent, against training rows per task; mean and its 95 % "
    "interval over repeats.",
    "learning-differences": "Paired difference to the model without prior, in points "
    "for the better, with its 95 % interval (corrected resampled t).",
    "robustness": "Metric, per cent, against the share of wrong relations in the "
    "prior, theta tuned; dashed: no prior. Mean and its 95 % interval over repeats.",
}


class Panel(NamedTuple):
    """What the curves of one data set share."""

    measurements: Measurements
    dataset: str
    ax: Axes

    @property
    def metric(self) -> str:
        """The metric that is shown."""
        return MAIN_METRICS[self.dataset]

    @property
    def metric_title(self) -> str:
        """Its name with its unit."""
        return f"{METRICS[self.metric].title} (%)"

    @property
    def size_title(self) -> str:
        """What the size counts."""
        unit = "class" if self.metric == "auc" else "task"
        return f"Training rows per {unit}"


def convergence_figure(rows: Any) -> Figure:
    """Figure 1, from rows of convergence: a row of two panels for each problem."""
    problems = list(dict.fromkeys(rows["problem"].to_pylist()))
    with styled():
        figure, axes = new_figure(max(len(problems), 1), 2, width=4.6, height=3.2)
        if not problems:
            _say_all_missing(axes)
        for problem, (left, right) in zip(problems, axes, strict=False):
            descents = _descents(rows.filter(pc.field("problem") == problem))
            plot_convergence(descents, ax=left, legend=False)
            plot_convergence(descents, against="seconds", ax=right, legend=False)
            left.set_title(f"{problem.capitalize()}, by iteration")
            right.set_title(f"{problem.capitalize()}, by time")
            right.set_ylabel("")
        share_legend(figure)
    return figure


def roc_figure(
    rows: Any, datasets: Sequence[str] = ROC_DATASETS, method: str = "natural"
) -> Figure:
    """Figure 2, from rows of ROC curves: a panel for each data set."""
    with styled():
        figure, axes = new_figure(1, len(datasets), width=3.4, height=3.6)
        for dataset, ax in zip(datasets, axes[0], strict=True):
            chosen = (pc.field("dataset") == dataset) & (pc.field("method") == method)
            _draw_roc(ax, dataset, rows.filter(chosen))
        share_legend(figure)
    return figure


def surface_figure(rows: Any, surfaces: Sequence[tuple[str, str]] = SURFACES) -> Figure:
    """Figure 3, from rows of surfaces: three slices for each data set and metric."""
    with styled():
        figure, axes = new_figure(len(surfaces), len(PAIRS), width=3.4, height=2.7)
        for (dataset, metric), line in zip(surfaces, axes, strict=True):
            surface = Surface.of(rows, dataset, metric)
            if surface is None:
                for ax in line:
                    say_missing(ax, f"{DATASETS[dataset]}: {NOT_MEASURED}")
            else:
                _draw_surface(figure, surface, line)
    return figure


def learning_figure(
    measurements: Measurements, methods: Sequence[str] = PRIORS
) -> Figure:
    """Learning curves, a panel for each data set that has one."""
    return _panels(
        measurements,
        _datasets_with(measurements, lambda s: s.size is not None and s.wrong is None),
        lambda panel: _draw_learning(panel, methods),
    )


def learning_difference_figure(
    measurements: Measurements,
    methods: Sequence[str] = PRIORS[1:],
    reference: str = "none",
) -> Figure:
    """Paired differences to the reference along the learning curves."""
    return _panels(
        measurements,
        _datasets_with(measurements, lambda s: s.size is not None and s.wrong is None),
        lambda panel: _draw_differences(panel, methods, reference),
    )


def robustness_figure(measurements: Measurements, reference: str = "none") -> Figure:
    """Metric against the share of wrong relations, and the reference as a level."""
    return _panels(
        measurements,
        _datasets_with(measurements, lambda s: s.wrong is not None),
        lambda panel: _draw_robustness(panel, reference),
    )


def _descents(rows: Any) -> list[Descent]:
    """Ways down in the order of the paper, each from zero coefficients."""
    present = set(rows["algorithm"].to_pylist())
    order = [name for name in ALGORITHMS if name in present]
    return [
        _descent(name, rows.filter(pc.field("algorithm") == name))
        for name in [*order, *sorted(present - set(ALGORITHMS))]
    ]


def _descent(name: str, rows: Any) -> Descent:
    ordered = rows.sort_by("iteration")
    names = ("iteration", "seconds", "excess")
    columns = (ordered[column].to_numpy().astype(float) for column in names)
    return Descent(name, *columns)


def _draw_roc(ax: Axes, dataset: str, rows: Any) -> None:
    title = DATASETS[dataset]
    if not rows.num_rows:
        say_missing(ax, f"{title}: {NOT_MEASURED}")
        return
    means = rows.group_by(["task", "fpr"]).aggregate([("tpr", "mean")])
    ordered = means.sort_by([("task", "ascending"), ("fpr", "ascending")])
    fpr = np.unique(ordered["fpr"].to_numpy())
    tpr = ordered["tpr_mean"].to_numpy().reshape(-1, len(fpr))
    steep = np.interp(ZOOM, fpr, tpr.mean(axis=0)) > 1.0 - ZOOM / 2.0
    # Rows hold the upper end of the rise at zero; the curve begins at its lower end.
    fpr, tpr = np.append(0.0, fpr), np.pad(tpr, ((0, 0), (1, 0)))
    plot_roc_curves(fpr, tpr, zoom=ZOOM if steep else None, ax=ax, legend=False)
    # Every curve has as many rows, so that this is the mean over curves.
    auc = 100.0 * pc.mean(rows["auc"]).as_py()
    ax.set_title(f"{title}: {len(tpr)} tasks, mean AUC {auc:.1f} %")


def _draw_surface(figure: Figure, surface: Surface, axes: Sequence[Axes]) -> None:
    low, high = surface.limits
    decimals = 1 if high - low > 2.0 else 2
    for pair, ax in zip(PAIRS, axes, strict=True):
        first, second = pair
        (third,) = set(range(3)) - set(pair)
        plot_surface(
            surface.axes[first],
            surface.axes[second],
            surface.slice(pair),
            labels=(STRENGTHS[first], STRENGTHS[second]),
            limits=(low, high),
            decimals=decimals,
            ax=ax,
        )
        at = surface.axes[third][surface.best[third]]
        ax.set_title(f"{STRENGTHS[third]} = {at:.3g}")
    label = f"{surface.title} (%)"
    figure.colorbar(axes[-1].images[0], ax=list(axes), label=label)


def _panels(
    measurements: Measurements, datasets: Sequence[str], draw: Callable[[Panel], None]
) -> Figure:
    """One panel per data set, three in a row, one legend."""
    columns = max(min(COLUMNS, len(datasets)), 1)
    n_rows = max(-(-len(datasets) // columns), 1)
    with styled():
        width = 5.4 if columns == 1 else 3.6  # room for the legend
        figure, axes = new_figure(n_rows, columns, width=width)
        if not datasets:
            _say_all_missing(axes)
        for ax in axes.flat[len(datasets) :]:
            ax.set_axis_off()
        for dataset, ax in zip(datasets, axes.flat, strict=False):
            ax.set_title(DATASETS[dataset])
            draw(Panel(measurements, dataset, ax))
        share_legend(figure)
    return figure


def _draw_learning(panel: Panel, methods: Sequence[str]) -> None:
    tracks = {
        method: track_means(panel.measurements, settings, panel.metric)
        for method, settings in _along_sizes(panel, methods).items()
    }
    _draw_tracks(panel, tracks, methods, log=True)
    panel.ax.set(xlabel=panel.size_title, ylabel=panel.metric_title)


def _draw_differences(panel: Panel, methods: Sequence[str], reference: str) -> None:
    tracks = {
        method: track_differences(panel.measurements, settings, reference, panel.metric)
        for method, settings in _along_sizes(panel, methods).items()
    }
    panel.ax.axhline(0.0, color="black", linewidth=0.8)
    # The reference keeps the first look, so that methods look as in their curves.
    _draw_tracks(panel, tracks, [reference, *methods], log=True)
    title = METRICS[panel.metric].title
    panel.ax.set(xlabel=panel.size_title, ylabel=f"Gain in {title} (points)")


def _draw_robustness(panel: Panel, reference: str) -> None:
    measurements, dataset, ax = panel
    settings = sorted(
        (
            s
            for s in measurements.settings
            if s.dataset == dataset and s.wrong is not None
        ),
        key=lambda s: (s.method, s.size or 0, s.wrong),
    )
    groups = dict.fromkeys((s.method, s.size) for s in settings)
    if len({size for _, size in groups}) == 1:
        _draw_level(panel, Setting(dataset, reference, settings[0].size))
    tracks = {
        method: track_means(
            measurements,
            [s for s in settings if s[1:3] == (method, size)],
            panel.metric,
        )
        for method, size in groups
    }
    _draw_tracks(panel, tracks, PRIORS)
    ax.set(xlabel="Wrong relations (%)", ylabel=panel.metric_title)
    size = settings[0].size
    if size is not None:
        unit = panel.size_title.removeprefix("Training ")
        ax.set_title(f"{DATASETS[dataset]}, {size} {unit}")


def _draw_level(panel: Panel, setting: Setting) -> None:
    band = mean_band(panel.measurements.repeats(setting, panel.metric))
    if band is not None:
        plot_level(panel.measurements.label(setting.method), *band, ax=panel.ax)


def _draw_tracks(
    panel: Panel,
    tracks: Mapping[str, Track],
    methods: Sequence[str],
    *,
    log: bool = False,
) -> None:
    measurements, dataset, ax = panel
    label = measurements.label
    looks = choose_looks(
        [label(method) for method in dict.fromkeys([*methods, *tracks])]
    )
    curves = [
        _curve(label(name), track) for name, track in tracks.items() if track.places
    ]
    if not curves:
        say_missing(ax, f"{DATASETS[dataset]}: {NOT_MEASURED}")
        return
    plot_curves(curves, looks=looks, log=log, ax=ax, legend=False)


def _curve(name: str, track: Track) -> Curve:
    return Curve(name, np.array(track.places), *np.array(track.bands).T)


def _along_sizes(panel: Panel, methods: Sequence[str]) -> dict[str, list[Setting]]:
    sizes = panel.measurements.sizes(panel.dataset, methods)
    return {
        method: [Setting(panel.dataset, method, size) for size in sizes]
        for method in methods
    }


def _datasets_with(
    measurements: Measurements, belongs: Callable[[Setting], bool]
) -> list[str]:
    return measurements.datasets([s for s in measurements.settings if belongs(s)])


def _say_all_missing(axes: Any) -> None:
    for ax in axes.flat:
        say_missing(ax, NOT_MEASURED)
